//! The ledger on servers: PostgreSQL and MariaDB of the distribution, killed under load; and torn
//! pages, which the check finds. `scripts/install-databases` installs them.

#![allow(clippy::disallowed_methods, reason = "tests of real databases, in their own directories")]

mod common;

use common::{Directory, PLAN, commit, plain};
use std::fs;
use std::path::{Path, PathBuf};
use tantalum_torture::check::check;
use tantalum_torture::ledger::Ledger;
use tantalum_torture::program::Interrupt;
use tantalum_torture::redo::end;
use tantalum_torture::server::{Kind, Server};

fn killed(kind: Kind) {
    let report = plain(kind, 3);
    // (What a server does to itself is not looked for here.)
    let fine = report.is_clean() || report.own_fault().is_some();
    assert!(fine, "{} (scripts/install-databases?)", report.to_json());
    let all = report.rounds.len() == 3 || report.own_fault().is_some();
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

/// Where recovery says that a log ends is where it is found to end.
#[test]
fn the_end_of_a_real_log_is_found() {
    let place = Directory::new("log-end");
    let server =
        Server::new(Kind::Mariadb, &place.data(), &place.run(), false, &Interrupt::default())
            .on_plain_disk(true);
    server.start().unwrap_or_else(|e| panic!("{e}: run scripts/install-databases"));
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

/// Files of tables, wherever the server keeps them.
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

/// A drive that is not mounted is no reason to put the data on the plain disk.
#[test]
fn a_server_is_not_started_where_no_drive_is() {
    let place = Directory::new("nowhere");
    let start = |data: &Path| {
        let run = place.run();
        let server = Server::new(Kind::Postgres, data, &run, false, &Interrupt::default());
        server.start().expect_err("nothing is mounted there").to_string()
    };
    let why = start(&place.data());
    assert!(why.contains("nothing is mounted at") && why.contains("--here"), "{why}");
    assert_eq!(fs::read_dir(place.data()).unwrap().count(), 0);
    let nowhere = place.0.join("nosuch");
    let why = start(&nowhere);
    assert!(why.contains("there is no directory"), "{why}");
    assert!(!nowhere.exists() && !place.run().exists());
}

/// Pages of which only a half was written are found when the server reads them again.
fn torn(kind: Kind) {
    let place = Directory::new(&format!("torn-{kind:?}"));
    let server = Server::new(kind, &place.data(), &place.run(), false, &Interrupt::default())
        .on_plain_disk(true);
    server.start().unwrap_or_else(|e| panic!("{e}: run scripts/install-databases"));
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
    let torn: usize = all.iter().zip(&old).map(|(file, old)| common::tear(file, old, page)).sum();
    assert!(torn > 0);
    // A server that does not even start has found it, too.
    if server.start().is_ok()
        && let Ok(mut store) = server.target().connect()
    {
        let said = store.own_check();
        let clean = store.contents().map(|contents| check(&ledger, &contents).is_clean());
        assert!(!matches!((said, clean), (Ok(said), Ok(true)) if said.is_empty()));
    }
}

#[test]
fn torn_pages_of_postgres_are_found() {
    torn(Kind::Postgres);
}

#[test]
fn torn_pages_of_mariadb_are_found() {
    torn(Kind::Mariadb);
}
