//! The signals that ask the program to stop. A terminal that goes away (SIGHUP) asks for the same as
//! SIGTERM, as with the Java server, unless whoever started the program had it ignored (`nohup`).

use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::info;

use crate::node::Node;

/// Signals so close together ask for one stop.
const ONE_STOP: Duration = Duration::from_millis(100);

/// The number of SIGHUP, on every system.
const HANGUP: u32 = 1;

/// Waits for them; none that comes after [`Signals::listen`] is lost.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` if it is to be ignored.
    hangup: Option<Signal>,
}

impl Signals {
    /// From now on they do not end the process by themselves.
    ///
    /// # Errors
    /// The system does not let them be handled.
    pub fn listen() -> io::Result<Self> {
        // Where the system does not say, nothing is ignored.
        let process = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hangup = if is_ignored(&process, HANGUP) {
            None
        } else {
            Some(signal(SignalKind::hangup())?)
        };
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup,
        })
    }

    /// The name of the next one.
    pub async fn next(&mut self) -> &'static str {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = hangup => "SIGHUP",
        }
    }

    /// Stops the node; one more signal ends its waiting for requests and peers.
    ///
    /// # Errors
    /// As [`Node::stop`].
    pub async fn stop(mut self, node: Node) -> anyhow::Result<()> {
        let hurry = node.hurry();
        let hurrying = async {
            // One stop may come as two signals: to the process, and to its group.
            let mut settled = pin!(tokio::time::sleep(ONE_STOP));
            loop {
                tokio::select! {
                    biased;
                    () = &mut settled => break,
                    _ = self.next() => {}
                }
            }
            let signal = self.next().await;
            info!(
                signal,
                "{signal} while stopping: waiting for nobody any more"
            );
            hurry.cancel();
            std::future::pending().await
        };
        tokio::select! {
            biased;
            stopped = node.stop() => stopped,
            never = hurrying => never,
        }
    }
}

/// Whether a process ignores a signal, by what `/proc` says of it: a mask of which the lowest bit is that
/// of signal 1.
fn is_ignored(process: &str, signal: u32) -> bool {
    process
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        let process = |mask: &str| format!("Name:\teurekad\nSigBlk:\t0001\nSigIgn:\t{mask}\n");
        assert!(is_ignored(&process("0000000000001001"), 1));
        assert!(!is_ignored(&process("0000000000001000"), 1));
        assert!(is_ignored(&process("0000000000001000"), 13));
        assert!(!is_ignored("", 1));
        assert!(!is_ignored(&process("?"), 1));
    }
}
