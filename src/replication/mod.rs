//! Peers: replication out of the change log, towards Java nodes and nodes of our own in one mesh
//! (design 4, `protocol.md` 7).
//!
//! Each peer has a cursor on the log ([`sender`]): what lies behind it is sent, newest state per
//! instance, and the cursor moves when the answers are in. There is no queue to overflow or expire:
//! a peer that was away gets what it missed, once. Renewals are not in the log; they are coalesced by
//! time, one item per lease however often it was renewed.
//!
//! The pure part ([`outbound`], [`sender`], [`reconcile`]) knows neither sockets nor clocks, so that
//! whole clusters run in one deterministic test; [`task`] and [`transport`] move its requests over
//! HTTP.

pub mod bootstrap;
pub mod outbound;
pub mod peers;
pub mod reconcile;
pub mod sender;
pub mod state;
mod task;
pub mod transport;
