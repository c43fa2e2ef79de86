//! A transaction as one atomic group of the device, in place of a rollback journal: SQLite
//! begins a group, writes its pages, and commits it (`SQLITE_IOCAP_BATCH_ATOMIC`).
//!
//! 1. The writes of a group are gathered in memory, at most as many as the largest group has; reads
//!    of the connection see them.
//! 2. The commit is one [`tantalum_files::File::write_atomic`]: it succeeds only if the transaction
//!    survives any crash. It fails with an I/O error, after which SQLite writes the journal; or for
//!    lack of space, where a journal would not help.
//! 3. If a group was not committed, SQLite writes the journal from memory, with the number of
//!    records in its head, and then changes the database without a further sync: it has "synced"
//!    the journal while that was in memory. A power loss could then damage the database, or leave
//!    an incomplete journal that counts. So the first bytes of this journal, without which it is
//!    ignored, are held back ([`Fallback`]). Before the database is changed, the rest is synced,
//!    then these bytes are written and synced. SQLite does the same with a journal that is a file
//!    from the start.
//! 4. Groups are offered to SQLite only while it syncs: with `synchronous = OFF` it would also keep
//!    the journal in memory, and then write the pages one by one.

use crate::context::Ctx;
use crate::error::Fail;
use crate::host::HostFile;
use libsqlite3_sys as ffi;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{GroupLimit, IoError};
use tantalum_files::FilesError;

/// The state of a connection for groups.
#[derive(Default)]
pub(crate) struct Group {
    open: Cell<bool>,
    bytes: Cell<u64>,
    writes: RefCell<Vec<(u64, Vec<u8>)>>,
    /// `synchronous` is OFF.
    pub unsynced: Cell<bool>,
    /// Number of transactions committed as groups.
    pub committed: Cell<u64>,
}

impl Group {
    pub fn is_open(&self) -> bool {
        self.open.get()
    }

    pub fn begin(&self) -> Result<(), Fail> {
        self.clear();
        self.open.set(true);
        Ok(())
    }

    pub fn write(&self, limit: Option<GroupLimit>, at: u64, data: &[u8]) -> Result<(), Fail> {
        let bytes = self.bytes.get().saturating_add(data.len() as u64);
        if limit.is_none_or(|limit| bytes > limit.bytes) {
            return Err(Fail::Code(ffi::SQLITE_IOERR_WRITE));
        }
        self.bytes.set(bytes);
        self.writes.borrow_mut().push((at, data.to_vec()));
        Ok(())
    }

    /// Copies the gathered bytes over `to`, which was read at `at` and has `there` valid bytes;
    /// returns the number of valid bytes.
    pub fn read(&self, at: u64, to: &mut [u8], mut there: usize) -> usize {
        for (start, data) in self.writes.borrow().iter() {
            let (from, until) = ((*start).max(at), start.saturating_add(data.len() as u64));
            let until = until.min(at.saturating_add(to.len() as u64));
            if from < until {
                let (first, end) = ((from - at) as usize, (until - at) as usize);
                if there < first {
                    to[there..first].fill(0);
                }
                let within = (from - start) as usize;
                to[first..end].copy_from_slice(&data[within..within + end - first]);
                there = there.max(end);
            }
        }
        // (A gap before gathered pages reads as zeros.)
        let reach = usize::try_from(self.end().saturating_sub(at)).unwrap_or(usize::MAX);
        let reach = reach.min(to.len());
        if there < reach {
            to[there..reach].fill(0);
            there = reach;
        }
        there
    }

    /// The end of the last gathered range.
    pub fn end(&self) -> u64 {
        let writes = self.writes.borrow();
        writes.iter().map(|(at, data)| at.saturating_add(data.len() as u64)).max().unwrap_or(0)
    }

    pub fn commit(&self, ctx: &Ctx, file: &dyn HostFile) -> Result<(), Fail> {
        if !self.open.get() {
            return Err(Fail::Code(ffi::SQLITE_IOERR_COMMIT_ATOMIC));
        }
        let writes = self.writes.take();
        let ranges: Vec<(u64, &[u8])> = writes.iter().map(|(at, data)| (*at, &data[..])).collect();
        match file.write_atomic(ctx, &ranges) {
            Ok(()) => {
                self.clear();
                self.committed.set(self.committed.get() + 1);
                Ok(())
            }
            Err(Fail::Files(e @ (FilesError::NoSpace(_) | FilesError::Io(IoError::NoSpace)))) => {
                Err(e.into())
            }
            Err(_) => Err(Fail::Code(ffi::SQLITE_IOERR_COMMIT_ATOMIC)),
        }
    }

