//! The ledger on servers: PostgreSQL and MariaDB of the distribution, killed under load, and with
//! torn pages, which the check finds. `scripts/install-databases` installs them. Without them the
//! tests are left out.

#![allow(clippy::disallowed_methods, reason = "tests of real databases, in their own directories")]

use crate::common::{Directory, PLAN, commit, plain};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tantalum_testing::{Need, left_out, left_out_part};
use tantalum_torture::check::check;
use tantalum_torture::ledger::Ledger;
use tantalum_torture::program::Interrupt;
use tantalum_torture::recovery::{Cause, cause, judge};
use tantalum_torture::redo::{end, mark_end};
use tantalum_torture::server::{Kind, Server};

/// Whether the server is missing. Then the test is left out.
fn without(kind: Kind) -> bool {
    left_out(match kind {
        Kind::Postgres => &[Need::Program("postgres"), Need::Program("pg_amcheck")],
        _ => &[Need::Program("mariadbd"), Need::Program("mariadb-install-db")],
    })
}

fn killed(kind: Kind) {
    if without(kind) {
        return;
    }
    // These servers are on a plain disk: a killed process loses nothing that the kernel has.
    let report = plain(kind, 3);
    // What stale bytes do may show a round later.
    let said = report.rounds.iter().flat_map(|round| &round.check.first);
    let late = said.into_iter().any(|what| what.contains("this may follow from it"));
    let fine = report.is_clean() || report.own_fault().is_some() || late;
    assert!(fine, "{}", report.to_json());
    let all = report.rounds.len() == 3 || report.own_fault().is_some() || late;
    assert!(all && report.rounds.iter().all(|r| r.commits > 0));
}

#[test]
fn a_killed_postgres_loses_nothing() {
    killed(Kind::Postgres);
}

#[test]
fn a_killed_mariadb_loses_nothing() {
    killed(Kind::Mariadb);
}

/// A group of processes whose writes to the disk are slow.
struct Slow(PathBuf);

impl Slow {
    /// Limits writes to the disk of `on` to this many bytes per second.
    fn new(on: &Path, bytes: u32) -> Result<Slow, String> {
        let number = fs::metadata(on).unwrap().dev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let disk = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"))
            .map_err(|e| format!("the disk of {}: {e}", on.display()))?;
        let disk = if disk.join("partition").exists() { disk.parent().unwrap() } else { &disk };
        let disk = fs::read_to_string(disk.join("dev")).map_err(|e| e.to_string())?;
        let (groups, file, limit) = match Path::new("/sys/fs/cgroup/blkio").is_dir() {
            true => ("/sys/fs/cgroup/blkio", "blkio.throttle.write_bps_device", ""),
            false => ("/sys/fs/cgroup", "io.max", "wbps="),
        };
        let group = Path::new(groups).join(format!("tantalum-{}", std::process::id()));
        fs::create_dir(&group).map_err(|e| format!("{}: {e}", group.display()))?;
        let slow = Slow(group);
        let limit = format!("{} {limit}{bytes}", disk.trim());
        fs::write(slow.0.join(file), limit).map_err(|e| format!("{file}: {e}"))?;
        Ok(slow)
    }

