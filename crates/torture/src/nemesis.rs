//! The loop of a run: load, a blow during the load, recovery, a check.
//!
//! 1. A blow comes only after at least one commit was acknowledged since the blow before, and while
//!    clients are at work: they do not stop for it.
//! 2. All reports of the clients are read to the last line before anything is compared.
//! 3. The first round with a finding is the last one, since later findings could follow from it.

use crate::check::{Check, Harm};
use crate::clients::{Orders, Told};
use crate::ground::mounted::FileSystem;
use crate::ground::{Blow, Data, Ground, GroundError, Outage, Return};
use crate::ledger::{BadNote, Ledger};
use crate::plan::Plan;
use crate::program::{Interrupt, ProgramError, Running, Stopwatch, command};
use crate::recovery::recover;
use crate::report::{Report, Round, Setting, VERSION};
use crate::server::{Kind, Server};
use crate::store::StoreError;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use tantalum_device::bytes_in_words;
use tantalum_rt::Stream;
use tantalum_rt::room_at;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The database.
    pub kind: Kind,
    /// The database's own protection against torn pages. `None`: on if its pages may be torn on the
    /// way to the drive.
    pub protection: Option<bool>,
    /// How often the power is cut.
    pub cuts: u32,
    /// How often the drive's process is killed.
    pub kills: u32,
    /// The transactions, and the sizes of the tables.
    pub plan: Plan,
    /// The time from the first commits to the blow: the least and the most.
    pub load: (Duration, Duration),
    /// The program of the clients, and its first arguments. The orders are the last argument.
    pub clients: Vec<OsString>,
    /// After each blow whose number is a multiple of this, a device of the log, or the flash device
    /// of the cache, is lost and replaced.
    pub lose_every: Option<u32>,
    /// The tables are emptied when the ledger has this many rows.
    pub trim_at: u64,
}

