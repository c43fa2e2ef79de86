//! What every command has in common that lets a drive run for other programs: the drive on the wall
//! clock, its power, and its graceful end.
//!
//! 1. What is in front of the drive ([`Front`]) is told of every cut and every return of the power, in
//!    their order; its hooks never run side by side.
//! 2. A cut takes place at once, whatever is under way, even a restart.
//! 3. SIGINT and SIGTERM end the process in good order: the front stops, what it took is flushed, and the
//!    drive loses its power as by a cut. A second one ends it at once, whoever uses it; a third, wherever
//!    it is. One that comes before it can be used is an interruption, and told as such.

mod arguments;
mod control;
mod descriptors;
mod http;
mod metrics;
mod power;
mod report;
mod schedule;
mod trouble;

pub use arguments::{LiveArguments, OnCut, time_scale};
pub use power::Plug;
pub use trouble::Trouble;

use super::{create, fault, listen, words};
use crate::out;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tantalum_device::{BlockDevice, Payload, PowerCycle, Stats};
use tantalum_drive::{Design, Drive, DriveImageError, PowerState};
use tantalum_export::control::{Clients, MAX_CLIENTS};
use tantalum_nand::{ImageFile, Opening};
use tantalum_rt::wall::{Io, Signal, Signals};
use tantalum_rt::{First, Rt, Runtime, first};

/// The drive as those in front of it use it: its commands are counted, and timed.
pub type LiveDrive = Stats<Drive>;

/// Where a front is built.
#[derive(Clone)]
pub struct Site {
    pub rt: Rt,
    /// Sockets, signals and real time.
    pub io: Io,
    /// The drive. It has no power yet when the front is built.
    pub drive: LiveDrive,
}

/// What is told of the process that lets a drive run.
pub struct About {
    /// The image that the drive is in.
    pub image: Option<PathBuf>,
    /// Real seconds for each second of its clock.
    pub time_scale: f64,
    /// The last process that had the image was killed: the dump that was due then is made now.
    pub killed: bool,
}

/// What is in front of a drive that runs: a server, a mounted file.
#[allow(async_fn_in_trait)] // One thread: no future here has to be Send.
pub trait Front: 'static {
    /// The drive takes commands for the first time: begins to serve. What is to be printed on
    /// standard output, now that it can be used.
    async fn start(&self) -> Result<String, String>;

    /// The power of the drive has gone, and what its capacitors allow is done: commands on old links
    /// fail. Clients are told, or dropped.
    async fn cut(&self);

    /// The power is about to return. An error leaves the drive without power.
    async fn before_restore(&self) -> Result<(), String>;

    /// The drive takes commands again. Lines for whoever asked for it.
    async fn after_restore(&self) -> Result<Vec<String>, String>;

    /// The end is near: takes nothing more, and waits for what is under way. The drive may have no
    /// power.
    async fn stop(&self) -> Result<(), String>;

    /// The end is now, since it was asked for twice: gives up whatever [`Front::start`] or
    /// [`Front::stop`] was at, and leaves nothing behind.
    async fn give_up(&self) {}

    /// Descriptors that it takes for who uses it: for the first one, and at most.
    fn descriptors(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Its clients, and the memory that it holds for them.
    fn clients(&self) -> Option<Clients> {
        None
    }
}

/// Lets a drive run until a signal ends it: the one in `image`, or else of the design that the arguments name.
/// `build` makes what is in front of it, before the drive starts. Gives the exit code.
pub fn run<F: Front>(
    arguments: &LiveArguments,
    image: Option<&Path>,
    build: impl AsyncFnOnce(Site) -> Result<F, String> + 'static,
) -> u8 {
    if let Err(message) = arguments.check() {
        return out::error(message, out::USAGE);
    }
    let design = match (image, &arguments.design) {
        (Some(_), _) => None,
        (None, None) => {
            return out::error("give the image of a drive, or a design with --design", out::USAGE);
        }
        (None, Some(name)) => match design(name, arguments.capacity) {
            Ok(design) => Some(design),
            Err(message) => return out::error(message, out::USAGE),
        },
    };
    match try_run(arguments, image, design.as_ref(), build) {
        Ok(code) => code,
        Err(message) => out::error(message, out::FAILED),
    }
}

fn design(name: &str, capacity: Option<u64>) -> Result<Design, String> {
    let mut design = create::named(name)?;
    if let Some(bytes) = capacity {
        design = design.with_capacity(bytes).map_err(|e| e.to_string())?;
    }
    design.check().map_err(|e| e.to_string())?;
    Ok(design)
}

fn try_run<F: Front>(
    arguments: &LiveArguments,
    image: Option<&Path>,
    design: Option<&Design>,
    build: impl AsyncFnOnce(Site) -> Result<F, String> + 'static,
) -> Result<u8, String> {
    let mut runtime = Runtime::wall_time(arguments.seed, arguments.clock())
        .map_err(|e| format!("the wall clock does not start: {e}"))?;
    let rt = runtime.handle();
    let io = rt.io().ok_or("the clock has no way to sockets")?;
    let drive = match (image, design) {
        (Some(path), _) => {
            on_image(&rt, path, arguments).map_err(|e| format!("{}: {e}", path.display()))?
        }
        (None, Some(design)) => {
            Drive::new(&rt, design, Payload::Bytes).map_err(|e| e.to_string())?
        }
        (None, None) => return Err("there is neither an image nor a design".to_string()),
    };
    let killed = drive.power() == PowerState::Dying;
    let site = Site { drive: Stats::new(&rt, drive), rt, io };
    let about = About {
        image: image.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
        time_scale: arguments.time_scale,
        killed,
    };
    let life = live(site, about, arguments.clone(), build);
    runtime.block_on(life).map_err(|e| format!("the drive stands still: {e}"))?
}

