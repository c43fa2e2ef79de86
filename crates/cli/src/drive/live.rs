//! The common part of all commands that run a box for other programs (a drive, or any other
//! [`LiveBox`]): the box on the wall clock, its power, and its orderly end.
//!
//! 1. The server or mount in front of the drive ([`Front`]) is notified of every cut and every
//!    return of the power, in order; its hooks never run concurrently.
//! 2. A cut takes place at once, whatever is under way, even a restart.
//! 3. SIGINT and SIGTERM end the process in good order: the front stops, acknowledged data is
//!    flushed, and the drive's power is cut. A second signal ends the process at once, even if the
//!    drive is in use; a third kills it. Signals within a tenth of a second are one. A signal before
//!    the drive is ready is reported as an interruption.
//! 4. A request that gives up the cache of a box ends the process in the same order
//!    (`power/detach.rs`), and so does who unmounts what it has mounted ([`Front::left`]).

mod arguments;
mod boxes;
mod control;
mod descriptors;
mod host_file;
mod http;
mod metrics;
mod power;
mod report;
mod schedule;
mod source;
mod trouble;

#[cfg(feature = "torture")]
pub use arguments::time_scale;
pub use arguments::{LiveArguments, OnCut};
pub use boxes::ServedBox;
pub use power::Plug;
pub use trouble::Trouble;

use super::{inspect, listen, view};
use crate::members::{Group, ServedLog};
use crate::{fault, members, out};
use source::Source;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tantalum_device::{Disk, LiveBox, Payload, PowerState, RaidBox, RamDevice, RamOptions, Stats};
use tantalum_drive::{Drive, DriveImageError};
use tantalum_export::control::{Clients, MAX_CLIENTS};
use tantalum_nand::{ImageError, ImageFile};
use tantalum_rt::wall::{Io, Signal, Signals};
use tantalum_rt::{First, Nanos, Rt, Runtime, first};

/// The box as its front uses it: commands are counted and timed.
pub type Live<B> = Stats<B>;

/// Where a front is built.
#[derive(Clone)]
pub struct Site<B> {
    pub rt: Rt,
    /// Sockets, signals and real time.
    pub io: Io,
    /// The box. It may still be without power when the front is built.
    pub drive: Live<B>,
}

/// What clients can ask about the process that runs a box.
pub struct About {
    /// The file that the box is in.
    pub image: Option<PathBuf>,
    /// Real seconds for each second of its clock.
    pub time_scale: f64,
    /// The last process that had the image was killed: the first start writes its dump.
    pub killed: bool,
    /// The log below a log volume.
    pub log: Option<Rc<ServedLog>>,
}

/// What went wrong, in a line, and the exit code.
pub type Failure = (String, u8);

fn failed(why: String) -> Failure {
    (why, out::FAILED)
}

/// Builds the front of a box.
#[allow(async_fn_in_trait)] // One thread: no future here has to be Send.
pub trait Build: 'static {
    /// The front.
    type Front: Front;

    /// Whether the front only reads the box. Then a file is opened for reading only.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Builds the front before the box starts.
    async fn build(self, site: Site<ServedBox>) -> Result<Self::Front, Failure>;
}

/// The front of a running drive: a server or a mounted file.
#[allow(async_fn_in_trait)] // One thread: no future here has to be Send.
pub trait Front: 'static {
    /// Begins to serve: the drive takes commands for the first time. Returns the text that is
    /// printed on standard output when the drive is ready.
    async fn start(&self) -> Result<String, String>;

    /// Waits until it has ended from outside, and returns a line about that. Then the process ends as
    /// at a signal.
    async fn left(&self) -> String {
        std::future::pending().await
    }

    /// The drive is off, after its work on capacitors, and commands on old links fail. Fails the
    /// commands of clients, or disconnects them.
    async fn cut(&self);

    /// The power is about to return. An error leaves the drive without power.
    async fn before_restore(&self) -> Result<(), String>;

    /// The drive takes commands again. Returns lines for the client that restored it.
    async fn after_restore(&self) -> Result<Vec<String>, String>;

    /// Takes no further requests, and waits for those under way. The drive may have no power.
    async fn stop(&self) -> Result<(), String>;

    /// Ends at once, after a second signal: interrupts [`Front::start`] or [`Front::stop`], and
    /// leaves nothing behind.
    async fn give_up(&self) {}

    /// Who keeps [`Front::stop`] from its end, in a line.
    fn in_use(&self) -> Option<String> {
        None
    }

    /// Descriptors that its clients need: for the first client, and at most for all.
    fn descriptors(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Its clients, and the memory that it holds for them.
    fn clients(&self) -> Option<Clients> {
        None
    }
}

