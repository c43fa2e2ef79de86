//! Arguments of all commands that run a drive.

use crate::drive::listen;
use crate::units::{self, time};
use clap::{ArgGroup, Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use tantalum_export::nbd;
use tantalum_nand::Opening;
use tantalum_rt::Nanos;
use tantalum_rt::wall::{Backend, WallOptions};

/// The common arguments.
#[derive(Args, Clone)]
#[command(group(ArgGroup::new("blank").args(["design", "disk", "ram", "file"])))]
#[command(group(ArgGroup::new("sized").args(["design", "disk", "file"]).multiple(true)))]
pub struct LiveArguments {
    /// A blank drive in memory instead of an image, of this design: a preset (see `tantalum
    /// designs`) or a TOML file
    #[arg(long, value_name = "DESIGN")]
    pub design: Option<String>,
    /// A blank magnetic disk in memory instead of an image, of this model (a preset: disk-15k), or
    /// several as a RAID-0 (4xdisk-15k)
    #[arg(long, value_name = "MODEL")]
    pub disk: Option<String>,
    /// A RAM device of this size instead of an image; commands take no time, blocks have 4 KiB
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    pub ram: Option<u64>,
    /// A regular file or a block device of the host as it is, instead of an image: its blocks are
    /// those of the drive. A cut cuts only the connection to it: the host keeps its power. With
    /// --capacity a file that does not exist is created, full of zeros
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Read and write the file of --file through the host's page cache instead of direct I/O
    #[arg(long)]
    pub buffered: bool,
    /// Discarded blocks of the file of --file stay allocated: no later write lacks space
    #[arg(long)]
    pub keep_room: bool,
    /// Which acknowledged writes to --ram survive a power cut [default: volatile]
    #[arg(long, value_enum)]
    pub ram_ack: Option<RamAck>,
    /// The least capacity of --design, --disk (of a RAID-0: of all together) or --file, for instance
    /// 8GiB [default: its own]. Only written data takes memory; a new file is allocated as a whole
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, requires = "sized")]
    pub capacity: Option<u64>,
    /// Start the drive even if its emergency dump is not complete, or pages that the start reads
    /// are damaged: data that only these had is lost
    #[arg(long)]
    pub salvage: bool,
    /// Open an image even if the host crashed while it was in use: all of it is verified, and pages
    /// that are not what was programmed cannot be read. The newest writes may be missing
    #[arg(long, conflicts_with = "blank")]
    pub host_crashed: bool,
    /// Answer a flush, or a write with forced unit access, only when its data is on the host's own
    /// disk, too: it survives a crash of the host
    #[arg(long, conflicts_with = "blank")]
    pub host_sync: bool,
    /// Real seconds for each second of the drive's clock: 1 for its modelled latencies, 0 for as
    /// fast as the code goes
    #[arg(long, value_name = "F", default_value_t = 1.0, value_parser = time_scale)]
    pub time_scale: f64,
    /// The control socket for `tantalum drive cut`, `restore`, `status`, `stats` and `top`
    /// [default: IMAGE.control beside the image]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Serve a live page, status, statistics and metrics for Prometheus over HTTP at this address;
    /// a port alone is on 127.0.0.1
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen::address)]
    pub http: Option<SocketAddr>,
    /// Let the page of --http cut and restore the power; on an address of this machine only
    #[arg(long, requires = "http")]
    pub allow_control: bool,
    /// Allow addresses that other machines can reach without a certificate: for --tcp without
    /// --tls, and for --http
    #[arg(long)]
    pub insecure: bool,
    /// How clients notice that the power was cut
    #[arg(long, value_enum, default_value_t = OnCut::Errors)]
    pub on_cut: OnCut,
    /// The interface for I/O
    #[arg(long, value_enum, default_value_t = IoBackend::Auto)]
    io: IoBackend,
    /// The longest time to spin instead of sleeping, before a timer is due or a request is
    /// expected: takes processor time, improves punctuality; a number alone is of microseconds
    #[arg(long, value_name = "TIME", default_value = "60us",
          value_parser = units::time_within(Nanos(0)..=Nanos::from_secs(3600), "us"))]
    spin: Nanos,
    /// The seed of all randomness in the drive and its power cuts
    #[arg(long, default_value_t = 1, value_parser = crate::units::seed)]
    pub seed: u64,
    #[command(flatten)]
    pub schedule: Schedule,
}

