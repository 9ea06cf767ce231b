//! Bytes <-> types for the Eureka protocol (`protocol.md` 2, 7.3, 7.4): what may be written on the
//! wire, what is read from it, and how a request's headers choose between the forms.
//!
//! No registry logic and no HTTP server live here. Writers append to a byte buffer, allocate
//! nothing per field, cannot fail and are well-formed whatever the strings hold; readers are bounded
//! by [`Limits`] and never panic, whatever the bytes are.

pub mod accept;
pub mod batch;
mod caller;
mod draft;
mod json;
mod list;
mod names;
mod segment;
mod text;
mod xml;

use std::fmt;

use crate::registry::instance::Instance;

pub use caller::Caller;
pub use draft::{DataCenterDraft, Draft, Refusal, validate};
pub use json::list::{PeerList, decode_applications};
pub use list::{
    fragment_close, fragment_instances, fragment_open, instance_separator, list_fragment,
    list_head, list_separator, list_tail, write_application, write_instance, write_instance_bare,
};
pub use segment::path_segment;
pub use xml::list::decode_applications_xml;
pub use xml::status::decode_server_birth;

/// The two formats of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    Json,
    Xml,
}

impl Format {
    /// The media type of answers, without parameters: a charset is never added.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Xml => "application/xml",
        }
    }
}

/// How much of an instance the cached reads show (`X-Eureka-Accept`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Detail {
    #[default]
    Full,
    Compact,
}

/// How closely the decoders and the negotiation follow the original server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Accepts what is meant clearly and labels truthfully.
    #[default]
    Tolerant,
    /// As recorded, accidents included.
    Exact,
}

/// Bounds on what a decoder takes in. Exceeding one is a [`DecodeError`] that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Levels of nesting.
    pub depth: usize,
    /// Longest text of one field or metadata value, bytes.
    pub field_bytes: usize,
    /// Longest instance id, application name, host name or metadata key, bytes.
    pub id_bytes: usize,
    /// Most metadata entries of one instance.
    pub metadata_entries: usize,
    /// Keys and values of one instance's metadata together, bytes.
    pub metadata_bytes: usize,
    /// Most items of a replication batch, and of the answer to one. Servers of every kind send 250 at
    /// most.
    pub batch_items: usize,
    /// Most instances of a full list.
    pub list_instances: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 64,
            field_bytes: 256 * 1024,
            id_bytes: 4 * 1024,
            metadata_entries: 1024,
            metadata_bytes: 512 * 1024,
            batch_items: 1000,
            list_instances: 2_000_000,
        }
    }
}

/// Times of a lease as they are shown, ms since the epoch, 0 where it did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseTimes {
    pub registration: i64,
    pub last_renewal: i64,
    pub eviction: i64,
    pub service_up: i64,
    /// For how long a sign of life vouches for the instance, ms (`Lease::vouched_ms`). Not of the protocol:
    /// only nodes of our own kind tell each other, since the times above go by each node's clock.
    pub vouched_ms: Option<u64>,
}

/// An instance with what the writers need beside it.
#[derive(Clone, Copy, Debug)]
pub struct InstanceView<'a> {
    pub instance: &'a Instance,
    pub times: LeaseTimes,
    /// Whether this is the server's own instance.
    pub is_coordinating: bool,
}

/// A body that cannot be decoded. The client gets [`parse_error_body`]; this text is for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    message: String,
    is_null_body: bool,
    has_too_many_items: bool,
}

impl DecodeError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            is_null_body: false,
            has_too_many_items: false,
        }
    }

    pub(crate) fn null_body() -> Self {
        Self {
            is_null_body: true,
            ..Self::new("the body is null")
        }
    }

    pub(crate) fn too_many_items(message: impl Into<String>) -> Self {
        Self {
            has_too_many_items: true,
            ..Self::new(message)
        }
    }

    /// Whether a batch was refused for the number of its items ([`Limits::batch_items`]), before the
    /// rest of it was looked at.
    pub fn has_too_many_items(&self) -> bool {
        self.has_too_many_items
    }

    /// Whether the body was a well-formed `null`: the original answers 500 there instead of 400.
    pub fn is_null_body(&self) -> bool {
        self.is_null_body
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DecodeError {}

/// What the client is told about a body that cannot be decoded, always with status 400: the XML
/// form goes to every request whose Content-Type is not exactly `application/json`.
pub fn parse_error_body(content_type_is_exactly_json: bool) -> &'static str {
    if content_type_is_exactly_json {
        r#"{"error": "cannot parse request body"}"#
    } else {
        "<error><message>cannot parse request body</message></error>"
    }
}

/// Decodes the body of a registration: one instance with its root.
///
/// `now_ms` stands in for a dirty timestamp that was not sent.
pub fn decode_registration(
    body: &[u8],
    format: Format,
    dialect: Dialect,
    limits: &Limits,
    now_ms: i64,
) -> Result<Draft, DecodeError> {
    let context = json::read::Context {
        dialect,
        limits,
        now_ms,
    };
    match format {
        Format::Json => json::read::registration(body, &context),
        Format::Xml => xml::read::registration(body, &context),
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