    fn take(&self, process: &str) {
        fs::write(self.0.join("cgroup.procs"), process).unwrap();
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// The content of a file on the disk, past the page cache.
fn on_disk(file: &Path) -> Vec<u8> {
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", file.display())).args(["bs=1M", "iflag=direct", "status=none"]);
    dd.output().unwrap().stdout
}

/// Writes that a killed server has given to the kernel by io_uring may outlast its process. Whether
/// it has any is chance, so another process issues some instead.
#[test]
fn a_killed_server_has_nothing_under_way() {
    if without(Kind::Mariadb) || left_out(&[Need::Root, Need::Program("fio")]) {
        return;
    }
    let place = Directory::new("under-way");
    let slow = Slow::new(&place.0, 500_000);
    let how = "use a disk whose writes the kernel can slow down (cgroup blkio, or io)";
    if left_out(&[Need::tried("slow writes", &slow, how)]) {
        return;
    }
    let slow = slow.unwrap();
    let server =
        Server::new(Kind::Mariadb, &place.data(), &place.run(), false, &Interrupt::default())
            .on_plain_disk(true);
    server.start().unwrap();
    let file = server.data().join("late.ibd");
    fs::write(&file, vec![0; 16 << 20]).unwrap();
    std::os::unix::fs::chown(&file, Some(fs::metadata(server.data()).unwrap().uid()), None)
        .unwrap();
    fs::File::open(&file).unwrap().sync_all().unwrap();
    let mut writer = Command::new("fio");
    writer.arg(format!("--filename={}", file.display())).stdout(Stdio::null());
    writer.args(["--name=late", "--size=16M", "--bs=16k", "--rw=randwrite", "--norandommap"]);
    writer.args(["--direct=1", "--ioengine=io_uring", "--iodepth=128", "--thread"]);
    writer.args(["--time_based", "--runtime=60", "--refill_buffers"]);
    let mut writer = writer.spawn().unwrap();
    slow.take(&writer.id().to_string());
    while on_disk(&file).iter().all(|byte| *byte == 0) {
        assert!(writer.try_wait().unwrap().is_none(), "fio has ended");
    }
    std::thread::sleep(Duration::from_millis(1500));
    writer.kill().unwrap();
    writer.wait().unwrap();
    server.kill().unwrap();
    let then = on_disk(&file);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(then.len(), 16 << 20);
    assert!(then == on_disk(&file), "it changes after the server's end");
}

/// The end that is found is the end that recovery reports.
#[test]
fn the_end_of_a_real_log_is_found() {
    if without(Kind::Mariadb) {
        return;
    }
    let place = Directory::new("log-end");
    let server =
        Server::new(Kind::Mariadb, &place.data(), &place.run(), false, &Interrupt::default())
            .on_plain_disk(true);
    server.start().unwrap();
    let mut ledger = Ledger::new(PLAN);
    let mut store = server.target().connect().unwrap();
    store.create(&PLAN).unwrap();
    let mut before = 0;
    for round in 0..3 {
        let mut store = server.target().connect().unwrap();
        commit(&mut *store, &mut ledger, round, 30);
        server.kill().unwrap();
        let found = end(&server.redo().expect("a log")).expect("its end");
        assert!(found > before, "it grows");
        before = found;
        server.start().unwrap();
        let said = fs::read_to_string(server.log()).unwrap();
        let said =
            said.lines().filter_map(|line| line.split_once("End of log at LSN=")).next_back();
        assert_eq!(said.expect("it says so").1.trim(), found.to_string());
    }
    server.kill().unwrap();
}

/// Recovery that takes older records for log damages the database, and the copies say so. They do
/// not say so if the log ended elsewhere, or if there is nothing behind its end.
#[test]
fn copies_say_what_stale_bytes_did() {
    if without(Kind::Mariadb) {
        return;
    }
    let place = Directory::new("stale");
    let wal = place.0.join("wal");
    fs::create_dir(&wal).unwrap();
    let server =
        Server::new(Kind::Mariadb, &place.data(), &place.run(), false, &Interrupt::default())
            .on_plain_disk(true)
            .with_wal(&wal);
    server.start().unwrap();
    let mut ledger = Ledger::new(PLAN);
    let mut store = server.target().connect().unwrap();
    store.create(&PLAN).unwrap();
    let redo = || server.redo().expect("a log");
    // The server moves its checkpoint by itself, perhaps beyond the first of these commits.
    let mut client = 0;
    let begin = loop {
        let begin = end(&redo()).unwrap();
        commit(&mut *store, &mut ledger, client, 30);
        drop(store);
        server.kill().unwrap();
        if mark_end(&mut redo(), begin) {
            break begin;
        }
        client += 1;
        assert!(client < 4, "the checkpoint is always beyond");
        server.start().unwrap();
        store = server.target().connect().unwrap();
    };
    let sound = server.copy(&place.0.join("sound")).unwrap();
    // The records of these commits once more after the end of the log: their checksums hold there.
    let last = end(&redo()).expect("its end");
    let file = wal.join("mariadb-redo/ib_logfile0");
    let mut log = fs::read(&file).unwrap();
    let first = u64::from_be_bytes(log[8..16].try_into().unwrap());
    let at = |lsn: u64| 12288 + (lsn - first) as usize;
    assert!(at(last) + (last - begin) as usize <= log.len(), "all in the first lap");
    log.copy_within(at(begin)..at(last), at(last));
    fs::write(&file, log).unwrap();
    assert_eq!(end(&redo()), Some(last + (last - begin)));
    let stale = server.copy(&place.0.join("stale")).unwrap();

    let of = |end: u64, left: &Server, name: &str| {
        let place = place.0.join(name);
        fs::create_dir(&place).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        cause(end, left, &place.join("c"), &ledger, &|_: &str| {}).unwrap()
    };
    assert_eq!(of(last, &stale, "1"), Cause::StaleBytes);
    let lost = of(begin, &stale, "2");
    assert!(matches!(&lost, Cause::Other(why) if why.contains("is marked has")), "{lost:?}");
    let whole = of(last, &sound, "3");
    assert!(matches!(&whole, Cause::Other(why) if why.contains("recovers with it")), "{whole:?}");
    let none = of(last - 1, &stale, "4");
    assert!(matches!(&none, Cause::Unknown(why) if why.contains("not marked")), "{none:?}");
}

/// The files of tables of either server.
fn files(under: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(under).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|e| e == "ibd")
            || path.parent().is_some_and(|p| p.parent().is_some_and(|p| p.ends_with("base")))
        {
            found.push(path);
        }
    }
}

