//! The oracle holds a file to what it promises, on both back ends: on scratch files, whose host
//! keeps its power, with hosts that give up and with cuts of the link.

use crate::both::{run, runtimes};
use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, Blocks, File, FileError, FileSettings, PowerCycle};
use tantalum_oracle::harness::{CrashPlan, CutAt, Mix, torture};
use tantalum_rt::Nanos;
use tantalum_testing::Scratch;

fn plan(cut: CutAt) -> CrashPlan {
    CrashPlan {
        rounds: 3,
        commands: 150,
        max_blocks: 12,
        cut,
        think: Nanos::from_micros(100),
        restart_within: Nanos::from_micros(200),
        mix: Mix { write: 40, fua: 10, group: 0, flush: 8, discard: 12, read: 30 },
        give_up: 10,
        ..CrashPlan::default()
    }
}

/// The settings, or the same through the page cache where there is no direct I/O.
fn everywhere(settings: &FileSettings, dir: &std::path::Path) -> FileSettings {
    let (mut runtime, rt) = runtimes().next().expect("poll is everywhere");
    let (path, settings) = (dir.join("probe"), settings.clone());
    run(&mut runtime, async move {
        match File::create(&rt, &path, 1 << 20, &settings).await {
            Err(FileError::NoDirectIo(_)) => FileSettings { buffered: true, ..settings },
            made => made.map(|_| settings).expect("a file"),
        }
    })
}

#[test]
fn a_file_keeps_its_word() {
    let all = [
        FileSettings { block_size: Some(4096), ..FileSettings::default() },
        FileSettings { block_size: Some(512), keep_room: true, ..FileSettings::default() },
        FileSettings { block_size: Some(65_536), buffered: true, ..FileSettings::default() },
    ];
    for (i, settings) in all.iter().enumerate() {
        let scratch = Scratch::new();
        let settings = everywhere(settings, scratch.dir());
        let size = u64::from(settings.block_size.expect("chosen above"));
        for (j, (mut runtime, rt)) in runtimes().enumerate() {
            let path = scratch.path(&format!("{i}-{j}"));
            let (settings, again) = (settings.clone(), path.clone());
            let main = async move {
                let file = File::create(&rt, &path, 96 * size, &settings).await.unwrap();
                let file = Rc::new(file);
                let at_once = CutAt::Within(Nanos::from_millis(20));
                let cut = torture(rt.clone(), file.clone(), plan(at_once)).await;
                let all = Blocks { start: Block(0), count: file.caps().blocks };
                file.device().discard(all).await.unwrap();
                let ended = torture(rt.clone(), file, plan(CutAt::End)).await;
                // Everything is released with the last handle, and there for the next owner.
                File::open(&rt, &again, &settings).unwrap();
                [cut, ended]
            };
            let reports = run(&mut runtime, main);
            for report in &reports {
                assert!(report.is_clean() && report.checks == 4, "{i} {j}\n{report}");
            }
            assert!(reports[1].succeeded > 300, "{i} {j}\n{}", reports[1]);
        }
    }
}
