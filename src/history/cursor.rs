//! Where a page ends, as an opaque text: position, the moments that the question was resolved to,
//! and what tells whether it belongs to the question that brings it back.

use std::hash::{Hash as _, Hasher as _};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use siphasher::sip::SipHasher13;
use thiserror::Error;

use super::Filter;
use super::query::Question;
use crate::types::{Lsn, Millis};

const VERSION: u8 = 1;
/// Version, position, from, to, question, incarnation, checksum.
const LEN: usize = 1 + 5 * 8 + 4;
/// Stands for no moment.
const NO_MOMENT: u64 = u64::MAX;

/// The place where an answer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The next record to look at.
    pub position: Lsn,
    /// Moments that words such as `-15m` stood for on the first page.
    pub from: Option<Millis>,
    pub to: Option<Millis>,
    question: u64,
    incarnation: u64,
}

/// A text that is no cursor of this question.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum BadCursor {
    #[error("not a cursor of this server; take it from \"next\" of the answer before")]
    Unreadable,
    #[error(
        "it belongs to another question; keep all parameters but limit and cursor as they were"
    )]
    OtherQuestion,
    #[error("it belongs to a log that was lost or replaced; ask anew without it")]
    OtherLog,
}

/// What makes two questions the same, whatever the time: the filter without its moments, their
/// words, and the order.
pub fn identity(question: &Question, from: &str, to: &str) -> u64 {
    let timeless = Filter {
        from: None,
        to: None,
        ..question.filter.clone()
    };
    let mut hasher = SipHasher13::new();
    (timeless, question.order, from, to).hash(&mut hasher);
    hasher.finish()
}

fn hash(text: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

impl Cursor {
    /// `question` is its [`identity`], `incarnation` that of the log.
    pub fn new(position: Lsn, filter: &Filter, question: u64, incarnation: &str) -> Self {
        Self {
            position,
            from: filter.from,
            to: filter.to,
            question,
            incarnation: hash(incarnation),
        }
    }

    pub fn encode(&self) -> String {
        let moment = |at: Option<Millis>| at.map_or(NO_MOMENT, |at| at.0);
        let mut bytes = vec![VERSION];
        for number in [
            self.position.0,
            moment(self.from),
            moment(self.to),
            self.question,
            self.incarnation,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        BASE64.encode(bytes)
    }

    /// Reads a cursor that was given out for this question about this log.
    ///
    /// # Errors
    /// [`BadCursor`] says what it is instead.
    pub fn decode(text: &str, question: u64, incarnation: &str) -> Result<Self, BadCursor> {
        let bytes = BASE64.decode(text).map_err(|_| BadCursor::Unreadable)?;
        let bytes: [u8; LEN] = bytes.try_into().map_err(|_| BadCursor::Unreadable)?;
        let (body, sum) = bytes.split_at(LEN - 4);
        if body[0] != VERSION || crc32fast::hash(body).to_le_bytes() != sum {
            return Err(BadCursor::Unreadable);
        }
        let number = |place: usize| {
            let start = 1 + place * 8;
            let bytes = body[start..start + 8].try_into();
            u64::from_le_bytes(bytes.expect("eight bytes within the cursor"))
        };
        let moment = |place| Some(Millis(number(place))).filter(|at| at.0 != NO_MOMENT);
        let cursor = Self {
            position: Lsn(number(0)),
            from: moment(1),
            to: moment(2),
            question: number(3),
            incarnation: number(4),
        };
        if cursor.incarnation != hash(incarnation) {
            return Err(BadCursor::OtherLog);
        }
        if cursor.question != question {
            return Err(BadCursor::OtherQuestion);
        }
        Ok(cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::super::query::Order;
    use super::*;

    fn question(reason: &str, from: u64) -> Question {
        let filter = Filter {
            reason: Some(reason.into()),
            from: Some(Millis(from)),
            ..Filter::default()
        };
        Question {
            filter,
            order: Order::Newest,
        }
    }

    #[test]
    fn a_cursor_comes_back_to_its_own_question_only() {
        let asked = question("deploy", 1000);
        let identity_ = identity(&asked, "-15m", "");
        let cursor = Cursor::new(Lsn(42), &asked.filter, identity_, "one");
        let text = cursor.encode();
        assert_eq!(Cursor::decode(&text, identity_, "one"), Ok(cursor));
        assert_eq!(cursor.from, Some(Millis(1000)));

        // A minute later the words stand for another moment, but the question is the same.
        let later = identity(&question("deploy", 61_000), "-15m", "");
        assert_eq!(later, identity_);
        let other = identity(&question("outage", 1000), "-15m", "");
        let refused = |text: &str, question, log| Cursor::decode(text, question, log).unwrap_err();
        assert_eq!(refused(&text, other, "one"), BadCursor::OtherQuestion);
        let turned = Question {
            order: Order::Oldest,
            ..asked
        };
        assert_ne!(identity(&turned, "-15m", ""), identity_);
        assert_ne!(identity(&turned, "-15m", ""), identity(&turned, "-20m", ""));
        assert_eq!(refused(&text, identity_, "two"), BadCursor::OtherLog);
    }

    #[test]
    fn anything_else_is_no_cursor() {
        let asked = question("x", 1);
        let text = Cursor::new(Lsn(1), &asked.filter, 7, "one").encode();
        let mut forged = text.clone();
        forged.replace_range(4..5, if text.as_bytes()[4] == b'A' { "B" } else { "A" });
        for wrong in ["", "x", "42", &text[1..], &forged, &"A".repeat(60)] {
            let error = Cursor::decode(wrong, 7, "one").unwrap_err();
            assert_eq!(error, BadCursor::Unreadable, "{wrong}");
        }
    }
}