/// If the drive is not mounted, a server is not started on the plain disk instead.
#[test]
fn a_server_is_not_started_where_no_drive_is() {
    let place = Directory::new("nowhere");
    let start = |data: &Path| {
        let run = place.run();
        let server = Server::new(Kind::Postgres, data, &run, false, &Interrupt::default());
        server.start().expect_err("nothing is mounted there").to_string()
    };
    // (This is checked before the server is looked for, so the server may be missing.)
    let why = start(&place.data());
    assert!(why.contains("nothing is mounted at") && why.contains("--here"), "{why}");
    assert_eq!(fs::read_dir(place.data()).unwrap().count(), 0);
    let nowhere = place.0.join("nosuch");
    let why = start(&nowhere);
    assert!(why.contains("there is no directory"), "{why}");
    assert!(!nowhere.exists() && !place.run().exists());
}

/// At its start a MariaDB removes all temporary tables that it finds, of any server. So each needs
/// a directory of its own for them.
/// A server whose write-ahead log is elsewhere: it has the log there, finds it after a kill, and does
/// not start without it or with another one.
fn log_elsewhere(kind: Kind, part: &str) {
    if without(kind) {
        return;
    }
    let place = Directory::new(&format!("wal-{kind:?}"));
    let wal = place.0.join("wal");
    let (log, away) = (wal.join(part), wal.join("away"));
    fs::create_dir(&wal).unwrap();
    let other = place.0.join("other");
    fs::create_dir(&other).unwrap();
    let server = || {
        let (data, run) = (place.data(), place.run());
        Server::new(kind, &data, &run, true, &Interrupt::default()).on_plain_disk(true)
    };
    let first = server().with_wal(&wal);
    first.start().unwrap();
    let mut store = first.target().connect().unwrap();
    store.create(&PLAN).unwrap();
    let mut ledger = Ledger::new(PLAN);
    commit(&mut *store, &mut ledger, 0, 50);
    assert!(fs::read_dir(&log).unwrap().count() > 0, "{} is empty", log.display());
    if kind == Kind::Mariadb {
        assert!(end(&first.redo().expect("a log")).is_some());
        assert!(!first.data().join("ib_logfile0").exists());
    }
    first.kill().unwrap();

    let refused = |server: &Server| server.start().unwrap_err().to_string();
    let why = refused(&server().with_wal(&other));
    assert!(why.contains("leave out --wal"), "{why}");
    fs::rename(&log, &away).unwrap();
    let why = refused(&first);
    assert!(why.contains("mount the log volume that has it"), "{why}");
    fs::rename(&away, &log).unwrap();
    // The data are not there: their log is not overwritten.
    let hidden = place.0.join("hidden");
    fs::rename(first.data(), &hidden).unwrap();
    refused(&first);
    assert!(!first.data().exists());
    fs::rename(&hidden, first.data()).unwrap();

    let again = server();
    again.start().unwrap();
    let mut store = again.target().connect().unwrap();
    let check = check(&ledger, &store.contents().unwrap());
    assert!(check.is_clean(), "{:?}", check.first);
}

#[test]
fn postgres_has_its_log_elsewhere() {
    log_elsewhere(Kind::Postgres, "postgres-wal");
}

#[test]
fn mariadb_has_its_log_elsewhere() {
    log_elsewhere(Kind::Mariadb, "mariadb-redo");
}

#[test]
fn a_server_has_its_temporary_files_to_itself() {
    if without(Kind::Mariadb) {
        return;
    }
    let place = Directory::new("to-itself");
    let server =
        Server::new(Kind::Mariadb, &place.data(), &place.run(), true, &Interrupt::default())
            .on_plain_disk(true);
    server.start().unwrap();
    let own = place.run().join("mariadb");
    let mut client = Command::new("mariadb");
    client.arg("-S").arg(own.join("mariadb.sock")).args(["-N", "-e", "SELECT @@tmpdir"]);
    let said = client.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim_end(), own.to_str().unwrap());
}

