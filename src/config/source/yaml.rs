//! YAML into properties: nested or dotted keys, lists joined by comma, several documents, anchors
//! and merge keys. Parsed by events, so that every value keeps its line.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::Document;
use crate::config::error::ConfigError;
use crate::config::property::{Origin, Property};

/// Deeper nesting is no configuration.
const DEPTH_MAX: usize = 64;
/// Bounds what aliases can blow up.
const NODES_MAX: usize = 50_000;

#[derive(Clone, Debug)]
enum Node {
    Scalar(String, usize),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

/// A collection that is still open.
enum Open {
    List(Vec<Node>),
    /// Entries, and the key that waits for its value.
    Map(Vec<(String, Node)>, Option<String>),
}

/// The documents of a file, in order. `file` is how errors and origins name it.
pub(crate) fn read(file: &str, text: &str) -> Result<Vec<Document>, ConfigError> {
    let fail = |line: usize, why: &str| ConfigError::File {
        file: if line == 0 {
            file.to_owned()
        } else {
            format!("{file}:{line}")
        },
        why: why.to_owned(),
    };
    let mut builder = Builder::default();
    let mut documents = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|e| fail(e.marker().line(), e.info()))?;
        let line = span.start.line();
        let done = builder.take(event, line).map_err(|why| fail(line, &why))?;
        let Some(root) = done else { continue };
        let mut flat = Flat {
            file,
            properties: Vec::new(),
        };
        match root {
            // An empty document.
            Node::Scalar(text, _) if text.is_empty() => {}
            Node::Map(entries) => flat.map("", entries),
            Node::Scalar(_, line) => return Err(fail(line, "keys and values are expected")),
            Node::List(_) => return Err(fail(line, "a list at the top: keys are expected")),
        }
        documents.push(Document {
            properties: flat.properties,
        });
    }
    Ok(documents)
}

/// Builds nodes from events without recursion.
#[derive(Default)]
struct Builder {
    open: Vec<(Open, usize)>,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
    root: Option<Node>,
}

impl Builder {
    /// Takes one event; returns the document that it ends.
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<Option<Node>, String> {
        match event {
            Event::DocumentEnd => return Ok(self.root.take()),
            Event::Scalar(text, style, anchor, tag) => {
                let text = if is_null(&text, style, tag.as_deref()) {
                    ""
                } else {
                    &*text
                };
                self.put(Node::Scalar(text.to_owned(), line), anchor)?;
            }
            Event::Alias(anchor) => {
                let node = self
                    .anchors
                    .get(&anchor)
                    .ok_or("an alias inside its own anchor")?;
                self.put(node.clone(), 0)?;
            }
            Event::SequenceStart(anchor, _) => self.push(Open::List(Vec::new()), anchor)?,
            Event::MappingStart(anchor, _) => self.push(Open::Map(Vec::new(), None), anchor)?,
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some((Open::List(items), anchor)) => self.put(Node::List(items), anchor)?,
                Some((Open::Map(entries, _), anchor)) => {
                    self.put(Node::Map(merged(entries)), anchor)?;
                }
                None => return Err("unbalanced document".to_owned()),
            },
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => {}
        }
        Ok(None)
    }

    fn push(&mut self, open: Open, anchor: usize) -> Result<(), String> {
        if self.open.len() >= DEPTH_MAX {
            return Err(format!("nested deeper than {DEPTH_MAX} levels"));
        }
        self.open.push((open, anchor));
        Ok(())
    }

    fn put(&mut self, node: Node, anchor: usize) -> Result<(), String> {
        self.nodes = self.nodes.saturating_add(count(&node));
        if self.nodes > NODES_MAX {
            return Err(format!("more than {NODES_MAX} values"));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some((Open::List(items), _)) => items.push(node),
            Some((Open::Map(entries, waiting), _)) => match waiting.take() {
                Some(key) => entries.push((key, node)),
                None => match node {
                    Node::Scalar(key, _) => {
                        if key != "<<" && entries.iter().any(|(known, _)| *known == key) {
                            return Err(format!("{key:?} is there twice"));
                        }
                        *waiting = Some(key);
                    }
                    Node::List(_) | Node::Map(_) => {
                        return Err("a key must be a plain text".to_owned());
                    }
                },
            },
        }
        Ok(())
    }
}

fn is_null(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> bool {
    style == ScalarStyle::Plain && tag.is_none() && matches!(text, "~" | "null" | "Null" | "NULL")
}

/// Nodes added by putting this one: collections were counted when their items came, except where an
/// alias brings them whole.
fn count(node: &Node) -> usize {
    match node {
        Node::Scalar(..) => 1,
        Node::List(items) => items.iter().map(count).fold(1, usize::saturating_add),
        Node::Map(entries) => entries
            .iter()
            .map(|(_, node)| count(node))
            .fold(1, usize::saturating_add),
    }
}

/// Replaces `<<` entries by what they bring; own entries win.
fn merged(entries: Vec<(String, Node)>) -> Vec<(String, Node)> {
    if !entries.iter().any(|(key, _)| key == "<<") {
        return entries;
    }
    let (merges, mut own): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(k, _)| k == "<<");
    let maps = merges.into_iter().flat_map(|(_, node)| match node {
        Node::List(items) => items,
        other => vec![other],
    });
    for map in maps {
        if let Node::Map(brought) = map {
            for (key, node) in brought {
                if !own.iter().any(|(known, _)| *known == key) {
                    own.push((key, node));
                }
            }
        }
    }
    own
}

