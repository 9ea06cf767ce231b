//! Property names under Spring's relaxed rule: per dotted element only letters and digits count, in
//! any case. `eureka.server.my-url`, `.myUrl` and `.my_url` are one name.

/// The form in which names are compared: lower case, without dashes and underscores, with
/// `[element]` written as a dotted element.
pub(crate) fn uniform(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | ']' => {}
            '[' => {
                if !out.is_empty() && !out.ends_with('.') {
                    out.push('.');
                }
            }
            '.' if out.ends_with('.') => {}
            c => out.extend(c.to_lowercase()),
        }
    }
    out
}

/// [`uniform`] without the dots: the form in which environment variables are compared, since `_`
/// stands there for a dot, for a dash, or for nothing.
pub(crate) fn squashed(name: &str) -> String {
    let mut out = uniform(name);
    out.retain(|c| c != '.');
    out
}

/// What follows the first `elements` dotted elements of a name, as written: the key of a map entry.
/// `a.b[c.d]` has the key `c.d` after two.
pub(crate) fn map_key(name: &str, elements: usize) -> Option<&str> {
    let mut seen = 0;
    for (at, c) in name.char_indices() {
        if c == '.' || c == '[' {
            seen += 1;
            if seen == elements {
                let key = name.get(at + 1..).unwrap_or_default();
                let key = key.strip_prefix('[').unwrap_or(key);
                let key = key.strip_suffix(']').unwrap_or(key);
                return (!key.is_empty()).then_some(key);
            }
        }
    }
    None
}

/// Splits `name[3]` into `name` and 3.
pub(crate) fn list_index(name: &str) -> Option<(&str, usize)> {
    let (stem, index) = name.strip_suffix(']')?.rsplit_once('[')?;
    Some((stem, index.parse().ok()?))
}

/// How many single-character edits lie between two names (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = i;
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
        for (j, cb) in b.iter().enumerate() {
            let above = row[j + 1];
            let change = diagonal + usize::from(ca != *cb);
            diagonal = above;
            row[j + 1] = change.min(above + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

/// The candidate closest to a name, unless even that one is too far off to be meant.
pub(crate) fn closest<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    // Names longer than any key would only cost time.
    if name.len() > 200 {
        return None;
    }
    let name = uniform(name);
    let bound = (name.len() / 4).clamp(1, 8);
    candidates
        .map(|candidate| (distance(&name, &uniform(candidate)), candidate))
        .filter(|(far, _)| *far <= bound)
        .min_by_key(|(far, _)| *far)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name_are_equal() {
        for name in [
            "eureka.server.my-url",
            "eureka.server.myUrl",
            "Eureka.Server.MY_URL",
        ] {
            assert_eq!(uniform(name), "eureka.server.myurl");
        }
        assert_eq!(
            squashed("EUREKA_SERVER_MYURL"),
            squashed("eureka.server.my-url")
        );
        assert_eq!(
            uniform("logging.level[com.netflix]"),
            uniform("logging.level.com.netflix")
        );
    }

    #[test]
    fn the_key_of_a_map_entry_keeps_its_spelling() {
        assert_eq!(
            map_key("eureka.client.service-url.defaultZone", 3),
            Some("defaultZone")
        );
        assert_eq!(
            map_key("logging.level[com.netflix.eureka]", 2),
            Some("com.netflix.eureka")
        );
        assert_eq!(map_key("logging.level", 2), None);
        assert_eq!(list_index("a.b[12]"), Some(("a.b", 12)));
        assert_eq!(list_index("a.b[x]"), None);
    }

    #[test]
    fn the_closest_name_is_found_and_a_far_one_is_not() {
        let names = [
            "eureka.server.enable-self-preservation",
            "eureka.server.disable-delta",
        ];
        let close = closest(
            "eureka.server.enable-self-preservaton",
            names.iter().copied(),
        );
        assert_eq!(close, Some(names[0]));
        assert_eq!(closest("eurekad.zzzzzz", names.iter().copied()), None);
    }
}
