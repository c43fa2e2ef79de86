//! Restarts that fail half-way: the drive takes commands, and then finds an error that stops the
//! start.

#![allow(clippy::disallowed_methods, reason = "a test's own file")]

use super::*;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use tantalum_device::{
    AfterCut, Block, BlockDevice, Caps, Data, Durability, IoError, OwnedData, Payload, PowerCycle,
    RamDevice, RamOptions, Shown, Stats,
};
use tantalum_drive::{Design, Drive};
use tantalum_nand::{PageAddr, PageState, Unit};
use tantalum_rt::wall::WallOptions;
use tantalum_rt::{Runtime, join};

/// A front that records its hooks.
#[derive(Default)]
struct Ear(RefCell<Vec<&'static str>>);

impl Ear {
    fn hear(&self, what: &'static str) {
        self.0.borrow_mut().push(what);
    }
}

impl Front for Ear {
    async fn start(&self) -> Result<String, String> {
        self.hear("start");
        Ok(String::new())
    }

    async fn cut(&self) {
        self.hear("cut");
    }

    async fn before_restore(&self) -> Result<(), String> {
        self.hear("before");
        Ok(())
    }

    async fn after_restore(&self) -> Result<Vec<String>, String> {
        self.hear("after");
        Ok(Vec::new())
    }

    async fn stop(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A drive that takes commands before its whole map is read, with a map log of more than one page.
fn small() -> Design {
    let text = "geometry = { channels = 2, packages = 1, chips = 1, planes = 2, blocks = 240, pages = 4, \
                page_bytes = 4096 }\n\
                space = { over_provisioning = 115, collect_below = 3 }\n\
                cache = { buffer_kib = 64, atomic_unit_kib = 16 }\n\
                map = { dirty_max = 1024, write_points = 1, dump_units = 4 }\n";
    let small = text.parse().expect("a table");
    Design::preset("durassd").expect("a preset").with_overrides(&small).expect("it can be built")
}

/// The oldest readable page of the map log: it is read only in the rest of a start.
fn oldest_of_log(drive: &Drive) -> Option<PageAddr> {
    let (array, g) = (drive.array(), &drive.design().geometry);
    let mut words = vec![0; array.oob_words()];
    let pages = (0..g.units()).flat_map(|unit| {
        (0..array.next_page(Unit(unit))).map(move |page| PageAddr { unit: Unit(unit), page })
    });
    let of_log = pages.filter_map(|at| {
        // The bits above the sequence number are the kind of the page.
        let is = array.inspect(at, &mut words) == PageState::Programmed && words[0] >> 56 == 3;
        is.then_some((words[0], at))
    });
    of_log.min_by_key(|(sequence, _)| *sequence).map(|(_, at)| at)
}

/// Damages a page, and returns the bytes and offsets that repair it.
fn spoil(path: &Path, drive: &Drive, at: PageAddr) -> Vec<(u64, u8)> {
    let before = fs::read(path).expect("the image");
    assert!(drive.array().corrupt(at));
    let after = fs::read(path).expect("the image");
    let differ = (0..).zip(before.iter().zip(&after)).filter(|(_, (was, is))| was != is);
    differ.map(|(at, (was, _))| (at, *was)).collect()
}

fn content(turn: u64, block: u64) -> u8 {
    (turn * 31 + block) as u8
}

/// Only a restart helps, and only once the damaged page can be read again.
#[test]
fn a_start_that_failed_half_way_is_begun_anew() {
    let path = std::env::temp_dir().join(format!("tantalum-{}-half.img", std::process::id()));
    drop(Drive::create_image(&path, &small(), Payload::Bytes, [7; 16], true).expect("made"));
    let options = WallOptions { time_scale: 0.0, ..WallOptions::default() };
    let mut runtime = Runtime::wall_time(1, options).expect("a clock");
    let (rt, image) = (runtime.handle(), path.clone());
    let done = runtime.block_on(async move {
        let drive = Stats::new(&rt, Drive::on_image(&rt, &image).expect("a drive"));
        let site = Site { io: rt.io().expect("on the wall clock"), rt, drive: drive.clone() };
        let about = About { image: None, time_scale: 0.0, killed: false, log: None };
        let plug = Plug::new(&site, Ear::default(), about, false);
        plug.begin().await.expect("it starts");
        let blocks = drive.device().caps().blocks;
        for turn in 0..6 {
            for block in 0..blocks {
                let data = [content(turn, block); 4096];
                let write = drive.device();
                let write = write.write(Block(block), Data::Bytes(&data), Durability::Normal);
                write.await.expect("written");
            }
        }
        let first = plug.told(plug.pull()).await;

        let bare = drive.inner();
        let page = oldest_of_log(bare).expect("a page of the map log");
        let heal = spoil(&image, bare, page);
        let failed = plug.restore(false).await;
        assert!(matches!(failed, Err(RestoreError::Failed(_))), "{failed:?}");
        assert_eq!(bare.power(), PowerState::On);
        // While the page is damaged, another attempt fails in the same way.
        let failed = plug.restore(false).await;
        assert!(matches!(failed, Err(RestoreError::Failed(_))), "{failed:?}");
        let file = File::options().write(true).open(&image).expect("the image");
        heal.iter().for_each(|(at, byte)| file.write_all_at(&[*byte], *at).expect("written"));
        let restored = plug.restore(false).await.expect("it starts");
        assert_eq!(restored.was, Power::Off);
        assert_eq!((bare.power(), bare.last_failure()), (PowerState::On, None));
        let restart = ["cut", "before", "after"];
        assert_eq!(*plug.front.0.borrow(), [&["start"][..], &restart, &restart, &restart].concat());
        // Each of these was a cut of a drive with power, and the front was notified of it.
        assert_eq!(plug.pulls(), 3);
        assert_ne!(plug.last_cut(), Some(first));
        for block in 0..blocks {
            let mut room = OwnedData::zeros(Payload::Bytes, 1, 4096);
            drive.device().read(Block(block), room.as_mut()).await.expect("read");
            let Data::Bytes(found) = room.as_data() else { unreachable!("bytes were asked for") };
            assert_eq!(found[0], content(5, block), "block {block}");
        }
    });
    done.expect("it ends");
    fs::remove_file(&path).expect("removed");
}

/// A RAM device that stops itself on request, until it is started again.
#[derive(Clone)]
struct Stopping {
    ram: RamDevice,
    defect: std::rc::Rc<Cell<bool>>,
    /// How often it was looked at.
    looks: std::rc::Rc<Cell<u32>>,
}

impl PowerCycle for Stopping {
    type Device = RamDevice;

    fn device(&self) -> RamDevice {
        self.ram.device()
    }

    fn cut(&self) {
        self.ram.cut();
    }

    async fn off(&self) {
        self.ram.off().await;
    }

    async fn power_on(&self) -> Result<(), IoError> {
        if self.ram.power_state() == PowerState::Off {
            self.defect.set(false);
        }
        self.ram.power_on().await
    }
}

impl LiveBox for Stopping {
    fn title(&self) -> String {
        "stopping".to_string()
    }

    fn power_state(&self) -> PowerState {
        self.ram.power_state()
    }

    fn promises(&self) -> Caps {
        self.ram.promises()
    }

    fn stopped_by(&self) -> Option<String> {
        self.defect.get().then(|| "it was told to".to_string())
    }

    fn watch_cut(&self) -> AfterCut {
        self.ram.watch_cut()
    }

    fn shown(&self) -> Shown {
        self.looks.set(self.looks.get() + 1);
        self.ram.shown()
    }

    async fn clean(&self) -> Result<(), UpkeepError> {
        match self.defect.get() {
            true => Err(UpkeepError::Failed("it was told to".to_string())),
            false => Ok(()),
        }
    }

    async fn detach(&self) -> Result<u64, UpkeepError> {
        self.clean().await.map(|()| 4096)
    }
}

/// This box with a plug, and on.
async fn stopping(rt: Rt) -> (Stopping, Plug<Stopping, Ear>) {
    let ram = RamDevice::new(&rt, RamOptions::new(Caps::power_safe(8, Payload::Bytes)));
    let (defect, looks) = Default::default();
    let stopping = Stopping { ram, defect, looks };
    let drive = Stats::new(&rt, stopping.clone());
    let site = Site { io: rt.io().expect("on the wall clock"), rt, drive };
    let about = About { image: None, time_scale: 0.0, killed: false, log: None };
    let plug = Plug::new(&site, Ear::default(), about, false);
    plug.begin().await.expect("it starts");
    (stopping, plug)
}

/// A box whose cache cannot be cleaned goes on; those who ask while it ends get one answer.
#[test]
fn a_cache_is_given_up_once() {
    let options = WallOptions { time_scale: 0.0, ..WallOptions::default() };
    let mut runtime = Runtime::wall_time(1, options).expect("a clock");
    let rt = runtime.handle();
    let done = runtime.block_on(async move {
        for fails_at_last in [false, true] {
            let (stopping, plug) = stopping(rt.clone()).await;
            stopping.defect.set(true);
            let refused = plug.detach().await.expect_err("it cannot be cleaned");
            assert_eq!((refused.kind, &*refused.message), (Kind::NotDetached, "it was told to"));
            assert!(!plug.is_to_detach() && !plug.is_stopping());
            stopping.defect.set(false);
            let says = || report::status(&plug).lines.iter().any(|line| line.label == "detach");
            assert!(!says());
            let ends = async {
                plug.until_to_detach().await;
                assert!(says());
                plug.stop().await.expect("it stops");
                stopping.defect.set(fails_at_last);
                let detached = plug.detach_unused().await;
                plug.answer_detach(detached)
            };
            let asked = join(plug.detach(), plug.detach());
            let ((first, second), ended) = join(asked, ends).await;
            assert_eq!(first, second);
            match (first, ended) {
                (Ok(report), Ok(())) => {
                    assert_eq!((report.first_byte, fails_at_last), (4096, false))
                }
                (Err(refused), Err(why)) => {
                    assert!(fails_at_last && refused.kind == Kind::NotDetached);
                    assert!(why == refused.message && why.contains("served again"), "{why}");
                }
                other => panic!("{other:?}"),
            }
        }
    });
    done.expect("it ends");
}

/// A box that has stopped itself still has power, and a restore starts it again. Its status says
/// why it has stopped.
#[test]
fn a_box_that_has_stopped_itself_is_started_anew() {
    let options = WallOptions { time_scale: 0.0, ..WallOptions::default() };
    let mut runtime = Runtime::wall_time(1, options).expect("a clock");
    let rt = runtime.handle();
    let done = runtime.block_on(async move {
        let (stopping, plug) = stopping(rt).await;
        let status = report::status(&plug);
        assert_eq!((status.power, status.defect.as_deref()), (Power::On, None));
        // A look is a pass over all units of a drive: there is one for each answer.
        let (_, stats, metrics) = report::all(&plug);
        assert_eq!(stopping.looks.get(), 1);
        assert!(!stats.lines.is_empty() && !stats.panels.is_empty());
        assert!(metrics.iter().any(|field| field.name == "stored_blocks"));
        // A box with power is left alone.
        assert_eq!(plug.restore(false).await.expect("an answer").was, Power::On);
        assert_eq!(plug.pulls(), 0);

        stopping.defect.set(true);
        let status = report::status(&plug);
        assert_eq!((status.power, status.defect.as_deref()), (Power::On, Some("it was told to")));
        assert_eq!(status.failure, None);
        assert_eq!(plug.restore(false).await.expect("it starts").was, Power::Off);
        assert_eq!((plug.pulls(), report::status(&plug).defect), (1, None));
        assert_eq!(*plug.front.0.borrow(), ["start", "cut", "before", "after"]);
    });
    done.expect("it ends");
}
