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

/// How many slips of a finger lie between two names: a character too many, too few or wrong, or two
/// in the wrong order.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let first: Vec<usize> = (0..=b.len()).collect();
    // The rows of the two characters before, and of this one.
    let (mut before_last, mut last) = (first.clone(), first);
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

/// Most slips in the whole of a dotted name.
const SLIPS_MAX: usize = 3;

/// How many slips lie between two dotted names in their [`uniform`] form; `None` if it is more than
/// slips that makes them differ. Elements are compared one by one, since a whole element in place of
/// another is no slip: `web` is not meant by `jmx`.
pub(crate) fn slips(name: &str, other: &str) -> Option<usize> {
    let count = |text: &str| text.split('.').count();
    if count(name) != count(other) || name.len() > LONGEST {
        return None;
    }
    let mut all = 0;
    for (a, b) in name.split('.').zip(other.split('.')) {
        let far = distance(a, b);
        if far > (b.chars().count() / 4).clamp(1, SLIPS_MAX) {
            return None;
        }
        all += far;
    }
    (all <= SLIPS_MAX).then_some(all)
}

/// Names longer than any key would only cost time, bytes.
const LONGEST: usize = 200;

/// The candidate closest to a name, unless even that one is too far off to be meant.
pub(crate) fn closest<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    if name.len() > LONGEST {
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

    #[test]
    fn slips_are_counted_by_element_and_other_words_are_none() {
        for (name, other, count) in [
            ("server.port", "server.port", Some(0)),
            ("server.prot", "server.port", Some(1)),
            ("sever.prot", "server.port", Some(2)),
            ("spring.applicaton.name", "spring.application.name", Some(1)),
            ("server.host", "server.port", None),
            ("a.jmx.include", "a.web.include", None),
            ("server.port.x", "server.port", None),
            ("eureka.server.foo", "eurekad.serverinfo", None),
            ("", "server.port", None),
        ] {
            assert_eq!(slips(name, other), count, "{name}");
        }
        assert_eq!(slips(&"x".repeat(1000), &"x".repeat(1000)), None);
    }
}
