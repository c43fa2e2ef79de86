//! The numbers of the protocol, as `doc/proto.md` of the NBD project names them. All of them are
//! sent in network byte order.

/// The port that is reserved for the protocol.
pub const PORT: u16 = 10809;

/// "NBDMAGIC": the first word of a server.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT": the second word of a server, and the first of each option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// The first word of each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// The first word of a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// The first word of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// The first word of a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Bytes of an option before its data.
pub const OPTION_BYTES: usize = 16;
/// Bytes of a request before its payload.
pub const REQUEST_BYTES: usize = 28;
/// The most bytes of a name.
pub const NAME_BYTES: usize = 4096;

/// Handshake flags, of the server and (with the same bits) of the client.
pub mod handshake_flag {
    /// Both speak fixed newstyle.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// The 124 zero bytes after a chosen export are left out.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Options of the negotiation.
pub mod opt {
    /// Choose an export, without a reply in case of failure.
    pub const EXPORT_NAME: u32 = 1;
    /// End the negotiation.
    pub const ABORT: u32 = 2;
    /// List the exports.
    pub const LIST: u32 = 3;
    /// Begin TLS.
    pub const STARTTLS: u32 = 5;
    /// Ask about an export.
    pub const INFO: u32 = 6;
    /// Choose an export.
    pub const GO: u32 = 7;
    /// Replies are to be structured.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List the metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Requests with 64-bit lengths.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Replies to options.
pub mod rep {
    /// Done.
    pub const ACK: u32 = 1;
    /// An export.
    pub const SERVER: u32 = 2;
    /// Information about an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The option is not known.
    pub const ERR_UNSUP: u32 = 1 << 31 | 1;
    /// The option is not allowed.
    pub const ERR_POLICY: u32 = 1 << 31 | 2;
    /// The option is malformed.
    pub const ERR_INVALID: u32 = 1 << 31 | 3;
    /// TLS has to begin first.
    pub const ERR_TLS_REQD: u32 = 1 << 31 | 5;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = 1 << 31 | 6;
    /// The server is stopping.
    pub const ERR_SHUTDOWN: u32 = 1 << 31 | 7;
    /// The option is too long.
    pub const ERR_TOO_BIG: u32 = 1 << 31 | 9;
}

/// Information about an export.
pub mod info {
    /// Its size and flags.
    pub const EXPORT: u16 = 0;
    /// Its name.
    pub const NAME: u16 = 1;
    /// A line for people.
    pub const DESCRIPTION: u16 = 2;
    /// Its block sizes.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: what an export can do.
pub mod transmission_flag {
    /// The other flags mean something.
    pub const HAS_FLAGS: u16 = 1;
    /// It is read-only.
    pub const READ_ONLY: u16 = 1 << 1;
    /// It takes flushes.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// It takes forced unit access.
    pub const SEND_FUA: u16 = 1 << 3;
    /// It takes trims.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// It takes requests to write zeros.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// Reads can ask for one chunk.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// A request to write zeros can demand that it is fast.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Requests.
pub mod cmd {
    /// Read.
    pub const READ: u16 = 0;
    /// Write; the payload follows.
    pub const WRITE: u16 = 1;
    /// The client disconnects.
    pub const DISC: u16 = 2;
    /// Make all answered writes durable.
    pub const FLUSH: u16 = 3;
    /// A range is not needed any more.
    pub const TRIM: u16 = 4;
    /// Write zeros.
    pub const WRITE_ZEROES: u16 = 6;
    /// Report the allocation of a range.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
pub mod cmd_flag {
    /// Durable before it is answered.
    pub const FUA: u16 = 1;
    /// Zeros keep their space.
    pub const NO_HOLE: u16 = 1 << 1;
    /// The data come in one chunk.
    pub const DF: u16 = 1 << 2;
    /// One extent is enough.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Fail if it is not faster than writing.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Chunks of structured replies.
pub mod chunk {
    /// The flag of the last one.
    pub const DONE: u16 = 1;
    /// Nothing.
    pub const NONE: u16 = 0;
    /// Data.
    pub const OFFSET_DATA: u16 = 1;
    /// What is allocated.
    pub const BLOCK_STATUS: u16 = 5;
    /// An error.
    pub const ERROR: u16 = 1 << 15 | 1;
}

/// The metadata context that says what is allocated.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// In it: nothing is stored for the range.
pub const STATE_HOLE: u32 = 1;
/// In it: the range reads as zeros.
pub const STATE_ZERO: u32 = 1 << 1;
