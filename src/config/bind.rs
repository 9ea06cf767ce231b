//! Reads typed values out of merged properties, and writes down what it read and what was wrong.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use super::choice::Choice;
use super::error::ConfigError;
use super::keys::{self, Effect};
use super::name::map_key;
use super::placeholder::Lookup;
use super::property::{Origin, Property};
use super::value::{self, Unit};

/// One setting as it is in force, for display: the value never shows a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub key: String,
    pub value: String,
    pub origin: Origin,
}

/// A value that somebody set, placeholders resolved.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The name as it was written.
    pub(super) name: String,
    pub(super) value: String,
    pub(super) origin: Origin,
}

/// How values of one kind are read, shown and described.
struct Kind<'a, T> {
    parse: &'a dyn Fn(&str) -> Option<T>,
    show: &'a dyn Fn(&T) -> String,
    allowed: &'a dyn Fn() -> String,
}

/// The reader. Nothing stops it: wrong values become errors, and their defaults stand in.
#[derive(Debug)]
pub(super) struct Binder<'a> {
    lookup: &'a Lookup<'a>,
    /// What an unset knob is said to come from.
    pub(super) unset: Origin,
    pub(super) errors: Vec<ConfigError>,
    pub(super) settings: Vec<Setting>,
    pub(super) warnings: Vec<String>,
}

