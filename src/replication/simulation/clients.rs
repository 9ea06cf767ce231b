//! Clients and operators of a simulation, and the record of what they were promised. Clients behave
//! like the Java client: a description of their own with a rising dirty timestamp, heartbeats, a new
//! registration after a 404, another node when theirs does not answer.

use std::collections::BTreeMap;

use super::node::{START, Waiting};
use super::random::Random;
use super::world::{Event, Setup, World};
use crate::registry::change::Origin;
use crate::registry::command::{Command, Renewal, Reply};
use crate::registry::hold::{Hold, HoldKind};
use crate::registry::instance::{DataCenter, Instance, LeaseTerms, Metadata, Port};
use crate::registry::status::Status;
use crate::registry::version::Version;
use crate::types::{AppName, InstanceId, Millis};

/// Lease duration of every client, seconds.
pub(super) const LEASE_SECS: i32 = 30;
/// How long a client waits for an answer, ms.
const PATIENCE: u64 = 1500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// It wants to be registered.
    Wanted,
    /// It cancelled itself, or tried to.
    Gone,
    /// It stopped without a word.
    Dead,
}

/// An override that an operator was told is in force, or lifted.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) status: Option<Status>,
    pub(super) version: Version,
}

#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what is known of it, one by one"
)]
pub(super) struct Client {
    pub(super) app: AppName,
    pub(super) id: InstanceId,
    pub(super) life: Life,
    home: usize,
    interval: u64,
    clock_skew: i64,
    /// Keeps its dirty timestamp when it registers after a cancel.
    pub(super) is_stubborn: bool,
    status: Status,
    /// Of its description.
    pub(super) dirty: i64,
    /// It believes so.
    pub(super) is_registered: bool,
    pub(super) pending: Option<(u64, u64)>,
    /// The last description that a node acknowledged.
    pub(super) acknowledged: Option<i64>,
    /// The last description was cancelled at a node that had it.
    pub(super) is_cancelled: bool,
    pub(super) cancels: u32,
    /// Somebody put metadata since the last registration.
    pub(super) has_metadata: bool,
    /// Somebody did at any time.
    pub(super) had_metadata: bool,
    pub(super) words: Vec<Word>,
    /// Operators who got no answer.
    pub(super) unanswered: u32,
    /// Somebody drained or quarantined it at any time.
    pub(super) had_hold: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Register(i64),
    Beat,
    Cancel,
    Override(Option<Status>),
    Hold,
    Metadata,
}

#[derive(Debug, Default)]
pub(super) struct Clients {
    pub(super) all: Vec<Client>,
    asked: BTreeMap<u64, (usize, What)>,
    requests: u64,
}

impl Clients {
    pub(super) fn new(count: usize, nodes: usize, setup: &Setup, random: &mut Random) -> Self {
        let all = (0..count)
            .map(|number| Client {
                app: AppName::new(&format!("APP{}", number % 4)),
                id: InstanceId::new(&format!("i{number}")),
                life: Life::Wanted,
                home: random.place(nodes),
                // Some send several heartbeats a second.
                interval: if random.chance(15) {
                    200
                } else {
                    random.within(1000, 6000)
                },
                clock_skew: random.within(0, 2 * setup.skew).cast_signed()
                    - setup.skew.cast_signed(),
                is_stubborn: random.chance(20),
                status: Status::Up,
                dirty: 0,
                is_registered: false,
                pending: None,
                acknowledged: None,
                is_cancelled: false,
                cancels: 0,
                has_metadata: false,
                had_metadata: false,
                words: Vec::new(),
                unanswered: 0,
                had_hold: false,
            })
            .collect();
        Self {
            all,
            ..Self::default()
        }
    }
}

impl Client {
    pub(super) fn describe(&self) -> Instance {
        Instance {
            instance_id: Some(self.id.shared().clone()),
            app: self.app.clone(),
            app_group_name: None,
            host_name: "host".into(),
            ip_addr: "10.0.0.1".into(),
            sid: None,
            port: Port {
                number: 8080,
                enabled: true,
            },
            secure_port: Port {
                number: 7002,
                enabled: false,
            },
            country_id: 1,
            data_center: DataCenter::MyOwn,
            status: self.status,
            overridden_status: Status::Unknown,
            lease: LeaseTerms {
                renewal_interval_secs: 5,
                duration_secs: LEASE_SECS,
            },
            metadata: [("v".into(), self.dirty.to_string().into())]
                .into_iter()
                .collect::<Metadata>(),
            home_page_url: None,
            status_page_url: None,
            health_check_url: None,
            secure_health_check_url: None,
            vip_address: Some("vip".into()),
            secure_vip_address: None,
            asg_name: None,
            last_updated_timestamp: 0,
            last_dirty_timestamp: self.dirty,
            action_type: None,
        }
    }
}

