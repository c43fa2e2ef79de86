//! What lies in a stream: its sections, found by their headers.
//!
//! 1. A section is known by the highest number in its first units. So a section whose header is
//!    damaged is found by what was written with it.
//! 2. Of a section the end is what the next one's header says; without that it is unknown.
//! 3. [`TOGETHER`] beginnings are read at a time: a device with a queue sorts them.

use crate::Lsn;
use crate::area::Section;
use crate::format::{Found, read_block};
use crate::member::{Member, MemberError};
use std::rc::Rc;
use tantalum_device::BlockDevice;
use tantalum_rt::join_all;

/// Units at the beginning of a section that are looked at.
const PROBE: u32 = 8;
/// Beginnings of sections that are read at a time.
const TOGETHER: usize = 16;

/// A section to read: what is known of it, where it begins, and how many units of it to read.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub section: Section,
    pub unit: u64,
    pub units: u32,
}

/// A stream to read.
pub(crate) struct Stream<D> {
    pub member: Rc<Member<D>>,
    pub stream: u8,
    /// In the order in which they were written.
    pub spans: Vec<Span>,
}

/// The sections of a stream. An end that is unknown is the highest LSN.
pub(crate) async fn find_sections<D: BlockDevice>(
    member: Rc<Member<D>>,
    stream: u8,
) -> Result<Stream<D>, MemberError> {
    let superblock = &member.superblock;
    let (base, sections) = superblock.area(stream);
    let (size, section_units) = (superblock.unit as usize, superblock.section_units);
    let probe = PROBE.min(section_units);
    let begins = |index: u32| base + u64::from(index) * u64::from(section_units);
    let begin = async |index| {
        let mut buf = vec![0; probe as usize * size];
        member.read(begins(index), &mut buf).await.map(|_| buf)
    };
    let mut found: Vec<(u32, Span)> = Vec::new();
    let mut heads = Vec::new();
    let mut read = Vec::new();
    for index in 0..sections {
        if read.is_empty() {
            let all = (index..sections).take(TOGETHER).map(&begin).collect();
            let all: Result<Vec<_>, MemberError> = join_all(all).await.into_iter().collect();
            read = all?;
            read.reverse();
        }
        let (unit, buf) = (begins(index), read.pop().unwrap_or_default());
        let mut best: Option<(u32, Lsn)> = None;
        for block in buf.chunks(size) {
            let (head, section) = match read_block(block) {
                Found::Bytes(head) => (head, None),
                Found::Section(head, section) => (head, Some(section)),
                Found::Nothing => continue,
            };
            let ours = head.tag == member.tag && head.stream == stream;
            if !ours || head.section == 0 || head.section % sections != index {
                continue;
            }
            if best.is_none_or(|(number, _)| head.section > number) {
                best = Some((head.section, head.lsn));
            }
            if let Some(section) = section {
                heads.push((head.section, section));
            }
        }
        if let Some((number, first)) = best {
            let section = Section { number, first, end: Lsn(u64::MAX), samples: Vec::new() };
            found.push((number, Span { section, unit, units: section_units }));
        }
    }
    found.sort_by_key(|(number, _)| *number);
    let newest = found.last().map_or(0, |(number, _)| *number);
    found.retain(|(number, _)| number + sections > newest);
    for (number, span) in &mut found {
        if let Some((_, next)) = heads.iter().find(|(n, _)| *n == *number + 1) {
            span.section.end = next.before_end;
            span.section.samples.clone_from(&next.samples);
        }
    }
    let spans = found.into_iter().map(|(_, span)| span).collect();
    Ok(Stream { member, stream, spans })
}

impl<D> Stream<D> {
    /// Where to begin to read so that nothing from `block` on is missed: the index of a section,
    /// and a unit in it.
    ///
    /// What counts need not have rising LSNs together with what does not count: when an opening
    /// with two copies is cut, its copies of the end of the log lie behind what they repeat, with
    /// lower LSNs. So a section is skipped only if it ends at or before `block`. In a section that
    /// was begun in an earlier life than its samples are of, these say nothing of what lies before.
    pub fn position(&self, block: Lsn) -> (usize, u32) {
        let over = self.spans.iter().take_while(|s| s.section.end <= block).count();
        let Some(last) = self.spans.len().checked_sub(1) else { return (0, 0) };
        let index = over.min(last);
        let samples = &self.spans[index].section.samples;
        let whole = samples.first().is_some_and(|(unit, _)| *unit == 1);
        let unit = samples.iter().take_while(|(_, lsn)| whole && *lsn < block).last();
        (index, unit.map_or(0, |(unit, _)| *unit))
    }
}
