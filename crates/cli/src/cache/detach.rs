//! `tantalum cache detach`: by the process that serves the cache, or here if nobody does.
//!
//! 1. A process that is asked ends its clients before it gives up the flash device. They were told
//!    that a write of a page is all or nothing, which the slow device alone does not promise.
//! 2. The command ends after that process, so that the slow device is free then.

use super::started::{Failed, with_volume};
use crate::bar::Bar;
use crate::counted::counted;
use crate::drive::remote;
use crate::members::{
    CacheDescription, LabelPlace, cache_in_words, cache_told, is_cache, is_description,
};
use crate::out;
use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;
use tantalum_export::control::{Client, ClientError, DetachReport, Kind};

/// Arguments of `tantalum cache detach`.
#[derive(Args)]
#[command(
    override_usage = "tantalum cache detach [OPTIONS] <CACHE.toml|SOCKET>",
    after_help = "\
Examples:
  tantalum cache detach c.toml
  tantalum cache detach c.control          that of --control c.control

The cache may be served meanwhile. Then its process brings everything to the slow
device while clients go on, ends these as at Ctrl-C, brings what they wrote last, and
ends with exit code 0. Clients cannot go on without the flash device: they rely on
writes of a page that are all or nothing, which the slow device alone does not promise.
If the slow device refuses a page, the process serves the cache as before. The process
goes on if this command is interrupted: ask again, and you get the same answer. Ctrl-C
of the process itself ends it with its cache. A mount that is in use is waited for: the
command says by whom.

Afterwards the slow device has everything: the blocks of the volume lie behind its
first 1 MiB, or from its beginning on if it was created with --adopt. The flash device
is refused as its cache ever after. (`tantalum cache create --force` makes a new one
before the same slow device.)
Exit codes: 0, the slow device has everything; 1, it has not, and nothing was given up,
or the process that serves the cache ended before it said so; 2, there is no such cache,
or it is in use, or its devices do not belong together."
)]
pub struct DetachArguments {
    /// The description of the cache, or the control socket of the process that serves it
    #[arg(value_name = "CACHE.toml|SOCKET")]
    cache: PathBuf,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    json: bool,
}

/// What is where, as docs/json.md has it.
#[derive(Serialize)]
struct Report {
    cache: String,
    slow: String,
    /// The volume begins there on the slow device.
    first_byte: u64,
}

/// Runs the command; returns the exit code.
pub fn detach(arguments: &DetachArguments) -> u8 {
    let path = &arguments.cache;
    let detached = match remote::served(path) {
        Ok(Some(client)) => ask(client, path),
        Ok(None) => try_detach(path),
        Err(why) => Err((why, out::USAGE)),
    };
    let (description, first_byte) = match detached {
        Ok(detached) => detached,
        Err((why, code)) => return out::error(why, code),
    };
    let cache = path.display().to_string();
    if arguments.json {
        let slow = description.slow.display().to_string();
        return out::json(&Report { cache, slow, first_byte });
    }
    out::bytes(format!("{cache}: {}\n", description.has_everything(first_byte)).as_bytes())
}

fn try_detach(path: &Path) -> Result<(CacheDescription, u64), Failed> {
    with_volume(path, async |volume| {
        let cache = volume.cache().ok_or("it does not start")?;
        let detached = cache.detach().await.map_err(cache_in_words);
        if detached.is_err() {
            // Nothing was given up: the next start is warm. What is wrong is told already.
            let _ = volume.close().await;
        }
        detached
    })?;
    let description = CacheDescription::read(path).map_err(|why| (why, out::FAILED))?;
    let first_byte = if description.label == LabelPlace::Begin { 1 << 20 } else { 0 };
    Ok((description, first_byte))
}

/// Asks the process that serves the cache, and waits until it has ended (2).
fn ask(mut client: Client, path: &Path) -> Result<(CacheDescription, u64), Failed> {
    let refused = |e: ClientError| {
        let none = matches!(&e, ClientError::Refused(refusal) if refusal.kind == Kind::NoCache);
        let code = if none { out::USAGE } else { remote::exit_code(&e) };
        (format!("{}: {}", path.display(), cache_told(path, e)), code)
    };
    let status = client.status().map_err(refused)?;
    let at = status.image.map(PathBuf::from).filter(|at| is_description(at) && is_cache(at));
    let description = at.map(|at| CacheDescription::lasting(&at)).transpose();
    let description = description.map_err(|why| (why, out::USAGE))?;
    let process = i32::try_from(status.pid).ok().and_then(Pid::from_raw);
    let process = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let DetachReport { first_byte } = show(&mut client, path).map_err(|e| match e {
        // Something may have been done. The next command finds out, and does the rest.
        ClientError::Gone => (
            format!(
                "{}: the process that serves it has ended, or has closed this connection, before it \
                 said that the slow device has everything: repeat the command",
                path.display()
            ),
            out::FAILED,
        ),
        e => refused(e),
    })?;
    if let Some(process) = process {
        // An error means that nothing is known of it.
        let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], None);
    }
    // (A process without a description has no cache, and has said so.)
    let description = description.map_or_else(|| CacheDescription::read(path), Ok);
    Ok((description.map_err(|why| (why, out::FAILED))?, first_byte))
}

/// How often a user sees how far it is.
const EVERY: Duration = Duration::from_millis(200);

/// Has it done, and shows how far it is.
#[allow(clippy::disallowed_methods, reason = "the edge: a thread that asks how far it is")]
fn show(client: &mut Client, path: &Path) -> Result<DetachReport, ClientError> {
    let bar = Bar::new(0, "{bar:20} {msg}");
    let (going, over) = channel();
    let told = thread::scope(|scope| {
        scope.spawn(|| watch(path, &bar, over));
        let told = client.detach();
        drop::<Sender<()>>(going);
        told
    });
    bar.clear();
    told
}

/// Asks how far it is until it is over, and who keeps it from its end.
fn watch(path: &Path, bar: &Bar, over: Receiver<()>) {
    let Ok(Some(mut client)) = remote::served(path) else { return };
    let (mut begin, mut in_use) = (None, None);
    while over.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
        let (Ok(stats), Ok(status)) = (client.stats(), client.status()) else { return };
        let count = |name| stats.values.count(name);
        let (Some(written), Some(dirty)) = (count("slow.writes"), count("cache.dirty")) else {
            return;
        };
        let done = written.saturating_sub(*begin.get_or_insert(written));
        bar.set_length(done + dirty);
        let pages = counted(done, "page", "pages");
        bar.set_message(format!("{pages} brought to the slow device, {dirty} to go"));
        bar.advance(done.saturating_sub(bar.position()), "pages brought to the slow device");
        let users = status.lines.into_iter().find(|line| line.label == "in use");
        let users = users.map(|line| line.text);
        if let Some(who) = users.as_ref().filter(|_| users != in_use) {
            bar.note(&format!("{who}. The cache is given up when they are done"));
        }
        in_use = users;
    }
}
