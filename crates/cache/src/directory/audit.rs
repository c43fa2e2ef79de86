//! Whether a directory is whole: for tests, and for whoever doubts.

use super::Directory;
use super::chain::frame_in;
use super::control::{BatchWord, Control, Phase, State};

/// What is in a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Pages that have a current version.
    pub pages: u64,
    /// Those of them that are newer than the slow store's.
    pub dirty: u64,
    /// Those that were referenced since they entered.
    pub referenced: u64,
    /// Frames with a version that is not current.
    pub old: u64,
    /// Batches whose frames are in use.
    pub batches: u64,
}

impl Directory {
    /// Compares all parts with each other, and counts. Locks of the dead are broken on the way.
    /// Nobody else may change the directory meanwhile.
    ///
    /// # Errors
    /// What does not fit, in one line.
    pub fn audit(&self) -> Result<Audit, String> {
        self.advance();
        for partition in 0..self.layout.partitions {
            let held = self.lock(partition);
            self.unlock(held);
        }
        for frame in 0..self.layout.shape.frames as u32 {
            self.settle(frame);
        }
        let linked = self.audit_chains()?;
        let audit = self.audit_batches()?;
        match audit.pages == linked {
            true => Ok(audit),
            false => Err(format!("{linked} entries are linked, and {} are current", audit.pages)),
        }
    }

    /// How many entries are linked.
    fn audit_chains(&self) -> Result<u64, String> {
        let mut linked = 0;
        for chain in 0..self.layout.chains {
            let mut pages = Vec::new();
            let mut next = frame_in(self.head(chain).get());
            while let Some(frame) = next {
                if u64::from(frame) >= self.layout.shape.frames {
                    return Err(format!("chain {chain} names frame {frame}, which there is not"));
                }
                if pages.len() as u64 > self.layout.shape.frames {
                    return Err(format!("chain {chain} has no end"));
                }
                let page = self.entry(frame).page.get();
                let state = Control(self.entry(frame).control.get()).state();
                if state != State::Valid {
                    return Err(format!("frame {frame} is linked, and is {state:?}"));
                }
                if self.chain_of(page) != chain {
                    return Err(format!("frame {frame} has page {page}, and is in chain {chain}"));
                }
                if pages.contains(&page) {
                    return Err(format!("page {page} has two current versions"));
                }
                pages.push(page);
                next = frame_in(self.link(frame).get());
            }
            linked += pages.len() as u64;
        }
        Ok(linked)
    }

    fn audit_batches(&self) -> Result<Audit, String> {
        let (front, settled, rear) = (self.front(), self.settled(), self.rear());
        let batches = self.layout.batches;
        if front > settled || settled > rear || rear - front > batches {
            return Err(format!("front {front}, settled {settled} and rear {rear} of {batches}"));
        }
        let mut audit = Audit { batches: rear - front, ..Audit::default() };
        for seq in front..front + batches {
            let word = BatchWord(self.record(seq).word.get());
            let free = word.phase() == Phase::Free;
            if word.seq() != seq
                || free != (seq >= rear)
                || (seq < settled) != word.is_settled() && seq <= settled
            {
                let phase = word.phase();
                return Err(format!("batch {seq} is batch {}, {phase:?}", word.seq()));
            }
            for frame in self.frames_of(seq) {
                let control = Control(self.entry(frame).control.get());
                let state = control.state();
                let fits = match word.phase() {
                    // A dead owner may have died while it released them.
                    Phase::Free => state == State::Free,
                    Phase::Open => state != State::Filling,
                    Phase::Abandoned => state != State::Valid,
                    Phase::Closed | Phase::Doomed | Phase::Published => true,
                };
                if !fits {
                    return Err(format!("frame {frame} of batch {seq} is {state:?}"));
                }
                audit.old += u64::from(state == State::Gone && !control.is_void());
                if state == State::Valid {
                    audit.pages += 1;
                    audit.dirty += u64::from(control.is_dirty());
                    audit.referenced += u64::from(control.is_referenced());
                }
            }
        }
        Ok(audit)
    }
}
