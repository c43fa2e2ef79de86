//! The session of one client, from its first byte to its last.

use super::connection::Connection;
use super::handshake::{Handshake, Refusal, Step};
use super::intake::Intake;
use super::memory::Accounts;
use super::request::Terms;
use super::secure::Secure;
use super::server::{OnCut, Options, Switch, pause};
use super::stream::Stream;
use super::tls::Tls;
use super::wire::OPTION_BYTES;
use super::{Export, Offer};
use std::io;
use std::rc::Rc;
use tantalum_device::{IoError, PowerCycle};
use tantalum_rt::{First, Nanos, Rt, first};

/// Longer data of an option are skipped. This is enough for a name and many queries.
const OPTION_MAX: usize = 64 << 10;

/// The real time that a client has to receive the end of TLS.
pub(super) const FAREWELL: Nanos = Nanos::from_secs(1);

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum End {
    /// The client disconnected.
    #[error("the client disconnected")]
    Gone,
    /// The client disconnected in the middle of an option or a request.
    #[error("the client disconnected in the middle of an option or a request")]
    CutShort,
    /// The client broke the rules of the negotiation.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The client sent something that is not a request.
    #[error("the client sent something that is not a request")]
    NotARequest,
    /// The negotiation took too long.
    #[error("the client did not choose an export in time")]
    TooSlow,
    /// TLS could not begin.
    #[error("TLS did not begin: {0}")]
    Tls(String),
    /// The stream failed.
    #[error("the connection failed: {0}")]
    Io(io::ErrorKind),
    /// The drive's power was cut, and [`OnCut::Drop`] ends the connection then.
    #[error("the drive lost its power")]
    PowerLost,
    /// The server stops.
    #[error("the server stops")]
    Stopped,
    /// The system has no memory for the client.
    #[error("the system has no memory for it")]
    NoMemory,
    /// A read failed after some of its data were sent. Only the end of the connection can report
    /// that.
    #[error("a read failed after a part of its data was sent")]
    HalfAnswered,
}

/// What all sessions of a server share.
pub(crate) struct Common<P: PowerCycle> {
    pub rt: Rt,
    pub exports: Vec<Export<P>>,
    pub offers: Vec<Offer>,
    pub options: Options,
    /// If it is there, no client is taken without TLS.
    pub tls: Option<Tls>,
}

/// The outcome of the negotiation: the export, and the terms.
type Chosen = (usize, Terms);

/// How the negotiation ended.
enum Agreed<S> {
    Plain(Chosen),
    Secure(Rc<Secure<S>>, Chosen),
}

/// Runs the session.
pub(crate) async fn run<S: Stream, P: PowerCycle + 'static>(
    common: &Common<P>,
    stream: Rc<S>,
    switch: Rc<Switch>,
    accounts: Accounts,
    chosen: impl FnOnce(usize),
) -> End {
    let rt = &common.rt;
    let Ok(intake) = Intake::new(rt, &accounts).await else {
        stream.shutdown();
        return End::NoMemory;
    };
    let end = talk(common, stream, switch, &accounts, intake, chosen).await;
    accounts.close();
    end
}

async fn talk<S: Stream, P: PowerCycle + 'static>(
    common: &Common<P>,
    stream: Rc<S>,
    switch: Rc<Switch>,
    accounts: &Accounts,
    mut intake: Intake,
    chosen: impl FnOnce(usize),
) -> End {
    let rt = &common.rt;
    let negotiated = {
        let talk = negotiate(common, &stream, &mut intake);
        let patience = pause(rt, common.options.limits.handshake);
        match first(first(talk, switch.turned()), patience).await {
            First::A(First::A(result)) => result,
            First::A(First::B(())) => Err(End::Stopped),
            First::B(()) => Err(End::TooSlow),
        }
    };
    match negotiated {
        Ok(Agreed::Plain(agreed)) => {
            transmit(common, stream, agreed, accounts, intake, switch, chosen).await
        }
        Ok(Agreed::Secure(stream, agreed)) => {
            transmit(common, stream, agreed, accounts, intake, switch, chosen).await
        }
        Err(end) => {
            stream.shutdown();
            end
        }
    }
}

async fn transmit<S: Stream, P: PowerCycle + 'static>(
    common: &Common<P>,
    stream: Rc<S>,
    (export, terms): Chosen,
    accounts: &Accounts,
    intake: Intake,
    switch: Rc<Switch>,
    chosen: impl FnOnce(usize),
) -> End {
    chosen(export);
    let access = common.exports[export].access();
    let how = (common.options.limits, common.options.on_cut);
    let rt = &common.rt;
    let connection = Connection::new(rt, stream, access, terms, how, switch, accounts.clone());
    Rc::new(connection).run(intake).await
}

