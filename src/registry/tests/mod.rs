//! The rules, as sentences. [`Scene`] is a registry with hand-driven clocks; [`model`] is the
//! protocol written down naively, which random commands compare with the registry.

mod adopt;
mod eviction;
mod holds;
mod leases;
mod metadata;
pub(crate) mod model;
mod overrides;
mod properties;
mod register;
mod renew;
pub(crate) mod steps;
mod vips;

use std::sync::Arc;

use super::Registry;
use super::change::{Actor, ChangeKind, Origin, Record};
use super::command::{Command, Context, Eviction, Renewal, Reply};
use super::delta::DeltaTail;
use super::instance::{DataCenter, Instance, LeaseTerms, Metadata, Port};
use super::lease::Lease;
use super::rules::Rules;
use super::status::Status;
use crate::types::{AppName, InstanceId, Millis, Now};

/// Wall time at which every scene begins.
pub(crate) const START: u64 = 1_700_000_000_000;

/// A wall time as instances show it.
pub(crate) fn shown(wall: u64) -> i64 {
    i64::try_from(wall).expect("a time of a test")
}

/// Both sets of rules, with the name that a failure shows.
pub(crate) fn both() -> [(&'static str, Rules); 2] {
    [("default", Rules::default()), ("eureka", Rules::eureka())]
}

/// A reply that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Done,
    NotFound,
    SenderIsNewer,
    Conflict,
    Evicted(usize, usize),
    Held,
    TooManyHolds,
    TooMuchMetadata,
    TooManyInstances,
}

impl From<&Reply> for Said {
    fn from(reply: &Reply) -> Self {
        match reply {
            Reply::Done => Self::Done,
            Reply::NotFound => Self::NotFound,
            Reply::SenderIsNewer => Self::SenderIsNewer,
            Reply::Conflict(_) => Self::Conflict,
            Reply::Evicted { evicted, expired } => Self::Evicted(*evicted, *expired),
            Reply::Held(_) => Self::Held,
            Reply::TooManyHolds => Self::TooManyHolds,
            Reply::TooMuchMetadata => Self::TooMuchMetadata,
            Reply::TooManyInstances(_) => Self::TooManyInstances,
        }
    }
}

/// A registry with its delta window, its log and its clocks, all in the hand of a test.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) registry: Registry,
    pub(crate) delta: DeltaTail,
    pub(crate) log: Vec<Arc<Record>>,
    pub(crate) now: Now,
    pub(crate) expiration_enabled: bool,
    /// Renewals that counted.
    pub(crate) renewals: u64,
    /// Who asks for what does not come from a peer.
    pub(crate) caller: Actor,
}

impl Scene {
    pub(crate) fn new(rules: &Rules) -> Self {
        Self {
            registry: Registry::new(Arc::new(rules.clone())),
            delta: DeltaTail::default(),
            log: Vec::new(),
            now: Now {
                wall: Millis(START),
                mono: Millis(3_600_000),
            },
            expiration_enabled: true,
            renewals: 0,
            caller: Actor::UNKNOWN,
        }
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.now.wall = self.now.wall.plus(ms);
        self.now.mono = self.now.mono.plus(ms);
    }

    pub(crate) fn context(&self, is_replication: bool) -> Context {
        Context {
            now: self.now,
            is_replication,
            expiration_enabled: self.expiration_enabled,
        }
    }

    /// Decides and applies, as the writer does. Holds the registry to its invariants.
    pub(crate) fn carry_out(&mut self, command: &Command, is_replication: bool) -> Said {
        let decision = self.registry.decide(command, &self.context(is_replication));
        if let Some(lease) = &decision.renews {
            lease.renew(self.now, self.registry.rules().lease_expiry);
            self.renewals += u64::from(decision.counts);
        }
        if let Some((lease, vouched_ms)) = &decision.prolongs {
            lease.run_for(self.now, *vouched_ms);
        }
        for change in decision.changes {
            let record = Arc::new(Record {
                lsn: self.registry.lsn().next(),
                at: self.now.wall,
                origin: if is_replication {
                    Origin::Peer("peer-1".into())
                } else {
                    Origin::Client
                },
                actor: if is_replication {
                    Actor::UNKNOWN
                } else {
                    self.caller.clone()
                },
                change,
            });
            self.registry.evolve(&record, self.now.mono);
            self.delta.push(&record, self.now.mono);
            self.log.push(record);
        }
        self.registry.check().unwrap();
        Said::from(&decision.reply)
    }

