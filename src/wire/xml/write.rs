//! Writes XML as the original does: the full form pretty-printed with two spaces and without a
//! declaration (`protocol.md` 2.2), the compact one on a single line (2.3). Always well-formed:
//! a metadata key that is empty has no element name and is left out, a character that XML 1.0 cannot
//! hold becomes U+FFFD (the original writes documents there that no parser takes).

use std::sync::Arc;

use crate::registry::instance::{DataCenter, Instance, Metadata, Port};
use crate::registry::status::Status;
use crate::wire::text::{bool_text, push_int};
use crate::wire::xml::name;
use crate::wire::{Detail, InstanceView, names};

const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();

/// Appends element text.
pub(in crate::wire) fn push_text(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let (mut done, mut at) = (0, 0);
    while let Some(&byte) = bytes.get(at) {
        let (instead, width): (&[u8], usize) = match byte {
            b'&' => (b"&amp;", 1),
            b'<' => (b"&lt;", 1),
            b'>' => (b"&gt;", 1),
            b'"' => (b"&quot;", 1),
            b'\'' => (b"&apos;", 1),
            b'\r' => (b"&#xd;", 1),
            b'\t' | b'\n' => (b"", 0),
            0..0x20 => (REPLACEMENT, 1),
            0x7F => (b"&#x7f;", 1),
            // U+0080 to U+009F: allowed, but a parser of XML 1.1 takes U+0085 for a line break
            // unless it is a reference, and the original writes all of them so.
            0xC2 if matches!(bytes.get(at + 1), Some(0x80..=0x9F)) => (b"", 2),
            // U+FFFE and U+FFFF.
            0xEF if matches!(bytes.get(at + 1..at + 3), Some([0xBF, 0xBE | 0xBF])) => {
                (REPLACEMENT, 3)
            }
            _ => (b"", 0),
        };
        if width == 0 {
            at += 1;
            continue;
        }
        out.extend_from_slice(&bytes[done..at]);
        if width == 2 {
            push_reference(out, bytes[at + 1]);
        } else {
            out.extend_from_slice(instead);
        }
        at += width;
        done = at;
    }
    out.extend_from_slice(&bytes[done..]);
}

/// Appends the character reference of a code point below U+0100.
fn push_reference(out: &mut Vec<u8>, code: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"&#x");
    out.extend_from_slice(&[
        HEX[usize::from(code >> 4)],
        HEX[usize::from(code & 15)],
        b';',
    ]);
}

/// Where elements go: the buffer and, in the pretty form, the level of the next element.
#[derive(Debug)]
pub(in crate::wire) struct Elements<'o> {
    pub(in crate::wire) out: &'o mut Vec<u8>,
    /// Level of nesting; `None` writes everything on one line.
    level: Option<usize>,
}

impl<'o> Elements<'o> {
    pub(in crate::wire) fn new(out: &'o mut Vec<u8>, detail: Detail, level: usize) -> Self {
        Self {
            out,
            level: (detail == Detail::Full).then_some(level),
        }
    }

    fn indent(&mut self) {
        for _ in 0..self.level.unwrap_or(0) {
            self.out.extend_from_slice(b"  ");
        }
    }

    pub(in crate::wire) fn line_end(&mut self) {
        if self.level.is_some() {
            self.out.push(b'\n');
        }
    }

    /// Opens an element that holds elements.
    pub(in crate::wire) fn open(&mut self, name: &str) {
        self.open_with(name, "");
    }

    fn open_with(&mut self, name: &str, attributes: &str) {
        self.indent();
        self.start_tag(name, attributes);
        self.line_end();
        self.level = self.level.map(|level| level + 1);
    }

    /// Closes an element without the line end behind it.
    pub(in crate::wire) fn close(&mut self, name: &str) {
        self.level = self.level.map(|level| level.saturating_sub(1));
        self.indent();
        self.end_tag(name);
    }

    fn close_line(&mut self, name: &str) {
        self.close(name);
        self.line_end();
    }

    fn start_tag(&mut self, name: &str, attributes: &str) {
        self.out.push(b'<');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(attributes.as_bytes());
        self.out.push(b'>');
    }

