//! Writes the documents of the protocol: one instance, one application, the list of applications.
//!
//! A list is made of a head, one fragment per application joined by [`list_separator`], and a tail,
//! so that whoever caches keeps fragments and stitches. A fragment in turn may be made of groups of
//! instances: [`fragment_open`], groups joined by [`instance_separator`], [`fragment_close`].

use super::text::bool_text;
use super::xml::write::Elements;
use super::{Detail, Format, InstanceView, json};

/// Appends one instance with its root.
///
/// With `single_status_v1` XML says DOWN for a status that the first version of the protocol did not
/// know (`OUT_OF_SERVICE`, `UNKNOWN`), as the original does for single instances.
pub fn write_instance(
    out: &mut Vec<u8>,
    format: Format,
    view: &InstanceView<'_>,
    single_status_v1: bool,
) {
    match format {
        Format::Json => {
            out.extend_from_slice(b"{\"instance\":");
            write_instance_bare(out, view);
            out.push(b'}');
        }
        Format::Xml => Elements::new(out, Detail::Full, 0).instance(
            "instance",
            view,
            Detail::Full,
            single_status_v1,
        ),
    }
}

/// Appends one instance as a JSON object without root, as batches hold it.
pub fn write_instance_bare(out: &mut Vec<u8>, view: &InstanceView<'_>) {
    json::write::instance(out, view, Detail::Full);
}

/// Appends one application with its root.
pub fn write_application<'a>(
    out: &mut Vec<u8>,
    format: Format,
    detail: Detail,
    name: &str,
    instances: impl IntoIterator<Item = InstanceView<'a>>,
) {
    match format {
        Format::Json => {
            out.extend_from_slice(b"{\"application\":");
            list_fragment(out, format, detail, name, instances);
            out.push(b'}');
        }
        Format::Xml => {
            let mut elements = Elements::new(out, detail, 0);
            elements.open("application");
            elements.text("name", name);
            xml_instances(elements.out, detail, 1, instances);
            Elements::new(out, detail, 1).close("application");
        }
    }
}

/// Appends what comes before the first fragment of a list.
///
/// `version` is `versions__delta`, `hash` is `apps__hashcode`; the compact form writes them in the
/// tail, so pass the same to both.
pub fn list_head(
    out: &mut Vec<u8>,
    format: Format,
    detail: Detail,
    version: &str,
    hash: &str,
    _is_empty: bool,
) {
    match (format, detail) {
        (Format::Json, Detail::Full) => {
            out.extend_from_slice(b"{\"applications\":{\"versions__delta\":");
            json::write::push_str(out, version);
            out.extend_from_slice(b",\"apps__hashcode\":");
            json::write::push_str(out, hash);
            out.extend_from_slice(b",\"application\":[");
        }
        (Format::Json, Detail::Compact) => {
            out.extend_from_slice(b"{\"applications\":{\"application\":[");
        }
        (Format::Xml, Detail::Full) => {
            let mut elements = Elements::new(out, detail, 0);
            elements.open("applications");
            elements.text("versions__delta", version);
            elements.text("apps__hashcode", hash);
        }
        (Format::Xml, Detail::Compact) => out.extend_from_slice(b"<applications>"),
    }
}

/// Appends one application as a list holds it.
pub fn list_fragment<'a>(
    out: &mut Vec<u8>,
    format: Format,
    detail: Detail,
    name: &str,
    instances: impl IntoIterator<Item = InstanceView<'a>>,
) {
    fragment_open(out, format, detail, name);
    fragment_instances(out, format, detail, instances);
    fragment_close(out, format, detail);
}

/// Appends what comes before the first instance of a fragment.
pub fn fragment_open(out: &mut Vec<u8>, format: Format, detail: Detail, name: &str) {
    match format {
        Format::Json => {
            out.extend_from_slice(b"{\"name\":");
            json::write::push_str(out, name);
            out.extend_from_slice(b",\"instance\":[");
        }
        Format::Xml => {
            let mut elements = Elements::new(out, detail, 1);
            elements.open("application");
            elements.text("name", name);
        }
    }
}

/// Appends a group of instances of a fragment.
pub fn fragment_instances<'a>(
    out: &mut Vec<u8>,
    format: Format,
    detail: Detail,
    instances: impl IntoIterator<Item = InstanceView<'a>>,
) {
    match format {
        Format::Json => {
            for (at, view) in instances.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                json::write::instance(out, &view, detail);
            }
        }
        Format::Xml => xml_instances(out, detail, 2, instances),
    }
}

fn xml_instances<'a>(
    out: &mut Vec<u8>,
    detail: Detail,
    level: usize,
    instances: impl IntoIterator<Item = InstanceView<'a>>,
) {
    let mut elements = Elements::new(out, detail, level);
    for view in instances {
        elements.instance("instance", &view, detail, false);
        elements.line_end();
    }
}

/// Appends what comes after the last instance of a fragment.
pub fn fragment_close(out: &mut Vec<u8>, format: Format, detail: Detail) {
    match format {
        Format::Json => out.extend_from_slice(b"]}"),
        Format::Xml => {
            let mut elements = Elements::new(out, detail, 2);
            elements.close("application");
            elements.line_end();
        }
    }
}

/// What stands between two fragments.
pub fn list_separator(format: Format, _detail: Detail) -> &'static [u8] {
    instance_separator(format)
}

/// What stands between two groups of instances of one fragment, neither of them empty.
pub fn instance_separator(format: Format) -> &'static [u8] {
    match format {
        Format::Json => b",",
        Format::Xml => b"",
    }
}

/// Appends what comes after the last fragment of a list. `is_empty` says that there was none.
pub fn list_tail(
    out: &mut Vec<u8>,
    format: Format,
    detail: Detail,
    version: &str,
    hash: &str,
    is_empty: bool,
) {
    match (format, detail) {
        (Format::Json, Detail::Full) => out.extend_from_slice(b"]}}"),
        (Format::Json, Detail::Compact) => {
            out.extend_from_slice(b"],\"registeredApplicationsEmpty\":");
            out.extend_from_slice(bool_text(is_empty).as_bytes());
            out.extend_from_slice(b",\"versions__delta\":");
            json::write::push_str(out, version);
            out.extend_from_slice(b",\"apps__hashcode\":");
            json::write::push_str(out, hash);
            out.extend_from_slice(b"}}");
        }
        (Format::Xml, Detail::Full) => out.extend_from_slice(b"</applications>"),
        (Format::Xml, Detail::Compact) => {
            let mut elements = Elements::new(out, detail, 1);
            elements.text("registeredApplicationsEmpty", bool_text(is_empty));
            elements.text("versions__delta", version);
            elements.text("apps__hashcode", hash);
            elements.close("applications");
        }
    }
}
