//! One ordinary gzip member, stitched from parts that were compressed on their own.
//!
//! Each part is raw deflate that ends with a full flush: it lies on a byte boundary and refers to
//! nothing before it, so parts can be put in any order behind one header. The checksum of the whole
//! is combined from those of the parts, without looking at the text again (RFC 1951, RFC 1952).

use bytes::Bytes;
use crc32fast::Hasher;
use flate2::{Compress, Compression, FlushCompress, Status};

/// Fast rather than small: the cost of a change is the re-compression of its application. Not the
/// fastest, whose fixed codes make a fragment a third larger, which every reader pays.
const LEVEL: u32 = 3;
/// Magic, deflate, no flags, no time, no hint, unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// A last, empty block with fixed codes.
const END: [u8; 2] = [0x03, 0x00];

/// A compressed part and what the whole's checksum needs of it.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) bytes: Bytes,
    crc: Hasher,
    plain_len: u64,
}

impl Part {
    /// Compresses a text.
    pub(super) fn of(text: &[u8]) -> Self {
        let mut crc = Hasher::new();
        crc.update(text);
        Self {
            bytes: deflate(text).into(),
            crc,
            plain_len: text.len() as u64,
        }
    }

    /// Keeps a short text as it is, in a stored block.
    pub(super) fn stored(text: &[u8]) -> Self {
        let mut crc = Hasher::new();
        crc.update(text);
        let mut bytes = Vec::with_capacity(text.len() + 5);
        for block in text.chunks(usize::from(u16::MAX)) {
            let len = u16::try_from(block.len()).unwrap_or(u16::MAX);
            bytes.push(0);
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(&(!len).to_le_bytes());
            bytes.extend_from_slice(block);
        }
        Self {
            bytes: bytes.into(),
            crc,
            plain_len: text.len() as u64,
        }
    }
}

/// Puts parts together to the pieces of one member.
#[derive(Debug)]
pub(super) struct Member {
    pieces: Vec<Bytes>,
    crc: Hasher,
    plain_len: u64,
}

impl Member {
    pub(super) fn new() -> Self {
        Self {
            pieces: vec![Bytes::from_static(&HEADER)],
            crc: Hasher::new(),
            plain_len: 0,
        }
    }

    pub(super) fn push(&mut self, part: &Part) {
        self.pieces.push(part.bytes.clone());
        self.crc.combine(&part.crc);
        self.plain_len += part.plain_len;
    }

    pub(super) fn finish(mut self) -> Vec<Bytes> {
        let mut end = Vec::with_capacity(END.len() + 8);
        end.extend_from_slice(&END);
        end.extend_from_slice(&self.crc.finalize().to_le_bytes());
        // The length modulo 2^32, as the format has it.
        end.extend_from_slice(&self.plain_len.to_le_bytes()[..4]);
        self.pieces.push(end.into());
        self.pieces
    }
}

/// Raw deflate that ends on a byte boundary with an empty window.
fn deflate(text: &[u8]) -> Vec<u8> {
    let mut compress = Compress::new(Compression::new(LEVEL), false);
    let mut out = Vec::with_capacity(text.len() / 6 + 64);
    loop {
        let taken = usize::try_from(compress.total_in())
            .unwrap_or(text.len())
            .min(text.len());
        let status = compress.compress_vec(&text[taken..], &mut out, FlushCompress::Full);
        let has_all = compress.total_in() >= text.len() as u64;
        match status {
            // Room left means that the flush is complete.
            Ok(Status::Ok | Status::BufError | Status::StreamEnd)
                if has_all && out.len() < out.capacity() =>
            {
                return out;
            }
            Ok(_) => out.reserve(out.capacity().max(1024)),
            Err(error) => unreachable!("compressing memory into memory: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn unzip(pieces: &[Bytes]) -> Vec<u8> {
        let all = pieces.concat();
        let mut text = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(&all[..]);
        decoder.read_to_end(&mut text).unwrap();
        assert!(
            decoder.into_inner().is_empty(),
            "one member and nothing behind it"
        );
        text
    }

    #[test]
    fn parts_make_one_member_in_any_order() {
        let long: Vec<u8> = (0..200_000u32)
            .flat_map(|n| (n % 977).to_le_bytes())
            .collect();
        let parts = [
            Part::of(b"head"),
            Part::of(&long),
            Part::stored(b","),
            Part::of(b""),
            Part::of(&long),
        ];
        for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]] {
            let mut member = Member::new();
            let mut plain = Vec::new();
            for place in order {
                member.push(&parts[place]);
                plain.extend_from_slice(match place {
                    0 => b"head",
                    2 => b",",
                    3 => b"",
                    _ => &long,
                });
            }
            assert_eq!(unzip(&member.finish()), plain);
        }
    }

    #[test]
    fn sizes_around_the_buffer_are_complete() {
        for len in (0..4000).chain([65_535, 65_536, 131_072]) {
            let text: Vec<u8> = (0..len)
                .map(|n: usize| n.wrapping_mul(2_654_435_761).to_le_bytes()[1])
                .collect();
            let mut member = Member::new();
            member.push(&Part::of(&text));
            member.push(&Part::stored(&text));
            let twice = [text.clone(), text].concat();
            assert_eq!(unzip(&member.finish()), twice);
        }
    }
}
