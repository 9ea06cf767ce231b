//! Renewals towards a Java peer: every lease that was renewed is told in every flush, and once.

use std::collections::BTreeMap;

use super::*;

/// How often each lease is told within a time, and the longest time between two of its heartbeats.
type Told = BTreeMap<String, (usize, u64)>;

impl Rig {
    /// For `ms`, during which the peer takes `answers_after` for each answer and every lease
    /// for which `beats` says so is renewed every 10 ms.
    fn tell(&mut self, ms: u64, answers_after: u64, beats: impl Fn(u64, &str) -> bool) -> Told {
        let mut told: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let mut answer_at = None;
        let start = self.scene.now.mono;
        while self.scene.now.mono.since(start) < ms {
            let now = self.scene.now.mono.since(start);
            for lease in self.scene.registry.leases() {
                if beats(now, lease.instance().id_text()) {
                    lease.clock.set_renewed_by_client(self.scene.now.mono);
                }
            }
            if let Some((_, count)) = answer_at.take_if(|(at, _)| *at <= now) {
                self.took(count);
            }
            if let Next::Ask(Ask::Batch(items)) = self.next() {
                for item in &items {
                    told.entry(item.id().to_string()).or_default().push(now);
                }
                answer_at = Some((now + answers_after, items.len()));
            }
            self.scene.pass(10);
        }
        let longest = |times: &Vec<u64>| {
            let ends = std::iter::once(&0)
                .chain(times)
                .zip(times.iter().chain([&ms]));
            ends.map(|(from, to)| to - from).max().unwrap_or(ms)
        };
        told.into_iter()
            .map(|(id, times)| (id, (times.len(), longest(&times))))
            .collect()
    }
}

#[test]
fn a_lease_that_is_renewed_all_the_time_is_told_like_the_others() {
    let mut rig = Rig::with_leases(320);
    // The last one a hundred times a second, the others every second.
    let told = rig.tell(30_000, 50, |now, id| id == "0319" || now % 1000 == 0);
    assert_eq!(told.len(), 320);
    for (id, (times, longest)) in told {
        assert!((27..=30).contains(&times), "{id}: {times}");
        assert!(longest <= 2500, "{id}: {longest}");
    }
}

#[test]
fn a_peer_that_answers_late_hears_of_every_lease_and_of_each_once_in_a_flush() {
    let mut rig = Rig::with_leases(1000);
    let told = rig.tell(120_000, 3000, |now, id| id == "0999" || now % 5000 == 0);
    assert_eq!(told.len(), 1000);
    // Four batches of three seconds.
    for (id, (times, longest)) in told {
        assert!((9..=10).contains(&times), "{id}: {times}");
        assert!(longest <= 14_000, "{id}: {longest}");
    }
}
