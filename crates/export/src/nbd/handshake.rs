//! The negotiation, without any I/O.
//!
//! 1. Each option is answered, or ends the connection with a reason. The answer to an unknown
//!    option says that it is unknown.
//! 2. Of the client's bytes, only four agreements are kept: fixed newstyle, no zeros, structured
//!    replies, and the export for which the metadata context was chosen.
//! 3. The length of a reply depends on the server's exports only, not on the client's bytes.
//! 4. While TLS is due, only two options have an effect: the one that begins TLS, and the one that
//!    ends the negotiation. TLS begins once, and forgets all agreements about replies and contexts.

use super::request::Terms;
use super::wire::{
    BASE_ALLOCATION, INIT_MAGIC, NAME_BYTES, OPTION_MAGIC, OPTION_REPLY_MAGIC, handshake_flag,
    info, opt, rep, transmission_flag,
};

/// The metadata context's number in replies.
pub const ALLOCATION_CONTEXT: u32 = 1;

/// Zeros after a chosen export, for old clients.
const OLD_ZEROES: usize = 124;

/// An export as a client sees it before it chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its name.
    pub name: String,
    /// A line for people.
    pub description: String,
    /// Bytes.
    pub size: u64,
    /// It is read-only.
    pub read_only: bool,
    /// Zeros can be written faster than data.
    pub fast_zero: bool,
    /// It can report what is allocated.
    pub allocation: bool,
    /// The minimum block size: offsets and lengths are to be multiples of this many bytes.
    pub block_min: u32,
    /// The preferred block size, for speed.
    pub block_preferred: u32,
    /// The longest read or write, in bytes.
    pub payload_max: u32,
}

/// How an export was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place among the offers.
    pub export: usize,
    /// The information that the client asked for. `None` for an option that takes neither
    /// information nor an error.
    wants: Option<Wants>,
}

/// Kinds of information that a client has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wants {
    name: bool,
    description: bool,
}

/// How the negotiation goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Another option follows.
    Again,
    /// The client has chosen. Answer with [`Handshake::enter`] or [`Handshake::refuse`].
    Enter(Entry),
    /// The client ends the negotiation. The answer is still to be sent.
    Abort,
    /// TLS begins after the answer is sent; then call [`Handshake::secured`].
    Secure,
}

/// Why a client is disconnected without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Its flags are unknown.
    #[error("the client set flags that are not known ({0:#x})")]
    Flags(u32),
    /// An option begins with the wrong magic number.
    #[error("an option began with {0:#018x}: the client does not speak the protocol")]
    Magic(u64),
    /// It chose an export that does not exist, by an option that takes no error.
    #[error("the client chose an export that does not exist, by an option that takes no error")]
    NoSuchExport,
    /// It chose an export that has no power, by an option that takes no error.
    #[error("the client chose an export without power, by an option that takes no error")]
    Unavailable,
    /// It did not agree to fixed newstyle, and then sent an option other than a name.
    #[error("the client sent option {0}, but did not agree to fixed newstyle")]
    NotFixed(u32),
    /// It chose an export before TLS, by an option that takes no error.
    #[error("the client chose an export without TLS, by an option that takes no error")]
    NoTls,
    /// It did not wait for the answer to STARTTLS. So it is unknown whether its bytes were sent
    /// before or after the encryption began.
    #[error("the client sent something in plain text after STARTTLS")]
    Behind,
    /// It sent too many options.
    #[error("the client sent more than {0} options")]
    TooMany(u32),
}

/// The state of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TlsState {
    /// The server has no TLS.
    None,
    /// TLS has to begin.
    Due,
    /// TLS has begun.
    Begun,
}

