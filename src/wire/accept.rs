//! How the headers of a request choose the forms of what is read and written (`protocol.md` 1.2,
//! 1.3, 1.7). Pure functions of header values; several headers of one name are joined by commas
//! before.

use std::borrow::Cow;
use std::cmp::Reverse;

use super::{Detail, Dialect, Format};

/// The outcome of content negotiation. Body and type differ only in the exact dialect, where the
/// original chooses twice, by different rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Format of the cached reads: lists and applications.
    pub body: Format,
    /// Format of what is written from objects: one instance, the answer to a batch.
    pub content_type: Format,
    /// The Content-Type header: in the exact dialect as the client wrote it, except for the cached
    /// reads in gzip, which are labelled by their body.
    pub label: Cow<'static, str>,
}

/// One element of an Accept header.
#[derive(Debug)]
struct Range<'h> {
    kind: &'h str,
    subtype: &'h str,
    /// Parameters but `q`, as written.
    parameters: Vec<&'h str>,
    /// Thousandths.
    quality: u16,
}

impl<'h> Range<'h> {
    fn parse(text: &'h str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let (kind, subtype) = (kind.trim(), subtype.trim());
        if kind.is_empty() || subtype.is_empty() {
            return None;
        }
        let mut quality = 1000;
        let mut parameters = Vec::new();
        for parameter in parts.filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some((name, value)) if name.trim().eq_ignore_ascii_case("q") => {
                    quality = parse_quality(value.trim())?;
                }
                _ => parameters.push(parameter),
            }
        }
        Some(Self {
            kind,
            subtype,
            parameters,
            quality,
        })
    }

    /// How closely the range names the format: 2 its type, 1 `application/*`, 0 anything.
    fn matches(&self, format: Format) -> Option<u8> {
        let subtype = match format {
            Format::Json => "json",
            Format::Xml => "xml",
        };
        match (self.kind, self.subtype) {
            ("*", "*") => Some(0),
            (kind, "*") if kind.eq_ignore_ascii_case("application") => Some(1),
            (kind, named)
                if kind.eq_ignore_ascii_case("application")
                    && named.eq_ignore_ascii_case(subtype) =>
            {
                Some(2)
            }
            _ => None,
        }
    }

    /// What an answer of this type is labelled in the exact dialect.
    fn label(&self, format: Format) -> Cow<'static, str> {
        let canonical = format.content_type();
        let as_written = (self.kind, self.subtype);
        if self.subtype == "*"
            || self.parameters.is_empty() && canonical.split_once('/') == Some(as_written)
        {
            return Cow::Borrowed(canonical);
        }
        let mut label = format!("{}/{}", self.kind, self.subtype);
        for parameter in &self.parameters {
            label.push(';');
            label.push_str(parameter);
        }
        Cow::Owned(label)
    }
}

/// Reads a q-value in thousandths.
fn parse_quality(text: &str) -> Option<u16> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_good = matches!(whole, "0" | "1")
        && fraction.len() <= 3
        && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !is_good {
        return None;
    }
    let fraction: u16 = format!("{fraction:0<3}").parse().ok()?;
    Some(if whole == "1" { 1000 } else { fraction })
}

/// Negotiates the form of an answer. `None` is 406: nothing is done and nothing is written.
pub fn negotiate(accept: Option<&str>, dialect: Dialect) -> Option<Negotiated> {
    let accept = accept.unwrap_or("").trim();
    if accept.is_empty() {
        return Some(plain(Format::Xml));
    }
    // Nearly every client asks for just this.
    if accept == "application/json" {
        return Some(plain(Format::Json));
    }
    let ranges: Vec<Range<'_>> = accept.split(',').filter_map(Range::parse).collect();
    match dialect {
        Dialect::Exact => {
            let (range, format) = best_pair(&ranges)?;
            let body = if accept.contains("json") {
                Format::Json
            } else {
                Format::Xml
            };
            Some(Negotiated {
                body,
                content_type: format,
                label: range.label(format),
            })
        }
        Dialect::Tolerant => best_format(&ranges).map(plain),
    }
}

