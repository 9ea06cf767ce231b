//! Changes, renewals, what a peer asked for, sweeps and comparisons: none of them holds another up.

use super::*;

#[test]
fn changes_and_renewals_take_turns() {
    let mut rig = Rig::with(Kind::Java);
    for id in 0..260 {
        rig.scene.register(instance("SHOP", &id.to_string()));
    }
    rig.settle();
    rig.scene.pass(5000);
    for id in 0..260 {
        rig.renew(&id.to_string());
    }
    rig.scene.pass(1);
    for id in 0..260 {
        let command = set("SHOP", &id.to_string(), Status::OutOfService, None);
        rig.scene.client(&command);
    }
    let mut kinds = String::new();
    while let Next::Ask(Ask::Batch(items)) = rig.next() {
        assert!(items.len() <= BATCH_ITEMS);
        kinds.push(if word(&items[0]).starts_with("beat") {
            'r'
        } else {
            'c'
        });
        rig.took(items.len());
    }
    assert_eq!(kinds, "rcrcc");
}

/// A Java peer that has lost so many instances, all of which beat, and says so to every heartbeat.
fn lost_everything(instances: usize) -> Rig {
    let mut rig = Rig::with_leases(instances);
    for id in 0..instances {
        rig.renew(&format!("{id:04}"));
    }
    rig.scene.pass(1);
    rig
}

#[test]
fn a_change_waits_for_one_request_however_much_the_peer_asks_for() {
    let mut rig = lost_everything(1000);
    let (mut told_of, mut requests) = (Vec::new(), 0);
    let mut owed = 0;
    while let Next::Ask(Ask::Batch(items)) = rig.next() {
        requests += 1;
        let words: Vec<String> = items.iter().map(word).collect();
        if let Some(told) = words.iter().find(|word| word.contains("new-")) {
            told_of.push((told.clone(), requests));
        }
        let is_owed = words[0].starts_with("register 0");
        owed += if is_owed { items.len() } else { 0 };
        let lacks = |word: &String| if word.starts_with("beat") { 404 } else { 200 };
        let statuses: Vec<u16> = words.iter().map(lacks).collect();
        if requests % 3 == 0 && requests < 12 {
            rig.scene
                .register(instance("SHOP", &format!("new-{requests:02}")));
        }
        rig.statuses(&statuses);
    }
    assert_eq!(owed, 2 * 1000, "each with its override");
    let expected = [3, 6, 9].map(|came| (format!("register new-{came:02}"), came + 1));
    assert_eq!(told_of, expected);
}

#[test]
fn a_sweep_comes_to_its_end_while_changes_and_renewals_never_do() {
    let mut rig = Rig::with_leases(1000);
    rig.sender.sweep_instead(rig.scene.registry.lsn());
    let mut requests = 0;
    while rig.sender.cursor().is_none() {
        requests += 1;
        assert!(requests < 30, "it does not end");
        // Three seconds for each, in which an instance is described anew and another one beats.
        rig.scene
            .register(version(1000 + requests, instance("SHOP", "0001")));
        rig.renew("0002");
        let Ask::Batch(items) = rig.ask() else {
            panic!("it tells a Java node nothing else");
        };
        rig.scene.pass(3000);
        rig.took(items.len());
    }
    assert!(requests > 5, "a change for each of the sweep's batches");
}

impl Rig {
    /// Describes SHOP/2 anew until the log has so many records more.
    fn describe_for(&mut self, records: usize) {
        let end = self.scene.log.len() + records;
        while self.scene.log.len() < end {
            let dirty = i64::try_from(self.scene.log.len()).expect("a number");
            self.scene
                .register(version(1000 + dirty, instance("SHOP", "2")));
        }
    }
}

#[test]
fn a_log_that_is_longer_than_a_step_is_read_in_steps_and_told_once() {
    let mut rig = Rig::with(Kind::Java);
    rig.scene.register(instance("SHOP", "1"));
    rig.settle();
    rig.scene.pass(5000);
    rig.describe_for(RECORDS_PER_STEP * 5 / 2);
    for _ in 0..2 {
        rig.renew("1");
        rig.scene.pass(1001);
        assert_eq!(rig.batch(), ["beat 1"], "renewals do not wait for it");
        rig.took(1);
    }
    // With nothing to do in between, it is not left for later.
    assert_eq!(rig.pause(), 0);
    assert_eq!(rig.batch(), ["register 2"]);
    rig.took(1);
    assert_eq!(rig.sender.cursor(), Some(rig.scene.registry.lsn()));
}

#[test]
fn our_own_kind_is_compared_at_once_where_the_log_does_not_reach_back() {
    for had_changes in [false, true] {
        let mut rig = Rig::with(ours());
        rig.settle();
        rig.scene.pass(3000);
        if had_changes {
            rig.scene.register(instance("SHOP", "1"));
            assert_eq!(rig.batch(), ["register 1"]);
            rig.took(1);
        }
        rig.scene.register(instance("SHOP", "2"));
        rig.scene.register(instance("SHOP", "3"));
        rig.first = Lsn(3);
        assert!(matches!(rig.ask(), Ask::Digests), "{had_changes}");
    }
}

#[test]
fn what_the_log_says_beyond_the_registry_that_is_looked_at_is_told_with_a_later_one() {
    let mut rig = Rig::with(Kind::Java);
    rig.scene.register(instance("SHOP", "1"));
    rig.settle();
    rig.scene.register(instance("SHOP", "2"));
    let earlier = rig.scene.published();
    // Committed while the registry is looked at.
    rig.scene.client(&cancel("SHOP", "1"));
    rig.scene.register(instance("SHOP", "3"));
    let mut log = Log(&rig.scene.log, rig.first);
    let next = rig.sender.next(rig.scene.now.mono, &earlier, &mut log);
    assert!(matches!(next, Next::Ask(Ask::Batch(items)) if items.len() == 1));
    rig.took(1);
    assert_eq!(rig.sender.cursor(), Some(earlier.lsn()));
    assert_eq!(rig.batch(), ["cancel 1", "register 3"]);
}
