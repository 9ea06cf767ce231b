//! `GET /status`: the server about itself (`protocol.md` 1.10). The original cannot write it as JSON
//! when no minimum of peers is set; `eurekad.status-document=eureka` brings that 500 back.

use std::fmt::Write as _;

use hyper::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::answer::{self, Answer};
use super::{Api, Head};
use crate::config::StatusDocument;
use crate::registry::instance::Instance;
use crate::replication::state::PeerState;
use crate::wire::accept::Negotiated;
use crate::wire::{self, Format, InstanceView, LeaseTimes};

impl Api {
    pub(super) fn server_status(&self, negotiated: &Negotiated, head: &Head<'_>) -> Answer {
        let is_original = self.config.compatibility.status_document == StatusDocument::Eureka;
        let format = negotiated.content_type;
        let is_complete = self.config.peers.min_available.is_some();
        if is_original && !is_complete && (format == Format::Json || head.method == Method::HEAD) {
            return answer::empty(StatusCode::INTERNAL_SERVER_ERROR);
        }
        let instance = self.own_instance();
        let view = InstanceView {
            instance: &instance,
            times: LeaseTimes::default(),
            is_coordinating: false,
        };
        let body = match format {
            Format::Json => self.status_json(&view),
            Format::Xml => self.status_xml(&view),
        };
        answer::with_body(StatusCode::OK, format.content_type(), body)
    }

    fn status_json(&self, view: &InstanceView<'_>) -> Vec<u8> {
        let mut instance = Vec::new();
        wire::write_instance_bare(&mut instance, view);
        // The writer's output is JSON; anything else would be its defect, seen by its own tests.
        let instance: Value = serde_json::from_slice(&instance).unwrap_or(Value::Null);
        let mut document = json!({
            "generalStats": to_object(self.general_stats()),
            "applicationStats": to_object(self.application_stats()),
            "instanceInfo": instance,
        });
        if let Some(is_healthy) = self.has_enough_peers() {
            document["healthy"] = json!(is_healthy);
        }
        document.to_string().into_bytes()
    }

    fn status_xml(&self, view: &InstanceView<'_>) -> Vec<u8> {
        let mut instance = Vec::new();
        wire::write_instance(&mut instance, Format::Xml, view, false);
        let instance = String::from_utf8_lossy(&instance)
            .replacen("<instance>", "<instanceInfo>", 1)
            .replacen("</instance>", "</instanceInfo>", 1)
            .replace('\n', "\n  ");
        let mut text = String::from("<com.netflix.eureka.util.StatusInfo>\n");
        for (name, stats) in [
            ("generalStats", self.general_stats()),
            ("applicationStats", self.application_stats()),
        ] {
            let _ = writeln!(text, "  <{name}>");
            for (key, value) in stats {
                let value = quick_xml::escape::escape(value);
                let _ = writeln!(text, "    <{key}>{value}</{key}>");
            }
            let _ = writeln!(text, "  </{name}>");
        }
        text.push_str("  ");
        text.push_str(&instance);
        if let Some(is_healthy) = self.has_enough_peers() {
            let _ = write!(text, "\n  <isHeathly>{is_healthy}</isHeathly>");
        }
        text.push_str("\n</com.netflix.eureka.util.StatusInfo>");
        text.into_bytes()
    }

    fn general_stats(&self) -> Vec<(&'static str, String)> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let memory = crate::telemetry::process::memory();
        let percent = (memory.resident * 100)
            .checked_div(memory.total)
            .unwrap_or(0);
        vec![
            ("num-of-cpus", cpus.to_string()),
            ("total-avail-memory", format!("{}mb", memory.total >> 20)),
            (
                "current-memory-usage",
                format!("{}mb ({percent}%)", memory.resident >> 20),
            ),
            (
                "server-uptime",
                uptime(self.clock.now().mono.since(self.started)),
            ),
        ]
    }

    /// The peers, without credentials. One is available if it answered last; the original guesses
    /// from its own entry in the registry.
    fn application_stats(&self) -> Vec<(&'static str, String)> {
        let states = self.peers.all();
        let (available, unavailable): (Vec<_>, Vec<_>) =
            states.iter().partition(|(_, state)| state.is_reachable);
        let with_commas = |peers: &[(&String, &PeerState)]| {
            let mut text = String::new();
            for (url, _) in peers {
                text.push_str(url);
                text.push(',');
            }
            text
        };
        let registered: Vec<&str> = states.keys().map(String::as_str).collect();
        vec![
            ("registered-replicas", registered.join(", ")),
            ("available-replicas", with_commas(&available)),
            ("unavailable-replicas", with_commas(&unavailable)),
        ]
    }

    /// Whether as many peers are available as are said to be needed; `None` if nothing is said.
    fn has_enough_peers(&self) -> Option<bool> {
        let needed = self.config.peers.min_available?;
        let states = self.peers.all();
        let available = states.values().filter(|state| state.is_reachable).count();
        Some(u32::try_from(available).is_ok_and(|available| available >= needed))
    }

    fn own_instance(&self) -> Instance {
        let started = self
            .clock
            .now()
            .wall
            .0
            .saturating_sub(self.clock.now().mono.since(self.started));
        crate::own_instance::describe(
            &self.config.instance,
            i64::try_from(started).unwrap_or(i64::MAX),
        )
    }
}

fn to_object(stats: Vec<(&'static str, String)>) -> Map<String, Value> {
    stats
        .into_iter()
        .map(|(key, value)| (key.to_owned(), Value::from(value)))
        .collect()
}

/// `1 day 02:03`, `2 days 00:00`, `00:07`: days, hours, minutes, as the original writes it.
pub(super) fn uptime(ms: u64) -> String {
    let minutes = ms / 60_000;
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    match days {
        0 => format!("{hours:02}:{minutes:02}"),
        1 => format!("1 day {hours:02}:{minutes:02}"),
        _ => format!("{days} days {hours:02}:{minutes:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uptime_is_written_as_days_hours_and_minutes() {
        assert_eq!(uptime(7 * 60_000), "00:07");
        assert_eq!(uptime((1440 + 123) * 60_000), "1 day 02:03");
        assert_eq!(uptime(2 * 1440 * 60_000), "2 days 00:00");
    }
}
