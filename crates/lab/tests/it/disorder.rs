//! SQLite on a drive that keeps neither order nor whole writes.

use crate::designs::small;
use std::rc::Rc;
use tantalum_device::Payload;
use tantalum_lab::file::experiment::{Journal, Synchronous};
use tantalum_lab::report::RowFindings;
use tantalum_lab::run::row::{self, RowPlan};
use tantalum_lab::run::sqlite::Settings;
use tantalum_lab::subject::Model;
use tantalum_rt::{Nanos, Rt};
use tantalum_workload::ycsb::{Ycsb, YcsbScale};

fn sqlite(journal: Journal, synchronous: Synchronous, keys: &str) -> RowFindings {
    let keys =
        format!("geometry.blocks = 64\ngeometry.pages = 32\ncache.buffer_kib = 4096\n{keys}");
    let design = small("volatile").with_overrides(&keys.parse().expect("valid TOML")).unwrap();
    let plan = RowPlan {
        cuts: 40,
        until_loss: false,
        clients: 3,
        warm_up: Nanos::ZERO,
        run_time: [Nanos::from_millis(50), Nanos::from_millis(1500)],
        outage: [Nanos::ZERO, Nanos::from_millis(50)],
        recovery_cut_percent: 0,
        settings: Settings { page_bytes: 4096, cache_pages: 20, journal, synchronous },
        preparation: None,
        tell: Rc::new(|_| ()),
    };
    let benchmark = Rc::new(Ycsb::new(YcsbScale { records: 2000, ..YcsbScale::default() }));
    let drive = |rt: &Rt| Ok(Model::Ssd(Box::new(design)).build(rt, Payload::Bytes).unwrap());
    let (findings, result) = row::run(1, plan, benchmark, drive, || ());
    result.unwrap_or_else(|e| panic!("{e}: {findings:#?}"));
    assert_eq!(findings.violations, 0, "{findings:#?}");
    findings
}

#[test]
fn without_syncs_disorder_corrupts_databases_and_with_syncs_it_does_not() {
    let disorder = "cache.reorder = 500";
    let f = sqlite(Journal::Wal, Synchronous::Off, disorder);
    assert!(f.commits_lost > 0 && f.databases_corrupt > 0, "{f:#?}");
    let f = sqlite(Journal::Wal, Synchronous::Off, "cache.reorder = 0");
    assert!(f.commits_lost > 0 && f.databases_corrupt == 0, "in order only the tail: {f:#?}");
    let keys = format!("{disorder}\ncache.shear_bytes = 512");
    let f = sqlite(Journal::Wal, Synchronous::Full, &keys);
    assert!(!f.lost_anything(), "{f:#?}");
    let keys = format!("{disorder}\ncache.flush = \"ignore\"");
    let f = sqlite(Journal::Wal, Synchronous::Full, &keys);
    assert!(f.commits_lost > 0 && f.databases_corrupt > 0, "{f:#?}");
}