/// Why a run has no verdict.
#[derive(Debug, thiserror::Error)]
pub enum TortureError {
    /// The storage below the database failed without a blow.
    #[error("the drive: {0}")]
    Ground(#[from] GroundError),
    /// A program failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The database failed without a blow.
    #[error("the database, {when}: {error}")]
    Store {
        /// During which step.
        when: &'static str,
        /// The error.
        error: StoreError,
    },
    /// The clients failed before the blow.
    #[error("a client failed before the power was cut: {0}")]
    Client(String),
    /// No commit was acknowledged in time.
    #[error("no commit was acknowledged within {0} s")]
    NoCommits(u64),
    /// A report contradicts the ledger.
    #[error("clients reported what is impossible: {0}")]
    Note(#[from] BadNote),
    /// A report is not valid.
    #[error("clients reported what cannot be understood: {0}")]
    Line(String),
    /// The host lacks room, and what failed may come from that.
    #[error("the file system with {} has room for {} only: {why}", .at.display(), bytes_in_words(*.room))]
    HostFull {
        /// The directory of the run.
        at: PathBuf,
        /// What every user may have there, in bytes.
        room: u64,
        /// What failed.
        why: String,
    },
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

impl TortureError {
    /// The same, unless the host is full.
    fn unless_full(self, run: &Path) -> TortureError {
        match &self {
            TortureError::HostFull { .. } | TortureError::Interrupted => self,
            _ => full(run, || self.to_string()).unwrap_or(self),
        }
    }
}

/// Less room on the host says that it is full: servers, and images of drives that are sparse, fail
/// without it.
const FULL: u64 = 16 << 20;

/// That the host is full, if it is. `run` is below the directory of the run, and may not be there yet.
fn full(run: &Path, why: impl FnOnce() -> String) -> Option<TortureError> {
    let at = run.parent().unwrap_or(run);
    let room = room_at(at).filter(|room| *room < FULL)?;
    Some(TortureError::HostFull { at: at.to_path_buf(), room, why: why() })
}

/// An observer of the progress.
pub trait Watch {
    /// A step begins.
    fn stage(&self, what: &str);

    /// A round has ended.
    fn round(&self, round: &Round);
}

/// How long the first commit may take.
const FIRST_COMMITS: Duration = Duration::from_secs(60);

/// Runs the loop. `run` is a directory for sockets and logs, outside the drive.
pub fn torture(
    options: &Options,
    mut setting: Setting,
    ground: &mut Ground,
    run: &Path,
    interrupt: &Interrupt,
    watch: &impl Watch,
) -> Report {
    let mut rounds = Vec::new();
    let ended = Run::begin(options, ground, &mut setting, run, interrupt, watch)
        .and_then(|it| it.rounds(&mut rounds));
    let ended = ended.and_then(|()| Ok(ground.end()?)).map_err(|e| e.unless_full(run));
    let interrupted = interrupt.is_set();
    let storage_failed = matches!(ended, Err(TortureError::Ground(_))) && !interrupted;
    let (left, failure) = match ended {
        Ok(left) => (left, None),
        Err(e) => (None, Some(e.to_string()).filter(|_| !interrupted)),
    };
    Report { version: VERSION, setting, rounds, left, failure, storage_failed, interrupted }
}

struct Run<'a, W> {
    options: &'a Options,
    ledger: Ledger,
    // The server is dropped before the ground: it is killed before the storage below it is removed.
    server: Server,
    ground: &'a mut Ground,
    run: &'a Path,
    /// Set if the server's log ended in stale bytes, after this blow or an earlier one.
    stale: Option<String>,
    random: Stream,
    interrupt: &'a Interrupt,
    watch: &'a W,
}

impl<'a, W: Watch> Run<'a, W> {
    fn begin(
        options: &'a Options,
        ground: &'a mut Ground,
        setting: &mut Setting,
        run: &'a Path,
        interrupt: &'a Interrupt,
        watch: &'a W,
    ) -> Result<Run<'a, W>, TortureError> {
        watch.stage("mounting");
        ground.begin(interrupt)?;
        setting.file_system = ground.file_system().map(FileSystem::words);
        let kept = ground.file_system().is_some_and(|fs| fs.keeps_whole(options.kind.page_bytes()));
        let guarded = options.kind.is_library();
        setting.protection = guarded || options.protection.unwrap_or(!kept);
        let directory = ground.directory().to_path_buf();
        let server = Server::new(options.kind, &directory, run, setting.protection, interrupt)
            .on_plain_disk(matches!(ground.data, Data::Plain(_)));
        let server = match &ground.log {
            Some(log) => server.with_wal(log.mountpoint()),
            None => server,
        };
        let ledger = Ledger::new(options.plan);
        let random = Stream::new(options.plan.seed, "nemesis");
        let it =
            Run { options, ledger, server, ground, run, stale: None, random, interrupt, watch };
        watch.stage("filling the tables");
        it.server.start()?;
        let failed = |error| TortureError::Store { when: "when its tables were made", error };
        let mut store = it.server.target().connect().map_err(failed)?;
        store.create(&options.plan).map_err(failed)?;
        store.checkpoint().map_err(failed)?;
        Ok(it)
    }

    fn rounds(mut self, rounds: &mut Vec<Round>) -> Result<(), TortureError> {
        let (mut cuts, mut kills) = (self.options.cuts, self.options.kills);
        for number in 1..=cuts + kills {
            // Cuts and kills in random order.
            let blow = match self.random.below(u64::from(cuts + kills)) < u64::from(cuts) {
                true => Blow::Cut,
                false => Blow::Kill,
            };
            match blow {
                Blow::Cut => cuts -= 1,
                Blow::Kill => kills -= 1,
            }
            let round = self.round(number, blow)?;
            // Neither says anything about the drive if the host is full.
            let fails = [Harm::DoesNotStart, Harm::Damaged].map(|harm| round.check.of(harm));
            if fails.iter().any(|count| *count > 0) {
                let why = || round.check.first.first().cloned().unwrap_or_default();
                full(self.run, why).map_or(Ok(()), Err)?;
            }
            let clean = round.check.is_clean();
            self.watch.round(&round);
            rounds.push(round);
            if !clean {
                return Ok(());
            }
        }
        Ok(())
    }

    fn round(&mut self, number: u32, blow: Blow) -> Result<Round, TortureError> {
        let before = self.ledger.acknowledged();
        let outage = self.load(blow)?;
        let commits = self.ledger.acknowledged() - before;
        let under_way = self.ledger.under_way();
        self.watch.stage("recovery");
        let lost_device = self.options.lose_every.is_some_and(|every| number.is_multiple_of(every));
        let (returned, took, check) = self.recover(lost_device)?;
        if check.is_clean() {
            self.ledger.decide(&check.last);
            self.trim()?;
        }
        let (drive, mount) = (returned.drive, returned.whole);
        Ok(Round {
            number,
            blow,
            commits,
            under_way,
            outage,
            lost_device,
            drive_seconds: drive.map(|time| time.as_secs_f64()),
            mount_seconds: mount.as_secs_f64(),
            database_seconds: took.as_secs_f64(),
            check,
        })
    }

    /// Load, and a blow during it. When it returns, all reports are read, and no process has files
    /// open.
    fn load(&mut self, blow: Blow) -> Result<Outage, TortureError> {
        self.watch.stage("load");
        let (mut clients, told) = self.start_clients()?;
        let before = self.ledger.acknowledged();
        let began = Stopwatch::begin();
        while self.ledger.acknowledged() == before {
            if began.read() > FIRST_COMMITS {
                return Err(TortureError::NoCommits(FIRST_COMMITS.as_secs()));
            }
            self.listen(&told, Duration::from_millis(20))?;
        }
        let (from, to) = self.options.load;
        let spread = to.saturating_sub(from).as_micros() as u64;
        let time = from + Duration::from_micros(self.random.below(spread + 1));
        let began = Stopwatch::begin();
        while let Some(left) = time.checked_sub(began.read()) {
            self.listen(&told, left)?;
        }
        let outage = self.ground.strike(blow, &mut self.random, self.interrupt)?;
        // For a random time the database sees its drive fail, and reacts.
        let agony = Duration::from_millis(self.random.below(300));
        self.interrupt.sleep(agony);
        self.server.kill()?;
        clients.kill();
        // Read the reports to the last line.
        while let Ok(told) = told.recv() {
            if !matches!(told, Ok(Told::Failed { .. })) {
                self.note(told)?;
            }
        }
        Ok(outage)
    }

    fn start_clients(&self) -> Result<(Running, Receiver<Result<Told, String>>), TortureError> {
        let orders = Orders {
            target: self.server.target(),
            plan: self.options.plan,
            first: self.ledger.marks().iter().map(|m| m.acknowledged + 1).collect(),
            checkpoint_ms: 100,
        };
        let text = serde_json::to_string(&orders).map_err(|e| TortureError::Line(e.to_string()))?;
        let (program, words) = match self.options.clients.split_first() {
            Some(words) => words,
            None => return Err(TortureError::Client("no program is named for them".to_string())),
        };
        let mut start = command(program, words);
        start.arg(text);
        let mut clients = Running::start("the clients", &mut start, Stdio::piped())?;
        let (told, listen) = channel();
        if let Some(lines) = clients.child().stdout.take() {
            #[allow(clippy::disallowed_methods, reason = "the edge: a pipe is read while we wait")]
            std::thread::spawn(move || {
                for line in BufReader::new(lines).lines().map_while(Result::ok) {
                    if told.send(Told::parse(&line).ok_or(line)).is_err() {
                        return;
                    }
                }
            });
        }
        Ok((clients, listen))
    }

    /// Reads reports for this long.
    fn listen(
        &mut self,
        told: &Receiver<Result<Told, String>>,
        time: Duration,
    ) -> Result<(), TortureError> {
        let began = Stopwatch::begin();
        loop {
            if self.interrupt.is_set() {
                return Err(TortureError::Interrupted);
            }
            let Some(left) = time.checked_sub(began.read()) else { return Ok(()) };
            match told.recv_timeout(left.min(Duration::from_millis(50))) {
                Ok(told) => self.note(told)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(TortureError::Client("the clients' process ended".to_string()));
                }
            }
        }
    }

