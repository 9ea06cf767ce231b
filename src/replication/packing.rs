//! Bodies in gzip between this node and its peers: what they say of instances is a tenth or less of its
//! length then. Small ones are not worth the work.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

/// Shortest body that is compressed, bytes.
pub const PACK_FROM: usize = 8 << 10;

/// A body in gzip. `None` if that is not shorter. Takes some milliseconds for each MiB.
pub fn pack(body: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).ok()?;
    let packed = encoder.finish().ok()?;
    (packed.len() < body.len()).then_some(packed)
}

/// What a body in gzip says; `None` if that is longer than `most` bytes. No more than that is held.
///
/// # Errors
/// It is no gzip, or was cut off.
pub fn unpack(packed: &[u8], most: usize) -> io::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    let mut decoder = MultiGzDecoder::new(packed).take(most as u64 + 1);
    decoder.read_to_end(&mut body)?;
    Ok((body.len() <= most).then_some(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back_and_no_more_than_asked_for() {
        let body = b"{\"instance\":1}".repeat(1000);
        let packed = pack(&body).expect("shorter");
        assert!(packed.len() < body.len() / 10);
        assert_eq!(unpack(&packed, body.len()).unwrap(), Some(body.clone()));
        assert_eq!(unpack(&packed, body.len() - 1).unwrap(), None);
        assert!(unpack(&packed[..packed.len() - 9], body.len()).is_err());
        assert!(unpack(b"no gzip", 100).is_err());
        assert_eq!(pack(b"x"), None);
    }
}