    pub(crate) fn client(&mut self, command: &Command) -> Said {
        self.carry_out(command, false)
    }

    pub(crate) fn peer(&mut self, command: &Command) -> Said {
        self.carry_out(command, true)
    }

    pub(crate) fn register(&mut self, instance: Instance) {
        assert_eq!(self.client(&Command::Register(instance.into())), Said::Done);
    }

    pub(crate) fn renew(&mut self, app: &str, id: &str) -> Said {
        self.client(&renew(app, id, None, None))
    }

    pub(crate) fn evict(&mut self, percent: f64, seed: u64) -> Said {
        self.client(&Command::Evict(Eviction {
            extra_ms: 0,
            renewal_percent_threshold: percent,
            seed,
        }))
    }

    pub(crate) fn lease(&self, app: &str, id: &str) -> &Arc<Lease> {
        self.registry.lease(app, id).expect("the lease is there")
    }

    pub(crate) fn instance(&self, app: &str, id: &str) -> &Instance {
        self.lease(app, id).instance()
    }

    pub(crate) fn has(&self, app: &str, id: &str) -> bool {
        self.registry.lease(app, id).is_some()
    }

    pub(crate) fn override_of(&self, app: &str, id: &str) -> Option<Status> {
        self.registry
            .override_of(&AppName::new(app), &InstanceId::new(id))
    }

    /// What the log says happened after its first `from` entries.
    pub(crate) fn kinds(&self, from: usize) -> Vec<ChangeKind> {
        self.log[from..].iter().map(|r| r.change.kind).collect()
    }

    /// The newest record.
    pub(crate) fn last(&self) -> &Record {
        self.log.last().expect("something was logged")
    }
}

/// An instance as a client describes it: UP, without an override, version 100.
pub(crate) fn instance(app: &str, id: &str) -> Instance {
    Instance {
        instance_id: Some(id.into()),
        app: AppName::new(app),
        app_group_name: None,
        host_name: "host-1".into(),
        ip_addr: "10.0.0.1".into(),
        sid: None,
        port: Port {
            number: 8080,
            enabled: true,
        },
        secure_port: Port {
            number: 443,
            enabled: false,
        },
        country_id: 1,
        data_center: DataCenter::MyOwn,
        status: Status::Up,
        overridden_status: Status::Unknown,
        lease: LeaseTerms::default(),
        metadata: Metadata::default(),
        home_page_url: None,
        status_page_url: None,
        health_check_url: None,
        secure_health_check_url: None,
        vip_address: Some(app.to_lowercase().into()),
        secure_vip_address: None,
        asg_name: None,
        last_updated_timestamp: 0,
        last_dirty_timestamp: 100,
        action_type: None,
    }
}

/// The same with another status.
pub(crate) fn saying(status: Status, instance: Instance) -> Instance {
    Instance { status, ..instance }
}

/// The same as another version.
pub(crate) fn version(dirty: i64, instance: Instance) -> Instance {
    Instance {
        last_dirty_timestamp: dirty,
        ..instance
    }
}

pub(crate) fn renew(
    app: &str,
    id: &str,
    dirty: Option<i64>,
    overridden: Option<Status>,
) -> Command {
    Command::Renew {
        app: AppName::new(app),
        id: InstanceId::new(id),
        renewal: Renewal { dirty, overridden },
    }
}

pub(crate) fn cancel(app: &str, id: &str) -> Command {
    Command::Cancel {
        app: AppName::new(app),
        id: InstanceId::new(id),
        version: None,
    }
}

pub(crate) fn set(app: &str, id: &str, status: Status, dirty: Option<i64>) -> Command {
    Command::SetStatus {
        app: AppName::new(app),
        id: InstanceId::new(id),
        status,
        dirty,
    }
}

pub(crate) fn lift(app: &str, id: &str, status: Option<Status>, dirty: Option<i64>) -> Command {
    Command::DeleteOverride {
        app: AppName::new(app),
        id: InstanceId::new(id),
        status,
        dirty,
    }
}

pub(crate) fn put_metadata(app: &str, id: &str, entries: &[(&str, &str)]) -> Command {
    Command::UpdateMetadata {
        app: AppName::new(app),
        id: InstanceId::new(id),
        entries: entries
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect(),
    }
}
