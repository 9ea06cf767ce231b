//! The words between a sender and whoever carries out its requests.

use std::sync::Arc;

use crate::registry::change::Record;
use crate::registry::command::Overrides;
use crate::replication::inbound::Compared;
use crate::replication::learned::Unheard;
use crate::replication::outbound::Item;
use crate::replication::portion::Portion;
use crate::replication::reconcile::Digests;
use crate::types::{AppName, InstanceId, Lsn, Millis};
use crate::wire::Draft;

/// Records looked at in one step; the next step goes on behind them.
pub const RECORDS_AT_ONCE: usize = 5000;

/// What is known of the kind of a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// It has not answered yet.
    #[default]
    Unknown,
    /// It speaks the original's protocol only.
    Java,
    /// A node of our own kind.
    Ours { node_id: String },
}

/// What the peer is, for the log.
impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => f.write_str("a node of an unknown kind"),
            Self::Java => f.write_str("a node that speaks the original's protocol only"),
            Self::Ours { node_id } => write!(f, "the eurekad node {node_id}"),
        }
    }
}

impl Kind {
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Ours { .. })
    }
}

/// What to do next.
#[derive(Debug)]
pub enum Next {
    /// Nothing before this moment (monotonic), unless the log moves. If that is now, the log has been read a
    /// piece further, and what it says is not known to its end.
    Wait(Millis),
    /// Ask the peer this.
    Ask(Ask),
}

/// A request.
#[derive(Clone, Debug)]
pub enum Ask {
    /// An empty batch: every kind of peer answers it, and says what it is by that.
    Probe,
    /// These items as one batch.
    Batch(Vec<Item>),
    /// These renewals as numbers, see [`crate::replication::reconcile::fingerprint`].
    Renewals(Vec<Item>),
    /// The digests of its registry.
    Digests,
    /// When the process of a Java node began.
    Born,
    /// What a Java node lists as changed lately.
    Recent,
    /// To compare these portions of applications with ours, with so many bytes of instances in the answer.
    Compare {
        asked: Vec<Portion>,
        answer_bytes: usize,
    },
}

/// The records behind a position, from memory or from the disk.
pub trait Records {
    /// At most [`RECORDS_AT_ONCE`] records from `first` on, oldest first. `None` if the log does not
    /// reach back so far.
    fn since(&mut self, first: Lsn) -> Option<Vec<Arc<Record>>>;
}

/// How a request ended.
#[derive(Debug)]
pub enum Outcome {
    /// What the peer is.
    Known(Kind),
    /// One result per item, in order.
    Items(Vec<ItemResult>),
    /// The leases of a digest that the peer does not have in that version, by their place in it.
    Unknown(Vec<usize>),
    /// The peer's digests, and the applications in which they are not ours.
    Digests(Vec<String>),
    /// What a comparison found.
    Compared(Box<Compared>),
    /// When the peer's process began, ms by its clock, if it says so.
    Born(Option<i64>),
    /// What the peer lists as changed lately and this node has not heard of.
    Recent(Vec<Unheard>),
    /// That list did not come, or not in time. It may be long, or not for everybody, so that says nothing about
    /// the peer.
    Unread(Failure),
    /// The question was too long to be read.
    TooLong,
    /// Success, but not one result per item.
    WrongCount { sent: usize, got: usize },
    /// The peer understood the request and refuses what is in it: 400, 413, 500.
    Refused(u16),
    /// Anything else: try again later.
    Failed(Failure),
}

/// The answer to one item.
#[derive(Debug)]
pub struct ItemResult {
    pub status: u16,
    /// The peer's instance, where it is newer.
    pub entity: Option<Draft>,
}

/// Why a request should be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection.
    Connect(String),
    /// The machine is there, and nobody takes connections: the process is gone.
    Refused(String),
    /// No answer in time.
    TimedOut,
    /// The connection broke, or the answer is not what it should be.
    Broken(String),
    /// It is another node with this node's id, which it must not have.
    SameId(String),
    /// Another kind of node answers than the one that was asked, so that it may not have understood.
    Another,
    /// An answer that is about the peer, not about the items: 404, 503, 401 and their like.
    Status(u16),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connect(why) | Self::Refused(why) => write!(f, "cannot connect: {why}"),
            Self::TimedOut => f.write_str("no answer in time"),
            Self::Broken(why) => write!(f, "the answer cannot be used: {why}"),
            Self::SameId(node_id) => write!(
                f,
                "it has this node's id {node_id}: give one of the two another data directory or eurekad.node-id"
            ),
            Self::Another => f.write_str("another kind of node answers at its URL than before"),
            Self::Status(status) => write!(f, "it answers with status {status}"),
        }
    }
}

/// What follows from an answer.
#[derive(Debug)]
pub enum Effect {
    /// The peer has a newer version: take it over, as replication.
    Adopt(Box<Draft>),
    /// A comparison found what has to change here; so many instances differed.
    Repair {
        found: Box<Compared>,
        differed: usize,
        overrides: Overrides,
        /// Rounds of comparisons right before this one that found something too.
        repeated: u32,
    },
    /// This Java peer may have said things that nobody heard here: read its registry once, beside all else.
    Look,
    /// This seems to have been said at a Java peer, and nobody heard it here: take over what it confirms.
    Learn(Vec<Unheard>),
    /// An item was given up, since the peer refuses it whatever comes with it.
    GaveUp {
        app: AppName,
        id: InstanceId,
        status: u16,
    },
}

/// Counters of one peer, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub requests: u64,
    pub items: u64,
    pub failures: u64,
    pub item_errors: u64,
    pub adopted: u64,
}

/// The applications in which a peer's registry is not ours, for [`Outcome::Digests`].
pub fn differing(
    ours: &Digests,
    theirs: Option<&Digests>,
    after: Option<&str>,
    at_most: usize,
) -> Vec<String> {
    theirs.map_or_else(Vec::new, |theirs| ours.differences(theirs, after, at_most))
}