impl World {
    pub(super) fn client_acts(&mut self, number: usize) {
        let time = self.time;
        let client = &mut self.clients.all[number];
        if let Some((request, since)) = client.pending {
            if time - since < PATIENCE {
                self.after(300, Event::Client { client: number });
                return;
            }
            // No answer: what it asked for may have happened or not.
            self.clients.asked.remove(&request);
            client.pending = None;
            client.home = self.random.place(self.nodes.len());
        }
        let what = self.next_of_client(number);
        let client = &self.clients.all[number];
        let interval = client.interval;
        let jitter = self.random.within(0, interval / 4);
        self.after(interval + jitter, Event::Client { client: number });
        let Some(what) = what else { return };
        let home = self.home_of(number);
        let Some(home) = home else { return };
        let client = &self.clients.all[number];
        let (app, id) = (client.app.clone(), client.id.clone());
        match what {
            What::Register(_) => {
                let command = Command::Register(client.describe().into());
                self.request(home, number, what, command, &Origin::Client);
            }
            What::Beat => self.beat(home, number),
            What::Cancel => {
                let command = Command::Cancel {
                    app,
                    id,
                    version: None,
                };
                self.request(home, number, what, command, &Origin::Client);
            }
            What::Override(_) | What::Hold | What::Metadata => {}
        }
    }

    /// What a client does next.
    fn next_of_client(&mut self, number: usize) -> Option<What> {
        let is_calm = self.is_calm;
        let expires = self.setup.expires;
        let beats = !is_calm || self.setup.beats_in_calm;
        let wall = (START + self.time).cast_signed();
        let dice = self.random.within(0, 99);
        let nodes = self.nodes.len();
        let other = self.random.place(nodes);
        let status = match self.random.within(0, 9) {
            0 => Status::Down,
            1 => Status::Starting,
            2 => Status::OutOfService,
            _ => Status::Up,
        };
        let client = &mut self.clients.all[number];
        let fresh = (wall + client.clock_skew).max(client.dirty + 1);
        match client.life {
            Life::Dead => None,
            Life::Gone if !is_calm && dice < 20 => {
                client.life = Life::Wanted;
                client.is_cancelled = false;
                client.has_metadata = false;
                client.home = other;
                if !client.is_stubborn {
                    client.dirty = fresh;
                }
                client.status = Status::Up;
                Some(What::Register(client.dirty))
            }
            Life::Gone => None,
            Life::Wanted if !client.is_registered => {
                if client.acknowledged != Some(client.dirty) || client.dirty == 0 {
                    client.dirty = if client.dirty == 0 {
                        fresh
                    } else {
                        client.dirty
                    };
                }
                Some(What::Register(client.dirty))
            }
            Life::Wanted if is_calm => beats.then_some(What::Beat),
            Life::Wanted => match dice {
                0..5 => {
                    client.dirty = fresh;
                    client.status = status;
                    client.is_registered = false;
                    client.has_metadata = false;
                    if dice < 2 {
                        client.home = other;
                    }
                    Some(What::Register(client.dirty))
                }
                5..9 => {
                    client.home = other;
                    Some(What::Beat)
                }
                9..11 => {
                    client.life = Life::Gone;
                    client.is_registered = false;
                    client.cancels += 1;
                    Some(What::Cancel)
                }
                11 if expires => {
                    client.life = Life::Dead;
                    None
                }
                _ => Some(What::Beat),
            },
        }
    }

    /// The client's node, or another one if that is down.
    fn home_of(&mut self, number: usize) -> Option<usize> {
        let up: Vec<usize> = (0..self.nodes.len())
            .filter(|node| self.nodes[*node].is_up)
            .collect();
        let client = &mut self.clients.all[number];
        if !up.contains(&client.home) {
            client.home = *up.get(self.random.place(up.len().max(1)))?;
        }
        Some(client.home)
    }

    fn beat(&mut self, home: usize, number: usize) {
        let client = &self.clients.all[number];
        let renewal = Renewal {
            dirty: Some(client.dirty),
            overridden: None,
        };
        let (app, id) = (client.app.clone(), client.id.clone());
        let time = self.time;
        let reply = self.nodes[home].renew(app.as_str(), id.as_str(), renewal, false, time);
        if let Some(reply) = reply {
            self.clients.requests += 1;
            let request = self.clients.requests;
            self.clients.asked.insert(request, (number, What::Beat));
            self.clients.all[number].pending = Some((request, time));
            self.tell(request, Some(reply));
            return;
        }
        let command = Command::Renew { app, id, renewal };
        self.request(home, number, What::Beat, command, &Origin::Client);
    }

    fn request(
        &mut self,
        node: usize,
        number: usize,
        what: What,
        command: Command,
        origin: &Origin,
    ) {
        self.clients.requests += 1;
        let request = self.clients.requests;
        self.clients.asked.insert(request, (number, what));
        let is_client = matches!(what, What::Register(_) | What::Beat | What::Cancel);
        if is_client {
            self.clients.all[number].pending = Some((request, self.time));
        }
        let id = self.clients.all[number].id.clone();
        self.note(|| format!("{id} asks n{node} {what:?} #{request}"));
        let waiting = Waiting::Client {
            request,
            replies: Vec::new(),
        };
        self.submit(node, &[command], origin, waiting);
    }

