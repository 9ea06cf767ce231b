//! Spring profiles: which are active, and whether a document's condition holds.

/// The names after which files and documents are chosen. Spring calls it `default` when none is
/// active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ActiveProfiles(Vec<String>);

impl ActiveProfiles {
    pub(crate) fn new(mut names: Vec<String>) -> Self {
        if names.is_empty() {
            names.push("default".to_owned());
        }
        Self(names)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|active| active == name)
    }

    /// Whether a condition holds: names by comma (any of them), each with `!`, `&`, `|` and
    /// parentheses. What cannot be read does not hold.
    pub(crate) fn accept(&self, condition: &str) -> bool {
        condition.split(',').any(|expression| {
            let mut parser = Expression {
                rest: expression.trim(),
                active: self,
                depth: 0,
            };
            parser.any() == Some(true) && parser.rest.is_empty()
        })
    }
}

/// A recursive reading of one expression, bounded in depth.
struct Expression<'a> {
    rest: &'a str,
    active: &'a ActiveProfiles,
    depth: usize,
}

impl Expression<'_> {
    fn eat(&mut self, sign: char) -> bool {
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn any(&mut self) -> Option<bool> {
        let mut value = self.all()?;
        while self.eat('|') {
            value |= self.all()?;
        }
        Some(value)
    }

    fn all(&mut self) -> Option<bool> {
        let mut value = self.term()?;
        while self.eat('&') {
            value &= self.term()?;
        }
        Some(value)
    }

    fn term(&mut self) -> Option<bool> {
        self.depth += 1;
        if self.depth > 64 {
            return None;
        }
        if self.eat('!') {
            return self.term().map(|value| !value);
        }
        if self.eat('(') {
            let value = self.any()?;
            return self.eat(')').then_some(value);
        }
        let end = self
            .rest
            .find(['!', '&', '|', '(', ')'])
            .unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        let name = name.trim();
        (!name.is_empty()).then(|| self.active.has(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_as_spring_reads_them() {
        let active = ActiveProfiles::new(vec!["prod".to_owned(), "eu".to_owned()]);
        for condition in [
            "prod",
            "dev, eu",
            "prod & eu",
            "!dev",
            "(dev | prod) & !us",
            "dev|eu",
        ] {
            assert!(active.accept(condition), "{condition}");
        }
        for condition in [
            "dev",
            "",
            "prod & dev",
            "!prod",
            "(prod",
            "prod eu",
            "&",
            "prod)",
        ] {
            assert!(!active.accept(condition), "{condition}");
        }
        assert!(ActiveProfiles::new(Vec::new()).accept("default"));
        assert!(!active.accept(&"(".repeat(10_000)));
        assert!(!active.accept(&"!".repeat(10_000)));
    }
}
