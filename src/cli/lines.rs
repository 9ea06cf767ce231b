//! Splits a body that comes in pieces into its lines, with a bound on their length.

use super::failure::Failure;

/// Longest line that is taken, bytes: more than any record has.
pub(super) const LINE_MAX: usize = 32 << 20;

/// What is left of a body whose end has not come yet.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Takes a piece and hands every line that it completes to `take`, without its end.
    ///
    /// # Errors
    /// A line is too long; or what `take` says.
    pub(super) fn push(
        &mut self,
        piece: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut left = piece;
        while let Some(end) = left.iter().position(|byte| *byte == b'\n') {
            let (line, after) = left.split_at(end);
            left = &after[1..];
            if self.rest.is_empty() {
                take(without_return(line))?;
            } else {
                self.rest.extend_from_slice(line);
                let line = std::mem::take(&mut self.rest);
                take(without_return(&line))?;
            }
        }
        self.rest.extend_from_slice(left);
        if self.rest.len() > LINE_MAX {
            return Err(Failure::refused(format!(
                "a line is longer than {LINE_MAX} bytes"
            )));
        }
        Ok(())
    }

    /// What stands behind the last line end.
    pub(super) fn finish(self) -> Option<Vec<u8>> {
        (!self.rest.is_empty()).then_some(self.rest)
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_the_body_is_cut() {
        let body = b"one\r\n\ntwo\nthree";
        for size in 1..=body.len() {
            let mut lines = Lines::default();
            let mut found: Vec<Vec<u8>> = Vec::new();
            for piece in body.chunks(size) {
                lines
                    .push(piece, |line| {
                        found.push(line.to_vec());
                        Ok(())
                    })
                    .unwrap();
            }
            found.extend(lines.finish());
            assert_eq!(found, [&b"one"[..], b"", b"two", b"three"]);
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; 1 << 20];
        let mut pushed = 0;
        while lines.push(&piece, |_| Ok(())).is_ok() {
            pushed += 1;
            assert!(pushed <= LINE_MAX >> 20);
        }
    }
}
