//! Requests: parsed from bytes, and checked against the terms.

use super::Errno;
use super::wire::{REQUEST_BYTES, REQUEST_MAGIC, cmd, cmd_flag};

/// A request as it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Flags ([`cmd_flag`]).
    pub flags: u16,
    /// The command ([`cmd`]).
    pub kind: u16,
    /// The client's number for it, which the reply repeats.
    pub cookie: u64,
    /// Where, in bytes.
    pub offset: u64,
    /// How much, in bytes.
    pub length: u32,
}

/// The outcome of the negotiation, as far as requests depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Bytes of the export.
    pub size: u64,
    /// It is read-only.
    pub read_only: bool,
    /// The longest read or write, in bytes.
    pub payload_max: u32,
    /// Replies are structured.
    pub structured: bool,
    /// The client may ask about allocation.
    pub allocation: bool,
}

/// A request that can be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read.
    Read {
        /// Where, in bytes.
        at: u64,
        /// How much, in bytes.
        length: u32,
        /// All of it in one chunk.
        whole: bool,
    },
    /// Write the payload.
    Write {
        /// Where, in bytes.
        at: u64,
        /// How much, in bytes.
        length: u32,
        /// Durable before it is answered.
        fua: bool,
    },
    /// Make all answered writes durable.
    Flush,
    /// Give a range back.
    Trim {
        /// Where, in bytes.
        at: u64,
        /// How much, in bytes.
        length: u32,
        /// Durable before it is answered.
        fua: bool,
    },
    /// Write zeros.
    Zero {
        /// Where, in bytes.
        at: u64,
        /// How much, in bytes.
        length: u32,
        /// Durable before it is answered.
        fua: bool,
        /// The range keeps its space.
        keep: bool,
        /// Only if it is faster than writing.
        fast: bool,
    },
    /// Report the allocation of a range.
    Status {
        /// Where, in bytes.
        at: u64,
        /// How much, in bytes.
        length: u32,
        /// One extent is enough.
        one: bool,
    },
    /// Disconnect once all requests under way are answered.
    Disconnect,
}

impl Request {
    /// Parses a request; `None` if the magic number is wrong. Then it is not known where the next
    /// request begins.
    pub fn parse(header: &[u8; REQUEST_BYTES]) -> Option<Request> {
        let half = |at| u16::from_be_bytes([header[at], header[at + 1]]);
        let word = |at| u32::from(half(at)) << 16 | u32::from(half(at + 2));
        let long = |at| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        let request = Request {
            flags: half(4),
            kind: half(6),
            cookie: long(8),
            offset: long(16),
            length: word(24),
        };
        (word(0) == REQUEST_MAGIC).then_some(request)
    }