/// Runs a box until a signal ends it: the drive in `image`, or the box of the arguments. `build`
/// makes the front before the box starts. The command is one of drives, or `of` a group of
/// descriptions. Returns the exit code.
pub fn run(
    arguments: &LiveArguments,
    image: Option<&Path>,
    of: Option<Group>,
    build: impl Build,
) -> u8 {
    if let Err(message) = arguments.check() {
        return out::error(message, out::USAGE);
    }
    let source = match Source::of(arguments, image, build.is_read_only(), of) {
        Ok(source) => source,
        Err(message) => return out::error(message, out::USAGE),
    };
    match try_run(arguments, &source, build) {
        Ok(code) => code,
        Err((message, code)) => out::error(message, code),
    }
}

/// An error comes with its exit code: a box that is in use, not there or not what it should be is an
/// invalid request, whichever box it is.
fn try_run(arguments: &LiveArguments, source: &Source, build: impl Build) -> Result<u8, Failure> {
    let usage = |why| (why, out::USAGE);
    let mut runtime = Runtime::wall_time(arguments.seed, arguments.clock())
        .map_err(|e| failed(format!("the wall clock does not start: {e}")))?;
    let rt = runtime.handle();
    match source {
        Source::Image(path) => {
            let drive = on_image(&rt, path, arguments);
            let drive =
                drive.map_err(|(why, code)| (format!("{}: {why}", path.display()), code))?;
            let_run(runtime, ServedBox::Drive(drive), Some(path), arguments, build)
        }
        Source::Log(path) => {
            let opened = members::volume(&mut runtime, path, arguments.opening());
            let (volume, log) = opened.map_err(usage)?;
            let log = Rc::new(log);
            check_time(path, log.is_real(), arguments)?;
            log.watch();
            let files = (Some(path.as_path()), Some(log.clone()));
            let ended =
                let_run_with(runtime, ServedBox::Log(volume.clone()), files, arguments, build);
            let code = ended.map_err(|(why, code)| match volume.start_failure() {
                Some(failure) => (why, members::volume_code(&failure)),
                None => (why, code),
            })?;
            log.shut().map_err(failed)?;
            Ok(code)
        }
        Source::Cache(path) => {
            let opened = members::cache_volume(&mut runtime, path, arguments.opening());
            let (volume, members) = opened.map_err(usage)?;
            check_time(path, members.are_real(), arguments)?;
            let bare = ServedBox::Cache(volume.clone());
            let ended = let_run(runtime, bare, Some(path), arguments, build);
            let code = ended.map_err(|(why, code)| {
                let failure = volume.start_failure();
                let code = failure.map_or(code, |failure| members::cache_volume_code(&failure));
                (members::cache_told(path, why), code)
            })?;
            members.shut().map_err(failed)?;
            Ok(code)
        }
        Source::Design(design) => {
            let drive = Drive::new(&rt, design, Payload::Bytes);
            let drive = drive.map_err(|e| usage(e.to_string()))?;
            let_run(runtime, ServedBox::Drive(drive), None, arguments, build)
        }
        Source::Ram(caps) => {
            let ram = RamDevice::new(&rt, RamOptions::new(*caps));
            let_run(runtime, ServedBox::Ram(ram), None, arguments, build)
        }
        Source::Disk(model) => {
            let disk = Disk::new(&rt, model, Payload::Bytes).map_err(usage)?;
            let_run(runtime, ServedBox::Disk(disk), None, arguments, build)
        }
        Source::Disks(members, model, chunk) => {
            let one = |place| Disk::on_bus(&rt, model, Payload::Bytes, None, place);
            let disks = (0..*members).map(one);
            let disks = disks.collect::<Result<Vec<Disk>, String>>().map_err(usage)?;
            let array = RaidBox::new(disks, *chunk).map_err(usage)?;
            let_run(runtime, ServedBox::Disks(array), None, arguments, build)
        }
        Source::File(path, settings, length) => {
            match host_file::open(&mut runtime, path, settings, *length)? {
                Some(file) => let_run(runtime, ServedBox::File(file), Some(path), arguments, build),
                None => Ok(interrupted()),
            }
        }
    }
}

/// A clock that jumps would overtake devices that take real time: they would seem not to answer.
fn check_time(path: &Path, are_real: bool, arguments: &LiveArguments) -> Result<(), Failure> {
    if !are_real || arguments.time_scale > 0.0 {
        return Ok(());
    }
    let why = format!(
        "{}: --time-scale 0 does not wait for devices of this machine, and some of these are: leave \
         it out",
        path.display()
    );
    Err((why, out::USAGE))
}