    fn end_tag(&mut self, name: &str) {
        self.out.extend_from_slice(b"</");
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b'>');
    }

    pub(in crate::wire) fn text(&mut self, name: &str, value: &str) {
        self.indent();
        self.start_tag(name, "");
        push_text(self.out, value);
        self.end_tag(name);
        self.line_end();
    }

    fn text_if(&mut self, name: &str, value: Option<&Arc<str>>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    pub(in crate::wire) fn int(&mut self, name: &str, value: i64) {
        self.indent();
        self.start_tag(name, "");
        push_int(self.out, value);
        self.end_tag(name);
        self.line_end();
    }

    fn port(&mut self, name: &str, port: Port) {
        self.indent();
        let enabled = if port.enabled {
            " enabled=\"true\""
        } else {
            " enabled=\"false\""
        };
        self.start_tag(name, enabled);
        push_int(self.out, port.number.into());
        self.end_tag(name);
        self.line_end();
    }

    fn map(&mut self, map: &Metadata, keep: impl Fn(&str) -> bool) {
        let mut entries = map
            .iter()
            .filter(|(key, _)| !key.is_empty() && keep(key))
            .peekable();
        if entries.peek().is_none() {
            self.indent();
            self.out.extend_from_slice(b"<metadata class=\"");
            self.out
                .extend_from_slice(names::EMPTY_MAP_CLASS.as_bytes());
            self.out.extend_from_slice(b"\"/>");
            self.line_end();
            return;
        }
        self.open("metadata");
        for (key, value) in entries {
            self.indent();
            self.out.push(b'<');
            name::push(self.out, key);
            self.out.push(b'>');
            push_text(self.out, value);
            self.out.extend_from_slice(b"</");
            name::push(self.out, key);
            self.out.push(b'>');
            self.line_end();
        }
        self.close_line("metadata");
    }

    fn data_center(&mut self, data_center: &DataCenter, detail: Detail) {
        let class = match data_center {
            DataCenter::MyOwn | DataCenter::Netflix => {
                " class=\"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo\""
            }
            DataCenter::Amazon { .. } => " class=\"com.netflix.appinfo.AmazonInfo\"",
        };
        self.open_with("dataCenterInfo", class);
        self.text("name", names::data_center_name(data_center));
        if let DataCenter::Amazon { metadata } = data_center {
            self.map(metadata, |key| {
                detail == Detail::Full || names::COMPACT_AMAZON_KEYS.contains(&key)
            });
        }
        self.close_line("dataCenterInfo");
    }

    /// Appends one instance as element `root`, without a line end behind it. With `status_v1` a
    /// status that the first version of the protocol did not know reads DOWN.
    pub(in crate::wire) fn instance(
        &mut self,
        root: &str,
        view: &InstanceView<'_>,
        detail: Detail,
        status_v1: bool,
    ) {
        self.open(root);
        match detail {
            Detail::Full => self.full(view, status_v1),
            Detail::Compact => self.compact(view.instance),
        }
        self.close(root);
    }

    fn full(&mut self, view: &InstanceView<'_>, status_v1: bool) {
        let instance = view.instance;
        self.text_if("instanceId", instance.instance_id.as_ref());
        self.text("hostName", &instance.host_name);
        self.text("app", instance.app.as_str());
        self.text("ipAddr", &instance.ip_addr);
        self.text_if("sid", names::shown_sid(instance));
        let status = match instance.status {
            Status::OutOfService | Status::Unknown if status_v1 => Status::Down,
            status => status,
        };
        self.text("status", status.as_str());
        self.text("overriddenstatus", instance.overridden_status.as_str());
        self.port("port", instance.port);
        self.port("securePort", instance.secure_port);
        self.int("countryId", instance.country_id.into());
        self.data_center(&instance.data_center, Detail::Full);
        self.lease(view);
        self.map(&instance.metadata, |_| true);
        self.text_if("appGroupName", instance.app_group_name.as_ref());
        self.text_if("homePageUrl", instance.home_page_url.as_ref());
        self.text_if("statusPageUrl", instance.status_page_url.as_ref());
        self.text_if("healthCheckUrl", instance.health_check_url.as_ref());
        self.text_if(
            "secureHealthCheckUrl",
            instance.secure_health_check_url.as_ref(),
        );
        self.text_if("vipAddress", instance.vip_address.as_ref());
        self.text_if("secureVipAddress", instance.secure_vip_address.as_ref());
        self.text(
            "isCoordinatingDiscoveryServer",
            bool_text(view.is_coordinating),
        );
        self.int("lastUpdatedTimestamp", instance.last_updated_timestamp);
        self.int("lastDirtyTimestamp", instance.last_dirty_timestamp);
        if let Some(action) = instance.action_type {
            self.text("actionType", action.as_str());
        }
        self.text_if("asgName", instance.asg_name.as_ref());
    }

    fn lease(&mut self, view: &InstanceView<'_>) {
        let (terms, times) = (view.instance.lease, view.times);
        self.open("leaseInfo");
        self.int("renewalIntervalInSecs", terms.renewal_interval_secs.into());
        self.int("durationInSecs", terms.duration_secs.into());
        self.int("registrationTimestamp", times.registration);
        self.int("lastRenewalTimestamp", times.last_renewal);
        self.int("evictionTimestamp", times.eviction);
        self.int("serviceUpTimestamp", times.service_up);
        self.close_line("leaseInfo");
    }

    fn compact(&mut self, instance: &Instance) {
        self.text_if("instanceId", instance.instance_id.as_ref());
        self.text("app", instance.app.as_str());
        self.text("ipAddr", &instance.ip_addr);
        self.text_if("vipAddress", instance.vip_address.as_ref());
        self.text_if("secureVipAddress", instance.secure_vip_address.as_ref());
        self.data_center(&instance.data_center, Detail::Compact);
        self.text("hostName", &instance.host_name);
        self.text("status", instance.status.as_str());
        self.int("lastUpdatedTimestamp", instance.last_updated_timestamp);
        if let Some(action) = instance.action_type {
            self.text("actionType", action.as_str());
        }
        self.text_if("asgName", instance.asg_name.as_ref());
        self.port("port", instance.port);
        self.port("securePort", instance.secure_port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_as_recorded_and_stays_legal() {
        let mut out = Vec::new();
        push_text(
            &mut out,
            "<a> & \"b\" 'c'\n\t\r\u{1}\u{7F}\u{85}\u{A0}\u{FFFE}\u{FFFF}ä�😀",
        );
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "&lt;a&gt; &amp; &quot;b&quot; &apos;c&apos;\n\t&#xd;\u{FFFD}&#x7f;&#x85;\u{A0}\u{FFFD}\u{FFFD}ä�😀"
        );
    }
}
