//! The ledger on SQLite: a sound database has no findings, and planted damage is found.

#![allow(clippy::disallowed_methods, reason = "tests of real databases, in their own directories")]

use crate::common::{Directory, PLAN, commit, plain};
use std::fs;
use tantalum_torture::check::{Harm, check};
use tantalum_torture::ledger::Ledger;
use tantalum_torture::server::Kind;
use tantalum_torture::store::{Journal, Store, Target};

#[test]
fn killed_clients_lose_nothing() {
    for kind in [Kind::Sqlite, Kind::SqliteWal] {
        let report = plain(kind, 6);
        assert!(report.is_clean(), "{}", report.to_json());
        assert_eq!(report.rounds.len(), 6);
        assert!(report.rounds.iter().all(|r| r.commits > 0));
    }
}

/// A file with 50 transactions of two clients.
fn filled(name: &str) -> (Directory, Target, Ledger, Box<dyn Store>) {
    let place = Directory::new(name);
    let target =
        Target::Sqlite { file: place.data().join("torture.sqlite"), journal: Journal::Delete };
    let mut store = target.connect().unwrap();
    let mut ledger = Ledger::new(PLAN);
    store.create(&PLAN).unwrap();
    commit(&mut *store, &mut ledger, 0, 25);
    commit(&mut *store, &mut ledger, 2, 25);
    assert!(check(&ledger, &store.contents().unwrap()).is_clean());
    assert!(store.own_check().unwrap().is_empty());
    (place, target, ledger, store)
}

#[test]
fn a_transaction_that_was_taken_back_is_found() {
    let (place, _, ledger, mut store) = filled("taken-back");
    let by_hand = rusqlite::Connection::open(place.data().join("torture.sqlite")).unwrap();
    by_hand
        .execute_batch(
            "DELETE FROM ledger WHERE client = 2 AND seq = 25; \
             DELETE FROM entry WHERE client = 2 AND seq = 25",
        )
        .unwrap();
    let found = check(&ledger, &store.contents().unwrap());
    assert_eq!(found.of(Harm::Lost), 1);
    assert!(found.of(Harm::HalfDone) > 0, "its balances are still there");
}

#[test]
fn a_torn_page_is_found() {
    let (place, target, mut ledger, mut store) = filled("torn");
    let file = place.data().join("torture.sqlite");
    let old = fs::read(&file).unwrap();
    commit(&mut *store, &mut ledger, 1, 25);
    drop(store);
    assert!(crate::common::tear(&file, &old, 4096) > 0);
    let mut store = target.connect().unwrap();
    // Its own check must name the damage: a mere failure is not enough.
    let said = match store.own_check() {
        Ok(said) => said.join("\n"),
        Err(e) => e.to_string(),
    };
    let words = ["malformed", "Tree ", "Page ", "row "];
    assert!(words.iter().any(|words| said.contains(words)), "{said:?}");
}
