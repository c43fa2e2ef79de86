//! Which bytes of a log with two copies are on one device alone.
//!
//! 1. Bytes below the highest watermark were acknowledged, and were on two devices then. What no
//!    watermark covers may have one copy until the log is opened to be written to.
//! 2. On a device counts what [`crate::merge`] takes from it: blocks in any of its streams, as far
//!    as the epochs say.
//! 3. While a device is left or lost, what is written has one copy less, and nothing is said.
//! 4. What a device missed and could not be given ([`crate::catch_up`]) is found once it takes part.

use crate::Lsn;
use crate::core::Core;
use crate::error::LogError;
use crate::feed::read_chunk;
use crate::format::{Found, read_block};
use crate::merge::belongs;
use crate::scan::Stream;
use crate::state::{Standing, State};
use std::fmt;
use std::rc::Rc;
use tantalum_device::BlockDevice;
use tantalum_rt::{Nanos, join_all};

/// Acknowledged bytes of a log with two copies that are on one device alone.
///
/// ```
/// use tantalum_log::{Lsn, OneCopy};
///
/// // As `Log::one_copy` returns it.
/// let found = OneCopy {
///     lsn: Lsn(4096),
///     end: Lsn(8192),
///     on: "a.log".into(),
///     place: Some(("b.log".into(), 1 << 20)),
/// };
/// let said = found.to_string();
/// assert!(said.contains("only \"a.log\" has them; \"b.log\" is damaged at byte 1048576"), "{said}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneCopy {
    /// The first LSN.
    pub lsn: Lsn,
    /// Where they end.
    pub end: Lsn,
    /// The device that has them.
    pub on: String,
    /// The device on which something else lies where the other copy belongs, and the offset there
    /// in bytes; `None` if no device has such a place.
    pub place: Option<(String, u64)>,
}

impl fmt::Display for OneCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OneCopy { lsn, end, on, place } = self;
        write!(f, "{lsn} to {end}: only \"{on}\" has them; ")?;
        match place {
            Some((device, offset)) => write!(f, "\"{device}\" is damaged at byte {offset}"),
            None => write!(f, "no other device does"),
        }
    }
}

/// Units in a row that hold no bytes that count, and the LSNs of the blocks around them.
struct Hole {
    after: Option<Lsn>,
    before: Option<Lsn>,
    offset: u64,
    /// Whether something unreadable is there, at the offset.
    unreadable: bool,
}

/// What a stream holds.
#[derive(Default)]
struct Holds {
    /// LSNs from which on, and up to which, it has bytes.
    parts: Vec<(Lsn, Lsn)>,
    holes: Vec<Hole>,
    watermark: Lsn,
}

impl Holds {
    fn add(&mut self, from: Lsn, to: Lsn) {
        match self.parts.last_mut() {
            Some((first, end)) if *first <= from && from <= *end => *end = to.max(*end),
            _ => self.parts.push((from, to)),
        }
    }
}

