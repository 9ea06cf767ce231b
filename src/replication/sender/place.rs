//! Where a sender stands in the log, and how that is noted.

use crate::types::Lsn;

/// Says in a note that the peer is still to be swept.
const SWEEP: &str = "sweep";

/// How far a peer is. It is noted, so that its sender goes on there after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The peer has everything up to here.
    Cursor(Lsn),
    /// The peer has everything when it has been told the whole registry, and what lies behind here: what is
    /// gone since is in the log alone.
    Sweep(Lsn),
}

impl Place {
    /// The position behind which the log is to be told.
    pub fn upto(self) -> Lsn {
        match self {
            Self::Cursor(upto) | Self::Sweep(upto) => upto,
        }
    }

    /// As it is noted: of which incarnation of the log, where, and a word if the peer is still to be swept.
    pub fn note(self, incarnation: &str) -> String {
        match self {
            Self::Cursor(upto) => format!("{incarnation} {upto}"),
            Self::Sweep(upto) => format!("{incarnation} {upto} {SWEEP}"),
        }
    }

    /// What [`Self::note`] wrote, if it is about this incarnation of the log and not ahead of its `end`.
    pub fn noted(note: &[u8], incarnation: &str, end: Lsn) -> Option<Self> {
        let mut words = std::str::from_utf8(note).ok()?.split(' ');
        let (of, upto) = (words.next()?, Lsn(words.next()?.parse().ok()?));
        let place = match (words.next(), words.next()) {
            (None, _) => Self::Cursor(upto),
            (Some(SWEEP), None) => Self::Sweep(upto),
            _ => return None,
        };
        (of == incarnation && upto <= end).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_noted() {
        for place in [Place::Cursor(Lsn(7)), Place::Sweep(Lsn(7))] {
            let note = place.note("life");
            assert_eq!(
                Place::noted(note.as_bytes(), "life", Lsn(7)),
                Some(place),
                "{note}"
            );
        }
        // As it was noted before there was another place than a cursor.
        let old = Place::noted(b"life 7", "life", Lsn(8));
        assert_eq!(old, Some(Place::Cursor(Lsn(7))));
    }

    #[test]
    fn a_note_about_another_log_or_in_other_words_is_none() {
        for note in [
            "",
            "life",
            "life ",
            "life seven",
            "life 7 ",
            "life 7 sweeping",
            "life 7 sweep on",
            "other 7",
            "life 8",
            "life -1",
        ] {
            assert_eq!(
                Place::noted(note.as_bytes(), "life", Lsn(7)),
                None,
                "{note}"
            );
        }
        assert_eq!(Place::noted(&[0xff, b' ', b'7'], "life", Lsn(7)), None);
    }
}
