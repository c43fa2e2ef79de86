//! Counts how MariaDB's log ends: takes snapshots of the log of a server under load on a plain
//! disk. `scripts/mariadb-log-ends` starts it.
//!
//! 1. A snapshot is taken while all processes of the server are stopped: it is what a kill at that
//!    moment would leave.
//! 2. Each counted snapshot has another end than the one before, so the server has written in
//!    between.
//! 3. Stale bytes are confirmed: the same server has other bytes there a moment later.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;
use tantalum_torture::clients::Orders;
use tantalum_torture::plan::Plan;
use tantalum_torture::program::{Interrupt, Running, command};
use tantalum_torture::redo::{Stale, Tail, differs, end, stale_end, tail};
use tantalum_torture::server::{Kind, Server};

const PLAN: Plan = Plan { seed: 1, clients: 8, accounts: 30_000, branches: 128 };
const USAGE: &str = "usage: scripts/mariadb-log-ends [--snapshots N] [--dir DIR] [--keep DIR]";

struct Words {
    snapshots: u32,
    dir: PathBuf,
    keep: Option<PathBuf>,
}

#[allow(clippy::disallowed_methods, reason = "the edge: the command line")]
fn words() -> Result<Words, String> {
    let mut words = Words { snapshots: 200, dir: std::env::temp_dir(), keep: None };
    let mut all = std::env::args().skip(1);
    while let Some(name) = all.next() {
        let value = all.next().ok_or(USAGE)?;
        match &*name {
            "--snapshots" => words.snapshots = value.parse().map_err(|_| USAGE)?,
            "--dir" => words.dir = value.into(),
            "--keep" => words.keep = Some(value.into()),
            _ => return Err(USAGE.to_string()),
        }
    }
    Ok(words)
}

/// The directory of a run, removed at its end.
struct Place(PathBuf);

impl Drop for Place {
    #[allow(clippy::disallowed_methods, reason = "the edge: the directory of a run")]
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_dir_all(&self.0) {
            eprintln!("log-ends: cannot remove {}: {e}", self.0.display());
        }
    }
}

/// The counts of a run.
#[derive(Default)]
struct Count {
    tails: BTreeMap<&'static str, u32>,
    shown: u32,
    not_shown: u32,
    not_seen: u32,
}

#[allow(clippy::disallowed_methods, reason = "the edge: starts and observes a server")]
fn run(words: &Words) -> Result<Count, Box<dyn std::error::Error>> {
    use std::os::unix::fs::PermissionsExt;
    let place = words.dir.join(format!("log-ends-{}", std::process::id()));
    std::fs::create_dir(&place).map_err(|e| format!("{}: {e}", place.display()))?;
    let place = Place(place);
    // The server's account must be able to enter it.
    std::fs::set_permissions(&place.0, std::fs::Permissions::from_mode(0o755))?;
    let (data, run) = (place.0.join("data"), place.0.join("run"));
    std::fs::create_dir(&data)?;
    if let Some(keep) = &words.keep {
        std::fs::create_dir_all(keep)?;
    }
    let server =
        Server::new(Kind::Mariadb, &data, &run, false, &Interrupt::default()).on_plain_disk(true);
    server.start()?;
    server.target().connect()?.create(&PLAN)?;
    let orders = Orders {
        target: server.target(),
        plan: PLAN,
        first: vec![1; PLAN.clients as usize],
        checkpoint_ms: 100,
    };
    let program = std::env::current_exe()?.with_file_name("torture-clients");
    let mut start = command(&program, [serde_json::to_string(&orders)?]);
    let mut clients = Running::start("the clients", &mut start, Stdio::piped())?;
    let told = clients.child().stdout.take().ok_or("the clients say nothing")?;
    let told =
        std::thread::spawn(move || BufReader::new(told).lines().map_while(Result::ok).count());
    let log = server.data().join("ib_logfile0");
    let pid = std::fs::read_to_string(run.join("mariadb/pid"))?.trim().to_string();
    let (mut count, mut suspects, mut dice) = (Count::default(), Vec::new(), 1u64);
    let (mut number, mut last) = (0, None);
    while number < words.snapshots {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis(5 + (dice >> 33) % 40));
        let snapshot = snapshot(&pid, &log)?;
        settle(&mut suspects, &snapshot, &mut count);
        if !clients.runs() {
            return Err(format!("the clients ended: {}", clients.said()).into());
        }
        let now = end(&snapshot);
        if now == last {
            continue;
        }
        last = now;
        number += 1;
        let stale = stale_end(&snapshot);
        let what = match (&stale, tail(&snapshot).ok_or("this is no log of MariaDB 10.8 or later")?)
        {
            (Some(_), _) => "no end: a whole group of an older block",
            (None, Tail::Marked) => "an end that is marked",
            (None, Tail::WholeBlock) => "an end at the end of a block",
            (None, Tail::Older(_)) => "no mark: bytes of an older block, and no whole group",
            (None, Tail::Other) => "no mark: something else",
        };
        *count.tails.entry(what).or_default() += 1;
        if let (Some(keep), true) = (&words.keep, !what.starts_with("an end")) {
            std::fs::write(keep.join(format!("{number}.log")), &snapshot)?;
        }
        if let Some(stale) = stale {
            println!("snapshot {number}: {stale}");
            suspects.push((stale, snapshot));
        }
    }
    // Wait until the stale bytes have been overwritten.
    for _ in 0..50 {
        if suspects.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        settle(&mut suspects, &snapshot(&pid, &log)?, &mut count);
    }
    count.not_seen += suspects.len() as u32;
    clients.kill();
    let told = told.join().map_err(|_| "the reports of the clients were not read")?;
    if told == 0 {
        return Err("the clients did nothing".into());
    }
    Ok(count)
}

/// The log while the server is stopped.
#[allow(clippy::disallowed_methods, reason = "the edge: observes a server")]
fn snapshot(pid: &str, log: &Path) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let server = Pid::from_raw(pid.parse()?).ok_or("the server has no number")?;
    kill_process(server, Signal::STOP).map_err(|_| "the server is gone")?;
    // The server is stopped when all of its threads are.
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        let stat = task.path().join("stat");
        let stopped = || {
            let stat = std::fs::read_to_string(&stat).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
        };
        for _ in 0..2000 {
            if stopped() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let bytes = std::fs::read(log);
    kill_process(server, Signal::CONT)?;
    Ok(bytes?)
}

/// Counts the stale bytes for which the server now has written the place again.
fn settle(suspects: &mut Vec<(Stale, Vec<u8>)>, now: &[u8], count: &mut Count) {
    suspects.retain(|(stale, then)| match differs(then, now, stale) {
        Some(true) => {
            count.shown += 1;
            false
        }
        Some(false) => {
            count.not_shown += 1;
            false
        }
        // Not written yet, or overwritten in a later lap.
        None => {
            let soon = end(now).is_some_and(|now| now < stale.end + stale.bytes);
            count.not_seen += u32::from(!soon);
            soon
        }
    });
}

fn main() -> ExitCode {
    let words = match words() {
        Ok(words) if words.snapshots > 0 => words,
        Ok(_) => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    match run(&words) {
        Ok(count) => {
            println!("{} snapshots of the log of MariaDB under load:", words.snapshots);
            for (what, times) in &count.tails {
                println!("{times:8} {what}");
            }
            println!(
                "Of whole groups of an older block: {} had something else there a moment later, {} had the same, \
                 {} were not seen again.",
                count.shown, count.not_shown, count.not_seen
            );
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("log-ends: {e}");
            ExitCode::FAILURE
        }
    }
}
