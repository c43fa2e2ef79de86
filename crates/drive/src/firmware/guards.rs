//! Tests that steps which would destroy data are not taken, and that the drive says why (space, 9).

use crate::firmware::Firmware;
use crate::format::words::{Lpn, Ppa, Version};
use crate::state::space::{FreeUnit, Role, WriteStream};
use crate::{Design, Drive};
use std::rc::Rc;
use tantalum_device::{
    Block, BlockDevice, Data, Durability, IoError, LiveBox, OwnedData, Payload, PowerCycle,
};
use tantalum_nand::Unit;
use tantalum_rt::Runtime;

const BLOCKS: u64 = 64;

/// A preset on two dies with erase units of 8 sectors.
fn tiny(preset: &str) -> Design {
    let base = Design::preset(preset).unwrap();
    let (unit, dump) = if base.is_protected() { (16, 4) } else { (4, 0) };
    let mut text = format!(
        "geometry = {{ channels = 2, packages = 1, chips = 1, planes = 2, blocks = 32, pages = 4, \
         page_bytes = 4096 }}\nspace = {{ over_provisioning = 235, collect_below = 3 }}\n\
         cache = {{ buffer_kib = 64, atomic_unit_kib = {unit} }}\n\
         map = {{ dirty_max = 1024, write_points = 1, dump_units = {dump}"
    );
    if base.keeps_units() {
        text += ", journal_entries = 70, journal_ranges = 80";
    }
    text += " }\n";
    base.with_overrides(&text.parse().unwrap()).unwrap()
}

/// Writes blocks, lets `step` loose on the firmware, and holds what follows to this: the drive
/// takes nothing more and says why, nothing is erased, and all that was written can be read.
pub fn is_stopped<F: Future<Output = ()>>(
    preset: &str,
    why: &'static str,
    step: impl FnOnce(Rc<Firmware>) -> F + 'static,
) {
    let mut runtime = Runtime::virtual_time(1);
    let drive = Drive::new(&runtime.handle(), &tiny(preset), Payload::Stamps).unwrap();
    let main = async move {
        drive.start().await.unwrap();
        let device = drive.device();
        for n in 0..4 * BLOCKS {
            let stamp = [1 + n];
            let at = Block(n % BLOCKS);
            device.write(at, Data::Stamps(&stamp), Durability::Normal).await.unwrap();
        }
        device.flush().await.unwrap();
        let fw = drive.firmware();
        let erased = drive.stats().erases;
        step(fw.clone()).await;
        let again = device.write(Block(0), Data::Stamps(&[9]), Durability::Normal).await;
        assert_eq!(again, Err(IoError::Failed(why)));
        assert_eq!(device.flush().await, Err(IoError::Failed(why)));
        assert_eq!(drive.defect(), Some(why));
        assert_eq!(drive.stopped_by().as_deref(), Some(why), "who watches the drive sees it");
        assert!(drive.audit().unwrap_err().contains(why));
        assert_eq!(drive.stats().erases, erased, "nothing is erased");
        for n in 3 * BLOCKS..4 * BLOCKS {
            let mut room = OwnedData::zeros(Payload::Stamps, 1, 4096);
            device.read(Block(n % BLOCKS), room.as_mut()).await.unwrap();
            assert_eq!(room, OwnedData::Stamps(vec![1 + n]));
        }
    };
    runtime.block_on(main).unwrap();
}

/// A unit with valid data that has this role.
pub fn with_data(fw: &Firmware, role: Role) -> Unit {
    let space = fw.state.space.borrow();
    let mut units = (0..space.count()).map(Unit);
    units.find(|u| space.valid_in(*u) > 0 && space.role(*u) == role).unwrap()
}

fn with_role(fw: &Firmware, role: Role) -> Unit {
    let space = fw.state.space.borrow();
    let mut units = (0..space.count()).map(Unit);
    units.find(|u| space.role(*u) == role).unwrap()
}

#[test]
fn valid_data_is_not_erased() {
    for preset in ["volatile", "durassd", "spartan-e"] {
        is_stopped(preset, "a unit with valid data was to be erased", |fw| async move {
            let unit = with_data(&fw, Role::Full);
            assert_eq!(fw.erase_victim(unit).await, None);
        });
    }
}