    /// SQLite abandons the group; it may continue with a journal.
    pub fn roll_back(&self) {
        self.clear();
    }

    fn clear(&self) {
        self.open.set(false);
        self.bytes.set(0);
        self.writes.borrow_mut().clear();
    }
}

/// Bytes of the magic number at a journal's head.
const MAGIC: usize = 8;

/// A journal and its head, which is not written yet.
type Head = (Rc<dyn HostFile>, [u8; MAGIC]);

/// The journal of a transaction whose group was not committed.
#[derive(Default)]
pub(crate) struct Fallback {
    due: Cell<bool>,
    held: RefCell<Option<Head>>,
}

impl Fallback {
    /// A group was not committed.
    pub fn begin(&self) {
        self.due.set(true);
    }

    /// The transaction has ended, or begins again.
    pub fn end(&self) {
        self.due.set(false);
        self.held.take();
    }

    /// Called for writes to the journal: returns the bytes to write in place of its head.
    pub fn hold(&self, file: &Rc<dyn HostFile>, at: u64, data: &[u8]) -> Option<Vec<u8>> {
        let (head, rest) = data.split_first_chunk::<MAGIC>()?;
        if !self.due.get() || at != 0 {
            return None;
        }
        *self.held.borrow_mut() = Some((file.clone(), *head));
        Some([&[0; MAGIC], rest].concat())
    }

    /// Called before the database is changed: makes the journal durable.
    pub fn protect(&self, ctx: &Ctx) -> Result<(), Fail> {
        let held = self.held.borrow().clone();
        if let (true, Some((journal, head))) = (self.due.get(), held) {
            ctx.drain()?;
            journal.sync(ctx)?;
            journal.write(ctx, 0, &head)?;
            journal.sync(ctx)?;
            self.end();
        }
        Ok(())
    }
}

/// Whether this value of `PRAGMA synchronous` means OFF to SQLite.
pub(crate) fn is_off(value: &[u8]) -> bool {
    if value.first().is_some_and(u8::is_ascii_digit) {
        let digits = value.iter().take_while(|c| c.is_ascii_digit());
        // (What does not fit 31 bits counts as 0.)
        let number =
            digits.fold(0u64, |n, c| n.saturating_mul(10).saturating_add(u64::from(c - b'0')));
        let level = if number > 0x7fff_ffff { 0 } else { number };
        // SQLite keeps three bits of the level + 1, and takes 0 for 1, which is OFF.
        return matches!(level % 8, 0 | 7);
    }
    [&b"off"[..], b"no", b"false"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_has_many_names() {
        for off in ["OFF", "no", "False", "0", "00", "8", "7", "99999999999"] {
            assert!(is_off(off.as_bytes()), "{off}");
        }
        for on in ["on", "FULL", "1", "2", "extra", "normal", "-1", "what", "9"] {
            assert!(!is_off(on.as_bytes()), "{on}");
        }
    }

    #[test]
    fn reads_see_what_was_gathered() {
        let group = Group::default();
        let limit = Some(GroupLimit { extents: 1, bytes: 12 });
        group.begin().unwrap();
        group.write(limit, 4, &[1; 4]).unwrap();
        group.write(limit, 14, &[2; 4]).unwrap();
        group.write(limit, 6, &[3; 4]).unwrap();
        assert!(group.write(limit, 0, &[9]).is_err(), "above the limit");
        assert_eq!(group.end(), 18);
        let mut to = [7; 20];
        // The file has 5 bytes.
        assert_eq!(group.read(0, &mut to, 5), 18);
        assert_eq!(to[..6], [7, 7, 7, 7, 1, 1]);
        assert_eq!(to[6..18], [3, 3, 3, 3, 0, 0, 0, 0, 2, 2, 2, 2]);
        let mut to = [7; 4];
        assert_eq!(group.read(10, &mut to, 0), 4);
        assert_eq!(to, [0; 4]);
        group.roll_back();
        assert_eq!(group.read(0, &mut to, 4), 4);
        assert_eq!((to, group.end()), ([0; 4], 0));
    }
}
