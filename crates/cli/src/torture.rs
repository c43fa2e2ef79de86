//! `tantalum torture`: real databases, with power cuts under load.

use crate::bar::Bar;
use crate::counted::cuts;
use crate::drive::{named, time_scale};
use crate::members::Sync;
use crate::{out, units};
use clap::{Args, ValueEnum};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tantalum_drive::Design;
use tantalum_rt::Nanos;
use tantalum_torture::clients;
use tantalum_torture::ground::cache::{CacheOptions, FLASH_BYTES, MountedCache};
use tantalum_torture::ground::drive::{DriveOptions, MountedDrive};
use tantalum_torture::ground::log::{BACKING_BYTES, DEVICE_BYTES, LogOptions, MountedLog};
use tantalum_torture::ground::mounted::{FileSystem, MountOptions};
use tantalum_torture::ground::{Data, Ground};
use tantalum_torture::nemesis::{Options, Watch, torture as run_torture};
use tantalum_torture::plan::Plan;
use tantalum_torture::program::Interrupt;
use tantalum_torture::report::{Report, Round, Setting};
use tantalum_torture::server::Kind;

/// Arguments of `tantalum torture`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo tantalum torture --db postgres --cuts 100            full_page_writes=off: nothing is lost
  sudo tantalum torture --db mariadb --cuts 80 --kills 20   doublewrite buffer off; kills: SIGKILL
  sudo tantalum torture --db postgres --wal-on log          pg_wal on a log volume
  sudo tantalum torture --db mariadb --wal-on log --copies 2 --lose-every 5
  sudo tantalum torture --db mariadb --on cache             the data on a cache volume
  sudo tantalum torture --db postgres --on cache --cache-mode through --lose-flash-every 10
  sudo tantalum torture --db postgres --design volatile --no-barriers --expect-loss
  sudo tantalum torture --db mariadb --design shearing --expect-loss      torn pages
  sudo tantalum torture --db sqlite --journal wal --cuts 10 --json report.json
  tantalum torture --db postgres --plain --cuts 5           no drive: the database is killed instead

Makes a drive, mounts it with XFS whose blocks have the size of the database's pages, and starts
the distribution's unmodified server on it. Clients commit transfers as fast as they can, and the
power is cut under this load. The drive recovers, the file system is mounted again, the database
recovers. Then each acknowledged commit must be there with all of its rows, and no other commit may
be there in part. It needs the programs of the server, of any version: of Debian the packages
postgresql or mariadb-server. Of several versions of PostgreSQL it takes that of pg_config, else the
newest. XFS needs xfsprogs.

