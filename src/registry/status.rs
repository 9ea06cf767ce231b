//! Instance status and the rule chain that picks the effective one (`protocol.md` 3.1).

use std::fmt;

/// The five states of an instance. As an override, [`Status::Unknown`] means "none".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    Down,
    OutOfService,
    Starting,
    Unknown,
    Up,
}

impl Status {
    /// All of them in the order of their names, which is the order of the hash code.
    pub const ALL: [Self; 5] = [
        Self::Down,
        Self::OutOfService,
        Self::Starting,
        Self::Unknown,
        Self::Up,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Down => "DOWN",
            Self::OutOfService => "OUT_OF_SERVICE",
            Self::Starting => "STARTING",
            Self::Unknown => "UNKNOWN",
            Self::Up => "UP",
        }
    }

    /// Reads the exact upper-case word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The effective status of an instance that reports `own`: the first rule that matches, as in
/// `protocol.md` 3.1 (the ASG rule belongs to AWS mode, which this server does not have).
///
/// `existing` is the status of the lease that is there already, `None` for a new one; it counts
/// only for requests of clients, never of peers.
pub fn effective(
    own: Status,
    override_: Option<Status>,
    existing: Option<Status>,
    is_replication: bool,
) -> Status {
    // 1: down, starting (and unknown) speak for themselves; an override does not hide them.
    if !matches!(own, Status::Up | Status::OutOfService) {
        return own;
    }
    // 2: the operator's word.
    if let Some(status) = override_ {
        return status;
    }
    // 4: a client cannot move itself between UP and OUT_OF_SERVICE.
    match existing {
        Some(status @ (Status::Up | Status::OutOfService)) if !is_replication => status,
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn down_and_starting_show_through_an_override() {
        for own in [Status::Down, Status::Starting, Status::Unknown] {
            assert_eq!(
                effective(own, Some(Status::OutOfService), Some(Status::Up), false),
                own
            );
        }
    }

    #[test]
    fn an_override_wins_over_what_the_client_says() {
        assert_eq!(
            effective(
                Status::Up,
                Some(Status::OutOfService),
                Some(Status::Up),
                false
            ),
            Status::OutOfService
        );
        assert_eq!(
            effective(Status::Up, Some(Status::Down), None, true),
            Status::Down
        );
    }

    #[test]
    fn a_client_cannot_move_itself_between_up_and_out_of_service_but_a_peer_can() {
        assert_eq!(
            effective(Status::Up, None, Some(Status::OutOfService), false),
            Status::OutOfService
        );
        assert_eq!(
            effective(Status::Up, None, Some(Status::OutOfService), true),
            Status::Up
        );
        assert_eq!(
            effective(Status::OutOfService, None, Some(Status::Down), false),
            Status::OutOfService
        );
    }
}
