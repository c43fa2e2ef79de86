//! [`File`] over a block device that loses unsynced writes: a loop device on the file of a mounted
//! drive whose power is cut. The oracle checks the promises of [`File`].
//! A binary of its own: a test of `mounts` switches off the flushes of loop devices that are unused.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "tests start programs and mount drives")]

mod mounting;

use mounting::{Mounted, Place, output, possible, tantalum};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use tantalum_device::{
    Ack, Block, BlockDevice, Blocks, File, FileSettings, IoError, Partition, PowerCycle,
};
use tantalum_oracle::harness::{CrashPlan, CrashReport, CutAt, Mix, torture};
use tantalum_rt::wall::{Backend, WallOptions};
use tantalum_rt::{Nanos, Rt, Runtime};
use tantalum_testing::Need;

/// A loop device on the file of a mounted drive.
struct Loop(String);

impl Loop {
    fn new(file: &Path) -> Loop {
        let file = file.to_str().expect("text");
        let how = ["--find", "--show", "--direct-io=on", "--sector-size", "4096", file];
        let name = output("losetup", &how).trim().to_string();
        assert!(name.starts_with("/dev/loop"), "no loop device: {name:?}");
        // Its previous user may have switched its flushes off.
        let knob = format!("/sys/block/{}/queue/write_cache", &name["/dev/".len()..]);
        std::fs::write(&knob, "write back").expect("flushes reach the drive");
        Loop(name)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

/// A few blocks of a device over a loop device, on a drive whose power is cut together with the
/// link. An open file of the drive fails after the cut, so a start makes a new loop device.
struct Hosted {
    rt: Rt,
    image: String,
    drive: PathBuf,
    on: RefCell<Option<(Partition<File>, Loop)>>,
}

impl Hosted {
    fn new(rt: &Rt, image: String, drive: PathBuf) -> Hosted {
        let on = RefCell::new(Some(Hosted::open(rt, &drive)));
        Hosted { rt: rt.clone(), image, drive, on }
    }

    fn file(&self) -> Partition<File> {
        self.on.borrow().as_ref().expect("it is open").0.clone()
    }

    fn open(rt: &Rt, drive: &Path) -> (Partition<File>, Loop) {
        let disk = Loop::new(drive);
        let file = File::open(rt, &disk.0, &FileSettings::default()).expect("a device");
        let caps = *file.caps();
        assert_eq!((caps.block_size, caps.atomic_unit, caps.ack), (4096, 4096, Ack::Volatile));
        let range = Blocks { start: Block(1000), count: 120 };
        (Partition::of_box(file, range).expect("a range"), disk)
    }

    fn ask(&self, command: &str) {
        let answer = tantalum(&["drive", command, &self.image]).output().expect("it starts");
        assert!(answer.status.success(), "{command}: {answer:?}");
    }
}

impl PowerCycle for Hosted {
    type Device = Partition<File>;

    fn device(&self) -> Partition<File> {
        self.file().device()
    }

    fn cut(&self) {
        // In this order, so that commands under way meet a drive without power.
        self.ask("cut");
        self.file().cut();
    }

    async fn off(&self) {
        self.file().off().await;
    }

    async fn power_on(&self) -> Result<(), IoError> {
        if self.device().is_alive() {
            return Ok(());
        }
        self.off().await;
        self.ask("restore");
        // The old loop device has the lock of its file.
        drop(self.on.take());
        self.on.replace(Some(Hosted::open(&self.rt, &self.drive)));
        Ok(())
    }
}

fn plan() -> CrashPlan {
    CrashPlan {
        rounds: 6,
        commands: 400,
        restarts: 0,
        cut: CutAt::Within(Nanos::from_millis(400)),
        mix: Mix { write: 60, fua: 5, group: 0, flush: 4, discard: 5, read: 20 },
        ..CrashPlan::default()
    }
}

fn hosted(design: &str, io: Backend) -> Option<CrashReport> {
    let tools = [Need::LoopDevices, Need::Program("losetup")];
    if !possible(&tools) {
        return None;
    }
    let mut runtime = Runtime::wall_time(7, WallOptions { io, ..WallOptions::default() })
        .unwrap_or_else(|e| panic!("{io:?}: {e}"));
    let rt = runtime.handle();
    let place = Place::new(&format!("hosted-{design}-{io:?}"));
    let (image, dir) = (place.image(design), place.path("m"));
    let mounted = Mounted::new(&dir, &[&image, &dir]);
    let target = Rc::new(Hosted::new(&rt, image, mounted.path("drive")));
    let report = runtime
        .block_on(async move { torture(rt.clone(), target, plan()).await })
        .expect("it runs");
    drop(runtime);
    mounted.stop();
    place.assert_clean();
    Some(report)
}

#[test]
fn a_file_on_a_drive_that_is_cut_keeps_its_word() {
    for (design, io) in [("volatile", Backend::Auto), ("durassd", Backend::Poll)] {
        let Some(report) = hosted(design, io) else { return };
        assert!(report.is_clean() && report.checks == 7, "{design}\n{report}");
    }
}