With --wal-on log the write-ahead log is on the volume over a flash log whose devices are drives,
too. Its power is cut, or its process killed, within 4 ms of the data's drive, before or after it.
With --lose-every N a device of the log is gone after each N-th blow: its image is removed, and
`tantalum log replace` puts a new one in its place.
With --on cache the data are on the volume over a flash cache: a drive of --flash-design
before a file of --capacity. With --lose-flash-every N its flash device is gone after each
N-th blow, and a blank one is in its place. Then a page may be torn on the file, so the
database's own protection stays on, unless --unsafe switches it off.
Exit codes: 0, nothing was lost (with --expect-loss: something was lost); 1, something was lost, or
the storage failed (a drive does not start, a file system cannot be mounted); 2, the command line is
invalid; 3, there is no verdict, run it again: it ended early for another reason, or the database
damaged itself by a known defect, as copies on a plain disk show.")]
pub struct TortureArguments {
    /// The database
    #[arg(long, value_enum, required_unless_present = "clients_of")]
    db: Option<Database>,
    /// How SQLite makes commits atomic [default: delete]
    #[arg(long, value_enum)]
    journal: Option<Journal>,
    /// Number of power cuts
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = units::whole::<u32>(..=1_000_000))]
    cuts: u32,
    /// Number of kills (SIGKILL) of the processes of drive and log, between the cuts
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = units::whole::<u32>(..=1_000_000))]
    kills: u32,
    /// The drive: a preset, or a file with a design [default: durassd]
    #[arg(long, value_name = "D")]
    design: Option<String>,
    /// Its capacity, or with --on cache that of the slow device
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = units::bytes)]
    capacity: u64,
    /// Real seconds for each second of the drive's clock
    #[arg(long, value_name = "F", default_value_t = 1.0, value_parser = time_scale)]
    time_scale: f64,
    /// The file system on it [default: XFS with blocks of the database's page size; ext4 if the
    /// kernel does not mount that]
    #[arg(long, value_enum)]
    fs: Option<Fs>,
    /// What the data are on
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = On::Drive,
          conflicts_with_all = ["plain", "wal_on"])]
    on: On,
    /// When dirty pages of the cache reach its slow device [default: back]
    #[arg(long, value_enum, value_name = "MODE")]
    cache_mode: Option<Sync>,
    /// The drive that is the flash device of the cache: a preset, or a file with a design
    /// [default: volatile]
    #[arg(long, value_name = "D")]
    flash_design: Option<String>,
    /// After every N-th blow the flash device of the cache is gone; with --cache-mode through
    #[arg(long, value_name = "N", conflicts_with = "lose_every",
          value_parser = units::whole::<u32>(1..))]
    lose_flash_every: Option<u32>,
    /// Put the write-ahead log of PostgreSQL or MariaDB in a place of its own
    #[arg(long, value_enum, value_name = "WHERE", conflicts_with = "plain")]
    wal_on: Option<WalOn>,
    /// The drives that the log consists of: a preset, or a file with a design
    #[arg(long, value_name = "D", default_value = "volatile", requires = "wal_on")]
    wal_design: String,
    /// On how many of them each record of the log is; there is one more
    #[arg(long, value_name = "N", default_value_t = 1, requires = "wal_on",
          value_parser = units::whole::<u8>(1..=2))]
    copies: u8,
    /// After every N-th blow a device of the log is gone, and is replaced; with --copies 2
    #[arg(long, value_name = "N", requires = "wal_on",
          value_parser = units::whole::<u32>(1..))]
    lose_every: Option<u32>,
    /// Leave the database's own protection against torn pages on (full_page_writes, doublewrite)
    #[arg(long)]
    safe: bool,
    /// Switch that protection off on any file system [default: off where no page can be torn on its
    /// way to the drive]
    #[arg(long = "unsafe", conflicts_with = "safe")]
    unsafe_: bool,
    /// Tell the kernel that the drive's cache needs no flushes
    #[arg(long)]
    no_barriers: bool,
    /// Seed of transactions, cuts and drive
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = units::seed)]
    seed: u64,
    /// Clients at the same time [default: 8, SQLite 3]
    #[arg(long, value_name = "N", value_parser = units::whole::<u32>(1..=64))]
    clients: Option<u32>,
    /// Accounts for their transfers
    #[arg(long, value_name = "N", default_value_t = 30_000,
          value_parser = units::whole::<u32>(10..=10_000_000))]
    accounts: u32,
    /// The longest load before a cut: 2s, 500ms; a number alone is of milliseconds
    #[arg(long, value_name = "TIME", default_value = "1500ms",
          value_parser = units::time_within(Nanos(0)..=Nanos::from_secs(86_400), "ms"))]
    load: Nanos,
    /// Succeed only if something was lost, torn or half-done
    #[arg(long)]
    expect_loss: bool,
    /// No drive: the database is in a plain directory, and its processes are killed
    #[arg(long, conflicts_with_all = [
        "kills", "fs", "no_barriers", "design", "capacity", "time_scale", "cache_mode",
        "flash_design", "lose_flash_every",
    ])]
    plain: bool,
    /// New directory for image, logs and mount point [default: one in the directory for temporary
    /// files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Keep that directory; it is always kept after an unexpected finding
    #[arg(long)]
    keep: bool,
    /// Write the report as JSON to this file; `-`: to standard output, without the summary
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Run the clients of a run; used by the program itself
    #[arg(long, hide = true, value_name = "ORDERS", exclusive = true)]
    clients_of: Option<String>,
}