/// One client's negotiation.
/// Bytes in, bytes out: whoever has a connection of another kind reads and writes them.
///
/// ```
/// use tantalum_export::nbd::{Handshake, Offer, Refusal, Step, wire};
///
/// let offers = [Offer {
///     name: "drive".into(),
///     description: String::new(),
///     size: 1 << 30,
///     read_only: false,
///     fast_zero: true,
///     allocation: false,
///     block_min: 1,
///     block_preferred: 4096,
///     payload_max: 32 << 20,
/// }];
/// let (mut handshake, mut out) = (Handshake::new(&offers, 100), Vec::new());
/// handshake.greeting(&mut out);
/// assert!(out.starts_with(b"NBDMAGICIHAVEOPT"));
/// // The client: fixed newstyle, no zeros. Then it asks for an export.
/// handshake.client_flags(0b11)?;
/// assert!(matches!(handshake.option(wire::opt::EXPORT_NAME, b"drive", &mut out)?, Step::Enter(_)));
/// let unknown = handshake.option(wire::opt::EXPORT_NAME, b"disk", &mut out);
/// assert_eq!(unknown, Err(Refusal::NoSuchExport));
/// # Ok::<(), Refusal>(())
/// ```
#[derive(Debug)]
pub struct Handshake<'a> {
    offers: &'a [Offer],
    fixed: bool,
    no_zeroes: bool,
    structured: bool,
    /// The export for which the metadata context was chosen.
    context: Option<usize>,
    left: u32,
    options_max: u32,
    tls: TlsState,
}

impl<'a> Handshake<'a> {
    /// A new negotiation. The first offer is also the one without a name, unless an offer is called
    /// "". The client may send `options_max` options.
    pub fn new(offers: &'a [Offer], options_max: u32) -> Handshake<'a> {
        let (fixed, no_zeroes, structured) = (false, false, false);
        Handshake {
            offers,
            fixed,
            no_zeroes,
            structured,
            context: None,
            left: options_max,
            options_max,
            tls: TlsState::None,
        }
    }

    /// The same for a server that takes no client without TLS.
    pub fn with_tls(mut self) -> Handshake<'a> {
        self.tls = TlsState::Due;
        self
    }

    /// TLS has begun. Agreements from before may come from another sender, and are forgotten.
    pub fn secured(&mut self) {
        self.tls = TlsState::Begun;
        (self.structured, self.context) = (false, None);
    }

