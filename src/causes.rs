//! An error with what led to it, in one line for people.

use std::error::Error;

/// The text of an error and of its causes, behind colons. Many errors say their cause themselves: it is
/// not said twice.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let denied = || std::io::Error::from_raw_os_error(13);
        let error = anyhow::Error::new(denied())
            .context(format!("cannot use /srv: {}; mend it", denied()))
            .context("cannot start on this data directory");
        let text = with_causes(error.as_ref());
        assert_eq!(text.matches("os error 13").count(), 1, "{text}");
        assert!(
            text.starts_with("cannot start on this data directory: cannot use /srv"),
            "{text}"
        );
        let error = anyhow::Error::new(denied()).context("cannot listen");
        assert_eq!(
            with_causes(error.as_ref()),
            format!("cannot listen: {}", denied())
        );
    }
}
