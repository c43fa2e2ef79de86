//! A crash of the host: what opens afterwards is right, and with `host_sync` what was flushed is
//! there.

use super::host::Host;
use super::shadow::{BLOCKS, HOSTS, Shadow};
use super::{Scratch, create, hosts, recover, tiny};
use crate::{Design, Drive};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use tantalum_device::{
    Block, BlockDevice, Data, DataMut, Durability, IoError, LiveBox, OwnedData, Payload, PowerCycle,
};
use tantalum_nand::{
    IMAGE_VERSION, ImageError, ImageFile, ImageSpec, NandArray, Opening, PageAddr, PageState, Unit,
    fail_syncs, watch_changes,
};
use tantalum_rt::wall::WallOptions;
use tantalum_rt::{Nanos, Runtime, Stream};

/// Under the first boot of the host.
const FIRST: Opening = Opening {
    view: false,
    host_crashed: false,
    host_sync: false,
    sync_here: true,
    boot: Some([1; 16]),
};
/// Under the next one.
const NEXT: Opening = Opening { host_crashed: true, boot: Some([2; 16]), ..FIRST };

fn watch(host: &Rc<RefCell<Host>>, mut then: impl FnMut(&Host) + 'static) {
    let host = host.clone();
    watch_changes(Some(Box::new(move |change| {
        host.borrow_mut().note(change);
        then(&host.borrow());
    })));
}

/// Crashes of the host under an array in an image of this version: pages that can be read, and how
/// many of these are not what was programmed since the erase that the image tells of.
fn pages_after_crashes(version: u32, crashes: u64) -> (u64, u64) {
    let (mut readable, mut wrong) = (0, 0);
    let design = tiny("volatile");
    let g = &design.geometry;
    for seed in 0..crashes {
        let (file, copy) = (Scratch::new(), Scratch::new());
        let spec = ImageSpec {
            version,
            serial: [3; 16],
            geometry: g.clone(),
            payload: Payload::Bytes,
            oob_words: 1,
            flights: 64,
            protected: 0,
            design: String::new(),
        };
        drop(ImageFile::create(&file.0, &spec, false).unwrap());
        let host = Rc::new(RefCell::new(Host::new(&file.0, seed)));
        watch(&host, |_| ());
        let image = ImageFile::open_with(&file.0, FIRST).unwrap();
        let mut runtime = Runtime::virtual_time(seed);
        let array = NandArray::on_image(&runtime.handle(), &image, &design.timing).unwrap();
        let (mut known, mut dice) = (BTreeMap::new(), Stream::new(seed, "an array"));
        let (rt, geometry) = (runtime.handle(), g.clone());
        let main = async move {
            for tag in 1..200u64 {
                let unit = Unit(dice.below(3) as u32);
                let next = array.next_page(unit);
                if next == geometry.unit_pages() || dice.chance(1, 20) {
                    drop(array.erase(unit).unwrap());
                } else {
                    let bytes = tag.to_le_bytes().repeat(512);
                    let at = PageAddr { unit, page: next };
                    known.insert((unit, array.erase_count(unit), next), tag);
                    drop(array.program(at, Data::Bytes(&bytes), &[tag]).unwrap());
                }
                rt.sleep(Nanos::from_micros(dice.below(6_000))).await;
                if dice.chance(1, 60) {
                    image.sync().unwrap();
                }
            }
            known
        };
        let known = runtime.block_on(main).unwrap();
        watch_changes(None);
        host.borrow().crash(&copy.0, &mut Stream::new(seed, "a crash"));
        let image = ImageFile::open_with(&copy.0, NEXT).unwrap();
        let runtime = Runtime::virtual_time(seed);
        let Ok(array) = NandArray::on_image(&runtime.handle(), &image, &design.timing) else {
            continue; // Refused.
        };
        array.power_off();
        for unit in (0..g.units()).map(Unit) {
            for page in 0..array.next_page(unit) {
                let (at, mut words) = (PageAddr { unit, page }, [0]);
                let mut bytes = vec![0; 4096];
                if array.inspect(at, &mut words) != PageState::Programmed || !array.verify(at) {
                    continue;
                }
                array.inspect_payload(at, DataMut::Bytes(&mut bytes));
                readable += 1;
                let tag = known.get(&(unit, array.erase_count(unit), page)).copied();
                let is_right = |tag: u64| words == [tag] && bytes == tag.to_le_bytes().repeat(512);
                wrong += u64::from(!tag.is_some_and(is_right));
            }
        }
    }
    (readable, wrong)
}

/// The rule for an image that was not synced: a page that can be read is, whole, what was
/// programmed there in the erase cycle that the image tells of. Version 1 of the format did not
/// keep it.
#[test]
fn a_page_after_a_crash_of_the_host_is_of_its_erase_cycle() {
    let (readable, wrong) = pages_after_crashes(1, 60);
    assert!(wrong > 0, "version 1: {wrong} of {readable}: this test finds nothing");
    let (readable, wrong) = pages_after_crashes(IMAGE_VERSION, 60);
    assert!(readable > 100, "{readable} pages can be read");
    assert_eq!(wrong, 0, "of {readable}");
}

