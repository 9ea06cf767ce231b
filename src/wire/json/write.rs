//! Writes JSON as the original does (`protocol.md` 2.1, 2.3): its field order, its mix of strings
//! and numbers, no whitespace, null fields left out.

use std::sync::Arc;

use crate::registry::instance::{DataCenter, Instance, Metadata, Port};
use crate::wire::text::{bool_text, push_int};
use crate::wire::{Detail, InstanceView, names};

/// Appends a JSON string. Non-ASCII stays raw UTF-8, `/` is not escaped.
pub(in crate::wire) fn push_str(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut done = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let short = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            0..0x20 => 0,
            _ => continue,
        };
        out.extend_from_slice(&bytes[done..at]);
        done = at + 1;
        if short == 0 {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
        } else {
            out.extend_from_slice(&[b'\\', short]);
        }
    }
    out.extend_from_slice(&bytes[done..]);
    out.push(b'"');
}

/// The members of one object: writes keys and the commas between them.
struct Object<'o> {
    out: &'o mut Vec<u8>,
    is_first: bool,
}

impl<'o> Object<'o> {
    fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self {
            out,
            is_first: true,
        }
    }

    fn key(&mut self, key: &str) {
        if !self.is_first {
            self.out.push(b',');
        }
        self.is_first = false;
        // Keys are this module's own words (or metadata keys, which take push_str).
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        push_str(self.out, value);
    }

    fn text_if(&mut self, key: &str, value: Option<&Arc<str>>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    fn int(&mut self, key: &str, value: i64) {
        self.key(key);
        push_int(self.out, value);
    }

    fn quoted_int(&mut self, key: &str, value: i64) {
        self.key(key);
        self.out.push(b'"');
        push_int(self.out, value);
        self.out.push(b'"');
    }

    fn port(&mut self, key: &str, port: Port) {
        self.key(key);
        self.out.extend_from_slice(b"{\"$\":");
        push_int(self.out, port.number.into());
        self.out.extend_from_slice(b",\"@enabled\":\"");
        self.out
            .extend_from_slice(bool_text(port.enabled).as_bytes());
        self.out.extend_from_slice(b"\"}");
    }

    fn data_center(&mut self, data_center: &DataCenter, detail: Detail) {
        self.key("dataCenterInfo");
        let mut info = Object::open(self.out);
        info.text("@class", names::data_center_class(data_center));
        info.text("name", names::data_center_name(data_center));
        if let DataCenter::Amazon { metadata } = data_center {
            info.key("metadata");
            push_map(info.out, metadata, |key| {
                detail == Detail::Full || names::COMPACT_AMAZON_KEYS.contains(&key)
            });
        }
        info.close();
    }

    fn close(self) {
        self.out.push(b'}');
    }
}

fn push_map(out: &mut Vec<u8>, map: &Metadata, keep: impl Fn(&str) -> bool) {
    out.push(b'{');
    let mut is_first = true;
    for (key, value) in map.iter().filter(|(key, _)| keep(key)) {
        if !is_first {
            out.push(b',');
        }
        is_first = false;
        push_str(out, key);
        out.push(b':');
        push_str(out, value);
    }
    out.push(b'}');
}

/// Appends one instance as an object without root.
pub(in crate::wire) fn instance(out: &mut Vec<u8>, view: &InstanceView<'_>, detail: Detail) {
    match detail {
        Detail::Full => full(out, view),
        Detail::Compact => compact(out, view.instance),
    }
}

fn full(out: &mut Vec<u8>, view: &InstanceView<'_>) {
    let instance = view.instance;
    let mut object = Object::open(out);
    object.text_if("instanceId", instance.instance_id.as_ref());
    object.text("hostName", &instance.host_name);
    object.text("app", instance.app.as_str());
    object.text("ipAddr", &instance.ip_addr);
    object.text_if("sid", names::shown_sid(instance));
    object.text("status", instance.status.as_str());
    object.text("overriddenStatus", instance.overridden_status.as_str());
    object.port("port", instance.port);
    object.port("securePort", instance.secure_port);
    object.int("countryId", instance.country_id.into());
    object.data_center(&instance.data_center, Detail::Full);
    lease(&mut object, view);
    object.key("metadata");
    if instance.metadata.is_empty() {
        object
            .out
            .extend_from_slice(b"{\"@class\":\"java.util.Collections$EmptyMap\"}");
    } else {
        push_map(object.out, &instance.metadata, |_| true);
    }
    object.text_if("appGroupName", instance.app_group_name.as_ref());
    object.text_if("homePageUrl", instance.home_page_url.as_ref());
    object.text_if("statusPageUrl", instance.status_page_url.as_ref());
    object.text_if("healthCheckUrl", instance.health_check_url.as_ref());
    object.text_if(
        "secureHealthCheckUrl",
        instance.secure_health_check_url.as_ref(),
    );
    object.text_if("vipAddress", instance.vip_address.as_ref());
    object.text_if("secureVipAddress", instance.secure_vip_address.as_ref());
    object.text(
        "isCoordinatingDiscoveryServer",
        bool_text(view.is_coordinating),
    );
    object.quoted_int("lastUpdatedTimestamp", instance.last_updated_timestamp);
    object.quoted_int("lastDirtyTimestamp", instance.last_dirty_timestamp);
    if let Some(action) = instance.action_type {
        object.text("actionType", action.as_str());
    }
    object.text_if("asgName", instance.asg_name.as_ref());
    object.close();
}

fn lease(object: &mut Object<'_>, view: &InstanceView<'_>) {
    let (terms, times) = (view.instance.lease, view.times);
    object.key("leaseInfo");
    let mut info = Object::open(object.out);
    info.int("renewalIntervalInSecs", terms.renewal_interval_secs.into());
    info.int("durationInSecs", terms.duration_secs.into());
    info.int("registrationTimestamp", times.registration);
    info.int("lastRenewalTimestamp", times.last_renewal);
    info.int("evictionTimestamp", times.eviction);
    info.int("serviceUpTimestamp", times.service_up);
    if let Some(ms) = times.vouched_ms {
        info.int("vouchedMs", i64::try_from(ms).unwrap_or(i64::MAX));
    }
    info.close();
}

fn compact(out: &mut Vec<u8>, instance: &Instance) {
    let mut object = Object::open(out);
    object.text_if("instanceId", instance.instance_id.as_ref());
    object.text("app", instance.app.as_str());
    object.text("ipAddr", &instance.ip_addr);
    object.text_if("vipAddress", instance.vip_address.as_ref());
    object.text_if("secureVipAddress", instance.secure_vip_address.as_ref());
    object.data_center(&instance.data_center, Detail::Compact);
    object.text("hostName", &instance.host_name);
    object.text("status", instance.status.as_str());
    object.int("lastUpdatedTimestamp", instance.last_updated_timestamp);
    if let Some(action) = instance.action_type {
        object.text("actionType", action.as_str());
    }
    object.text_if("asgName", instance.asg_name.as_ref());
    object.port("port", instance.port);
    object.port("securePort", instance.secure_port);
    object.close();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_as_recorded_and_no_further() {
        let mut out = Vec::new();
        push_str(&mut out, "a\"b\\c/\n\r\t\u{8}\u{c}\u{1}\u{1f}\u{7f}ä€😀");
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "\"a\\\"b\\\\c/\\n\\r\\t\\b\\f\\u0001\\u001F\u{7f}ä€😀\""
        );
    }
}