/// Other users cannot reach the socket. If they could, the server would still ask the kernel who
/// they are.
#[test]
fn only_who_started_a_server_gets_in() {
    for kind in [Kind::Postgres, Kind::Mariadb] {
        if without(kind) {
            continue;
        }
        let place = Directory::new(&format!("alone-{kind:?}"));
        let server = Server::new(kind, &place.data(), &place.run(), true, &Interrupt::default())
            .on_plain_disk(true);
        server.start().unwrap_or_else(|e| panic!("{e}: run scripts/install-databases"));
        server.target().connect().unwrap();
        let run = place.run().join(kind.name());
        assert_eq!(fs::metadata(&run).unwrap().permissions().mode() & 0o777, 0o700);
        let other = |how: &str| {
            let run = run.to_str().unwrap();
            let client: &[&str] = match kind {
                Kind::Postgres => &["psql", "-U", "postgres", "-c", "select 1", "-h", run],
                _ => &[
                    "mariadb",
                    "-u",
                    "root",
                    "-e",
                    "select 1",
                    "-S",
                    &format!("{run}/mariadb.sock"),
                ],
            };
            let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
            let said = Command::new("setpriv").args(nobody).args(client).output().unwrap();
            let text = String::from_utf8_lossy(&said.stderr).into_owned();
            assert!(!said.status.success() && text.contains(how), "{kind:?}: {text}");
        };
        if left_out_part("as somebody else", &[Need::Root, Need::Program("setpriv")]) {
            continue;
        }
        other(if kind == Kind::Postgres { "Permission denied" } else { "(13)" });
        fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
        other(if kind == Kind::Postgres { "Peer authentication failed" } else { "Access denied" });
    }
}

/// The name of a run's directory is easy to guess, so another user may have made it.
#[test]
fn a_directory_of_somebody_else_is_not_used() {
    if left_out(&[Need::Root]) {
        return;
    }
    let place = Directory::new("theirs");
    for dir in [place.run(), place.run().join("postgres")] {
        fs::create_dir_all(&dir).unwrap();
        std::os::unix::fs::chown(&dir, Some(65534), Some(65534)).unwrap();
        let server =
            Server::new(Kind::Postgres, &place.data(), &place.run(), true, &Interrupt::default())
                .on_plain_disk(true);
        let why = server.start().expect_err("it is somebody else's").to_string();
        assert!(why.contains("belongs to"), "{why}");
        assert_eq!(fs::read_dir(place.data()).unwrap().count(), 0);
        std::os::unix::fs::chown(&dir, Some(0), Some(0)).unwrap();
    }
}

/// Half-written pages are found when the server reads them again.
fn torn(kind: Kind) {
    if without(kind) {
        return;
    }
    let place = Directory::new(&format!("torn-{kind:?}"));
    let server = Server::new(kind, &place.data(), &place.run(), false, &Interrupt::default())
        .on_plain_disk(true);
    server.start().unwrap();
    let mut store = server.target().connect().unwrap();
    let mut ledger = Ledger::new(PLAN);
    store.create(&PLAN).unwrap();
    commit(&mut *store, &mut ledger, 0, 50);
    assert!(check(&ledger, &store.contents().unwrap()).is_clean());
    assert_eq!(store.own_check().unwrap(), [""; 0]);
    drop(store);
    server.end().unwrap();
    let mut all = Vec::new();
    files(&place.data(), &mut all);
    let old: Vec<Vec<u8>> = all.iter().map(|file| fs::read(file).unwrap()).collect();
    server.start().unwrap();
    let mut store = server.target().connect().unwrap();
    commit(&mut *store, &mut ledger, 1, 50);
    drop(store);
    server.end().unwrap();
    let page = kind.page_bytes() as usize;
    let torn: usize =
        all.iter().zip(&old).map(|(file, old)| crate::common::tear(file, old, page)).sum();
    assert!(torn > 0);
    let before = fs::read(server.log()).unwrap().len();
    // A server that does not start has found it too, if it says why.
    let (_, found) = judge(&server, &ledger, &|_: &str| {}).unwrap();
    assert!(!found.is_clean(), "{torn} torn pages were not found");
    // A failure is not enough: the server must name the damage.
    let said = fs::read(server.log()).unwrap();
    let said = String::from_utf8_lossy(&said[before..]).into_owned() + &found.first.join("\n");
    let words = match kind {
        Kind::Postgres => "page verification failed",
        _ => "Page read from tablespace is corrupted",
    };
    assert!(said.contains(words), "{said}");
}

#[test]
fn torn_pages_of_postgres_are_found() {
    torn(Kind::Postgres);
}

#[test]
fn torn_pages_of_mariadb_are_found() {
    torn(Kind::Mariadb);
}
