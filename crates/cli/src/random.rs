//! Random numbers from the system.

use std::io::Read;

/// Random bytes.
#[allow(clippy::disallowed_methods, reason = "the edge: numbers that no run follows from")]
pub fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