impl<D: BlockDevice + Clone + 'static> Core<D> {
    pub async fn one_copy(&self) -> Result<Vec<OneCopy>, LogError> {
        let state = self.state.borrow().clone();
        let present = |(index, (_, standing)): (usize, &(_, Standing))| {
            *standing == Standing::Present && self.member(index).is_some()
        };
        if self.copies < 2 || !state.devices.iter().enumerate().all(present) {
            return Ok(Vec::new());
        }
        let (streams, all) = self.held(self.streams(), &state, self.first.get(), None).await?;
        let watermark = all.iter().map(|h| h.watermark).max().unwrap_or_default();
        let alone = alone(parts(&streams, &all), self.first.get(), watermark.min(self.durable()));
        let told = alone.into_iter().map(|(device, lsn, end)| {
            let on = self.member(device as usize).map_or(String::new(), |m| m.name.clone());
            let others = streams.iter().zip(&all);
            let others = others.filter(|(s, _)| s.member.superblock.index != device);
            OneCopy { lsn, end, on, place: place(others, lsn) }
        });
        Ok(told.collect())
    }

    /// What each of these streams holds from this LSN on. A read of 64 KiB may have so much time.
    async fn held(
        &self,
        streams: Vec<Rc<Stream<D>>>,
        state: &State,
        from: Lsn,
        patience: Option<Nanos>,
    ) -> Result<Held<D>, LogError> {
        let reads = streams.iter().map(|stream| self.holds(stream, state, from, patience));
        let mut all = Vec::new();
        for read in join_all(reads.collect()).await {
            all.push(read?);
        }
        Ok((streams, all))
    }

    /// What one device has alone between these LSNs, which is durable: the device, from where, to
    /// where; `None` for what only others than those that are read may have. And where that ends
    /// which a main stream of a device has. Only the devices that take part are read, and this one.
    pub async fn alone(
        &self,
        (from, to): (Lsn, Lsn),
        (device, stream): (usize, u8),
        patience: Nanos,
    ) -> Result<(Vec<(Option<usize>, Lsn, Lsn)>, Lsn), LogError> {
        let state = self.state.borrow().clone();
        let is_own = |s: &Rc<Stream<D>>| s.member.superblock.index as usize == device;
        let own = self.streams().into_iter().filter(is_own);
        let streams = self.streams_present().into_iter().chain(own).collect();
        let (streams, all) = self.held(streams, &state, from, Some(patience)).await?;
        let own = streams.iter().zip(&all).filter(|(s, _)| s.stream == stream && is_own(s));
        let end = own.flat_map(|(_, holds)| &holds.parts).map(|(_, end)| *end).max();
        let mut parts = parts(&streams, &all);
        let alone = alone(parts.clone(), from, to).into_iter();
        let mut found: Vec<_> = alone.map(|(d, a, b)| (Some(d as usize), a, b)).collect();
        parts.sort_unstable_by_key(|(_, a, _)| *a);
        let mut known = from;
        for (_, a, b) in parts.into_iter().chain([(0, to, to)]) {
            if known < a.min(to) {
                found.push((None, known, a.min(to)));
            }
            known = known.max(b);
        }
        found.sort_unstable_by_key(|(_, a, _)| *a);
        Ok((found, end.unwrap_or_default()))
    }
}

type Held<D> = (Vec<Rc<Stream<D>>>, Vec<Holds>);

/// What each device holds, from where and to where.
fn parts<D>(streams: &[Rc<Stream<D>>], all: &[Holds]) -> Vec<(u32, Lsn, Lsn)> {
    let parts = streams.iter().zip(all).flat_map(|(stream, holds)| {
        let device = stream.member.superblock.index;
        holds.parts.iter().map(move |(from, to)| (device, *from, *to))
    });
    parts.collect()
}

/// What of these parts one device has alone, between two LSNs: the device, from where, to where.
/// Parts come as device, from, to.
fn alone(parts: Vec<(u32, Lsn, Lsn)>, first: Lsn, end: Lsn) -> Vec<(u32, Lsn, Lsn)> {
    let mut edges: Vec<(Lsn, u32, i32)> = Vec::new();
    for (device, from, to) in parts {
        let (from, to) = (from.max(first), to.min(end));
        if from < to {
            edges.extend([(from, device, 1), (to, device, -1)]);
        }
    }
    edges.sort_unstable();
    let mut depth = [0; 32];
    let mut found: Vec<(u32, Lsn, Lsn)> = Vec::new();
    for (i, (at, device, change)) in edges.iter().enumerate() {
        depth[*device as usize] += change;
        let Some((next, ..)) = edges.get(i + 1) else { break };
        let mut having = (0..32).filter(|d| depth[*d as usize] > 0);
        let (Some(device), None) = (having.next(), having.next()) else { continue };
        match found.last_mut() {
            Some((before, _, end)) if *before == device && end == at => *end = *next,
            _ if at < next => found.push((device, *at, *next)),
            _ => {}
        }
    }
    found
}