impl<'a> Binder<'a> {
    pub(super) fn new(lookup: &'a Lookup<'a>) -> Self {
        Self {
            lookup,
            unset: Origin::Default,
            errors: Vec::new(),
            settings: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The first of `names` that is set, even if to nothing.
    pub(super) fn found(&mut self, names: &[&str]) -> Option<Found> {
        for name in names {
            debug_assert!(
                keys::find(name).is_some_and(|key| key.effect == Effect::Honoured),
                "{name} is read and must be honoured in the tables"
            );
            let Some(property) = self.lookup.properties.get(name) else {
                continue;
            };
            let property = property.clone();
            return self.resolved(property);
        }
        None
    }

    fn resolved(&mut self, property: Property) -> Option<Found> {
        let Property {
            name,
            value,
            origin,
        } = property;
        match self.lookup.resolve(&value) {
            Ok(value) => Some(Found {
                name,
                value: value.trim().to_owned(),
                origin,
            }),
            Err(why) => {
                let value = mask(&name, &value);
                self.errors.push(ConfigError::Placeholder {
                    key: name,
                    value,
                    origin,
                    why,
                });
                None
            }
        }
    }

    /// The entries of a map, by their keys as written, e.g. zones below `eureka.client.service-url`.
    pub(super) fn map(&mut self, family: &str) -> Vec<(String, Found)> {
        let elements = family.split('.').count();
        let below: Vec<_> = self.lookup.properties.below(family).cloned().collect();
        let mut entries = Vec::new();
        for property in below {
            let Some(key) = map_key(&property.name, elements).map(str::to_owned) else {
                continue;
            };
            let found = self.resolved(property);
            entries.extend(found.map(|found| (key, found)));
        }
        entries
    }

    /// Notes a value that is in force.
    pub(super) fn note(&mut self, key: &str, shown: impl Into<String>, origin: Origin) {
        self.settings.push(Setting {
            key: key.to_owned(),
            value: mask_urls(&shown.into()),
            origin,
        });
    }

    /// Notes a value that its key does not take.
    pub(super) fn refuse(&mut self, found: Found, allowed: impl Into<String>) {
        let value = mask(&found.name, &found.value);
        let (key, origin) = (found.name, found.origin);
        self.errors.push(ConfigError::Value {
            key,
            value,
            origin,
            allowed: allowed.into(),
        });
    }

    /// Notes that a switch cannot be on as things are.
    pub(super) fn refuse_switch(&mut self, name: &str, allowed: &str) {
        if let Some(found) = self.found(&[name]) {
            self.refuse(found, allowed);
        }
    }

    fn read<T>(&mut self, names: &[&str], default: T, kind: &Kind<'_, T>) -> T {
        let key = names.first().copied().unwrap_or_default();
        let Some(found) = self.found(names).filter(|found| !found.value.is_empty()) else {
            self.note(key, (kind.show)(&default), self.unset.clone());
            return default;
        };
        if let Some(value) = (kind.parse)(&found.value) {
            self.note(key, (kind.show)(&value), found.origin);
            value
        } else {
            self.refuse(found, (kind.allowed)());
            default
        }
    }

    pub(super) fn switch(&mut self, names: &[&str], default: bool) -> bool {
        let kind = Kind {
            parse: &value::switch,
            show: &bool::to_string,
            allowed: &|| value::SWITCHES.to_owned(),
        };
        self.read(names, default, &kind)
    }

    pub(super) fn choice<C: Choice>(&mut self, name: &str, default: C) -> C {
        let kind = Kind {
            parse: &C::from_word,
            show: &|choice: &C| choice.as_str().to_owned(),
            allowed: &C::words,
        };
        self.read(&[name], default, &kind)
    }

    pub(super) fn number<T>(&mut self, names: &[&str], default: T, range: RangeInclusive<T>) -> T
    where
        T: FromStr + PartialOrd + Display + Copy,
    {
        let kind = Kind {
            parse: &|text: &str| text.parse().ok().filter(|number| range.contains(number)),
            show: &T::to_string,
            allowed: &|| format!("a number from {} to {}", range.start(), range.end()),
        };
        self.read(names, default, &kind)
    }

    pub(super) fn duration(&mut self, names: &[&str], unit: Unit, default: Duration) -> Duration {
        self.duration_from(names, unit, default, Duration::ZERO)
    }

    /// A duration that may not be shorter than `least`: timers, which would spin at zero.
    pub(super) fn duration_from(
        &mut self,
        names: &[&str],
        unit: Unit,
        default: Duration,
        least: Duration,
    ) -> Duration {
        let kind = Kind {
            parse: &|text: &str| value::duration(text, unit).filter(|span| *span >= least),
            show: &|span: &Duration| value::show_duration(*span),
            allowed: &|| {
                let from = value::show_duration(least);
                if least.is_zero() {
                    unit.allowed()
                } else {
                    format!("{}; at least {from}", unit.allowed())
                }
            },
        };
        self.read(names, default, &kind)
    }

    pub(super) fn size(
        &mut self,
        names: &[&str],
        default: usize,
        range: RangeInclusive<usize>,
    ) -> usize {
        let parse = |text: &str| {
            let bytes = usize::try_from(value::size(text)?).ok()?;
            range.contains(&bytes).then_some(bytes)
        };
        let show = |bytes: &usize| value::show_size(*bytes as u64);
        let kind = Kind {
            parse: &parse,
            show: &show,
            allowed: &|| {
                let (from, to) = (show(range.start()), show(range.end()));
                format!("{}; from {from} to {to}", value::SIZES)
            },
        };
        self.read(names, default, &kind)
    }

    /// A size without an upper bound of its own.
    pub(super) fn large_size(&mut self, name: &str, default: u64) -> u64 {
        let kind = Kind {
            parse: &value::size,
            show: &|bytes: &u64| value::show_size(*bytes),
            allowed: &|| value::SIZES.to_owned(),
        };
        self.read(&[name], default, &kind)
    }

    /// Anything else: how it is read, shown, and described in errors.
    pub(super) fn other<T>(
        &mut self,
        names: &[&str],
        default: T,
        parse: impl Fn(&str) -> Option<T>,
        show: impl Fn(&T) -> String,
        allowed: &str,
    ) -> T {
        let kind = Kind {
            parse: &parse,
            show: &show,
            allowed: &|| allowed.to_owned(),
        };
        self.read(names, default, &kind)
    }

    /// A text, or `default` and what it follows from.
    pub(super) fn text(&mut self, name: &str, default: String, from: Origin) -> String {
        self.text_of(name, default, from, |_| true, "")
    }

    /// A text of which not every one will do.
    pub(super) fn text_of(
        &mut self,
        name: &str,
        default: String,
        from: Origin,
        is_fine: impl Fn(&str) -> bool,
        allowed: &str,
    ) -> String {
        let unset = std::mem::replace(&mut self.unset, from);
        let kind = Kind {
            parse: &|text: &str| is_fine(text).then(|| text.to_owned()),
            show: &String::clone,
            allowed: &|| allowed.to_owned(),
        };
        let text = self.read(&[name], default, &kind);
        self.unset = unset;
        text
    }

    /// A text that may be missing; an empty one is missing.
    pub(super) fn optional_text(&mut self, name: &str) -> Option<String> {
        let text = self.text(name, String::new(), Origin::Default);
        (!text.is_empty()).then_some(text)
    }

    /// A list by comma; set to nothing it is empty.
    pub(super) fn list(&mut self, name: &str, default: Vec<String>) -> Vec<String> {
        let (list, origin) = match self.found(&[name]) {
            Some(found) => (value::list(&found.value), found.origin),
            None => (default, self.unset.clone()),
        };
        self.note(name, list.join(","), origin);
        list
    }
}

/// A value as it may be shown in an error: without the user and password of a URL, without its query and
/// fragment, and without the value of whatever is called a secret. What is no URL may be one that was
/// mistyped.
pub(crate) fn mask(name: &str, value: &str) -> String {
    if is_secret(name) {
        return "***".to_owned();
    }
    let mut items: Vec<String> = Vec::new();
    for part in value.split(',') {
        // Passwords and queries may have commas: only what has a scheme begins another URL.
        match items.last_mut() {
            Some(item) if !has_scheme(part) => {
                item.push(',');
                item.push_str(part);
            }
            Some(_) | None => items.push(part.to_owned()),
        }
    }
    let masked: Vec<String> = items.iter().map(|item| mask_url(item)).collect();
    masked.join(",")
}

/// The same for a value that is in force: only URLs are masked.
fn mask_urls(value: &str) -> String {
    if value.contains("://") {
        mask("", value)
    } else {
        value.to_owned()
    }
}

fn has_scheme(text: &str) -> bool {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    text.trim()
        .split_once("://")
        .is_some_and(|(scheme, _)| !scheme.is_empty() && scheme.chars().all(is_scheme))
}

/// One URL, or what was meant as one. A password may have any character, so that all up to the last `@`
/// may belong to it; if that lies behind a `?` or a `#`, what is the host cannot be told.
fn mask_url(text: &str) -> String {
    let start = text.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = text.split_at(start);
    let extra = rest.find(['?', '#']);
    let (shown, behind) = match (rest.rfind('@'), extra) {
        (Some(at), Some(extra)) if extra < at => return format!("{scheme}***"),
        (_, Some(extra)) => (&rest[..extra], &rest[extra..]),
        (_, None) => (rest, ""),
    };
    let user_info = shown.rfind('@').map_or("", |_| "***");
    let shown = shown.rfind('@').map_or(shown, |at| &shown[at..]);
    let hidden = if behind.len() > 1 { "***" } else { "" };
    let mark = behind.get(..1).unwrap_or_default();
    format!("{scheme}{user_info}{shown}{mark}{hidden}")
}

/// Whether a name says that its value is nobody's business.
pub(super) fn is_secret(name: &str) -> bool {
    let name = super::name::squashed(name);
    [
        "password",
        "passwd",
        "secret",
        "token",
        "credential",
        "accessid",
        "privatekey",
    ]
    .iter()
    .any(|word| name.contains(word))
}