    /// The server's first bytes.
    pub fn greeting(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&INIT_MAGIC.to_be_bytes());
        out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
        out.extend_from_slice(&flags.to_be_bytes());
    }

    /// The client's answer to the greeting.
    ///
    /// # Errors
    /// [`Refusal::Flags`].
    pub fn client_flags(&mut self, flags: u32) -> Result<(), Refusal> {
        let fixed = u32::from(handshake_flag::FIXED_NEWSTYLE);
        let no_zeroes = u32::from(handshake_flag::NO_ZEROES);
        if flags & !(fixed | no_zeroes) != 0 {
            return Err(Refusal::Flags(flags));
        }
        self.fixed = flags & fixed != 0;
        self.no_zeroes = flags & no_zeroes != 0;
        Ok(())
    }

    /// The first 16 bytes of an option. Returns the option and the length of its data.
    ///
    /// # Errors
    /// Why the client is disconnected.
    pub fn option_head(&mut self, head: &[u8; 16]) -> Result<(u32, u32), Refusal> {
        let magic = u64::from_be_bytes(std::array::from_fn(|i| head[i]));
        if magic != OPTION_MAGIC {
            return Err(Refusal::Magic(magic));
        }
        self.left = self.left.checked_sub(1).ok_or(Refusal::TooMany(self.options_max))?;
        let word = |at| u32::from_be_bytes(std::array::from_fn(|i| head[at + i]));
        let option = word(8);
        if !self.fixed && option != opt::EXPORT_NAME {
            return Err(Refusal::NotFixed(option));
        }
        Ok((option, word(12)))
    }

    /// An option whose data are too long and were skipped.
    ///
    /// # Errors
    /// Why the client is disconnected.
    pub fn too_long(&self, option: u32, out: &mut Vec<u8>) -> Result<(), Refusal> {
        if self.tls == TlsState::Due {
            return self.insist(option, out);
        }
        if option == opt::EXPORT_NAME {
            return Err(Refusal::NoSuchExport);
        }
        error(out, option, rep::ERR_TOO_BIG, "the option is too long");
        Ok(())
    }

    /// Answers that TLS has to begin first.
    fn insist(&self, option: u32, out: &mut Vec<u8>) -> Result<(), Refusal> {
        if option == opt::EXPORT_NAME {
            return Err(Refusal::NoTls);
        }
        error(out, option, rep::ERR_TLS_REQD, "this server requires TLS: begin it first");
        Ok(())
    }

    /// An option with its data. The answer is appended to `out`.
    ///
    /// # Errors
    /// Why the client is disconnected.
    pub fn option(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Result<Step, Refusal> {
        if self.tls == TlsState::Due && !matches!(option, opt::STARTTLS | opt::ABORT) {
            return self.insist(option, out).map(|()| Step::Again);
        }
        match option {
            opt::EXPORT_NAME => {
                let name = std::str::from_utf8(data).map_err(|_| Refusal::NoSuchExport)?;
                let export = self.find(name).ok_or(Refusal::NoSuchExport)?;
                return Ok(Step::Enter(Entry { export, wants: None }));
            }
            opt::ABORT => {
                reply(out, option, rep::ACK, &[]);
                return Ok(Step::Abort);
            }
            opt::LIST if !data.is_empty() => {
                error(out, option, rep::ERR_INVALID, "the list takes no data");
            }
            opt::LIST => self.list(out),
            opt::INFO | opt::GO => return Ok(self.info_or_go(option, data, out)),
            opt::STRUCTURED_REPLY if !data.is_empty() => {
                error(out, option, rep::ERR_INVALID, "structured replies take no data");
            }
            opt::STRUCTURED_REPLY => {
                self.structured = true;
                reply(out, option, rep::ACK, &[]);
            }
            opt::LIST_META_CONTEXT | opt::SET_META_CONTEXT => self.contexts(option, data, out),
            opt::STARTTLS => match self.tls {
                TlsState::None => error(out, option, rep::ERR_UNSUP, "this server has no TLS"),
                TlsState::Begun => {
                    error(out, option, rep::ERR_INVALID, "TLS has begun already");
                }
                TlsState::Due if !data.is_empty() => {
                    error(out, option, rep::ERR_INVALID, "TLS takes no data");
                }
                TlsState::Due => {
                    reply(out, option, rep::ACK, &[]);
                    return Ok(Step::Secure);
                }
            },
            _ => error(out, option, rep::ERR_UNSUP, "the option is not known"),
        }
        Ok(Step::Again)
    }

    /// The client gets the export that it has chosen. Returns the terms from now on.
    pub fn enter(&self, entry: Entry, out: &mut Vec<u8>) -> Terms {
        let offer = &self.offers[entry.export];
        match entry.wants {
            Some(wants) => {
                self.tell(opt::GO, offer, wants, out);
                reply(out, opt::GO, rep::ACK, &[]);
            }
            None => {
                out.extend_from_slice(&offer.size.to_be_bytes());
                out.extend_from_slice(&self.flags(offer).to_be_bytes());
                if !self.no_zeroes {
                    out.resize(out.len() + OLD_ZEROES, 0);
                }
            }
        }
        Terms {
            size: offer.size,
            read_only: offer.read_only,
            payload_max: offer.payload_max,
            structured: self.structured,
            allocation: self.structured && self.context == Some(entry.export),
        }
    }

    /// The client does not get the export that it has chosen, because the export has no power. It
    /// may choose again.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`] if the client's option takes no error.
    pub fn refuse(&self, entry: Entry, out: &mut Vec<u8>) -> Result<(), Refusal> {
        if entry.wants.is_none() {
            return Err(Refusal::Unavailable);
        }
        let why = "the drive has no power: restore it and connect again";
        // With ERR_UNKNOWN clients would report that there is no such export.
        error(out, opt::GO, rep::ERR_SHUTDOWN, why);
        Ok(())
    }

    fn find(&self, name: &str) -> Option<usize> {
        let first = || (name.is_empty() && !self.offers.is_empty()).then_some(0);
        self.offers.iter().position(|o| o.name == name).or_else(first)
    }

    fn list(&self, out: &mut Vec<u8>) {
        for offer in self.offers {
            let mut data = (offer.name.len() as u32).to_be_bytes().to_vec();
            data.extend_from_slice(offer.name.as_bytes());
            reply(out, opt::LIST, rep::SERVER, &data);
        }
        reply(out, opt::LIST, rep::ACK, &[]);
    }

    fn info_or_go(&self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Step {
        let mut fields = Fields(data);
        let parsed = (|| {
            let name = fields.text()?;
            let mut wants = Wants::default();
            for _ in 0..fields.half()? {
                match fields.half()? {
                    info::NAME => wants.name = true,
                    info::DESCRIPTION => wants.description = true,
                    _ => {}
                }
            }
            fields.0.is_empty().then_some((name, wants))
        })();
        let Some((name, wants)) = parsed else {
            error(out, option, rep::ERR_INVALID, "the option's data are malformed");
            return Step::Again;
        };
        let Some(export) = self.find(name) else {
            error(out, option, rep::ERR_UNKNOWN, "there is no such export");
            return Step::Again;
        };
        if option == opt::GO {
            return Step::Enter(Entry { export, wants: Some(wants) });
        }
        self.tell(option, &self.offers[export], wants, out);
        reply(out, option, rep::ACK, &[]);
        Step::Again
    }

    fn tell(&self, option: u32, offer: &Offer, wants: Wants, out: &mut Vec<u8>) {
        let mut data = info::EXPORT.to_be_bytes().to_vec();
        data.extend_from_slice(&offer.size.to_be_bytes());
        data.extend_from_slice(&self.flags(offer).to_be_bytes());
        reply(out, option, rep::INFO, &data);
        let mut data = info::BLOCK_SIZE.to_be_bytes().to_vec();
        for size in [offer.block_min, offer.block_preferred, offer.payload_max] {
            data.extend_from_slice(&size.to_be_bytes());
        }
        reply(out, option, rep::INFO, &data);
        let name = wants.name.then_some((info::NAME, &offer.name));
        let description = wants.description.then_some((info::DESCRIPTION, &offer.description));
        for (kind, text) in name.into_iter().chain(description) {
            let mut data = kind.to_be_bytes().to_vec();
            data.extend_from_slice(text.as_bytes());
            reply(out, option, rep::INFO, &data);
        }
    }

    fn flags(&self, offer: &Offer) -> u16 {
        use transmission_flag::*;
        let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN;
        if offer.read_only {
            flags |= READ_ONLY;
        } else {
            flags |= SEND_TRIM | SEND_WRITE_ZEROES;
            if offer.fast_zero {
                flags |= SEND_FAST_ZERO;
            }
        }
        if self.structured {
            flags |= SEND_DF;
        }
        flags
    }

    fn contexts(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) {
        if option == opt::SET_META_CONTEXT {
            self.context = None;
        }
        if !self.structured {
            let why = "metadata contexts need structured replies: ask for these first";
            return error(out, option, rep::ERR_INVALID, why);
        }
        let lists = option == opt::LIST_META_CONTEXT;
        let mut fields = Fields(data);
        let parsed = (|| {
            let name = fields.text()?;
            let queries = fields.word()?;
            // Without a query all are listed, and none is chosen.
            let mut wanted = lists && queries == 0;
            for _ in 0..queries {
                let query = fields.text()?;
                wanted |= query == BASE_ALLOCATION || lists && query == "base:";
            }
            fields.0.is_empty().then_some((name, wanted))
        })();
        let Some((name, wanted)) = parsed else {
            return error(out, option, rep::ERR_INVALID, "the option's data are malformed");
        };
        let Some(export) = self.find(name) else {
            return error(out, option, rep::ERR_UNKNOWN, "there is no such export");
        };
        if wanted && self.offers[export].allocation {
            let number = if lists { 0 } else { ALLOCATION_CONTEXT };
            let mut data = number.to_be_bytes().to_vec();
            data.extend_from_slice(BASE_ALLOCATION.as_bytes());
            reply(out, option, rep::META_CONTEXT, &data);
            if !lists {
                self.context = Some(export);
            }
        }
        reply(out, option, rep::ACK, &[]);
    }
}

/// The fields of an option's data, from the front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(first)
    }

    fn half(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn word(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<&'a str> {
        let bytes = self.word()? as usize;
        if bytes > NAME_BYTES {
            return None;
        }
        std::str::from_utf8(self.take(bytes)?).ok()
    }
}

fn reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

fn error(out: &mut Vec<u8>, option: u32, kind: u32, why: &str) {
    reply(out, option, kind, why.as_bytes());
}