/// The place where a copy of this LSN belongs, in streams that do not have it.
fn place<'a, D: 'a>(
    streams: impl Iterator<Item = (&'a Rc<Stream<D>>, &'a Holds)>,
    lsn: Lsn,
) -> Option<(String, u64)> {
    let fits = |hole: &&Hole| {
        let after = hole.after.is_none_or(|after| after <= lsn);
        after && hole.before.is_none_or(|before| before >= lsn)
    };
    let holes = streams.flat_map(|(stream, holds)| {
        let fit = holds.holes.iter().filter(fits);
        fit.map(|hole| (hole, stream.member.name.clone()))
    });
    let best = holes.max_by_key(|(hole, _)| hole.unreadable);
    best.map(|(hole, device)| (device, hole.offset))
}

impl<D: BlockDevice + Clone + 'static> Core<D> {
    /// Reads a stream from this LSN on.
    async fn holds(
        &self,
        stream: &Stream<D>,
        state: &State,
        from: Lsn,
        patience: Option<Nanos>,
    ) -> Result<Holds, LogError> {
        let size = stream.member.superblock.unit as usize;
        let (mut holds, mut last, mut hole) = (Holds::default(), None, None);
        let (first, mut unit) = stream.position(crate::format::block_of(from, size as u64 - 40));
        for (index, span) in stream.spans.iter().enumerate().skip(first) {
            while unit < span.units {
                let chunk = self.within(patience, read_chunk(stream, index, unit)).await??;
                for (i, block) in chunk.bytes.chunks(size).enumerate() {
                    let found = read_block(block);
                    let (Found::Bytes(head) | Found::Section(head, _)) = &found else {
                        let unreadable = chunk.bad.contains(&i) || block.iter().any(|b| *b != 0);
                        let offset = (span.unit + u64::from(unit) + i as u64) * size as u64;
                        let new = Hole { after: last, before: None, offset, unreadable };
                        hole = hole.filter(|h: &Hole| h.unreadable || !unreadable).or(Some(new));
                        continue;
                    };
                    if !belongs(stream, head, index) {
                        continue;
                    }
                    let limit = state.limit(head.epoch);
                    holds.watermark = holds.watermark.max(head.watermark.min(limit));
                    let counts = u64::from(head.bytes).min(limit.since(head.lsn));
                    if counts > 0 {
                        let before = Some(head.lsn);
                        holds.holes.extend(hole.take().map(|hole| Hole { before, ..hole }));
                        last = before;
                        holds.add(head.lsn, head.lsn.plus(counts));
                    }
                }
                unit += (chunk.bytes.len() / size) as u32;
            }
            unit = 0;
            // The rest of a section may be blank.
            hole = hole.filter(|hole| hole.unreadable);
        }
        holds.holes.extend(hole);
        Ok(holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As counting the devices of each byte says.
        #[test]
        fn what_one_device_has_alone_is_found(
            parts in proptest::collection::vec((0..3u32, 0..60u64, 1..20u64), 0..12),
            first in 0..30u64, end in 20..80u64,
        ) {
            let all = parts.iter().map(|(d, from, n)| (*d, Lsn(*from), Lsn(from + n))).collect();
            let found = alone(all, Lsn(first), Lsn(end));
            for byte in 0..100 {
                let has = |d: &u32| {
                    parts.iter().any(|(of, from, n)| of == d && (*from..from + n).contains(&byte))
                };
                let having: Vec<u32> = (0..3).filter(has).collect();
                let wanted = match having[..] {
                    [device] if (first..end).contains(&byte) => Some(device),
                    _ => None,
                };
                let told = found.iter().filter(|(_, a, b)| (a.0..b.0).contains(&byte));
                let told: Vec<u32> = told.map(|(device, ..)| *device).collect();
                prop_assert_eq!(told, wanted.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