    fn note(&mut self, told: Result<Told, String>) -> Result<(), TortureError> {
        match told {
            Ok(Told::Begin { client, seq }) => self.ledger.begin(client, seq)?,
            Ok(Told::Commit { client, seq }) => self.ledger.acknowledge(client, seq)?,
            Ok(Told::Failed { client, why }) => {
                return Err(TortureError::Client(format!("client {client}: {why}")));
            }
            Err(line) => return Err(TortureError::Line(line)),
        }
        Ok(())
    }

    /// Restores the power, starts the database, and compares it with the ledger. A drive, a log or
    /// a database that does not come back is a finding. With `lose` a device of the log is lost.
    fn recover(&mut self, lose: bool) -> Result<(Return, Duration, Check), TortureError> {
        let returned = match self.ground.restore(lose, self.interrupt) {
            Ok(returned) => returned,
            Err(GroundError::Gone(why)) if !self.interrupt.is_set() => {
                let mut check = Check::default();
                check.found(Harm::DoesNotStart, format!("the drive: {why}"));
                let nothing = Return { drive: None, whole: Duration::ZERO };
                return Ok((nothing, Duration::ZERO, check));
            }
            Err(e) => return Err(e.into()),
        };
        let copy = self.run.join("c");
        let mut recovered =
            recover(&self.server, &self.ledger, &copy, |what| self.watch.stage(what))?;
        if self.interrupt.is_set() {
            return Err(TortureError::Interrupted);
        }
        let unexcused = !recovered.check.is_clean() && recovered.check.own_fault.is_none();
        if let Some(stale) = self.stale.as_ref().filter(|_| unexcused) {
            let words = format!("(After an earlier blow {stale}: this may follow from it.)");
            recovered.check.first.push(words);
        }
        self.stale = recovered.stale.map(|stale| stale.to_string()).or(self.stale.take());
        Ok((returned, recovered.took, recovered.check))
    }

    /// Empties the tables when they have become long.
    fn trim(&mut self) -> Result<(), TortureError> {
        if self.ledger.unsettled() < self.options.trim_at {
            return Ok(());
        }
        self.watch.stage("emptying the ledger");
        let failed = |error| TortureError::Store { when: "when tables were emptied", error };
        let mut store = self.server.target().connect().map_err(failed)?;
        store.trim().map_err(failed)?;
        self.ledger.settle();
        Ok(())
    }
}
