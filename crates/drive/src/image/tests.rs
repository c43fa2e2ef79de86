//! A process may end at any store; the next one finds what was promised.

mod host;
mod host_crash;
mod killed;
mod older;
mod shadow;

use super::is_dump_owed;
use crate::firmware::Firmware;
use crate::format::words::Lpn;
use crate::image::mirror::{Mirror, Shape};
use crate::{Design, Drive};
use shadow::{BLOCKS, GONE, HOSTS, Shadow, content};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use tantalum_device::{
    Block, BlockDevice, Blocks, Data, Durability, Extent, IoError, OwnedData, Payload, PowerCycle,
};
use tantalum_nand::{ImageError, ImageFile, watch_stores};
use tantalum_rt::{Nanos, Rt, Runtime, Stream};

/// The tables of a drive that has power.
fn mirror(fw: &Firmware) -> &Mirror {
    fw.outside().unwrap().as_any().downcast_ref().unwrap()
}

/// A file that goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        Scratch(std::env::temp_dir().join(format!("tantalum-{}-{n}.img", std::process::id())))
    }
}

impl Drop for Scratch {
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A preset on two dies with erase units of 8 sectors, so that a short run collects.
fn tiny(preset: &str) -> Design {
    let base = Design::preset(preset).unwrap();
    let protected = base.is_protected();
    let spare = match () {
        () if base.map.summary => 215,
        () if base.map.elastic => 135,
        () if protected => 115,
        () => 95,
    };
    let mut text = format!(
        "wear.endurance = 1000000\ngeometry = {{ channels = 2, packages = 1, chips = 1, planes = 2, \
         blocks = 24, pages = 4, page_bytes = 4096, oob_bytes = 448 }}\n\
         space = {{ over_provisioning = {spare}, collect_below = 3 }}\n"
    );
    let (unit, dump) = if protected { (16, 4) } else { (4, 0) };
    let reorder = if base.cache.reorder > 0 { ", reorder = 4" } else { "" };
    text += &format!("cache = {{ buffer_kib = 64, atomic_unit_kib = {unit}{reorder} }}\n");
    let mut map = format!("dirty_max = 1024, write_points = 1, dump_units = {dump}");
    if base.keeps_units() {
        let ranges = if base.map.elastic { 78 } else { 26 };
        map += &format!(", journal_entries = 70, journal_ranges = {}", ranges + 5);
    }
    if base.map.dirty_pages_max > 0 {
        map += ", dirty_pages_max = 4";
    }
    text += &format!("map = {{ {map} }}\n");
    base.with_overrides(&text.parse().unwrap()).unwrap()
}

fn create(file: &Scratch, design: &Design, payload: Payload) {
    drop(Drive::create_image(&file.0, design, payload, [7; 16], true).unwrap());
}

/// Starts a drive, and holds it to what has to be there.
async fn recover(drive: &Drive, shadow: &mut Shadow) -> Result<(), String> {
    let started = drive.power_on().await;
    started.map_err(|e| format!("{e}: {:?}", drive.last_failure()))?;
    drive.audit()?;
    let device = drive.device();
    for block in 0..HOSTS * BLOCKS {
        let mut room = OwnedData::zeros(device.caps().payload, 1, 4096);
        let read = device.read(Block(block), room.as_mut()).await;
        read.map_err(|e| format!("block {block}: {e}"))?;
        shadow.check(block, &room)?;
    }
    drive.settled().await;
    match drive.last_failure() {
        Some(why) => Err(why.to_string()),
        None => drive.audit(),
    }
}

/// Commands of one host on blocks of its own, until one fails.
async fn work(drive: Drive, shadow: Rc<RefCell<Shadow>>, (life, host): (u64, u64), count: u64) {
    let (device, mut dice) = (drive.device(), Stream::new(life * HOSTS + host, "a host"));
    let payload = device.caps().payload;
    let grouped = device.caps().atomic_group.is_some();
    for i in 1..=count {
        let stamp = (life + 1) << 40 | i << 8 | host;
        // Of each host `BLOCKS` neighbours.
        let first = host * BLOCKS + dice.below(BLOCKS - 3);
        let (blocks, data) = (first..first + 1 + dice.below(3), content(payload, stamp));
        let pages = Blocks { start: Block(first), count: blocks.end - blocks.start };
        let many: Vec<OwnedData> = blocks.clone().map(|_| data.clone()).collect();
        let begin = |stamp| blocks.clone().for_each(|at| shadow.borrow_mut().begin(at, stamp));
        let (stamp, ended) = match dice.below(12) {
            0 => {
                begin(stamp | GONE);
                (stamp | GONE, device.discard(pages).await)
            }
            1 | 2 if grouped => {
                begin(stamp);
                let extent = |(at, data): (u64, &OwnedData)| (Block(at), data.clone());
                let all: Vec<_> = blocks.clone().zip(&many).map(extent).collect();
                let group: Vec<Extent<'_>> =
                    all.iter().map(|(at, data)| Extent { at: *at, data: data.as_data() }).collect();
                (stamp, device.write_atomic(&group).await.map_err(|_| IoError::PowerLost))
            }
            3 => {
                let so_far = shadow.borrow().acked();
                let ended = device.flush().await;
                if ended.is_ok() {
                    shadow.borrow_mut().flushed(so_far);
                }
                continue;
            }
            n => {
                begin(stamp);
                let want = if n == 4 { Durability::Fua } else { Durability::Normal };
                let joined = shadow::joined(&many);
                let ended = device.write(Block(first), joined.as_data(), want).await;
                if n == 4 && ended.is_ok() {
                    blocks.clone().for_each(|at| shadow.borrow_mut().keep(at, stamp));
                }
                (stamp, ended)
            }
        };
        if ended.is_err() {
            return;
        }
        blocks.clone().for_each(|at| shadow.borrow_mut().ack(at, stamp));
    }
}

fn hosts(
    rt: &Rt,
    drive: &Drive,
    shadow: &Rc<RefCell<Shadow>>,
    life: u64,
    count: u64,
) -> Vec<tantalum_rt::Join<()>> {
    let one = |host| rt.spawn("a host", work(drive.clone(), shadow.clone(), (life, host), count));
    (0..HOSTS).map(one).collect()
}

/// Processes that end at a poll, one after the other: while they work, start, or write the dump of
/// the one before.
fn live_and_die(preset: &str, payload: Payload, lives: u64) {
    let (file, design) = (Scratch::new(), tiny(preset));
    create(&file, &design, payload);
    let mut dice = Stream::new(5, preset);
    let mut shadow = Shadow::new(design.is_protected());
    let mut worked = 0;
    for life in 0..lives {
        let mut runtime = Runtime::virtual_time(life);
        let rt = runtime.handle();
        let drive = Drive::on_image(&rt, &file.0).unwrap_or_else(|e| panic!("{preset}: {e}"));
        let known = Rc::new(RefCell::new(shadow));
        let begun = Rc::new(Cell::new(false));
        let (main, told, name) = (known.clone(), begun.clone(), preset.to_string());
        rt.clone().spawn("a life", async move {
            let mut shadow = main.borrow().clone();
            let found = recover(&drive, &mut shadow).await;
            found.unwrap_or_else(|e| panic!("{name}, life {life}: {e}"));
            *main.borrow_mut() = shadow;
            told.set(true);
            drop(hosts(&rt, &drive, &main, life, u64::MAX));
            std::future::pending::<()>().await;
        });
        let most = if dice.chance(1, 3) { 12_000 } else { 120_000 };
        let ended = runtime.run_until(Nanos::from_micros(dice.below(most)));
        ended.unwrap_or_else(|e| panic!("{preset}, life {life}: {e}"));
        worked += u64::from(begun.get());
        shadow = known.borrow().clone();
        shadow.forget_acked();
    }
    assert!(worked > lives / 4, "{preset}: {worked} of {lives} lives got to work");
}

#[test]
fn processes_end_anywhere() {
    for preset in Design::presets() {
        live_and_die(preset, Payload::Stamps, 14);
    }
    for preset in ["volatile", "durassd", "spartan-es"] {
        live_and_die(preset, Payload::Bytes, 14);
    }
}

/// Looks at what is in the file after some of the stores, from the `from`-th on, each about
/// `stride` after the one before.
#[allow(clippy::disallowed_methods, reason = "a test's own files")]
fn every_store(preset: &str, payload: Payload, count: u64, which: (u64, u64)) -> u64 {
    every_store_of(preset, payload, count, which, None)
}

/// The same with lists of so many words, if that is given: of more, all is written anew.
#[allow(clippy::disallowed_methods, reason = "a test's own files")]
fn every_store_of(
    preset: &str,
    payload: Payload,
    count: u64,
    (from, stride): (u64, u64),
    list: Option<usize>,
) -> u64 {
    let (file, copy, design) = (Scratch::new(), Scratch::new(), tiny(preset));
    create(&file, &design, payload);
    let mut runtime = Runtime::virtual_time(3);
    let rt = runtime.handle();
    let drive = Drive::on_image(&rt, &file.0).unwrap();
    let shadow = Rc::new(RefCell::new(Shadow::new(design.is_protected())));
    let looks = Rc::new(Cell::new(0));
    let (looked, watched, name) = (looks.clone(), shadow.clone(), preset.to_string());
    let (mut stores, mut next, mut dice) = (0, from, Stream::new(9, "stores"));
    let path = file.0.clone();
    watch_stores(Some(Box::new(move || {
        stores += 1;
        if stores < next {
            return;
        }
        next = stores + 1 + dice.below(2 * stride - 1);
        looked.set(looked.get() + 1);
        std::fs::copy(&path, &copy.0).unwrap();
        let mut shadow = watched.borrow().clone();
        let mut runtime = Runtime::virtual_time(stores);
        let found = Drive::on_image(&runtime.handle(), &copy.0).map_err(|e| e.to_string());
        let found = found.and_then(|drive| {
            runtime.block_on(async move { recover(&drive, &mut shadow).await }).unwrap()
        });
        assert!(found.is_ok(), "{name}, store {stores}: {}", found.unwrap_err());
    })));
    let main = async move {
        // The second life begins with the dump of the first.
        for life in 0..2 {
            let mut known = shadow.borrow().clone();
            recover(&drive, &mut known).await.unwrap();
            if let Some(words) = list {
                mirror(&drive.firmware()).shrink_list(words);
            }
            *shadow.borrow_mut() = known;
            for host in hosts(&rt, &drive, &shadow, life, count) {
                host.await.unwrap();
            }
            drive.cut();
            drive.off().await;
            shadow.borrow_mut().forget_acked();
        }
    };
    let ended = runtime.block_on(main);
    watch_stores(None);
    ended.unwrap();
    looks.get()
}

#[test]
fn any_store_may_be_the_last() {
    for preset in
        ["volatile", "baseline", "durassd", "durassd-bounded", "full-protection", "spartan-es"]
    {
        let looks = every_store(preset, Payload::Stamps, 30, (1, 150));
        assert!(looks > 10, "{preset}: {looks} looks");
    }
}

#[test]
fn each_of_a_few_stores_may_be_the_last() {
    for preset in ["durassd", "full-protection", "spartan-es"] {
        let looks = every_store(preset, Payload::Bytes, 2, (100, 4));
        assert!(looks > 50, "{preset}: {looks} looks");
    }
}

/// So much changes at a time that all of memory is written anew, also while the buffer is full.
#[test]
fn any_store_may_be_the_last_where_lists_are_short() {
    for preset in ["durassd", "durassd-bounded", "full-protection", "spartan-es"] {
        for words in [0, 12] {
            // (What is written anew takes many stores.)
            let looks = every_store_of(preset, Payload::Stamps, 12, (1, 350), Some(words));
            assert!(looks > 10, "{preset}: {looks} looks");
        }
    }
}

/// All pages of a full buffer are written again, and each of them is found after a kill, though
/// the list has no room for them.
#[test]
fn all_of_a_full_buffer_is_written_anew() {
    let (file, design) = (Scratch::new(), tiny("durassd"));
    create(&file, &design, Payload::Stamps);
    let mut runtime = Runtime::virtual_time(1);
    let drive = Drive::on_image(&runtime.handle(), &file.0).unwrap();
    let slots = u64::from(design.buffer_slots());
    let main = async move {
        drive.power_on().await.unwrap();
        let fw = drive.firmware();
        let mirror: &Mirror = mirror(&fw);
        for round in 1..=3 {
            for at in 0..slots {
                fw.state.buffer.borrow_mut().insert(Lpn(at as u32), Data::Stamps(&[round]));
            }
            mirror.shrink_list(if round == 3 { 0 } else { usize::MAX });
            assert!(fw.publish());
        }
    };
    runtime.block_on(main).unwrap();
    drop(runtime);
    let mut runtime = Runtime::virtual_time(2);
    let drive = Drive::on_image(&runtime.handle(), &file.0).unwrap();
    let main = async move {
        drive.power_on().await.unwrap();
        for at in (0..slots).map(Block) {
            let mut room = OwnedData::zeros(Payload::Stamps, 1, 4096);
            drive.device().read(at, room.as_mut()).await.unwrap();
            assert_eq!(room, OwnedData::Stamps(vec![3]), "block {}", at.0);
        }
    };
    runtime.block_on(main).unwrap();
}

/// What would not be found after a kill is not acknowledged; what was acknowledged before is there.
#[test]
fn what_has_no_place_in_protected_memory_is_not_acknowledged() {
    let (file, design) = (Scratch::new(), tiny("durassd"));
    create(&file, &design, Payload::Stamps);
    let mut runtime = Runtime::virtual_time(1);
    let drive = Drive::on_image(&runtime.handle(), &file.0).unwrap();
    let main = async move {
        drive.power_on().await.unwrap();
        let device = drive.device();
        device.write(Block(3), Data::Stamps(&[7]), Durability::Normal).await.unwrap();
        mirror(&drive.firmware()).lose_places();
        for at in [3, 4] {
            let lost = device.write(Block(at), Data::Stamps(&[8]), Durability::Normal).await;
            let why = "protected memory has no place for a buffered page";
            assert_eq!(lost, Err(IoError::Failed(why)), "block {at}");
            assert_eq!(drive.defect(), Some(why));
        }
    };
    runtime.block_on(main).unwrap();
    drop(runtime);
    let mut runtime = Runtime::virtual_time(2);
    let drive = Drive::on_image(&runtime.handle(), &file.0).unwrap();
    let main = async move {
        drive.power_on().await.unwrap();
        for (at, stamp) in [(3, 7), (4, 0)] {
            let mut room = OwnedData::zeros(Payload::Stamps, 1, 4096);
            drive.device().read(Block(at), room.as_mut()).await.unwrap();
            assert_eq!(room, OwnedData::Stamps(vec![stamp]));
        }
    };
    runtime.block_on(main).unwrap();
}

/// The next process writes the dump, with the energy of the design; a look changes nothing.
#[test]
fn the_dump_is_written_by_the_next_process() {
    for preset in Design::presets() {
        let (file, design) = (Scratch::new(), tiny(preset));
        let protected = design.is_protected();
        create(&file, &design, Payload::Bytes);
        let on = |seed,
                  open: fn(&Path) -> Result<ImageFile, ImageError>,
                  shadow: Shadow,
                  write: bool| {
            let image = open(&file.0).unwrap();
            let mut runtime = Runtime::virtual_time(seed);
            let rt = runtime.handle();
            let drive = Drive::on_file(&rt, image).unwrap();
            let main = async move {
                let mut shadow = shadow;
                recover(&drive, &mut shadow).await.unwrap();
                let shadow = Rc::new(RefCell::new(shadow));
                if write {
                    work(drive.clone(), shadow.clone(), (seed, 0), 12).await;
                }
                let mut left = shadow.borrow().clone();
                left.forget_acked();
                (left, drive.last_power_loss())
            };
            runtime.block_on(main).unwrap()
        };
        let (shadow, none) = on(1, ImageFile::open, Shadow::new(protected), true);
        assert_eq!(none, None);
        let owed = || is_dump_owed(&ImageFile::open(&file.0).unwrap());
        assert_eq!(owed(), protected, "{preset}");
        let looked = on(2, ImageFile::open_view, shadow.clone(), true).1;
        assert_eq!(owed(), protected, "{preset}");
        let (_, loss) = on(2, ImageFile::open, shadow, false);
        assert_eq!(loss, looked, "{preset}");
        assert_eq!(loss.is_some(), protected, "{preset}");
        assert!(loss.is_none_or(|loss| loss.complete && loss.spent_j > 0.0), "{preset}: {loss:?}");
    }
}

/// Too few joules are too few for a process that was killed, too, and that is never hidden.
#[test]
fn a_dump_without_the_energy_is_missed() {
    let table = "power.joules = 0.000001".parse().unwrap();
    let (file, design) = (Scratch::new(), tiny("durassd").with_overrides(&table).unwrap());
    create(&file, &design, Payload::Stamps);
    for life in 0..2 {
        let mut runtime = Runtime::virtual_time(life);
        let drive = Drive::on_image(&runtime.handle(), &file.0).unwrap();
        let main = async move {
            let started = drive.power_on().await;
            assert_eq!(started.is_ok(), life == 0, "{started:?}");
            assert!(life == 0 || !drive.last_power_loss().unwrap().complete);
            if life == 0 {
                let data = content(Payload::Stamps, 5);
                let write = drive.device();
                write.write(Block(3), data.as_data(), Durability::Normal).await.unwrap();
            }
        };
        runtime.block_on(main).unwrap();
    }
}

/// What is on flash of such a drive can be read, and written again.
fn had_without_its_memory(runtime: &mut Runtime, path: &Path) {
    let image = ImageFile::open(path).unwrap();
    let drive = Drive::on_damaged_file(&runtime.handle(), image).unwrap();
    let main = async move {
        assert!(drive.power_on().await.is_err(), "a dump was due");
        drive.salvage().await.unwrap();
        drive.settled().await;
        drive.audit().unwrap();
        let device = drive.device();
        for block in (0..HOSTS * BLOCKS).map(Block) {
            let mut room = OwnedData::zeros(Payload::Stamps, 1, 4096);
            device.read(block, room.as_mut()).await.unwrap();
            device.write(block, room.as_data(), Durability::Normal).await.unwrap();
        }
        drive.cut();
        drive.off().await;
        drive.power_on().await.unwrap();
    };
    runtime.block_on(main).unwrap();
}

/// What was damaged of protected memory is refused, with where, or the drive can be used.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test's own files")]
fn damaged_protected_memory_is_refused() {
    for preset in ["durassd", "spartan-es", "full-protection"] {
        let (file, design) = (Scratch::new(), tiny(preset));
        create(&file, &design, Payload::Stamps);
        let mut runtime = Runtime::virtual_time(1);
        let drive = Drive::on_image(&runtime.handle(), &file.0).unwrap();
        let shadow = Rc::new(RefCell::new(Shadow::new(true)));
        let theirs = shadow.clone();
        let main = async move {
            drive.power_on().await.unwrap();
            work(drive, theirs, (1, 1), 20).await;
        };
        runtime.block_on(main).unwrap();
        drop(runtime);
        let image = ImageFile::open(&file.0).unwrap();
        let (from, len) = (image.protected_offset() as usize, image.spec().protected as usize);
        drop(image);
        let whole = std::fs::read(&file.0).unwrap();
        let used: Vec<usize> = (from..from + len).filter(|at| whole[*at] != 0).collect();
        let layout = design.check().unwrap();
        let shape = Shape::of(&design, &layout, Payload::Stamps, 2);
        let (mut dice, mut refused) = (Stream::new(1, preset), 0);
        for i in 0..300 {
            let mut bytes = whole.clone();
            let at = used[dice.below(used.len() as u64) as usize];
            bytes[at] ^= 1 << dice.below(8);
            std::fs::write(&file.0, &bytes).unwrap();
            let mut runtime = Runtime::virtual_time(i);
            let drive = match Drive::on_image(&runtime.handle(), &file.0) {
                Err(e) => {
                    assert!(e.to_string().contains("damaged at offset"), "{e}");
                    refused += 1;
                    if refused % 20 == 0 {
                        had_without_its_memory(&mut runtime, &file.0);
                    }
                    continue;
                }
                Ok(drive) => drive,
            };
            let mut expected = shadow.borrow().clone();
            let outcome = runtime.block_on(async move {
                recover(&drive, &mut expected).await?;
                drive.settled().await;
                drive.last_failure().map_or(Ok(()), |e| Err(format!("later: {e}")))
            });
            let outcome = outcome.unwrap();
            let is_checked = shape.is_checked((at - from) as u64);
            assert!(outcome.is_ok() || !is_checked, "{preset}, byte {}: {outcome:?}", at - from);
            // Commands are not taken only to fail later.
            let is_late = outcome.as_ref().is_err_and(|e| e.starts_with("later"));
            assert!(!is_late, "{preset}, byte {}: {outcome:?}", at - from);
        }
        // What is not refused is mostly of what does not count any more.
        assert!(refused > 100, "{preset}: {refused} of 300");
    }
}

/// Writes all blocks but one so often.
async fn write_others(drive: &Drive, but: Block, rounds: u64) {
    let others = |n: &u64| Block(n % (HOSTS * BLOCKS)) != but;
    for n in (0..rounds * HOSTS * BLOCKS).filter(others) {
        let (write, data) = (drive.device(), content(Payload::Bytes, n));
        let at = Block(n % (HOSTS * BLOCKS));
        write.write(at, data.as_data(), Durability::Normal).await.unwrap();
    }
    drive.device().flush().await.unwrap();
}

async fn read_one(drive: &Drive, at: Block) -> Result<OwnedData, IoError> {
    let mut room = OwnedData::zeros(Payload::Bytes, 1, 4096);
    drive.device().read(at, room.as_mut()).await?;
    Ok(room)
}

/// Data on flash that were damaged are an error, not data; also after they were moved, until they
/// are written again.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test's own files")]
fn what_is_damaged_on_flash_is_never_data() {
    for preset in ["volatile", "durassd"] {
        let (file, design) = (Scratch::new(), tiny(preset));
        create(&file, &design, Payload::Bytes);
        let mut dice = Stream::new(1, preset);
        let marked: Vec<u8> = (0..4096).map(|_| dice.below(256) as u8).collect();
        let data = OwnedData::Bytes(marked.clone());
        let at = Block(5);
        let mut runtime = Runtime::virtual_time(1);
        let drive = Drive::on_image(&runtime.handle(), &file.0).unwrap();
        let (theirs, written) = (data.clone(), data.clone());
        let main = async move {
            drive.power_on().await.unwrap();
            drive.device().write(at, theirs.as_data(), Durability::Normal).await.unwrap();
            write_others(&drive, at, 2).await;
            assert_eq!(read_one(&drive, at).await, Ok(theirs));
            assert_eq!(drive.take_damaged_page(), None);
            drive.cut();
            drive.off().await;
        };
        runtime.block_on(main).unwrap();
        drop(runtime);

        let mut image = std::fs::read(&file.0).unwrap();
        let places: Vec<usize> =
            (0..image.len() - 4096).filter(|i| image[*i..*i + 4096] == marked[..]).collect();
        assert!(!places.is_empty(), "{preset}");
        places.iter().for_each(|place| image[place + 777] ^= 4);
        std::fs::write(&file.0, &image).unwrap();

        let mut runtime = Runtime::virtual_time(2);
        let drive = Drive::on_image(&runtime.handle(), &file.0).unwrap();
        let main = async move {
            drive.power_on().await.unwrap();
            assert_eq!(read_one(&drive, at).await, Err(IoError::Uncorrectable(at)), "at first");
            assert!(drive.take_damaged_page().is_some(), "{preset}");
            write_others(&drive, at, 40).await;
            assert_eq!(read_one(&drive, at).await, Err(IoError::Uncorrectable(at)), "moved");
            drive.cut();
            drive.off().await;
            drive.power_on().await.unwrap();
            assert_eq!(
                read_one(&drive, at).await,
                Err(IoError::Uncorrectable(at)),
                "after a restart"
            );
            drive.device().write(at, written.as_data(), Durability::Normal).await.unwrap();
            assert_eq!(read_one(&drive, at).await, Ok(written));
            drive.settled().await;
            drive.audit().unwrap();
        };
        runtime.block_on(main).unwrap();
    }
}
