//! Directories for tests, and runs in them.

#![allow(clippy::disallowed_methods, reason = "tests of real databases, in their own directories")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tantalum_torture::ground::Ground;
use tantalum_torture::ledger::Ledger;
use tantalum_torture::nemesis::{Options, Watch, torture};
use tantalum_torture::plan::Plan;
use tantalum_torture::program::Interrupt;
use tantalum_torture::report::{Report, Round, Setting};
use tantalum_torture::server::Kind;
use tantalum_torture::store::Store;

pub const PLAN: Plan = Plan { seed: 5, clients: 4, accounts: 2000, branches: 40 };

/// A directory that other users can enter; removed on drop.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("torture-{name}-{}", std::process::id()));
        // Left by a test that was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("data")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Directory(path)
    }

    pub fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    pub fn run(&self) -> PathBuf {
        self.0.join("run")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub struct Quiet;

impl Watch for Quiet {
    fn stage(&self, _: &str) {}

    fn round(&self, round: &Round) {
        eprintln!("{}", round.line());
    }
}

pub fn options(kind: Kind, rounds: u32) -> Options {
    Options {
        kind,
        protection: None,
        cuts: rounds,
        kills: 0,
        plan: PLAN,
        load: (Duration::from_millis(50), Duration::from_millis(400)),
        clients: vec![env!("CARGO_BIN_EXE_torture-clients").into()],
        lose_every: None,
        trim_at: 100,
    }
}

/// A run on a plain directory, where a blow kills the database's processes only.
pub fn plain(kind: Kind, rounds: u32) -> Report {
    let place = Directory::new(&format!("{kind:?}"));
    let setting = Setting {
        database: kind.name().to_string(),
        design: None,
        log: None,
        file_system: None,
        protection: true,
        barriers: true,
        time_scale: 1.0,
        seed: PLAN.seed,
        clients: PLAN.clients,
        accounts: PLAN.accounts,
    };
    let mut ground = Ground::plain(place.data());
    let interrupt = Interrupt::default();
    torture(&options(kind, rounds), setting, &mut ground, &place.run(), &interrupt, &Quiet)
}

/// Commits this many transactions of one client by one connection, and notes them.
pub fn commit(store: &mut dyn Store, ledger: &mut Ledger, client: u32, count: u64) {
    let first = ledger.marks()[client as usize].acknowledged + 1;
    for seq in first..first + count {
        ledger.begin(client, seq).unwrap();
        store.transfer(&PLAN, &PLAN.transfer(client, seq)).unwrap();
        ledger.acknowledge(client, seq).unwrap();
    }
}

/// Tears the pages of a file: of each page that changed since `old`, only the first half was
/// written. Returns how many.
pub fn tear(file: &Path, old: &[u8], page: usize) -> usize {
    let mut new = fs::read(file).unwrap();
    let mut torn = 0;
    for (new, old) in new.chunks_exact_mut(page).zip(old.chunks_exact(page)) {
        let half = page / 2;
        if new[half..] != old[half..] && new[..half] != old[..half] {
            new[half..].copy_from_slice(&old[half..]);
            torn += 1;
        }
    }
    fs::write(file, new).unwrap();
    torn
}