/// What became of a host's crash.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Refused,
    /// Blocks that cannot be read.
    Opened(u64),
}

/// Opens what a crash left, and reads all of it: each block is an error, or as `shadow` knows it.
fn look(path: &Path, shadow: &Shadow, seed: u64) -> Result<Found, String> {
    let Ok(image) = ImageFile::open_with(path, NEXT) else { return Ok(Found::Refused) };
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let drive = match Drive::on_file(&rt, image.clone()) {
        Ok(drive) => drive,
        Err(_) => match Drive::on_damaged_file(&rt, image) {
            Ok(drive) => drive,
            Err(_) => return Ok(Found::Refused),
        },
    };
    let mut shadow = shadow.clone();
    let main = async move {
        if drive.power_on().await.is_err() && drive.salvage().await.is_err() {
            return Ok(Found::Refused);
        }
        drive.settled().await;
        if drive.audit().is_err() {
            return Ok(Found::Refused);
        }
        let mut unreadable = 0;
        for at in 0..HOSTS * BLOCKS {
            let mut room = OwnedData::zeros(drive.device().caps().payload, 1, 4096);
            match drive.device().read(Block(at), room.as_mut()).await {
                Ok(()) => shadow.check(at, &room)?,
                Err(IoError::Uncorrectable(_)) => unreadable += 1,
                Err(e) => return Err(format!("block {at}: {e}")),
            }
        }
        Ok(Found::Opened(unreadable))
    };
    runtime.block_on(main).map_err(|e| e.to_string())?
}

/// Lets hosts work on a drive while its host crashes after some of the changes of the file; `then`
/// sees what each crash left, and what is known then.
fn crash_often(
    preset: &str,
    payload: Payload,
    (seed, sync): (u64, bool),
    mut then: impl FnMut(&Path, &Shadow, u64) + 'static,
) {
    let (file, copy, design) = (Scratch::new(), Scratch::new(), tiny(preset));
    create(&file, &design, payload);
    let host = Rc::new(RefCell::new(Host::new(&file.0, seed)));
    let shadow = Rc::new(RefCell::new(Shadow::new(false)));
    let (mut dice, mut next) = (Stream::new(seed, preset), 40);
    let known = shadow.clone();
    watch(&host, move |host| {
        if host.changes >= next {
            next = host.changes + 1 + dice.below(600);
            host.crash(&copy.0, &mut dice);
            then(&copy.0, &known.borrow(), host.changes);
        }
    });
    let opening = Opening { host_sync: sync, ..FIRST };
    let image = ImageFile::open_with(&file.0, opening).unwrap();
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let drive = Drive::on_file(&rt, image).unwrap();
    let main = async move {
        // The power is cut in between, too.
        for life in 0..2 {
            let mut known = shadow.borrow().clone();
            recover(&drive, &mut known).await.unwrap();
            if sync {
                *shadow.borrow_mut() = known;
            }
            for host in hosts(&rt, &drive, &shadow, life, 40) {
                host.await.unwrap();
            }
            drive.cut();
            drive.off().await;
            shadow.borrow_mut().forget_acked();
        }
    };
    let ended = runtime.block_on(main);
    watch_changes(None);
    ended.unwrap();
}

/// With `host_sync` an image that went through a crash of its host is that of a process which was
/// killed at the newest synced moment: nothing is refused or damaged, and what was flushed, or
/// written with forced unit access, is there.
#[test]
fn what_was_flushed_survives_a_crash_of_the_host() {
    for (i, preset) in Design::presets().iter().enumerate() {
        let (crashes, name) = (Rc::new(Cell::new(0)), preset.to_string());
        let count = crashes.clone();
        let payload = match *preset {
            "volatile" | "durassd" | "spartan-es" => Payload::Bytes,
            _ => Payload::Stamps,
        };
        crash_often(preset, payload, (i as u64, true), move |path, shadow, at| {
            count.set(count.get() + 1);
            let mut runtime = Runtime::virtual_time(at);
            let image = ImageFile::open_with(path, NEXT);
            let image = image.unwrap_or_else(|e| panic!("{name}, change {at}: {e}"));
            let drive = Drive::on_file(&runtime.handle(), image.clone());
            let drive = drive.unwrap_or_else(|e| panic!("{name}, change {at}: {e}"));
            let mut shadow = shadow.clone();
            let found =
                runtime.block_on(async move { recover(&drive, &mut shadow).await }).unwrap();
            assert!(found.is_ok(), "{name}, change {at}: {}", found.unwrap_err());
            assert_eq!(image.torn_by_crash(), 0, "{name}, change {at}");
        });
        assert!(crashes.get() > 15, "{preset}: {} crashes", crashes.get());
    }
}

