//! Names of applications and instances in the path of a URL.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What stands as it is in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A text as one segment of a path.
pub fn path_segment(text: &str) -> Cow<'_, str> {
    match text {
        // Dots alone would be taken for steps in the path.
        "." => "%2E".into(),
        ".." => "%2E%2E".into(),
        _ => utf8_percent_encode(text, SEGMENT).into(),
    }
}
