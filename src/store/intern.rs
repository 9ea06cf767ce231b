//! Shares equal strings while many records are decoded: a registry of 100,000 instances repeats
//! its application names, vips, zones and metadata keys over and over.

use std::sync::Arc;

use crate::types::AppName;

/// Strings seen lately, each in the slot that its hash names. A newcomer takes the slot over, so
/// memory and time are bounded whatever is decoded; a string that is pushed out and comes again is
/// merely kept twice.
#[derive(Debug)]
pub(super) struct Interner {
    texts: Vec<Option<Arc<str>>>,
    /// Instances of an application lie side by side.
    app: Option<AppName>,
}

impl Default for Interner {
    /// For the records of one read.
    fn default() -> Self {
        Self::with_slots(256)
    }
}

impl Interner {
    /// Longer strings are hardly ever repeated.
    const LONGEST: usize = 128;

    pub(super) fn with_slots(slots: usize) -> Self {
        Self {
            texts: vec![None; slots.max(1)],
            app: None,
        }
    }

    /// The shared copy of `text`.
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        if text.len() > Self::LONGEST {
            return text.into();
        }
        let slots = self.texts.len();
        let slot = &mut self.texts[hash(text.as_bytes()) % slots];
        if let Some(shared) = slot.as_ref().filter(|shared| &***shared == text) {
            return shared.clone();
        }
        let shared: Arc<str> = text.into();
        *slot = Some(shared.clone());
        shared
    }

    /// The shared copy of an optional text.
    pub(super) fn option(&mut self, text: Option<&str>) -> Option<Arc<str>> {
        text.map(|text| self.text(text))
    }

    /// The shared application name.
    pub(super) fn app(&mut self, name: &str) -> AppName {
        if let Some(app) = self.app.as_ref().filter(|app| app.as_str() == name) {
            return app.clone();
        }
        let app = AppName::new(name);
        let shared = self.text(app.as_str());
        let app = AppName::from_upper(shared);
        self.app = Some(app.clone());
        app
    }
}

/// A quick hash: a bad one costs sharing, never time.
fn hash(text: &[u8]) -> usize {
    let mut mixed = text.len() as u64;
    for word in text.chunks(8) {
        let word = word
            .iter()
            .fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        mixed = (mixed.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    usize::try_from(mixed >> 40).unwrap_or(0)
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
        let a = interner.app("BILLING");
        interner.app("SHOP");
        assert!(Arc::ptr_eq(a.shared(), interner.app("BILLING").shared()));
    }

    #[test]
    fn a_string_that_is_pushed_out_stays_what_it_was() {
        let mut interner = Interner::with_slots(1);
        let (a, b) = (interner.text("a"), interner.text("b"));
        assert_eq!((&*a, &*b, &*interner.text("a")), ("a", "b", "a"));
    }

    #[test]
    fn an_app_name_that_was_stored_in_lower_case_is_raised() {
        assert_eq!(Interner::default().app("billing"), AppName::new("BILLING"));
    }
}