/// Lets the box run.
fn let_run(
    runtime: Runtime,
    bare: ServedBox,
    image: Option<&Path>,
    arguments: &LiveArguments,
    build: impl Build,
) -> Result<u8, Failure> {
    let_run_with(runtime, bare, (image, None), arguments, build)
}

/// The same, with the log below it if it is a log volume.
fn let_run_with(
    mut runtime: Runtime,
    bare: ServedBox,
    (image, log): (Option<&Path>, Option<Rc<ServedLog>>),
    arguments: &LiveArguments,
    build: impl Build,
) -> Result<u8, Failure> {
    let rt = runtime.handle();
    let io = rt.io().ok_or_else(|| failed("the clock has no sockets".to_string()))?;
    let about = About {
        image: image.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
        time_scale: arguments.time_scale,
        killed: bare.power_state() == PowerState::Dying,
        log,
    };
    let site = Site { drive: Stats::new(&rt, bare), rt, io };
    let life = live(site, about, arguments.clone(), build);
    runtime.block_on(life).map_err(|e| failed(format!("the process has stalled: {e}")))?
}

/// The error comes with its exit code.
fn on_image(rt: &Rt, path: &Path, arguments: &LiveArguments) -> Result<Drive, (String, u8)> {
    let refused = |e: ImageError| (inspect::in_words(&e), inspect::code(&e));
    let image = ImageFile::open_with(path, arguments.opening()).map_err(refused)?;
    fault::tell(&[(path, &image)], fault::POWER_CUT)
        .map_err(|e| (format!("cannot wait for signals: {e}"), out::FAILED))?;
    let drive = match Drive::on_file(rt, image.clone()) {
        Err(e @ DriveImageError::Memory { .. }) if arguments.salvage => {
            out::note(format_args!("{}: {e}: data that only it had are lost", path.display()));
            Drive::on_damaged_file(rt, image.clone()).map_err(|e| e.to_string())
        }
        Err(e @ DriveImageError::Memory { .. }) => {
            Err(format!("{e}. --salvage starts it with the data on its flash"))
        }
        other => other.map_err(|e| e.to_string()),
    };
    if image.was_crashed() {
        out::note(format_args!("{}: {}", path.display(), view::host_crashed(&image)));
    }
    drive.map_err(|why| (why, out::FAILED))
}

/// The drive's life: from power to the signal that ends it. Gives the exit code.
async fn live(
    site: Site<ServedBox>,
    about: About,
    arguments: LiveArguments,
    build: impl Build,
) -> Result<u8, Failure> {
    let no_signals = |e| failed(format!("cannot wait for signals: {e}"));
    let mut signals = Asked::new(&site.io).map_err(no_signals)?;
    let place = control::Place::of(arguments.control.as_deref(), about.image.as_deref());
    let listener = match &place {
        Some(place) => place.listen(&site.io).await?,
        None => None,
    };
    let front = build.build(site.clone()).await?;
    let (first_clients, all_clients) = front.descriptors();
    let controlled = u64::from(listener.is_some());
    let shown = u64::from(arguments.http.is_some());
    let plug = Rc::new(Plug::new(&site, front, about, arguments.salvage));
    let control = listener.map(|listener| control::begin(&plug, listener));
    if let Some(at) = arguments.http {
        let at = http::begin(&plug, at, arguments.allow_control)?;
        if listen::is_for_others(at) {
            out::note("note: everybody who reaches this address can see what the drive does");
        }
        out::note(format_args!("status and metrics: http://{at}/"));
    }
    descriptors::provide(&descriptors::Needs {
        least: first_clients + controlled + shown,
        most: all_clients + controlled * u64::from(MAX_CLIENTS) + shown * http::CONNECTIONS as u64,
    })
    .map_err(failed)?;
    let begun = {
        let twice = async {
            if signals.next().await.is_ok() {
                if plug.interrupt() {
                    out::note("stopping once it is set up; a second signal stops it at once");
                }
                let _ = signals.next().await;
            }
        };
        match first(plug.begin(), twice).await {
            First::A(Ok(begun)) => begun,
            First::A(Err(why)) => {
                // No client is served, but the next process needs the drive's content.
                if site.drive.inner().power_state() == PowerState::On {
                    let off = switch_off(&site).await;
                    off.map_err(|other| failed(format!("{why}; {other}")))?;
                }
                return Err(failed(why));
            }
            First::B(()) => return Err(at_once(&site, &plug, &mut signals).await),
        }
    };
    // It may have ended before it could be interrupted.
    let served = begun.filter(|_| !plug.is_stopping());
    // Without a client it ends by a signal, too.
    let mut signalled = served.is_none();
    if let Some(said) = &served {
        out::bytes(said.as_bytes());
        schedule::begin(&plug, &arguments.schedule);
        let asked = first(signals.next(), plug.until_to_detach());
        match first(asked, plug.front().left()).await {
            First::A(First::A(signal)) => {
                signal.map_err(no_signals)?;
                signalled = true;
            }
            First::A(First::B(())) => {}
            First::B(left) => out::note(left),
        }
    }
    let ending = async {
        let ended = end(&site, &plug).await;
        if let Some(control) = control.filter(|_| plug.is_to_detach()) {
            control.answered().await;
        }
        ended
    };
    let second = async {
        if !signalled {
            signals.next().await.map_err(no_signals)?;
            let how = if plug.is_to_detach() { ", with its cache given up" } else { "" };
            out::note(format_args!("it is ending already{how}; a second signal ends it at once"));
        }
        signals.next().await.map_err(no_signals)
    };
    match first(ending, second).await {
        First::A(stopped) => stopped.map_err(failed)?,
        First::B(_) => return Err(at_once(&site, &plug, &mut signals).await),
    }
    match served {
        Some(_) => Ok(out::OK),
        None => Ok(interrupted()),
    }
}

