//! Shares equal strings while many records are decoded: a registry of 100,000 instances repeats
//! its application names, vips, hosts and metadata keys over and over.

use std::collections::HashSet;
use std::sync::Arc;

use crate::types::AppName;

/// Strings seen so far. Grows with the distinct strings; drop it after loading.
#[derive(Debug, Default)]
pub(super) struct Interner {
    texts: HashSet<Arc<str>>,
    apps: HashSet<AppName>,
}

impl Interner {
    /// Longer strings are hardly ever repeated.
    const LONGEST: usize = 128;

    /// The shared copy of `text`.
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        if text.len() > Self::LONGEST {
            return text.into();
        }
        if let Some(shared) = self.texts.get(text) {
            return shared.clone();
        }
        let shared: Arc<str> = text.into();
        self.texts.insert(shared.clone());
        shared
    }

    /// The shared copy of an optional text.
    pub(super) fn option(&mut self, text: Option<&str>) -> Option<Arc<str>> {
        text.map(|text| self.text(text))
    }

    /// The shared application name.
    pub(super) fn app(&mut self, name: &str) -> AppName {
        if let Some(shared) = self.apps.get(name) {
            return shared.clone();
        }
        let app = AppName::new(name);
        self.apps.insert(app.clone());
        app
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_their_memory() {
        let mut interner = Interner::default();
        let elsewhere = ["zone", "a"].join("-");
        let (a, b) = (interner.text("zone-a"), interner.text(&elsewhere));
        assert!(Arc::ptr_eq(&a, &b));
        let (a, b) = (interner.app("BILLING"), interner.app("BILLING"));
        assert!(Arc::ptr_eq(a.shared(), b.shared()));
    }

    #[test]
    fn an_app_name_that_was_stored_in_lower_case_is_raised() {
        assert_eq!(Interner::default().app("billing"), AppName::new("BILLING"));
    }
}
