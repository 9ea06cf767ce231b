//! Java's `.properties` notation: `key=value`, `key: value` or `key value`, `#` and `!` comments,
//! lines continued by a backslash, `\uXXXX`, and `#---` between documents. Read as UTF-8.

use super::Document;
use crate::config::property::{Origin, Property};

/// The documents of a file, in order. Nothing in this notation can be wrong.
pub(crate) fn read(file: &str, text: &str) -> Vec<Document> {
    let mut documents = vec![Document::default()];
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let line = line.trim_start();
        if matches!(line.trim_end(), "#---" | "!---") {
            documents.push(Document::default());
            continue;
        }
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = line.to_owned();
        while continues(&logical) {
            logical.pop();
            match lines.next() {
                Some((_, next)) => logical.push_str(next.trim_start()),
                None => break,
            }
        }
        let (name, value) = split(&logical);
        let origin = Origin::File(file.to_owned(), at + 1);
        let property = Property {
            name: unescape(name),
            value: unescape(value),
            origin,
        };
        if let Some(document) = documents.last_mut() {
            document.properties.push(property);
        }
    }
    documents
}

/// An odd number of backslashes at the end.
fn continues(line: &str) -> bool {
    line.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}

/// Key and value of a logical line: the key ends at the first `=`, `:` or blank without a backslash.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if matches!(c, '=' | ':' | ' ' | '\t' | '\u{c}') {
            let (name, rest) = line.split_at(at);
            let rest = rest.trim_start();
            let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
            return (name, rest.trim_start());
        }
    }
    (line, "")
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let digits: String = chars.clone().take(4).collect();
                let code = u32::from_str_radix(&digits, 16)
                    .ok()
                    .filter(|_| digits.len() == 4);
                match code.and_then(char::from_u32) {
                    Some(c) => {
                        out.push(c);
                        chars.nth(3);
                    }
                    None => out.push('u'),
                }
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notation_of_a_line_is_read() {
        let text =
            "# comment\n! too\na=1\nb : 2\nc 3\nd\n  e = x\\\n     y\nf\\ g=\\u0041\\n\nh=a=b\n";
        let documents = read("a.properties", text);
        let pairs: Vec<(&str, &str)> = documents[0]
            .properties
            .iter()
            .map(|property| (property.name.as_str(), property.value.as_str()))
            .collect();
        let expected = [
            ("a", "1"),
            ("b", "2"),
            ("c", "3"),
            ("d", ""),
            ("e", "xy"),
            ("f g", "A\n"),
            ("h", "a=b"),
        ];
        assert_eq!(pairs, expected);
        assert_eq!(
            documents[0].properties[4].origin,
            Origin::File("a.properties".into(), 7)
        );
    }

    #[test]
    fn a_marked_comment_begins_another_document() {
        let documents = read(
            "a",
            "a=1\n#---\nspring.config.activate.on-profile=dev\na=2\n",
        );
        assert_eq!(documents.len(), 2);
        assert_eq!(documents[0].condition(), None);
        assert_eq!(documents[1].condition(), Some("dev"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "[a-u\\\\=: \n#!]{0,60}") {
            let _ = read("a", &text);
        }
    }
}
