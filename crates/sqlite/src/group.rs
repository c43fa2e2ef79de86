//! A transaction as one atomic group of the device, in place of a rollback journal: SQLite
//! begins a group, writes its pages, and commits it (`SQLITE_IOCAP_BATCH_ATOMIC`).
//!
//! 1. What is written between is gathered; reads of the connection see it. No more is gathered
//!    than the largest group has.
//! 2. The commit is one [`tantalum_files::File::write_atomic`]: it succeeds only if the
//!    transaction survives any crash, and fails only with an I/O error, upon which SQLite
//!    writes the journal after all; or for want of space, which a journal would not cure.
//! 3. After a group that was not committed SQLite writes the journal, which it has "synced" when
//!    it was in memory, with its number of records in its head, and goes on to the database
//!    without another sync. A power loss could then damage the database, or leave a journal of
//!    which a part is missing and that counts. So the first bytes of this journal, without which
//!    it counts for nothing, are held back ([`Fallback`]); before the database is changed the
//!    rest is synced, then they are written and synced: what SQLite does itself with a journal
//!    that is a file from the start.
//! 4. SQLite is told of groups only while it syncs: with `synchronous = OFF` it would keep the
//!    journal in memory all the same, and then write the pages one by one.

use crate::context::Ctx;
use crate::error::Fail;
use crate::host::HostFile;
use libsqlite3_sys as ffi;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{GroupLimit, IoError};
use tantalum_files::FilesError;

/// What a connection has of groups.
#[derive(Default)]
pub(crate) struct Group {
    open: Cell<bool>,
    bytes: Cell<u64>,
    writes: RefCell<Vec<(u64, Vec<u8>)>>,
    /// SQLite syncs nothing.
    pub unsynced: Cell<bool>,
    /// Transactions that were committed as groups.
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

    /// Puts what was gathered over what was read at `at`, of which so many bytes were there;
    /// how many are there now.
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
        // (A gap before pages that are written further on reads as zeros.)
        let reach = usize::try_from(self.end().saturating_sub(at)).unwrap_or(usize::MAX);
        let reach = reach.min(to.len());
        if there < reach {
            to[there..reach].fill(0);
            there = reach;
        }
        there
    }

    /// Where the last of what was gathered ends.
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

    /// SQLite gives the group up, and goes on with a journal or not at all.
    pub fn roll_back(&self) {
        self.clear();
    }

    fn clear(&self) {
        self.open.set(false);
        self.bytes.set(0);
        self.writes.borrow_mut().clear();
    }
}

/// Bytes of a journal's head that tell that it is one.
const MAGIC: usize = 8;

/// A journal and its head, which is not in it yet.
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

    /// The transaction is over, or begins anew.
    pub fn end(&self) {
        self.due.set(false);
        self.held.take();
    }

    /// The journal is being written: what to write in place of its head.
    pub fn hold(&self, file: &Rc<dyn HostFile>, at: u64, data: &[u8]) -> Option<Vec<u8>> {
        let (head, rest) = data.split_first_chunk::<MAGIC>()?;
        if !self.due.get() || at != 0 {
            return None;
        }
        *self.held.borrow_mut() = Some((file.clone(), *head));
        Some([&[0; MAGIC], rest].concat())
    }

    /// The database is about to be changed.
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
        // It keeps three bits of what is one more, and takes 0 for 1, which is OFF.
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