fn plain(format: Format) -> Negotiated {
    Negotiated {
        body: format,
        content_type: format,
        label: Cow::Borrowed(format.content_type()),
    }
}

/// The pair of a range and a format with the highest quality; then the closest, the earliest, and
/// XML before JSON.
fn best_pair<'r, 'h>(ranges: &'r [Range<'h>]) -> Option<(&'r Range<'h>, Format)> {
    ranges
        .iter()
        .enumerate()
        .flat_map(|(at, range)| {
            [Format::Xml, Format::Json]
                .into_iter()
                .filter_map(move |format| {
                    let closeness = range.matches(format).filter(|_| range.quality > 0)?;
                    let order = (range.quality, closeness, Reverse(at), format == Format::Xml);
                    Some((order, range, format))
                })
        })
        .max_by_key(|(order, _, _)| *order)
        .map(|(_, range, format)| (range, format))
}

/// The format with the higher quality, each by the range that names it most closely; then the one
/// that is named more closely or earlier, and XML before JSON.
fn best_format(ranges: &[Range<'_>]) -> Option<Format> {
    [Format::Xml, Format::Json]
        .into_iter()
        .filter_map(|format| {
            let (closeness, at, range) = ranges
                .iter()
                .enumerate()
                .filter_map(|(at, range)| Some((range.matches(format)?, Reverse(at), range)))
                .max_by_key(|(closeness, at, _)| (*closeness, *at))?;
            let order = (range.quality, closeness, at, format == Format::Xml);
            (range.quality > 0).then_some((order, format))
        })
        .max_by_key(|(order, _)| *order)
        .map(|(_, format)| format)
}

/// Reads `X-Eureka-Accept`: `compact` in any case, or else everything.
pub fn detail(x_eureka_accept: Option<&str>) -> Detail {
    match x_eureka_accept {
        Some(value) if value.trim().eq_ignore_ascii_case("compact") => Detail::Compact,
        _ => Detail::Full,
    }
}

/// Whether an answer may be compressed. The exact dialect looks for the text `gzip` anywhere; the
/// tolerant one honours `q=0`.
pub fn accepts_gzip(accept_encoding: Option<&str>, dialect: Dialect) -> bool {
    let Some(header) = accept_encoding else {
        return false;
    };
    match dialect {
        Dialect::Exact => header.contains("gzip"),
        Dialect::Tolerant => header.split(',').any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            // In lower case, as the original has it: plain answers are always right.
            matches!(parts.next(), Some("gzip" | "x-gzip"))
                && parts.all(|parameter| match parameter.split_once('=') {
                    Some((name, value)) if name.trim().eq_ignore_ascii_case("q") => {
                        parse_quality(value.trim()).is_some_and(|quality| quality > 0)
                    }
                    _ => true,
                })
        }),
    }
}

/// How a request's body is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestType {
    pub format: Format,
    /// Whether the type is `application/json` and nothing more; see [`super::parse_error_body`].
    pub exactly_json: bool,
    /// Whether the charset is ISO-8859-1.
    pub is_latin1: bool,
}

impl RequestType {
    /// The body in UTF-8. The exact dialect does what the original does: it reads every body as
    /// UTF-8, whatever the charset.
    pub fn utf8(self, body: &[u8], dialect: Dialect) -> Cow<'_, [u8]> {
        if self.is_latin1 && dialect == Dialect::Tolerant && !body.is_ascii() {
            let text: String = body.iter().copied().map(char::from).collect();
            return Cow::Owned(text.into_bytes());
        }
        Cow::Borrowed(body)
    }
}

/// Why a body cannot be read by its type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// 415.
    #[error("no content type")]
    Missing,
    /// Not a media type at all: the original answers 400, with its page and not with the parse
    /// error.
    #[error("content type {0:?} is no media type")]
    Malformed(String),
    /// 415.
    #[error("content type {0:?} is neither JSON nor XML")]
    Type(String),
    /// 415.
    #[error("charset {0:?} is neither UTF-8 nor ISO-8859-1")]
    Charset(String),
}

