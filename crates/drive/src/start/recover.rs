//! Restart: an ordinary start on what is on flash.
//!
//! 1. Until the drive takes commands, only units are changed that hold nothing valid: no data, no
//!    log, and not the dump that is replayed. They may be erased, and one of those kept for dumps
//!    may be marked (`dump_zone`, 4). A power loss during recovery leaves everything that counts as
//!    it was, and recovery begins anew.
//! 2. The dump that was replayed stays valid until the next one is complete: only
//!    afterwards, with the other area erased and ready, is its area erased.
//! 3. The map is the log's newest records, then the dump's entries over them.
//! 4. Without all of these the map is out of date, and would name sectors that now hold other data.
//!    The drive then does not start, except by a salvage (`salvage`).
//! 5. A unit that the map says is bad is neither written nor erased. If more are bad than
//!    the layout has to spare, or the map says that the life is over, or there are no units for the
//!    next dump (`retire`, 7), nothing that counts is changed, and the drive only reads: the dump
//!    that was replayed goes on to hold.
//! 6. A drive whose dump has a directory of the map takes commands when the dump is replayed. Until
//!    the rest is done ([`finish`]) nothing is programmed, and only tasks that wait for it read
//!    map, log and space. A power loss in that time dumps what was replayed and what came since.

use crate::Design;
use crate::design::layout::Layout;
use crate::firmware::Firmware;
use crate::firmware::stats::Stats;
use crate::start::dump_zone::{Zone, settle_dump};
use crate::start::flagged_groups::redo_groups;
use crate::start::map_load::{load_directory, load_map};
use crate::start::replay::{find_dump, replay_dump};
use crate::start::report::{RecoveryError, RecoveryReport, WithoutDump};
use crate::start::rest::Rest;
use crate::start::salvage::rebuild;
use crate::start::settle::{Units, know_bad_units};
use crate::tasks::keeper::store_map;
use std::rc::Rc;
use tantalum_nand::NandArray;
use tantalum_rt::Rt;

/// Builds the firmware's memory from flash, as far as the drive needs it to take commands, and
/// reports the phases so far. [`finish`] does the rest.
pub(crate) async fn recover(
    rt: &Rt,
    design: &Rc<Design>,
    layout: &Layout,
    nand: &Rc<NandArray>,
    stats: &Rc<Stats>,
    without_dump: WithoutDump,
) -> Result<(Firmware, RecoveryReport, Rest), RecoveryError> {
    let fw = Firmware::new(rt, design, layout, nand, stats);
    let mut report = RecoveryReport::default();
    let began = rt.now();
    let mut mark = began;
    let mut lap = |rt: &Rt| rt.now() - std::mem::replace(&mut mark, rt.now());

    let mut zone = Zone::scan(&fw).await?;
    let mut rest = Rest::default();
    fw.state.dump.borrow_mut().anywhere = zone.is_left();
    if zone.is_left() {
        let mut all = Units::scan(&fw).await?;
        zone.dump.extend(all.take_dumps());
        rest.units = Some(all);
    }
    let mut failed = Vec::new();
    let dump = find_dump(&fw, &zone.dump, &mut failed).await?;
    let is_complete = dump.as_ref().is_some_and(|dump| dump.complete);
    report.find = lap(rt);
    if is_complete && design.map.directory && without_dump == WithoutDump::Refuse {
        if let Some(dump) = &dump {
            load_directory(&fw, dump).await?;
        }
    } else {
        let all = match rest.units.take() {
            Some(all) => all,
            None => Units::scan(&fw).await?,
        };
        report.scan = lap(rt);
        let stored = load_map(&fw, &all, &mut report).await?;
        report.map_load = lap(rt);
        if design.flags_groups() {
            redo_groups(&fw, &all, &stored).await?;
            report.dump_replay = lap(rt);
        }
        // (The first mark of all may be torn.)
        let is_blank = all.blank && dump.is_none();
        report.blank = is_blank;
        match without_dump {
            _ if is_complete || is_blank || !design.is_protected() => {}
            WithoutDump::Refuse => {
                let number = dump.map_or(0, |d| d.number);
                return Err(RecoveryError::DumpLost { number });
            }
            WithoutDump::Salvage => {
                rebuild(&fw, &all, &stored.images, &mut report).await?;
                report.salvaged = true;
            }
        }
        rest = Rest { units: Some(all), loaded: true, settled: false };
    }
    if let Some(dump) = &dump {
        replay_dump(&fw, dump, without_dump, &mut report).await?;
    }
    report.dump_replay += lap(rt);
    know_bad_units(&fw);
    failed.iter().for_each(|unit| fw.condemn(*unit));
    fw.check_life();
    let lives = !fw.is_read_only()
        && settle_dump(&fw, &zone, dump.as_ref(), &mut rest, &mut report).await?;
    if !lives || fw.is_read_only() {
        fw.begin_read_only();
        fw.end_life();
    }
    report.areas = lap(rt);
    report.total = rt.now() - began;
    Ok((fw, report, rest))
}

/// The rest of a start. Then the firmware's tasks may start.
pub(crate) async fn finish(
    fw: &Firmware,
    rest: &mut Rest,
    report: &mut RecoveryReport,
) -> Result<(), RecoveryError> {
    rest.learn(fw, report).await?;
    let began = fw.rt.now();
    if report.salvaged && !fw.is_read_only() && store_map(fw).await.is_none() {
        let what = "the map that was put right cannot be stored".to_string();
        return Err(RecoveryError::Damaged(what));
    }
    report.space += fw.rt.now() - began;
    fw.keeper.since_checkpoint.set(report.scanned_pages);
    fw.start.is_whole.set(true);
    fw.start.map_known.notify_all();
    Ok(())
}