fn on_image(rt: &Rt, path: &Path, arguments: &LiveArguments) -> Result<Drive, String> {
    let opening = Opening {
        host_crashed: arguments.host_crashed,
        host_sync: arguments.host_sync,
        ..Opening::default()
    };
    let image = ImageFile::open_with(path, opening).map_err(|e| e.to_string())?;
    fault::tell(path, &image, fault::POWER_CUT)
        .map_err(|e| format!("can not wait for signals: {e}"))?;
    let drive = match Drive::on_file(rt, image.clone()) {
        Err(e @ DriveImageError::Memory { .. }) if arguments.salvage => {
            out::note(format_args!("{}: {e}: what only that had is lost", path.display()));
            Drive::on_damaged_file(rt, image.clone()).map_err(|e| e.to_string())
        }
        Err(e @ DriveImageError::Memory { .. }) => {
            Err(format!("{e}. What is on its flash can be had with --salvage"))
        }
        other => other.map_err(|e| e.to_string()),
    };
    if image.was_crashed() {
        out::note(format_args!("{}: {}", path.display(), words::host_crashed(&image)));
    }
    drive
}

/// The drive's life: from power to the signal that ends it. Gives the exit code.
async fn live<F: Front>(
    site: Site,
    about: About,
    arguments: LiveArguments,
    build: impl AsyncFnOnce(Site) -> Result<F, String>,
) -> Result<u8, String> {
    let mut signals = site
        .io
        .signals(&[Signal::Interrupt, Signal::Terminate])
        .map_err(|e| format!("can not wait for signals: {e}"))?;
    let place = control::Place::of(arguments.control.as_deref(), about.image.as_deref());
    let listener = match &place {
        Some(place) => place.listen(&site.io).await?,
        None => None,
    };
    let front = build(site.clone()).await?;
    let (first_clients, all_clients) = front.descriptors();
    let controlled = u64::from(listener.is_some());
    let shown = u64::from(arguments.http.is_some());
    let plug = Rc::new(Plug::new(&site, front, about, arguments.salvage));
    if let Some(listener) = listener {
        control::begin(&plug, listener);
    }
    if let Some(at) = arguments.http {
        let at = http::begin(&plug, at)?;
        if listen::is_for_others(at) {
            out::note("note: whoever reaches this address can see what the drive does");
        }
        out::note(format_args!("status and metrics: http://{at}/"));
    }
    descriptors::provide(&descriptors::Needs {
        least: first_clients + controlled + shown,
        most: all_clients + controlled * u64::from(MAX_CLIENTS) + shown * http::CONNECTIONS as u64,
    })?;
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
                // It serves nobody; what it has is to be found by the next one.
                if site.drive.inner().power() == PowerState::On {
                    switch_off(&site).await.map_err(|other| format!("{why}; {other}"))?;
                }
                return Err(why);
            }
            First::B(()) => return at_once(&site, &plug, &mut signals).await,
        }
    };
    // It may have been too late to cut it short.
    let served = begun.filter(|_| !plug.is_stopping());
    if let Some(said) = &served {
        out::bytes(said.as_bytes());
        schedule::begin(&plug, &arguments.schedule);
        signals.next().await.map_err(|e| format!("can not wait for signals: {e}"))?;
    }
    match first(end(&site, &plug), signals.next()).await {
        First::A(stopped) => stopped?,
        First::B(_) => return at_once(&site, &plug, &mut signals).await,
    }
    match served {
        Some(_) => Ok(out::OK),
        None => Ok(out::error("interrupted before it could be used", out::INTERRUPTED as u8)),
    }
}

/// Ends without waiting for those who use the drive.
async fn at_once<F: Front>(
    site: &Site,
    plug: &Plug<F>,
    signals: &mut Signals,
) -> Result<u8, String> {
    let give_up = async {
        plug.give_up().await;
        let _announced = site.rt.outstanding("the end of the drive");
        site.drive.inner().cut();
        site.drive.inner().off().await;
    };
    first(give_up, signals.next()).await;
    Err("stopped at once, as asked for twice".to_string())
}

/// Ends in good order.
async fn end<F: Front>(site: &Site, plug: &Plug<F>) -> Result<(), String> {
    let stopped = plug.stop().await;
    let off = switch_off(site).await;
    stopped?;
    off
}

/// The drive's part of the end.
async fn switch_off(site: &Site) -> Result<(), String> {
    let drive = site.drive.inner();
    let flushed = match drive.power() {
        PowerState::On => drive.device().flush().await,
        _ => Ok(()),
    };
    let why = drive.last_failure();
    let _announced = site.rt.outstanding("the end of the drive");
    drive.cut();
    drive.off().await;
    // The process's end needs no such thing, but the machine's may come next.
    let synced = drive.image().map_or(Ok(()), |image| image.end());
    synced.map_err(|e| format!("the image could not be synced: {e}"))?;
    flushed.map_err(|e| match why {
        Some(why) => format!("the last flush failed: {e} ({why})"),
        None => format!("the last flush failed: {e}"),
    })
}
