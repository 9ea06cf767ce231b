//! stub
use super::{DecodeError, Dialect, Draft, Limits};

pub(super) fn decode_registration(
    body: &[u8],
    dialect: Dialect,
    limits: &Limits,
    now_ms: i64,
) -> Result<Draft, DecodeError> {
    let _ = (body, dialect, limits, now_ms);
    todo!()
}