#[test]
fn what_the_map_log_or_a_dump_owns_is_not_erased_by_others() {
    for role in [Role::Map, Role::Dump, Role::Free] {
        is_stopped("durassd", "a unit in use was to be erased", move |fw| async move {
            assert_eq!(fw.erase(with_role(&fw, role), Role::Leaving).await, None);
        });
    }
}

#[test]
fn what_is_ready_for_the_next_dump_is_not_erased() {
    let why = "a unit that is ready for the next dump was to be erased";
    is_stopped("durassd", why, |fw| async move {
        let unit = fw.state.dump.borrow().ready[0].0;
        assert_eq!(fw.erase(unit, Role::Dump).await, None);
    });
}

#[test]
fn valid_data_is_not_given_free() {
    let why = "a unit with valid data, or in use, was to be given free";
    is_stopped("durassd", why, |fw| async move { fw.give_free(with_data(&fw, Role::Full), false) });
    is_stopped("durassd", why, |fw| async move { fw.give_free(with_role(&fw, Role::Dump), false) });
}

#[test]
fn valid_data_is_not_handed_to_the_map_log() {
    let why = "a unit with data was to become one of the map log or of a dump";
    is_stopped("durassd", why, |fw| async move {
        let unit = with_data(&fw, Role::Full);
        fw.state.space.borrow_mut().set_role(unit, Role::Map);
    });
}

#[test]
fn valid_data_is_not_retired() {
    is_stopped("durassd", "a unit with valid data was to be retired", |fw| async move {
        let unit = with_data(&fw, Role::Full);
        fw.state.space.borrow_mut().retire(unit);
    });
}

#[test]
fn what_is_written_or_collected_is_in_nobody_elses_hands() {
    is_stopped("durassd", "a unit in use was to be collected", |fw| async move {
        let unit = with_role(&fw, Role::Free);
        fw.state.space.borrow_mut().file(unit);
    });
    is_stopped("durassd", "a unit in use was to be collected", |fw| async move {
        let unit = with_role(&fw, Role::Map);
        fw.state.space.borrow_mut().take_full(unit);
    });
    let why = "a unit in use was to be written by another stream";
    is_stopped("durassd", why, |fw| async move {
        let unit = with_data(&fw, Role::Full);
        fw.state.space.borrow_mut().open(WriteStream::Cold, unit, 0);
    });
}

#[test]
fn no_two_pages_are_in_one_place_and_none_is_counted_off_twice() {
    is_stopped("durassd", "two logical pages were to be in one place", |fw| async move {
        let place = fw.state.map.borrow().get(Lpn(5)).unwrap();
        fw.state.space.borrow_mut().validate(place);
    });
    is_stopped("durassd", "what is not valid was to be superseded", |fw| async move {
        let unit = with_role(&fw, Role::Free);
        let place = Ppa(fw.places.unit_start(unit));
        fw.supersede(place, Version(1));
    });
}

#[test]
fn no_more_is_acknowledged_than_is_admitted() {
    let why = "more pages were to be admitted than there is room for";
    for preset in ["volatile", "durassd"] {
        is_stopped(preset, why, move |fw| async move {
            let many = vec![9; fw.design.buffer_slots() as usize + 1];
            fw.admit(0, Data::Stamps(&many));
            assert_eq!(fw.keep_changes(), Err(IoError::Failed(why)));
        });
    }
}

/// Nor without what the map log needs of a unit, or of the journal of units.
#[test]
fn records_that_count_stay_in_the_map_log() {
    for preset in ["volatile", "durassd"] {
        let why = "a unit of the map log was to be erased with records in it that count";
        is_stopped(preset, why, move |fw| async move {
            assert!(fw.drain_map().await);
            let dropped = fw.state.log.borrow_mut().drop_oldest();
            assert_eq!(dropped, None);
            fw.fail(why);
        });
    }
}

#[test]
fn a_free_unit_is_not_given_free_again() {
    let why = "a unit with valid data, or in use, was to be given free";
    is_stopped("volatile", why, |fw| async move {
        let unit = with_role(&fw, Role::Free);
        fw.state.space.borrow_mut().give_free(FreeUnit { unit, erase_first: false }, 0);
    });
}
