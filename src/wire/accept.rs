//! accept
use super::{Detail, Dialect, Format};

/// The outcome of content negotiation. The two differ only in the exact dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Format of cached reads (lists and applications).
    pub body: Format,
    /// Content-Type, and format of what is written from objects: one instance, a batch answer.
    pub content_type: Format,
}

/// `None` = 406.
pub fn negotiate(accept: Option<&str>, dialect: Dialect) -> Option<Negotiated> {
    let _ = (accept, dialect);
    todo!()
}

pub fn detail(x_eureka_accept: Option<&str>) -> Detail {
    let _ = x_eureka_accept;
    todo!()
}

pub fn accepts_gzip(accept_encoding: Option<&str>, dialect: Dialect) -> bool {
    let _ = (accept_encoding, dialect);
    todo!()
}

/// How a request's body is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestType {
    pub format: Format,
    /// Whether the type is `application/json` and nothing more; see [`super::parse_error_body`].
    pub exactly_json: bool,
}

/// The Content-Type is missing or cannot be read: 415.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported content type {0:?}")]
pub struct Unsupported(pub String);

pub fn request_format(content_type: Option<&str>) -> Result<RequestType, Unsupported> {
    let _ = content_type;
    todo!()
}