/// The whole negotiation, with TLS if the server has it.
async fn negotiate<S: Stream, P: PowerCycle>(
    common: &Common<P>,
    stream: &Rc<S>,
    intake: &mut Intake,
) -> Result<Agreed<S>, End> {
    let mut handshake = Handshake::new(&common.offers, common.options.limits.options);
    let tls = common.tls.as_ref();
    if tls.is_some() {
        handshake = handshake.with_tls();
    }
    let mut out = Vec::new();
    handshake.greeting(&mut out);
    say(&**stream, &mut out).await?;
    let flags = *bytes::<4>(&**stream, intake).await?;
    intake.used(4);
    handshake.client_flags(u32::from_be_bytes(flags))?;
    let agreed = options(common, &**stream, intake, &mut handshake).await?;
    match (agreed, tls) {
        (Some(chosen), _) => Ok(Agreed::Plain(chosen)),
        (None, Some(tls)) => {
            let secure = Secure::accept(stream.clone(), tls).await;
            let secure = Rc::new(secure.map_err(|e| End::Tls(e.to_string()))?);
            handshake.secured();
            let talked = options(common, &*secure, intake, &mut handshake).await;
            match talked {
                Ok(Some(chosen)) => Ok(Agreed::Secure(secure, chosen)),
                other => {
                    first(secure.farewell(), pause(&common.rt, FAREWELL)).await;
                    // TLS begins only once.
                    Err(other.err().unwrap_or(End::Refused(Refusal::Behind)))
                }
            }
        }
        (None, None) => Err(End::Refused(Refusal::Behind)),
    }
}

/// Takes options until the client has chosen; `None` if TLS is to begin.
async fn options<P: PowerCycle>(
    common: &Common<P>,
    stream: &impl Stream,
    intake: &mut Intake,
    handshake: &mut Handshake<'_>,
) -> Result<Option<Chosen>, End> {
    let mut out = Vec::new();
    loop {
        let head = *bytes::<OPTION_BYTES>(stream, intake).await?;
        intake.used(OPTION_BYTES);
        let (option, length) = handshake.option_head(&head)?;
        if length as usize > OPTION_MAX {
            pass_over(stream, intake, length as usize).await?;
            handshake.too_long(option, &mut out)?;
            say(stream, &mut out).await?;
            continue;
        }
        at_least(stream, intake, length as usize).await?;
        let step = handshake.option(option, &intake.content()[..length as usize], &mut out)?;
        intake.used(length as usize);
        match step {
            Step::Again => {}
            Step::Abort => {
                say(stream, &mut out).await?;
                return Err(End::Gone);
            }
            Step::Secure => {
                // An attacker on the way may have added these bytes, so that they would be taken as
                // the client's own once TLS has begun.
                if !intake.content().is_empty() {
                    return Err(End::Refused(Refusal::Behind));
                }
                say(stream, &mut out).await?;
                return Ok(None);
            }
            Step::Enter(entry) => {
                let probe = common.exports[entry.export].access().probe().await;
                if probe == Err(IoError::PowerLost) {
                    if common.options.on_cut == OnCut::Drop {
                        return Err(End::PowerLost);
                    }
                    handshake.refuse(entry, &mut out)?;
                } else {
                    let terms = handshake.enter(entry, &mut out);
                    say(stream, &mut out).await?;
                    return Ok(Some((entry.export, terms)));
                }
            }
        }
        say(stream, &mut out).await?;
    }
}

async fn say(stream: &impl Stream, out: &mut Vec<u8>) -> Result<(), End> {
    let (sent, buf) = stream.send(std::mem::take(out)).await;
    *out = buf;
    out.clear();
    sent.map_err(|e| End::Io(e.kind()))
}

/// Waits until this many bytes have arrived. They stay in the intake.
async fn at_least(stream: &impl Stream, intake: &mut Intake, count: usize) -> Result<(), End> {
    while intake.content().len() < count {
        intake.make_room(count);
        match intake.fill(stream).await {
            Ok(0) if intake.content().is_empty() => return Err(End::Gone),
            Ok(0) => return Err(End::CutShort),
            Ok(_) => {}
            Err(error) => return Err(End::Io(error.kind())),
        }
    }
    Ok(())
}

async fn bytes<'a, const N: usize>(
    stream: &impl Stream,
    intake: &'a mut Intake,
) -> Result<&'a [u8; N], End> {
    at_least(stream, intake, N).await?;
    intake.content().first_chunk().ok_or(End::CutShort)
}

async fn pass_over(stream: &impl Stream, intake: &mut Intake, mut count: usize) -> Result<(), End> {
    while count > 0 {
        at_least(stream, intake, 1).await?;
        let over = intake.content().len().min(count);
        intake.used(over);
        count -= over;
    }
    Ok(())
}