/// Reads the Content-Type of a registration or a batch. A wildcard that XML matches means XML.
pub fn request_format(content_type: Option<&str>) -> Result<RequestType, Unsupported> {
    let header = content_type.ok_or(Unsupported::Missing)?.trim();
    if header == "application/json" {
        return Ok(RequestType {
            format: Format::Json,
            exactly_json: true,
            is_latin1: false,
        });
    }
    let range = Range::parse(header).ok_or_else(|| Unsupported::Malformed(cut(header)))?;
    let format = [Format::Xml, Format::Json]
        .into_iter()
        .find(|format| range.matches(*format).is_some())
        .ok_or_else(|| Unsupported::Type(cut(header)))?;
    let mut is_latin1 = false;
    for parameter in &range.parameters {
        let Some((name, value)) = parameter.split_once('=') else {
            continue;
        };
        if !name.trim().eq_ignore_ascii_case("charset") {
            continue;
        }
        let charset = value.trim().trim_matches('"');
        is_latin1 = charset.eq_ignore_ascii_case("ISO-8859-1");
        if !is_latin1 && !charset.eq_ignore_ascii_case("UTF-8") {
            return Err(Unsupported::Charset(cut(charset)));
        }
    }
    let exactly_json = format == Format::Json && range.parameters.is_empty();
    Ok(RequestType {
        format,
        exactly_json,
        is_latin1,
    })
}

