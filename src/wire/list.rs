//! list
use super::{DecodeError, Detail, Draft, Format, InstanceView, Limits};

/// Writes one instance with its root. `single_status_v1`: say DOWN for OUT_OF_SERVICE and UNKNOWN in XML.
pub fn write_instance(
    out: &mut Vec<u8>,
    format: Format,
    view: &InstanceView<'_>,
    single_status_v1: bool,
) {
    let _ = (out, format, view, single_status_v1);
    todo!()
}

/// Writes one instance as a JSON object without root.
pub fn write_instance_bare(out: &mut Vec<u8>, view: &InstanceView<'_>) {
    let _ = (out, view);
    todo!()
}

/// Writes one application with its root.
pub fn write_application<'a>(
    out: &mut Vec<u8>,
    format: Format,
    detail: Detail,
    name: &str,
    instances: impl IntoIterator<Item = InstanceView<'a>>,
) {
    let _ = (out, format, detail, name, instances.into_iter().count());
    todo!()
}

pub fn list_head(
    out: &mut Vec<u8>,
    format: Format,
    detail: Detail,
    version: &str,
    hash: &str,
    is_empty: bool,
) {
    let _ = (out, format, detail, version, hash, is_empty);
    todo!()
}

pub fn list_fragment<'a>(
    out: &mut Vec<u8>,
    format: Format,
    detail: Detail,
    name: &str,
    instances: impl IntoIterator<Item = InstanceView<'a>>,
) {
    let _ = (out, format, detail, name, instances.into_iter().count());
    todo!()
}

pub fn list_separator(format: Format, detail: Detail) -> &'static [u8] {
    let _ = (format, detail);
    todo!()
}

pub fn list_tail(
    out: &mut Vec<u8>,
    format: Format,
    detail: Detail,
    version: &str,
    hash: &str,
    is_empty: bool,
) {
    let _ = (out, format, detail, version, hash, is_empty);
    todo!()
}

/// Decodes a full list in JSON, as a peer answers it.
pub fn decode_applications(
    body: &[u8],
    limits: &Limits,
    now_ms: i64,
) -> Result<Vec<Draft>, DecodeError> {
    let _ = (body, limits, now_ms);
    todo!()
}