impl TortureArguments {
    fn design(&self) -> &str {
        self.design.as_deref().unwrap_or("durassd")
    }

    fn flash_design(&self) -> &str {
        self.flash_design.as_deref().unwrap_or("volatile")
    }

    fn is_through(&self) -> bool {
        self.cache_mode == Some(Sync::Through)
    }

    /// The first option that would be ignored, and why.
    fn ignored(&self) -> Option<&'static str> {
        let is_cache = self.on == On::Cache;
        match () {
            () if is_cache && self.design.is_some() => {
                Some("--design: with --on cache the drive is that of --flash-design")
            }
            () if !is_cache && self.cache_mode.is_some() => {
                Some("--cache-mode: it is for a cache; use it with --on cache")
            }
            () if !is_cache && self.flash_design.is_some() => {
                Some("--flash-design: it is for a cache; use it with --on cache")
            }
            () => None,
        }
    }

    /// Checks that the drives can be made, as `tantalum drive create` does.
    fn check_drives(&self) -> Result<(), String> {
        let named =
            |option: &str, design: &str| named(design).map_err(|why| format!("{option}: {why}"));
        let fits = |option: &str, design: &Design, bytes: u64| {
            design.with_capacity(bytes).map(drop).map_err(|why| format!("{option}: {why}"))
        };
        match self.on {
            _ if self.plain => {}
            On::Drive => {
                let design = named("--design", self.design())?;
                let at_fault = if design.check().is_ok() { "--capacity" } else { "--design" };
                fits(at_fault, &design, self.capacity)?;
            }
            On::Cache => {
                let design = named("--flash-design", self.flash_design())?;
                fits("--flash-design", &design, FLASH_BYTES)?;
            }
        }
        if self.wal_on.is_some() {
            let design = named("--wal-design", &self.wal_design)?;
            for bytes in [DEVICE_BYTES, BACKING_BYTES] {
                fits("--wal-design", &design, bytes)?;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Database {
    /// PostgreSQL
    Postgres,
    /// MariaDB
    Mariadb,
    /// SQLite, with its own file system layer
    Sqlite,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum On {
    /// A drive
    Drive,
    /// The volume over a flash cache
    Cache,
}

#[derive(Clone, Copy, ValueEnum)]
enum WalOn {
    /// The volume over a flash log
    Log,
}

#[derive(Clone, Copy, ValueEnum)]
enum Journal {
    /// A rollback journal
    Delete,
    /// A write-ahead log
    Wal,
}

#[derive(Clone, Copy, ValueEnum)]
enum Fs {
    /// With blocks of the database's page size
    Xfs,
    /// With blocks of 4 KiB
    Ext4,
}

/// Runs the command; returns the exit code.
pub fn torture(arguments: &TortureArguments) -> u8 {
    if let Some(orders) = &arguments.clients_of {
        return clients::run(orders);
    }
    if arguments.journal.is_some() && !matches!(arguments.db, Some(Database::Sqlite)) {
        return out::error("--journal: it is for SQLite; use it with --db sqlite", out::USAGE);
    }
    if arguments.wal_on.is_some() && matches!(arguments.db, Some(Database::Sqlite)) {
        let message = "--wal-on: SQLite keeps its journal beside its file; use it with --db postgres \
                       or mariadb";
        return out::error(message, out::USAGE);
    }
    if arguments.lose_every.is_some() && arguments.copies < 2 {
        let message = "--lose-every: the loss of a device is survived with --copies 2";
        return out::error(message, out::USAGE);
    }
    if let Some(message) = arguments.ignored() {
        return out::error(message, out::USAGE);
    }
    let survives = arguments.on == On::Cache && arguments.is_through();
    if arguments.lose_flash_every.is_some() && !survives {
        let message =
            "--lose-flash-every: that loss is survived with --on cache --cache-mode through";
        return out::error(message, out::USAGE);
    }
    if arguments.cuts == 0 && arguments.kills == 0 {
        let message = "--cuts 0: without a cut or a kill nothing is tested; ask for one of them";
        return out::error(message, out::USAGE);
    }
    if let Err(message) = arguments.check_drives() {
        return out::error(message, out::USAGE);
    }
    let json = arguments.json.as_deref().filter(|p| *p != Path::new("-"));
    let json = match json.map(out::Sink::open).transpose() {
        Ok(json) => json,
        Err(message) => return out::error(message, out::USAGE),
    };
    let mut place = match Place::new(arguments) {
        Ok(place) => place,
        Err(message) => return out::error(message, out::USAGE),
    };
    let report = match run(arguments, &place.path) {
        Ok(report) => report,
        Err(message) => return out::error(message, out::USAGE),
    };
    // The directory has the evidence: the servers' messages, and the drive.
    let expected = arguments.expect_loss && report.own_fault().is_none();
    place.keep |= !report.harm().is_empty() && !expected;
    let mut code = match arguments.json.as_deref() == Some(Path::new("-")) {
        true => out::bytes(report.to_json().as_bytes()),
        false => out::bytes(report.summary().as_bytes()),
    };
    if let Some(json) = json {
        code = code.max(json.put(&report.to_json()));
    }
    for what in report.rounds.iter().flat_map(|r| &r.check.first) {
        out::note(format_args!("  {what}"));
    }
    if report.interrupted {
        return out::INTERRUPTED as u8;
    }
    code.max(verdict(&report, arguments.expect_loss))
}

fn verdict(report: &Report, expect_loss: bool) -> u8 {
    let lost = !report.harm().is_empty();
    match &report.failure {
        // There is no verdict, whatever was expected.
        _ if report.own_fault().is_some() => {
            out::error("the finding says nothing about the drive; run it again", out::UNKNOWN)
        }
        _ if lost && !expect_loss => out::FAILED,
        Some(why) if report.storage_failed => out::error(why, out::FAILED),
        Some(why) => {
            let told = format!("there is no verdict: {why}; put that right, and run it again");
            out::error(told, out::UNKNOWN)
        }
        None if lost == expect_loss => out::OK,
        None => out::error("loss was expected, and nothing was lost", out::FAILED),
    }
}

fn run(arguments: &TortureArguments, place: &Path) -> Result<Report, String> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        signal_hook::flag::register(signal, flag.clone())
            .map_err(|e| format!("cannot wait for signals: {e}"))?;
    }
    let interrupt = Interrupt::new(flag);
    #[allow(clippy::disallowed_methods, reason = "the edge: other processes are this program, too")]
    let program = std::env::current_exe().map_err(|e| format!("this program has no file: {e}"))?;
    let kind = match (arguments.db, arguments.journal) {
        (Some(Database::Postgres), _) => Kind::Postgres,
        (Some(Database::Mariadb), _) => Kind::Mariadb,
        (_, None | Some(Journal::Delete)) => Kind::Sqlite,
        (_, Some(Journal::Wal)) => Kind::SqliteWal,
    };
    let clients = arguments.clients.unwrap_or(if kind.is_library() { 3 } else { 8 });
    let plan = Plan {
        seed: arguments.seed,
        clients,
        accounts: arguments.accounts,
        branches: (clients * 16).min(arguments.accounts),
    };
    let load = Duration::from_nanos(arguments.load.0);
    let least = load.min(Duration::from_millis(100));
    let options = Options {
        kind,
        protection: match (arguments.safe, arguments.unsafe_, arguments.lose_flash_every) {
            (true, ..) | (false, false, Some(_)) => Some(true),
            (false, true, _) => Some(false),
            (false, false, None) => None,
        },
        cuts: arguments.cuts,
        kills: arguments.kills,
        plan,
        load: (least, load),
        clients: vec![program.clone().into(), "torture".into(), "--clients-of".into()],
        lose_every: arguments.lose_every.or(arguments.lose_flash_every),
        trim_at: 40_000,
    };
    let mount = MountOptions {
        program,
        noun: "drive",
        source: place.join("drive.img"),
        mountpoint: place.join("data"),
        fs: match arguments.fs {
            Some(Fs::Ext4) => FileSystem::Ext4,
            _ => FileSystem::Xfs(kind.page_bytes()),
        },
        // MariaDB moves its checkpoint past pages whose write has ended and whose file it has not
        // synced. With its log on the same file system, each commit makes such a file's metadata
        // durable, too (docs/databases.md).
        sync: kind == Kind::Mariadb && arguments.wal_on.is_some(),
        barriers: !arguments.no_barriers,
        time_scale: arguments.time_scale,
        seed: arguments.seed,
    };
    let log = arguments.wal_on.map(|WalOn::Log| LogOptions {
        design: arguments.wal_design.clone(),
        devices: arguments.copies + 1,
        copies: arguments.copies,
        mount: MountOptions {
            noun: "log",
            source: place.join("wal.toml"),
            mountpoint: place.join("wal"),
            fs: FileSystem::Ext4,
            sync: false,
            ..mount.clone()
        },
    });
    let in_words = log.as_ref().map(|log| {
        let LogOptions { design, devices, copies, .. } = log;
        format!("a log on {devices} drives of {design}, copies: {copies}")
    });
    let through = arguments.is_through();
    let data = match (arguments.plain, arguments.on) {
        (true, _) => Data::Plain(place.join("data")),
        (false, On::Cache) => Data::Cache(Box::new(MountedCache::new(CacheOptions {
            design: arguments.flash_design().to_string(),
            capacity: arguments.capacity,
            page_bytes: kind.page_bytes(),
            through,
            mount: MountOptions { noun: "cache", source: place.join("c.toml"), ..mount },
        }))),
        (false, On::Drive) => Data::Drive(Box::new(MountedDrive::new(DriveOptions {
            design: arguments.design().to_string(),
            capacity: arguments.capacity.to_string(),
            or_ext4: arguments.fs.is_none(),
            mount,
        }))),
    };
    let mut ground = Ground { data, log: log.map(|log| Box::new(MountedLog::new(log))) };
    let setting = Setting {
        database: match kind {
            Kind::SqliteWal => "sqlite, wal".to_string(),
            kind => kind.name().to_string(),
        },
        design: match arguments.on {
            On::Cache => {
                let mode = if through { "through" } else { "back" };
                let flash = arguments.flash_design();
                Some(format!("a cache (write-{mode}) on {flash} before a file"))
            }
            On::Drive => (!arguments.plain).then(|| arguments.design().to_string()),
        },
        log: in_words,
        file_system: None,
        protection: false,
        barriers: !arguments.no_barriers,
        time_scale: arguments.time_scale,
        seed: arguments.seed,
        clients: plan.clients,
        accounts: plan.accounts,
    };
    let rounds = u64::from(arguments.cuts) + u64::from(arguments.kills);
    let shown = Shown(Bar::new(
        rounds,
        &format!("{{bar:20}} {{pos}}/{{len}} {}, {{eta}} left  {{wide_msg}}", cuts(rounds)),
    ));
    let run = place.join("run");
    let report = run_torture(&options, setting, &mut ground, &run, &interrupt, &shown);
    shown.0.clear();
    Ok(report)
}

/// The directory of a run; removed when dropped, unless `keep` is set.
struct Place {
    path: PathBuf,
    keep: bool,
}

impl Place {
    #[allow(clippy::disallowed_methods, reason = "the edge: the directory of a run")]
    fn new(arguments: &TortureArguments) -> Result<Place, String> {
        if !arguments.plain && !rustix::process::geteuid().is_root() {
            let why = "mounting a drive takes root: run it with sudo, or with --plain, which does not mount";
            return Err(why.to_string());
        }
        let path = arguments.dir.clone().unwrap_or_else(|| {
            std::env::temp_dir().join(format!("tantalum-torture-{}", std::process::id()))
        });
        let path = std::path::absolute(&path).unwrap_or(path);
        let cannot = |e: std::io::Error| out::cannot("make", &path, &e);
        std::fs::create_dir(&path).map_err(cannot)?;
        let place = Place { path: path.clone(), keep: arguments.keep };
        // The servers' accounts need access.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).map_err(cannot)?;
        for directory in ["data", "wal"] {
            std::fs::create_dir(path.join(directory)).map_err(cannot)?;
        }
        Ok(place)
    }
}

impl Drop for Place {
    #[allow(clippy::disallowed_methods, reason = "the edge: the directory of a run")]
    fn drop(&mut self) {
        if self.keep {
            out::note(format_args!("kept: {}", self.path.display()));
            return;
        }
        if let Err(e) = std::fs::remove_dir_all(&self.path) {
            out::note(format_args!("cannot remove {}: {e}", self.path.display()));
        }
    }
}

/// Shows the progress.
struct Shown(Bar);

impl Watch for Shown {
    fn stage(&self, what: &str) {
        self.0.set_message(what.to_string());
    }

    fn round(&self, round: &Round) {
        self.0.inc(1);
        self.0.suspend(|| out::note(round.line()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_torture::check::Harm;

    #[test]
    fn a_run_that_could_not_tell_is_no_success() {
        let mut report = Report {
            version: 1,
            setting: Setting {
                database: "sqlite".to_string(),
                design: None,
                log: None,
                file_system: None,
                protection: true,
                barriers: true,
                time_scale: 1.0,
                seed: 1,
                clients: 1,
                accounts: 10,
            },
            rounds: Vec::new(),
            left: None,
            failure: None,
            storage_failed: false,
            interrupted: false,
        };
        assert_eq!((verdict(&report, false), verdict(&report, true)), (out::OK, out::FAILED));
        // A run that ended early has no verdict, unless it was the drive that ended it.
        report.failure = Some("a client failed".to_string());
        assert_eq!((verdict(&report, false), verdict(&report, true)), (out::UNKNOWN, out::UNKNOWN));
        report.storage_failed = true;
        assert_eq!((verdict(&report, false), verdict(&report, true)), (out::FAILED, out::FAILED));
        (report.failure, report.storage_failed) = (None, false);
        let mut check = tantalum_torture::check::Check::default();
        check.found(Harm::Lost, "one".to_string());
        report.rounds.push(Round {
            number: 1,
            blow: tantalum_torture::ground::Blow::Cut,
            commits: 1,
            under_way: 1,
            outage: tantalum_torture::ground::Outage::default(),
            lost_device: false,
            drive_seconds: None,
            mount_seconds: 0.0,
            database_seconds: 0.0,
            check,
        });
        assert_eq!((verdict(&report, false), verdict(&report, true)), (out::FAILED, out::OK));
        // What was lost stays lost if the run ended early then.
        report.failure = Some("a client failed".to_string());
        assert_eq!((verdict(&report, false), verdict(&report, true)), (out::FAILED, out::UNKNOWN));
        report.failure = None;
        // Not the drive's, so neither good nor bad, whatever was expected.
        report.rounds[0].check.excuse("its own");
        assert_eq!((verdict(&report, false), verdict(&report, true)), (out::UNKNOWN, out::UNKNOWN));
        assert!(report.summary().contains("not the drive's: its own"));
    }
}
