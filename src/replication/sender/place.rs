//! Where a sender stands in the log, and what is noted of its peer.

use crate::types::Lsn;

/// Says in a note that the peer is still to be swept.
const SWEEP: &str = "sweep";
/// Before the time at which the peer's process began.
const BORN: &str = "born:";

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
}

/// What is noted of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    pub place: Place,
    /// When the process of a Java peer began, ms by its clock, if it said so: another one has forgotten everything.
    pub born: Option<i64>,
}

impl From<Place> for Note {
    fn from(place: Place) -> Self {
        Self { place, born: None }
    }
}

impl Note {
    /// As it is written: of which incarnation of the log, where, a word if the peer is still to be swept, and when
    /// it was born.
    pub fn text(self, incarnation: &str) -> String {
        use std::fmt::Write as _;
        let mut text = format!("{incarnation} {}", self.place.upto());
        if matches!(self.place, Place::Sweep(_)) {
            let _ = write!(text, " {SWEEP}");
        }
        if let Some(born) = self.born {
            let _ = write!(text, " {BORN}{born}");
        }
        text
    }

    /// What [`Self::text`] wrote, if it is about this incarnation of the log and not ahead of its `end`.
    pub fn read(text: &[u8], incarnation: &str, end: Lsn) -> Option<Self> {
        let mut words = std::str::from_utf8(text).ok()?.split(' ').peekable();
        let (of, upto) = (words.next()?, Lsn(words.next()?.parse().ok()?));
        let place = match words.next_if_eq(&SWEEP) {
            Some(_) => Place::Sweep(upto),
            None => Place::Cursor(upto),
        };
        let born = match words.next() {
            Some(word) => Some(word.strip_prefix(BORN)?.parse().ok()?),
            None => None,
        };
        let is_whole = words.next().is_none();
        (is_whole && of == incarnation && upto <= end).then_some(Self { place, born })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        for place in [Place::Cursor(Lsn(7)), Place::Sweep(Lsn(7))] {
            for born in [None, Some(1_796_129_710_571)] {
                let note = Note { place, born };
                let text = note.text("life");
                let read = Note::read(text.as_bytes(), "life", Lsn(7));
                assert_eq!(read, Some(note), "{text}");
            }
        }
        // As it was written before there was more than a cursor, and before births were known.
        for (old, place) in [
            ("life 7", Place::Cursor(Lsn(7))),
            ("life 7 sweep", Place::Sweep(Lsn(7))),
        ] {
            let read = Note::read(old.as_bytes(), "life", Lsn(8));
            assert_eq!(read, Some(place.into()), "{old}");
        }
    }

    #[test]
    fn a_note_about_another_log_or_in_other_words_is_none() {
        for text in [
            "",
            "life",
            "life ",
            "life seven",
            "life 7 ",
            "life 7 sweeping",
            "life 7 sweep on",
            "life 7 born",
            "life 7 born:",
            "life 7 born:now",
            "life 7 born:1 sweep",
            "life 7 sweep born:1 born:1",
            "other 7",
            "life 8",
            "life -1",
        ] {
            assert_eq!(Note::read(text.as_bytes(), "life", Lsn(7)), None, "{text}");
        }
        assert_eq!(Note::read(&[0xff, b' ', b'7'], "life", Lsn(7)), None);
    }
}