/// As much of a header as a message needs.
fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(accept: &str) -> Option<(Format, Format, String)> {
        negotiate(Some(accept), Dialect::Exact)
            .map(|n| (n.body, n.content_type, n.label.into_owned()))
    }

    fn tolerant(accept: &str) -> Option<Format> {
        let negotiated = negotiate(Some(accept), Dialect::Tolerant)?;
        assert_eq!(negotiated.body, negotiated.content_type);
        assert_eq!(negotiated.label, negotiated.body.content_type());
        Some(negotiated.body)
    }

    #[test]
    fn exact_negotiation_chooses_body_and_label_by_two_rules() {
        use Format::{Json, Xml};
        for (accept, body, content_type, label) in [
            ("", Xml, Xml, "application/xml"),
            ("*/*", Xml, Xml, "application/xml"),
            ("application/*", Xml, Xml, "application/xml"),
            ("application/json", Json, Json, "application/json"),
            (
                "application/json, application/*+json",
                Json,
                Json,
                "application/json",
            ),
            (
                "application/xml, application/json",
                Json,
                Xml,
                "application/xml",
            ),
            (
                "application/xml, application/json;q=0.1",
                Json,
                Xml,
                "application/xml",
            ),
            (
                "application/json;q=0.5, application/xml",
                Json,
                Xml,
                "application/xml",
            ),
            (
                "application/json;q=0, application/xml",
                Json,
                Xml,
                "application/xml",
            ),
            (
                "application/vnd.x+json, application/xml",
                Json,
                Xml,
                "application/xml",
            ),
            (
                "application/xml;q=0.5, application/json;q=0.9",
                Json,
                Json,
                "application/json",
            ),
            ("APPLICATION/JSON", Xml, Json, "APPLICATION/JSON"),
            (
                "application/json;charset=utf-8",
                Json,
                Json,
                "application/json;charset=utf-8",
            ),
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
                Xml,
                Xml,
                "application/xml",
            ),
        ] {
            assert_eq!(
                exact(accept),
                Some((body, content_type, label.to_owned())),
                "{accept}"
            );
        }
    }

    #[test]
    fn tolerant_negotiation_chooses_once_and_labels_truthfully() {
        use Format::{Json, Xml};
        for (accept, format) in [
            ("", Xml),
            ("*/*", Xml),
            ("application/xml, application/json", Xml),
            ("application/json, application/xml", Json),
            ("application/json;q=0.5, application/xml", Xml),
            ("application/json;q=0, application/xml", Xml),
            ("application/json;q=0, */*", Xml),
            ("application/xml;q=0.1, */*", Json),
            ("application/json, */*", Json),
            ("*/*, application/json", Json),
            ("APPLICATION/JSON", Json),
            ("application/json;charset=utf-8", Json),
        ] {
            assert_eq!(tolerant(accept), Some(format), "{accept}");
        }
    }

    #[test]
    fn what_is_neither_json_nor_xml_is_not_acceptable() {
        for accept in [
            "text/html",
            "text/plain",
            "text/json",
            "text/xml",
            "image/png",
            "json",
            "garbage",
            "application/vnd.x+json",
            "application/json;q=0",
            "application/json;q=x",
            "*/json",
        ] {
            assert_eq!(exact(accept), None, "{accept}");
            assert_eq!(tolerant(accept), None, "{accept}");
        }
    }

    #[test]
    fn gzip_is_taken_by_substring_exactly_and_by_quality_tolerantly() {
        for (header, exactly, tolerantly) in [
            (None, false, false),
            (Some("gzip"), true, true),
            (Some("gzip, x-gzip, deflate"), true, true),
            (Some("deflate, gzip;q=0.5"), true, true),
            (Some("gzip;q=0"), true, false),
            (Some("gzip; q=0.000"), true, false),
            (Some("identity"), false, false),
            (Some("*"), false, false),
            (Some("x-gzip"), true, true),
            (Some("gzipped"), true, false),
        ] {
            assert_eq!(accepts_gzip(header, Dialect::Exact), exactly, "{header:?}");
            assert_eq!(
                accepts_gzip(header, Dialect::Tolerant),
                tolerantly,
                "{header:?}"
            );
        }
    }

    #[test]
    fn compact_is_compact_in_any_case_and_all_else_is_full() {
        assert_eq!(detail(Some("COMPACT")), Detail::Compact);
        assert_eq!(detail(Some("full")), Detail::Full);
        assert_eq!(detail(Some("nonsense")), Detail::Full);
        assert_eq!(detail(None), Detail::Full);
    }

    #[test]
    fn content_types_are_read_as_recorded() {
        let json = |exactly_json, is_latin1| RequestType {
            format: Format::Json,
            exactly_json,
            is_latin1,
        };
        let xml = RequestType {
            format: Format::Xml,
            exactly_json: false,
            is_latin1: false,
        };
        assert_eq!(
            request_format(Some("application/json")),
            Ok(json(true, false))
        );
        assert_eq!(
            request_format(Some("APPLICATION/JSON")),
            Ok(json(true, false))
        );
        assert_eq!(
            request_format(Some("application/json;charset=UTF-8")),
            Ok(json(false, false))
        );
        assert_eq!(
            request_format(Some("application/json; charset=\"iso-8859-1\"")),
            Ok(json(false, true))
        );
        for header in [
            "application/xml",
            "application/xml;charset=utf-8",
            "*/*",
            "application/*",
        ] {
            assert_eq!(request_format(Some(header)), Ok(xml), "{header}");
        }
        assert_eq!(request_format(None), Err(Unsupported::Missing));
        assert_eq!(
            request_format(Some("")),
            Err(Unsupported::Malformed(String::new()))
        );
        for header in [
            "text/xml",
            "text/plain",
            "application/vnd.x+json",
            "application/x",
        ] {
            assert_eq!(
                request_format(Some(header)),
                Err(Unsupported::Type(header.to_owned()))
            );
        }
        assert_eq!(
            request_format(Some("application/json;charset=UTF-16")),
            Err(Unsupported::Charset("UTF-16".to_owned()))
        );
        assert_eq!(
            request_format(Some("garbage")),
            Err(Unsupported::Malformed("garbage".to_owned()))
        );
    }

    #[test]
    fn latin1_is_converted_only_by_the_tolerant_dialect() {
        let latin1 = request_format(Some("application/json;charset=ISO-8859-1")).unwrap();
        assert_eq!(&*latin1.utf8(b"\xE4", Dialect::Tolerant), "ä".as_bytes());
        assert_eq!(&*latin1.utf8(b"\xE4", Dialect::Exact), b"\xE4");
    }
}