    /// The request as it is sent.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut header = [0; REQUEST_BYTES];
        header[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        header[4..6].copy_from_slice(&self.flags.to_be_bytes());
        header[6..8].copy_from_slice(&self.kind.to_be_bytes());
        header[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        header[16..24].copy_from_slice(&self.offset.to_be_bytes());
        header[24..].copy_from_slice(&self.length.to_be_bytes());
        header
    }

    /// Bytes of payload after the header, even if the request is refused.
    pub fn payload(&self) -> u32 {
        if self.kind == cmd::WRITE { self.length } else { 0 }
    }

    /// The command to carry out under these terms.
    ///
    /// # Errors
    /// The error to answer, and a line with the reason.
    pub fn check(&self, terms: &Terms) -> Result<Command, (Errno, &'static str)> {
        let (at, length) = (self.offset, self.length);
        let fua = self.flags & cmd_flag::FUA != 0;
        let has = |flag| self.flags & flag != 0;
        let command = match self.kind {
            cmd::READ => Command::Read { at, length, whole: has(cmd_flag::DF) },
            cmd::WRITE => Command::Write { at, length, fua },
            cmd::DISC => return Ok(Command::Disconnect),
            cmd::FLUSH => Command::Flush,
            cmd::TRIM => Command::Trim { at, length, fua },
            cmd::WRITE_ZEROES => Command::Zero {
                at,
                length,
                fua,
                keep: has(cmd_flag::NO_HOLE),
                fast: has(cmd_flag::FAST_ZERO),
            },
            cmd::BLOCK_STATUS if terms.allocation => {
                Command::Status { at, length, one: has(cmd_flag::REQ_ONE) }
            }
            cmd::BLOCK_STATUS => return Err((Errno::Invalid, "no metadata context was chosen")),
            _ => return Err((Errno::Invalid, "the command is not known")),
        };
        self.check_flags(terms)?;
        if matches!(command, Command::Flush) {
            return match (at, length) {
                (0, 0) => Ok(command),
                _ => Err((Errno::Invalid, "a flush has neither offset nor length")),
            };
        }
        let writes = !matches!(command, Command::Read { .. } | Command::Status { .. });
        if writes && terms.read_only {
            return Err((Errno::Permission, "the export is read-only"));
        }
        let payload = matches!(command, Command::Read { .. } | Command::Write { .. });
        if payload && length > terms.payload_max {
            let code = if has(cmd_flag::DF) { Errno::Overflow } else { Errno::Invalid };
            return Err((code, "the request is longer than the maximum block size"));
        }
        if length == 0 && matches!(command, Command::Status { .. }) {
            return Err((Errno::Invalid, "the range is empty"));
        }
        match at.checked_add(length.into()) {
            Some(end) if end <= terms.size => Ok(command),
            _ if matches!(command, Command::Write { .. } | Command::Zero { .. }) => {
                Err((Errno::NoSpace, "the range ends beyond the end of the export"))
            }
            _ => Err((Errno::Invalid, "the range ends beyond the end of the export")),
        }
    }

    /// Whether the command takes each flag. All commands take forced unit access.
    fn check_flags(&self, terms: &Terms) -> Result<(), (Errno, &'static str)> {
        let known = cmd_flag::FUA
            | match self.kind {
                cmd::READ if terms.structured => cmd_flag::DF,
                cmd::WRITE_ZEROES => cmd_flag::NO_HOLE | cmd_flag::FAST_ZERO,
                cmd::BLOCK_STATUS => cmd_flag::REQ_ONE,
                _ => 0,
            };
        match self.flags & !known {
            0 => Ok(()),
            _ => Err((Errno::Invalid, "a flag is not valid for this command")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms {
        size: 1 << 20,
        read_only: false,
        payload_max: 1 << 16,
        structured: true,
        allocation: false,
    };

    fn ask(kind: u16, flags: u16, offset: u64, length: u32) -> Request {
        Request { flags, kind, cookie: 0x0102_0304_0506_0708, offset, length }
    }

    fn code(request: Request, terms: &Terms) -> Option<Errno> {
        request.check(terms).err().map(|e| e.0)
    }

    #[test]
    fn a_request_is_what_it_was_after_it_travelled() {
        let request = ask(cmd::TRIM, 0x8001, u64::MAX - 5, 0xdead_beef);
        assert_eq!(Request::parse(&request.encode()), Some(request));
        let mut wrong = request.encode();
        wrong[3] ^= 1;
        assert_eq!(Request::parse(&wrong), None);
    }

    #[test]
    fn ranges_end_at_the_end() {
        for (kind, beyond) in [
            (cmd::READ, Errno::Invalid),
            (cmd::WRITE, Errno::NoSpace),
            (cmd::TRIM, Errno::Invalid),
            (cmd::WRITE_ZEROES, Errno::NoSpace),
        ] {
            assert_eq!(code(ask(kind, 0, (1 << 20) - 512, 512), &TERMS), None);
            assert_eq!(code(ask(kind, 0, (1 << 20) - 511, 512), &TERMS), Some(beyond));
            assert_eq!(code(ask(kind, 0, u64::MAX, 512), &TERMS), Some(beyond));
        }
    }

    #[test]
    fn what_is_read_only_is_never_written() {
        let terms = Terms { read_only: true, ..TERMS };
        for kind in [cmd::WRITE, cmd::TRIM, cmd::WRITE_ZEROES] {
            assert_eq!(code(ask(kind, 0, 0, 512), &terms), Some(Errno::Permission));
        }
        assert_eq!(code(ask(cmd::READ, 0, 0, 512), &terms), None);
        assert_eq!(code(ask(cmd::FLUSH, 0, 0, 0), &terms), None);
    }

    #[test]
    fn flags_without_a_meaning_are_refused() {
        assert_eq!(code(ask(cmd::READ, cmd_flag::FUA | cmd_flag::DF, 0, 512), &TERMS), None);
        let simple = Terms { structured: false, ..TERMS };
        assert_eq!(code(ask(cmd::READ, cmd_flag::DF, 0, 512), &simple), Some(Errno::Invalid));
        assert_eq!(code(ask(cmd::WRITE, cmd_flag::NO_HOLE, 0, 512), &TERMS), Some(Errno::Invalid));
        assert_eq!(code(ask(cmd::TRIM, 1 << 9, 0, 512), &TERMS), Some(Errno::Invalid));
    }

    #[test]
    fn too_much_at_once_is_refused() {
        assert_eq!(code(ask(cmd::READ, 0, 0, (1 << 16) + 1), &TERMS), Some(Errno::Invalid));
        let df = ask(cmd::READ, cmd_flag::DF, 0, (1 << 16) + 1);
        assert_eq!(code(df, &TERMS), Some(Errno::Overflow));
        assert_eq!(code(ask(cmd::TRIM, 0, 0, 1 << 20), &TERMS), None);
    }

    #[test]
    fn status_needs_a_context() {
        assert_eq!(code(ask(cmd::BLOCK_STATUS, 0, 0, 512), &TERMS), Some(Errno::Invalid));
        let terms = Terms { allocation: true, ..TERMS };
        assert_eq!(code(ask(cmd::BLOCK_STATUS, cmd_flag::REQ_ONE, 0, 512), &terms), None);
        assert_eq!(code(ask(5, 0, 0, 512), &terms), Some(Errno::Invalid));
    }
}