/// Flattens nodes into dotted properties. The recursion is bounded by [`DEPTH_MAX`] per document
/// level, and by the number of nodes where aliases nest.
struct Flat<'a> {
    file: &'a str,
    properties: Vec<Property>,
}

impl Flat<'_> {
    fn map(&mut self, prefix: &str, entries: Vec<(String, Node)>) {
        for (key, node) in entries {
            let name = match key.strip_prefix('[') {
                Some(_) => format!("{prefix}{key}"),
                None if prefix.is_empty() => key,
                None => format!("{prefix}.{key}"),
            };
            self.node(name, node);
        }
    }

    fn node(&mut self, name: String, node: Node) {
        match node {
            Node::Scalar(value, line) => self.add(name, value, line),
            Node::Map(entries) => self.map(&name, entries),
            Node::List(items) => {
                let scalars: Option<Vec<(&str, usize)>> = items
                    .iter()
                    .map(|item| match item {
                        Node::Scalar(text, line) => Some((text.as_str(), *line)),
                        Node::List(_) | Node::Map(_) => None,
                    })
                    .collect();
                if let Some(scalars) = scalars {
                    let line = scalars.first().map_or(0, |(_, line)| *line);
                    let texts: Vec<&str> = scalars.iter().map(|(text, _)| *text).collect();
                    self.add(name, texts.join(","), line);
                } else {
                    for (index, item) in items.into_iter().enumerate() {
                        self.node(format!("{name}[{index}]"), item);
                    }
                }
            }
        }
    }

    fn add(&mut self, name: String, value: String, line: usize) {
        let origin = Origin::File(self.file.to_owned(), line);
        self.properties.push(Property {
            name,
            value,
            origin,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let documents = read("a.yml", text).unwrap();
        documents
            .into_iter()
            .flat_map(|d| d.properties)
            .map(|p| (p.name, p.value))
            .collect()
    }

    fn one(text: &str) -> (String, String) {
        let mut all = pairs(text);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn nested_and_dotted_keys_are_the_same() {
        let expected = pair("server.port", "1");
        assert_eq!(one("server:\n  port: 1\n"), expected);
        assert_eq!(one("server.port: 1"), expected);
        assert_eq!(one("{server: {port: 1}}"), expected);
    }

    #[test]
    fn lists_are_joined_and_nulls_are_empty() {
        assert_eq!(one("a:\n  - x\n  - y\n"), pair("a", "x,y"));
        assert_eq!(one("a: ~"), pair("a", ""));
        assert_eq!(one("a:"), pair("a", ""));
        assert_eq!(one("a: '~'"), pair("a", "~"));
        assert_eq!(pairs("a:\n  - b: 1\n  - b: 2\n")[1], pair("a[1].b", "2"));
    }

    #[test]
    fn anchors_and_merge_keys_bring_what_is_not_there() {
        let text = "base: &b {x: 1, y: 2}\nown:\n  <<: *b\n  y: 3\n";
        let all = pairs(text);
        assert!(all.contains(&pair("own.x", "1")), "{all:?}");
        assert!(all.contains(&pair("own.y", "3")), "{all:?}");
    }

    #[test]
    fn bracketed_keys_keep_their_dots() {
        assert_eq!(
            one("logging:\n  level:\n    \"[a.b]\": warn\n").0,
            "logging.level[a.b]"
        );
    }

    #[test]
    fn errors_name_file_and_line() {
        for (text, place) in [
            ("a: 1\nb: [", "a.yml:"),
            ("a: 1\na: 2\n", "a.yml:2"),
            ("a:\n- 1\n b: 2", "a.yml:"),
        ] {
            let error = read("a.yml", text).unwrap_err().to_string();
            assert!(error.starts_with(place), "{error}");
        }
        assert!(read("a.yml", "- 1\n").is_err());
        assert!(read("a.yml", "just text\n").is_err());
    }

    #[test]
    fn bombs_of_aliases_and_depth_are_refused() {
        let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..8 {
            let below = format!("*a{}", level - 1);
            let line = format!("a{level}: &a{level} [{}]\n", vec![below; 10].join(","));
            text.push_str(&line);
        }
        assert!(read("a.yml", &text).is_err());
        assert!(read("a.yml", &format!("a: {}", "[".repeat(5000))).is_err());
        assert!(
            read(
                "a.yml",
                &format!("a: {}1{}", "[".repeat(100), "]".repeat(100))
            )
            .is_err()
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "[-a-z:\\[\\]{}&*<>|'\"# \n\t]{0,80}") {
            let _ = read("a.yml", &text);
        }
    }
}