/// Without `host_sync` what opens never has anything in a block that was not written there, or a
/// mixture; and the same crashes lose what was flushed: the test before this one could fail.
#[test]
fn without_a_sync_a_block_is_one_that_was_written_there() {
    let (lost, opened) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    for (i, preset) in ["durassd", "volatile", "spartan-es", "full-protection"].iter().enumerate() {
        let (name, lost, opened) = (preset.to_string(), lost.clone(), opened.clone());
        crash_often(preset, Payload::Bytes, (i as u64, false), move |path, shadow, at| {
            let found = look(path, &shadow.nothing_kept(), at);
            let found = found.unwrap_or_else(|e| panic!("{name}, change {at}: {e}"));
            opened.set(opened.get() + u64::from(found != Found::Refused));
            lost.set(lost.get() + u64::from(look(path, shadow, at) != Ok(Found::Opened(0))));
        });
    }
    assert!(
        opened.get() > 0 && lost.get() > 0,
        "{} opened, {} lost something",
        opened.get(),
        lost.get()
    );
}

/// Who had it last is known: killed under this boot, it opens; under another one it is refused
/// until somebody says so; after an end in good order it opens under any.
#[test]
fn an_image_in_use_under_another_boot_is_refused() {
    for host_sync in [false, true] {
        let (file, design) = (Scratch::new(), tiny("durassd"));
        create(&file, &design, Payload::Stamps);
        let boot = |n| Opening { host_sync, boot: Some([n; 16]), ..FIRST };
        let live = |opening: Opening, ends: bool| {
            let image = ImageFile::open_with(&file.0, opening)?;
            let mut runtime = Runtime::virtual_time(1);
            let drive = Drive::on_file(&runtime.handle(), image.clone()).unwrap();
            let main = async move {
                drive.power_on().await.unwrap();
                drive.cut();
                drive.off().await;
            };
            runtime.block_on(main).unwrap();
            if ends { image.end() } else { Ok(()) }
        };
        live(boot(1), true).unwrap();
        live(boot(2), false).unwrap();
        live(boot(2), false).unwrap();
        let refused = live(boot(3), false).unwrap_err();
        assert!(matches!(refused, ImageError::HostCrashed), "{refused}");
        assert!(refused.to_string().contains("--host-crashed"), "{refused}");
        let view = ImageFile::open_with(&file.0, Opening { view: true, ..boot(3) });
        assert!(matches!(view.err(), Some(ImageError::HostCrashed)));
        live(Opening { host_crashed: true, ..boot(3) }, false).unwrap();
        live(boot(3), true).unwrap();
        live(boot(4), true).unwrap();
    }
}

/// On the wall clock a thread waits for the host's disk: flushes of several hosts end, and what
/// they flushed is there under the next boot though nothing else was ever synced.
#[test]
fn flushes_wait_for_a_thread_on_the_wall_clock() {
    let (file, design) = (Scratch::new(), tiny("durassd"));
    create(&file, &design, Payload::Bytes);
    let opening = Opening { host_sync: true, sync_here: false, ..FIRST };
    let image = ImageFile::open_with(&file.0, opening).unwrap();
    let options = WallOptions { time_scale: 0.0, ..WallOptions::default() };
    let mut runtime = Runtime::wall_time(1, options).unwrap();
    let rt = runtime.handle();
    let drive = Drive::on_file(&rt, image).unwrap();
    let shadow = Rc::new(RefCell::new(Shadow::new(false)));
    let known = shadow.clone();
    let main = async move {
        drive.power_on().await.unwrap();
        for host in hosts(&rt, &drive, &known, 0, 60) {
            host.await.unwrap();
        }
        drive.device().flush().await.unwrap();
        let acked = known.borrow().acked();
        known.borrow_mut().flushed(acked);
    };
    runtime.block_on(main).unwrap();
    drop(runtime);
    let found = look(&file.0, &shadow.borrow(), 2);
    assert_eq!(found, Ok(Found::Opened(0)));
}

/// A host whose disk fails keeps nothing more: the drive says so and takes nothing, until it is
/// started anew.
#[test]
fn a_drive_stops_when_the_disk_of_its_host_fails() {
    for forced in [false, true] {
        let (file, design) = (Scratch::new(), tiny("durassd"));
        create(&file, &design, Payload::Stamps);
        let image = ImageFile::open_with(&file.0, Opening { host_sync: true, ..FIRST }).unwrap();
        let mut runtime = Runtime::virtual_time(1);
        let drive = Drive::on_file(&runtime.handle(), image).unwrap();
        let main = async move {
            drive.start().await.unwrap();
            let device = drive.device();
            let write =
                async |stamp: u64, want| device.write(Block(0), Data::Stamps(&[stamp]), want).await;
            write(1, Durability::Fua).await.unwrap();
            device.flush().await.unwrap();
            assert_eq!(drive.stopped_by(), None);
            fail_syncs(true);
            let failed = match forced {
                true => write(2, Durability::Fua).await,
                false => {
                    write(2, Durability::Normal).await.unwrap();
                    device.flush().await
                }
            };
            let why = "the host could not write the image to its disk";
            assert_eq!(failed, Err(IoError::Failed(why)));
            assert_eq!(write(3, Durability::Normal).await, Err(IoError::Poisoned));
            assert_eq!(device.flush().await, Err(IoError::Poisoned));
            assert_eq!(drive.stopped_by().as_deref(), Some(why), "who watches the drive sees it");
        };
        let ended = runtime.block_on(main);
        fail_syncs(false);
        ended.unwrap();
    }
}
