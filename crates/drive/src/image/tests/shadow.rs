//! What may be in each block after a process has ended.

use std::collections::BTreeMap;
use tantalum_device::{OwnedData, Payload};

/// Hosts, each with blocks of its own.
pub const HOSTS: u64 = 3;
/// Blocks of a host.
pub const BLOCKS: u64 = 18;

/// Beside the stamp of a discard.
pub const GONE: u64 = 1 << 63;

/// A block that this write, or discard, left; 0: one that was never written.
pub fn content(payload: Payload, stamp: u64) -> OwnedData {
    let stamp = if stamp & GONE == 0 { stamp } else { 0 };
    match payload {
        Payload::Bytes => OwnedData::Bytes(stamp.to_le_bytes().repeat(512)),
        Payload::Stamps => OwnedData::Stamps(vec![stamp]),
    }
}

/// Blocks one behind the other.
pub fn joined(blocks: &[OwnedData]) -> OwnedData {
    let mut all = blocks[0].clone();
    for block in &blocks[1..] {
        match (&mut all, block) {
            (OwnedData::Bytes(all), OwnedData::Bytes(b)) => all.extend_from_slice(b),
            (OwnedData::Stamps(all), OwnedData::Stamps(b)) => all.extend_from_slice(b),
            _ => unreachable!("payload of one kind"),
        }
    }
    all
}

/// Writes of each block in their order, and whether it or a later one has to be there.
#[derive(Clone)]
pub struct Shadow {
    protected: bool,
    blocks: BTreeMap<u64, Vec<(u64, bool)>>,
    acked: Vec<(u64, u64)>,
}

impl Shadow {
    /// Of a blank drive; `protected`: what was acknowledged survives without a flush.
    pub fn new(protected: bool) -> Shadow {
        Shadow { protected, blocks: BTreeMap::new(), acked: Vec::new() }
    }

    fn of(&mut self, at: u64) -> &mut Vec<(u64, bool)> {
        self.blocks.entry(at).or_insert_with(|| vec![(0, true)])
    }

    /// A write of a block is going to be sent.
    pub fn begin(&mut self, at: u64, stamp: u64) {
        self.of(at).push((stamp, false));
    }

    /// The same writes, of which none has to be there.
    pub fn nothing_kept(&self) -> Shadow {
        let mut shadow = self.clone();
        shadow.blocks.values_mut().flatten().for_each(|write| write.1 = false);
        shadow
    }

    /// It was acknowledged.
    pub fn ack(&mut self, at: u64, stamp: u64) {
        self.acked.push((at, stamp));
        if self.protected {
            self.keep(at, stamp);
        }
    }

    /// It, or a later one, has to be there.
    pub fn keep(&mut self, at: u64, stamp: u64) {
        if let Some(write) = self.of(at).iter_mut().rev().find(|w| w.0 == stamp) {
            write.1 = true;
        }
    }

    /// How many were acknowledged so far: the next flush is for these.
    pub fn acked(&self) -> usize {
        self.acked.len()
    }

    /// A flush that was sent when so many were acknowledged is through.
    pub fn flushed(&mut self, acked: usize) {
        for i in 0..acked.min(self.acked.len()) {
            let (at, stamp) = self.acked[i];
            self.keep(at, stamp);
        }
    }

    /// The power was gone: no flush covers what came before.
    pub fn forget_acked(&mut self) {
        self.acked.clear();
    }

    /// Holds a block to it; what is there stays.
    pub fn check(&mut self, at: u64, found: &OwnedData) -> Result<(), String> {
        let payload = found.as_data().kind();
        let all = self.of(at);
        let floor = all.iter().rposition(|w| w.1).unwrap_or(0);
        let is = |write: &&(u64, bool)| content(payload, write.0) == *found;
        match all[floor..].iter().rev().find(is).copied() {
            Some((stamp, _)) => {
                *all = vec![(stamp, true)];
                Ok(())
            }
            None => {
                let stamp = match found {
                    OwnedData::Bytes(b) => {
                        u64::from_le_bytes(b[..8].try_into().unwrap_or_default())
                    }
                    OwnedData::Stamps(s) => s[0],
                };
                Err(format!("block {at} has {stamp:#x}, none of {:x?}", &all[floor..]))
            }
        }
    }
}