    /// A node has carried out what it was asked and it is durable.
    pub(super) fn client_done(&mut self, node: usize, request: u64, reply: Option<Reply>) {
        if let Some((number, what)) = self.clients.asked.get(&request).copied() {
            let client = &mut self.clients.all[number];
            let registry = &self.nodes[node].published.registry;
            let lease = registry.lease(client.app.as_str(), client.id.as_str());
            match (what, &reply) {
                (What::Cancel, Some(Reply::Done)) => {
                    let stone = registry.tombstone(&client.app, &client.id);
                    let had_it = stone.is_some_and(|stone| stone.version.dirty >= client.dirty);
                    client.is_cancelled = had_it && client.life == Life::Gone;
                }
                (What::Override(status), Some(Reply::Done)) => {
                    client.unanswered -= 1;
                    if let Some(lease) = lease {
                        let version = Version::of(lease.instance());
                        client.words.push(Word { status, version });
                    }
                }
                (What::Override(_), _) => client.unanswered -= 1,
                _ => {}
            }
        }
        self.tell(request, reply);
    }

    pub(super) fn client_hears(&mut self, request: u64, reply: Option<Reply>) {
        let Some((number, what)) = self.clients.asked.remove(&request) else {
            return;
        };
        let client = &mut self.clients.all[number];
        if client
            .pending
            .is_some_and(|(pending, _)| pending == request)
        {
            client.pending = None;
        }
        match (what, reply) {
            (What::Register(dirty), Some(Reply::Done)) => {
                client.acknowledged = client.acknowledged.max(Some(dirty));
                client.is_registered |= client.dirty == dirty && client.life == Life::Wanted;
            }
            (What::Beat, Some(Reply::NotFound | Reply::SenderIsNewer))
                if client.life == Life::Wanted =>
            {
                // As the Java client: what is registered again is a new description.
                let wall = (START + self.time).cast_signed() + client.clock_skew;
                client.dirty = wall.max(client.dirty + 1);
                client.is_registered = false;
                client.has_metadata = false;
                self.after(20, Event::Client { client: number });
            }
            _ => {}
        }
    }

    /// An operator asks something of a node about an instance.
    pub(super) fn operator_acts(&mut self) {
        if self.is_calm {
            return;
        }
        let next = self.random.within(100, 2500);
        self.after(next, Event::Operate);
        let number = self.random.place(self.clients.all.len());
        let node = self.random.place(self.nodes.len());
        let dice = self.random.within(0, 99);
        let client = &mut self.clients.all[number];
        let (app, id) = (client.app.clone(), client.id.clone());
        if !self.nodes[node].is_up || !self.nodes[node].knows(&app, &id) {
            return;
        }
        let (what, command) = match dice {
            0..45 => {
                let status = if dice < 30 {
                    Status::OutOfService
                } else {
                    Status::Down
                };
                let command = Command::SetStatus {
                    app: app.clone(),
                    id: id.clone(),
                    status,
                    dirty: None,
                };
                (What::Override(Some(status)), command)
            }
            45..75 => {
                let (app, id) = (app.clone(), id.clone());
                (
                    What::Override(None),
                    Command::DeleteOverride {
                        app,
                        id,
                        status: None,
                        dirty: None,
                    },
                )
            }
            75..85 if node < self.setup.nodes => {
                client.had_hold = true;
                let kind = if dice < 79 {
                    HoldKind::Drain
                } else {
                    HoldKind::Quarantine
                };
                // Longer than any simulation: nobody ends them by a timer here. All end at one moment, by
                // whatever clock, since of two words with one `at` each node keeps its own end.
                let left = 86_400_000 - self.time;
                let wall = Millis(self.nodes[node].wall(self.time).unsigned_abs());
                let hold = Hold {
                    kind,
                    until: wall.plus(left),
                    at: Millis::ZERO,
                    is_released: self.random.chance(40),
                };
                let (app, id) = (app.clone(), id.clone());
                (What::Hold, Command::Hold { app, id, hold })
            }
            _ => {
                client.has_metadata = true;
                client.had_metadata = true;
                let entry = ("op".into(), self.time.to_string().into());
                let (app, id) = (app.clone(), id.clone());
                (
                    What::Metadata,
                    Command::UpdateMetadata {
                        app,
                        id,
                        entries: vec![entry],
                    },
                )
            }
        };
        if let What::Override(status) = what {
            if self.nodes[node].has_override(&app, &id) == status {
                return;
            }
            self.clients.all[number].unanswered += 1;
        }
        self.request(node, number, what, command, &Origin::Operator);
    }
}
