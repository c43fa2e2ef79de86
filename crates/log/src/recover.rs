//! What is in the log: its end, and how far each stream is written.
//!
//! 1. The log ends at the first byte that no stream has, read from the checkpoint on. The last
//!    record that is whole before that is the last one; a new epoch begins behind it.
//! 2. Everything below the highest watermark was acknowledged. If the log ends below that, it is
//!    damaged.
//! 3. An epoch began where the log was known to be whole, so if all devices are there, the log is
//!    damaged as well if it ends before the last epoch began. (Without a device that may be: what no
//!    watermark covered was perhaps on that one alone.)
//! 4. A state says up to where bytes were acknowledged of which there may be too few copies. If the log
//!    ends before that, the device that is missing alone has them.

use crate::area::{Area, Section};
use crate::cutter::Cutter;
use crate::error::Damage;
use crate::format::block_of;
use crate::member::{Member, MemberError};
use crate::merge::{Merge, Seen};
use crate::options::OpenOptions;
use crate::scan::{Stream, find_sections};
use crate::state::{Standing, State};
use crate::{Lsn, OpenError};
use std::rc::Rc;
use tantalum_device::BlockDevice;
use tantalum_rt::{Rt, join_all};

/// What recovery found.
pub(crate) struct Recovered<D> {
    /// Where the last whole record ends.
    pub end: Lsn,
    /// From here on bytes may be on fewer devices than there must be copies; else the end.
    pub copy_from: Lsn,
    /// The bytes from the block of `copy_from` to the end. What of these is before the checkpoint
    /// may be gone, and is zeros then.
    pub tail: Vec<u8>,
    /// The streams, and how far each is written.
    pub streams: Vec<(Rc<Stream<D>>, Area)>,
    /// The newest epoch of a block, and the device that has it.
    pub newest: Option<(u32, String)>,
}

/// Reads the log. `members` are the devices of it that are there.
pub(crate) async fn recover<D: BlockDevice + 'static>(
    rt: &Rt,
    members: impl Iterator<Item = Rc<Member<D>>>,
    state: &State,
    options: &OpenOptions,
) -> Result<Recovered<D>, OpenError> {
    let (mut finds, mut there) = (Vec::new(), Vec::new());
    let (mut limit, mut copies) = (0, 1);
    for member in members {
        (limit, copies) = (member.superblock.record_limit, member.superblock.copies);
        there.push(member.superblock.index as usize);
        for stream in 0..member.superblock.streams() {
            finds.push(find_sections(member.clone(), stream));
        }
    }
    let mut streams = Vec::new();
    for found in join_all(finds).await {
        streams.push(Rc::new(found?));
    }
    let state = Rc::new(state.clone());
    let mut merge = Merge::new(rt, streams.clone(), state.clone(), state.checkpoint);
    let (cutter, broken) = read_through(&mut merge, state.checkpoint, limit).await?;
    merge.drain().await?;
    let seen = merge.seen();
    let watermark = seen.iter().map(|s| s.watermark).max().unwrap_or_default();
    let all = (0..state.devices.len()).all(|index| there.contains(&index));
    let began = state.epochs.last().filter(|_| all).map_or(Lsn::ZERO, |(_, began)| *began);
    let short = state.short.unwrap_or_default();
    let counts = |index: &usize| state.devices[*index].1 != Standing::Lost;
    let mut missing =
        (0..state.devices.len()).filter(|index| !there.contains(index)).filter(counts);
    if let Some(index) = missing.next()
        && broken.is_none()
        && (watermark..short).contains(&cutter.end())
        && !options.salvage
    {
        return Err(OpenError::Lacks { index });
    }
    let known = watermark.max(began).max(short);
    let damaged = broken.or((cutter.end() < known).then_some(cutter.end()));
    if let Some(lsn) = damaged
        && !options.salvage
    {
        let place = merge.suspect(lsn);
        return Err(OpenError::Damaged(Damage { lsn, watermark: known, place }));
    }
    let end = cutter.lsn();
    // What the watermark does not cover was perhaps never acknowledged, and has one copy.
    let copies = if options.read_only { 1 } else { copies };
    let copy_from = if copies > 1 { watermark.max(state.checkpoint).min(end) } else { end };
    let tail = read_tail(rt, &streams, &state, copy_from, end).await?;
    let newest = streams.iter().zip(&seen).max_by_key(|(_, seen)| seen.epoch);
    let newest = newest.filter(|(_, seen)| seen.epoch > 0);
    let newest = newest.map(|(s, seen)| (seen.epoch, s.member.name.clone()));
    let area = |(stream, seen): (Rc<Stream<D>>, &Seen)| {
        let area = restore(&stream, *seen, end);
        (stream, area)
    };
    let streams = streams.into_iter().zip(&seen).map(area).collect();
    Ok(Recovered { end, copy_from, tail, streams, newest })
}

/// Reads to the end of the log. Where something that should be a record is none, reading ends, too.
async fn read_through<D: BlockDevice + 'static>(
    merge: &mut Merge<D>,
    from: Lsn,
    limit: u32,
) -> Result<(Cutter, Option<Lsn>), MemberError> {
    let mut cutter = Cutter::new(from, limit);
    while let Some((lsn, bytes)) = merge.next().await? {
        if lsn.plus(bytes.len() as u64) < cutter.end() {
            // The last block ends before the checkpoint: nothing is behind that.
            break;
        }
        cutter.push(lsn, &bytes);
        loop {
            match cutter.next() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(lsn) => return Ok((cutter, Some(lsn))),
            }
        }
    }
    Ok((cutter, None))
}

/// The bytes from the block of `from` to `end`.
async fn read_tail<D: BlockDevice + 'static>(
    rt: &Rt,
    streams: &[Rc<Stream<D>>],
    state: &Rc<State>,
    from: Lsn,
    end: Lsn,
) -> Result<Vec<u8>, MemberError> {
    let mut merge = Merge::new(rt, streams.to_vec(), state.clone(), from);
    let length = end.since(block_of(from, merge.payload())) as usize;
    let mut tail = Vec::new();
    while tail.len() < length
        && let Some((_, bytes)) = merge.next().await?
    {
        tail.extend(bytes);
    }
    tail.resize(length, 0);
    Ok(tail)
}

/// The area of a stream, as it goes on.
fn restore<D>(stream: &Stream<D>, seen: Seen, end: Lsn) -> Area {
    let superblock = &stream.member.superblock;
    let (base, sections) = superblock.area(stream.stream);
    let area = Area::new(base, sections, superblock.section_units);
    let mut by_index = vec![Section::default(); sections as usize];
    for span in &stream.spans {
        // No byte that counts has an LSN beyond the end of the log.
        let section = Section { end: span.section.end.min(end), ..span.section.clone() };
        let index = section.number % sections;
        by_index[index as usize] = section;
    }
    let current = stream.spans.last().map_or(0, |s| s.section.number);
    area.restored(by_index, current, seen.next.max(1))
}
