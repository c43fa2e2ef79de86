//! Random bytes of the system: for identities, and for seeds of which no run follows.

use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// Random bytes of the system, at most 256.
///
/// # Errors
/// The system has none.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    match getrandom(&mut bytes, GetRandomFlags::empty())? {
        n if n == N => Ok(bytes),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
