//! Writes a log in the format of Linux' dm-log-writes (see `logwrites`), for its replay tools and
//! [`super::Trace`].
//!
//! 1. A write is logged when it has completed. A write that never completes is not logged.
//! 2. A flush is logged at the place of its submission, so that it covers what comes before. Until
//!    it has completed its entry has no meaning.
//! 3. The number of entries in the header is updated at each mark and at the end.
//! 4. Writing ends with the first error of the output. [`LogWriter::finish`] returns it.

use super::logwrites::{DISCARD, FLUSH, FUA, MAGIC, MARK, VERSION};
use std::io::{self, Seek, SeekFrom, Write};

/// The output of a log: most bytes are appended, a few are overwritten later.
pub trait LogOutput: Write + Seek + Send {}

impl<T: Write + Seek + Send> LogOutput for T {}

/// A log that is being written.
pub struct LogWriter<W> {
    out: W,
    sector: u32,
    entries: u64,
    written: LoggedWrites,
    position: u64,
    error: Option<io::Error>,
}

/// The writes in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoggedWrites {
    /// How many there are.
    pub count: u64,
    /// Bytes of their data.
    pub bytes: u64,
}

/// A flush that has been submitted.
#[derive(Debug)]
pub struct Submitted {
    /// Where its entry is.
    position: u64,
}

impl<W: Write + Seek> LogWriter<W> {
    /// A log of a device with blocks of `sector` bytes, which become the log's sectors.
    pub fn new(out: W, sector: u32) -> LogWriter<W> {
        let written = LoggedWrites::default();
        let mut log = LogWriter { out, sector, entries: 0, written, position: 0, error: None };
        log.put(&log.head());
        log
    }

    /// Logs that `data` was written from block `at` on. `forced`: with forced unit access.
    pub fn write(&mut self, at: u64, data: &[u8], forced: bool) {
        let blocks = data.len() as u64 / u64::from(self.sector);
        self.entry([at, blocks, if forced { FUA } else { 0 }], "");
        self.put(data);
        self.written.count += 1;
        self.written.bytes += data.len() as u64;
    }

    /// The writes so far.
    pub fn written(&self) -> LoggedWrites {
        self.written
    }

    /// Logs a discard of blocks from block `at` on.
    pub fn discard(&mut self, at: u64, blocks: u64) {
        self.entry([at, blocks, DISCARD], "");
    }

    /// Logs the submission of a flush.
    pub fn submit_flush(&mut self) -> Submitted {
        let position = self.position;
        self.entry([0; 3], "");
        Submitted { position }
    }

    /// Logs the completion of a flush.
    pub fn complete_flush(&mut self, flush: Submitted) {
        // The flags are the third word of an entry.
        self.put_at(flush.position + 16, &FLUSH.to_le_bytes());
    }

    /// Writes a mark with a text for the log's reader. The text is cut to the room of a sector.
    pub fn mark(&mut self, text: &str) {
        self.entry([0, 0, MARK], text);
        self.renew_head();
    }

    /// Ends the log. Returns the complete output.
    ///
    /// # Errors
    /// The first error of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.renew_head();
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }

    fn head(&self) -> Vec<u8> {
        let mut head = vec![0; self.sector as usize];
        for (i, word) in [MAGIC, VERSION, self.entries].iter().enumerate() {
            head[i * 8..i * 8 + 8].copy_from_slice(&word.to_le_bytes());
        }
        head[24..28].copy_from_slice(&self.sector.to_le_bytes());
        head
    }

    fn renew_head(&mut self) {
        let head = self.head();
        self.put_at(0, &head);
    }

    fn entry(&mut self, words: [u64; 3], text: &str) {
        let mut sector = vec![0; self.sector as usize];
        let [words_of, text_of] = sector
            .get_disjoint_mut([0..32, 32..self.sector as usize])
            .expect("a sector has at least 512 bytes");
        let length = text.floor_char_boundary(text_of.len());
        let all = words.into_iter().chain([length as u64]);
        for (word, out) in all.zip(words_of.chunks_exact_mut(8)) {
            out.copy_from_slice(&word.to_le_bytes());
        }
        text_of[..length].copy_from_slice(&text.as_bytes()[..length]);
        self.put(&sector);
        self.entries += 1;
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            self.error = self.out.write_all(bytes).err();
            self.position += bytes.len() as u64;
        }
    }

    fn put_at(&mut self, position: u64, bytes: &[u8]) {
        if self.error.is_some() {
            return;
        }
        let mut write = || {
            self.out.seek(SeekFrom::Start(position))?;
            self.out.write_all(bytes)?;
            self.out.seek(SeekFrom::Start(self.position))
        };
        self.error = write().err();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Event, Kind, Options, Trace};
    use super::*;
    use std::io::Cursor;

    fn read(log: Vec<u8>) -> Vec<Event> {
        let trace = Trace::open("log", Cursor::new(log), &Options::default()).unwrap();
        trace.map(|event| event.unwrap()).collect()
    }

    #[test]
    fn what_was_written_is_read_again() {
        let mut log = LogWriter::new(Cursor::new(Vec::new()), 4096);
        log.write(3, &[7; 8192], false);
        let flush = log.submit_flush();
        log.write(9, &[8; 4096], true);
        log.complete_flush(flush);
        log.discard(3, 1);
        // This flush never completes.
        log.submit_flush();
        log.mark("the power went");
        assert_eq!(log.written(), LoggedWrites { count: 2, bytes: 12_288 });
        let events = read(log.finish().unwrap().into_inner());
        let seen: Vec<_> = events
            .iter()
            .map(|e| (e.kind, e.offset / 4096, e.length / 4096, e.flags.fua))
            .collect();
        assert_eq!(
            seen,
            [
                (Kind::Write, 3, 2, false),
                (Kind::Flush, 0, 0, false),
                (Kind::Write, 9, 1, true),
                (Kind::Discard, 3, 1, false),
                (Kind::Mark, 0, 0, false),
            ]
        );
        assert_eq!(events[4].label.as_deref(), Some("the power went"));
    }

    #[test]
    fn long_marks_are_cut_between_letters() {
        let mut log = LogWriter::new(Cursor::new(Vec::new()), 512);
        log.mark(&"ü".repeat(400));
        let events = read(log.finish().unwrap().into_inner());
        assert_eq!(events[0].label.as_deref(), Some("ü".repeat(240).as_str()));
    }

    #[test]
    fn the_first_error_of_the_output_is_told() {
        let mut room = [0; 5000];
        let mut log = LogWriter::new(Cursor::new(&mut room[..]), 4096);
        log.write(0, &[1; 4096], false);
        log.mark("more");
        assert!(log.finish().is_err());
    }
}
