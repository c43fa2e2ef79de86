//! The trace: page I/Os below a PostgreSQL 15 with 32 MB of buffers, under TPC-C.

use crate::Failure;
use lzma_rust2::XzReader;
use std::io::Read;

/// One I/O.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    pub page: u32,
    pub write: bool,
}

const FILE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments/traces/pg15-tpcc-32mb.u32.xz");

/// The first so many I/Os.
pub fn read(ios: usize) -> Result<Vec<Io>, Failure> {
    let mut bytes = Vec::new();
    XzReader::new(std::fs::File::open(FILE)?, false).read_to_end(&mut bytes)?;
    let words = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    Ok(words.take(ios).map(|word| Io { page: word >> 1, write: word & 1 == 1 }).collect())
}