/// Signals that ask the process to end.
struct Asked {
    io: Io,
    signals: Signals,
    /// When the last one came.
    last: Option<Nanos>,
}

impl Asked {
    /// Signals in less time are one: `timeout` sends its signal to the process, and then to its group.
    const ONE: Nanos = Nanos::from_millis(100);

    fn new(io: &Io) -> std::io::Result<Asked> {
        let signals = io.signals(&[Signal::Interrupt, Signal::Terminate])?;
        Ok(Asked { io: io.clone(), signals, last: None })
    }

    async fn next(&mut self) -> std::io::Result<()> {
        loop {
            self.signals.next().await?;
            let now = self.io.real_now();
            if self.last.is_none_or(|last| now.saturating_sub(last) > Asked::ONE) {
                self.last = Some(now);
                return Ok(());
            }
        }
    }
}

fn interrupted() -> u8 {
    out::error("interrupted before it was ready", out::INTERRUPTED as u8)
}

/// Ends without waiting for users of the drive, and says so.
async fn at_once<B: LiveBox, F: Front>(
    site: &Site<B>,
    plug: &Plug<B, F>,
    signals: &mut Asked,
) -> Failure {
    let give_up = async {
        plug.give_up().await;
        let _announced = site.rt.outstanding("the end of the drive");
        site.drive.inner().cut();
        site.drive.inner().off().await;
    };
    first(give_up, signals.next()).await;
    failed("stopped at once by a second signal".to_string())
}

/// Ends in good order, with the cache of the box or without it.
async fn end<B: LiveBox, F: Front>(site: &Site<B>, plug: &Plug<B, F>) -> Result<(), String> {
    let stopped = plug.stop().await;
    if plug.is_to_detach() {
        let detached = match stopped {
            Ok(()) => plug.detach_unused().await,
            Err(why) => Err(why),
        };
        let off = match &detached {
            Ok(_) => unplug(site).await,
            Err(_) => switch_off(site).await,
        };
        return plug.answer_detach(detached.and_then(|first_byte| off.map(|()| first_byte)));
    }
    let off = switch_off(site).await;
    stopped?;
    off
}

/// The drive's part of the end.
async fn switch_off<B: LiveBox>(site: &Site<B>) -> Result<(), String> {
    let drive = site.drive.inner();
    let flushed = match drive.power_state() {
        PowerState::On => drive.close().await,
        _ => Ok(()),
    };
    let why = drive.failure();
    unplug(site).await?;
    flushed.map_err(|e| match why {
        Some(why) => format!("the last flush failed: {e} ({why})"),
        None => format!("the last flush failed: {e}"),
    })
}

/// Takes the power of a drive for good.
async fn unplug<B: LiveBox>(site: &Site<B>) -> Result<(), String> {
    let drive = site.drive.inner();
    let _announced = site.rt.outstanding("the end of the drive");
    drive.cut();
    drive.off().await;
    // The machine may be switched off next: the image must be on the host's disk.
    drive.shut()
}