/// When the power is cut automatically, and returns.
#[derive(Args, Clone)]
#[command(next_help_heading = "Power cuts")]
#[command(group(ArgGroup::new("cuts").args(["cut_after_ops", "cut_every"]).multiple(true)))]
pub struct Schedule {
    /// Cut the power when the drive has carried out N commands, with others under way, and again N
    /// commands after each return
    #[arg(long, value_name = "N", value_parser = crate::units::whole::<u64>(1..))]
    pub cut_after_ops: Option<u64>,
    /// Cut the power this much real time after it came: 10s, 500ms, 2m; 5s..20s is a random time in
    /// between, by the seed
    #[arg(long, value_name = "TIME[..TIME]", value_parser = times)]
    pub cut_every: Option<(Nanos, Nanos)>,
    /// Restore the power this much real time after such a cut (1s, or 0s..5s); otherwise it stays
    /// off until `tantalum drive restore`
    #[arg(long, value_name = "TIME[..TIME]", value_parser = times, requires = "cuts")]
    pub restore_after: Option<(Nanos, Nanos)>,
}

/// What of a RAM device survives a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RamAck {
    /// Flushed writes, and any part of the others
    Volatile,
    /// Everything
    Safe,
}

impl LiveArguments {
    /// Whether the arguments name a box that is not in an image.
    pub fn names_a_box(&self) -> bool {
        self.design.is_some() || self.disk.is_some() || self.ram.is_some() || self.file.is_some()
    }

    /// The name of the box in one word, if it is in memory.
    pub fn name(&self) -> String {
        let ram = self.ram.map(|_| "ram".to_string());
        self.design.clone().or_else(|| self.disk.clone()).or(ram).unwrap_or_default()
    }
}

/// How clients notice a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnCut {
    /// Their commands fail, until they connect again after the power is back
    Errors,
    /// Their connections drop
    Drop,
}

impl From<OnCut> for nbd::OnCut {
    fn from(on_cut: OnCut) -> nbd::OnCut {
        match on_cut {
            OnCut::Errors => nbd::OnCut::Errors,
            OnCut::Drop => nbd::OnCut::Drop,
        }
    }
}

/// The interface for I/O.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum IoBackend {
    /// io_uring, or poll where that is denied
    Auto,
    /// io_uring
    Uring,
    /// poll, read and write
    Poll,
}

impl LiveArguments {
    /// Checks that the addresses are allowed, and that each argument has the others that it needs.
    /// (The parser does not require an argument that another one excludes.)
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn check(&self) -> Result<(), String> {
        if self.buffered && self.file.is_none() {
            return Err("--buffered: it goes with --file".to_string());
        }
        if self.keep_room && self.file.is_none() {
            return Err("--keep-room: it goes with --file".to_string());
        }
        if self.ram_ack.is_some() && self.ram.is_none() {
            return Err("--ram-ack: it goes with --ram".to_string());
        }
        if let Some(at) = self.http.filter(|at| self.allow_control && listen::is_for_others(*at)) {
            return Err(format!(
                "--allow-control: everybody who reaches {at} could cut the power: use an address of \
                 this machine (127.0.0.1)"
            ));
        }
        match self.http {
            Some(at) if listen::is_for_others(at) && !self.insecure => Err(format!(
                "--http {at}: everybody who reaches this address could see what the drive does, since HTTP \
                 has no TLS here: use an address of this machine (127.0.0.1) behind a proxy or a \
                 tunnel, or allow this with --insecure"
            )),
            _ => Ok(()),
        }
    }

    /// How images are opened.
    pub fn opening(&self) -> Opening {
        let LiveArguments { host_crashed, host_sync, .. } = *self;
        Opening { host_crashed, host_sync, ..Opening::default() }
    }

    /// The wall clock's options.
    pub fn clock(&self) -> WallOptions {
        let io = match self.io {
            IoBackend::Auto => Backend::Auto,
            IoBackend::Uring => Backend::Uring,
            IoBackend::Poll => Backend::Poll,
        };
        WallOptions { io, time_scale: self.time_scale, spin: self.spin }
    }
}

/// A time scale that the wall clock takes.
pub fn time_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.0..=1e6).contains(&scale) => Ok(scale),
        _ => Err("it should be from 0 to 1000000".to_string()),
    }
}

/// A time, or a range of times.
fn times(text: &str) -> Result<(Nanos, Nanos), String> {
    let (low, high) = match text.split_once("..") {
        Some((low, high)) => (time(low)?, time(high)?),
        None => (time(text)?, time(text)?),
    };
    match low <= high {
        true => Ok((low, high)),
        false => Err("the first time is longer than the second".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_what_they_say() {
        for (text, want) in [
            ("10s", (10_000_000_000, 10_000_000_000)),
            ("0.5s..2m", (500_000_000, 120_000_000_000)),
            ("250ms", (250_000_000, 250_000_000)),
            ("0s..30us", (0, 30_000)),
        ] {
            assert_eq!(times(text), Ok((Nanos(want.0), Nanos(want.1))), "{text}");
        }
        for text in ["", "10", "s", "1.2.3s", "-1s", "2s..1s", "1s..", "1d", "9000000h"] {
            assert!(times(text).is_err(), "{text}");
        }
    }
}
