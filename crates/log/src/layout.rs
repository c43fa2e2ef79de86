//! From what recovery found to a plan.

use crate::Lsn;
use crate::area::{Area, together};
use crate::format::payload;
use crate::latency::Latencies;
use crate::member::Member;
use crate::options::OpenOptions;
use crate::plan::{Health, LaneSpec, Plan, PlanOptions};
use crate::recover::Recovered;
use crate::state::{Standing, State};
use crate::superblock::{Role, Superblock};
use std::rc::Rc;
use tantalum_rt::Nanos;

/// Longer than any write takes.
const FOREVER: Nanos = Nanos(u64::MAX / 4);

/// How large groups are, and what else a plan of these devices is made for.
fn plan_options(devices: &[Superblock], options: &OpenOptions) -> PlanOptions {
    let superblock = devices[0];
    let unit = u64::from(superblock.unit);
    let section = |role: Role| {
        let of_role = devices.iter().filter(|s| s.role == role);
        of_role.map(|s| u64::from(s.section_units) - 1).min().unwrap_or(2)
    };
    // Several groups are in memory at once.
    let most = section(Role::Array).min(options.memory as u64 / unit / 4).max(2);
    let archive_most = section(Role::Archive).min(options.memory as u64 / unit).max(2);
    PlanOptions {
        payload: payload(superblock.unit),
        copies: u32::from(superblock.copies),
        group_units: (options.group_bytes / unit).clamp(2, most) as u32,
        archive_bytes: options.archive_bytes.clamp(1, options.memory as u64 / 4),
        archive_units: (options.archive_write_bytes / unit).clamp(2, archive_most) as u32,
        stall: options.stall,
        hedge: options.hedge,
    }
}

/// How many groups an empty log on these devices has room for.
fn empty_room(devices: &[Superblock], group_units: u32) -> u64 {
    let array = devices.iter().filter(|s| s.role == Role::Array);
    let each: Vec<u64> = array
        .map(|s| {
            let area = Area::new(0, s.main_sections, s.section_units);
            u64::from(s.partitions) * area.room(group_units, Lsn::ZERO)
        })
        .collect();
    let needed = u32::from(devices[0].copies).min(each.len() as u32).max(1);
    together(each, needed)
}

/// Whether an empty log on these devices has room for two records of so many bytes, with what is
/// before them, and memory for one.
pub(crate) fn holds_twice(devices: &[Superblock], options: &OpenOptions, bytes: u64) -> bool {
    let plan = plan_options(devices, options);
    let in_memory = options.memory as u64 / 2 >= bytes;
    in_memory && empty_room(devices, plan.group_units) >= 2 * plan.groups(bytes)
}

/// The plan of a log that was opened, and the room that it would have if it were empty.
pub(crate) fn plan<D>(
    members: &[Option<Rc<Member<D>>>],
    state: &State,
    recovered: &Recovered<D>,
    options: &OpenOptions,
) -> (Plan, u64) {
    let present: Vec<Superblock> = members.iter().flatten().map(|m| m.superblock).collect();
    let plan_options = plan_options(&present, options);
    let standing = state.devices.iter().map(|(_, standing)| *standing);
    let health = members.iter().zip(standing).map(|(m, standing)| match (m, standing) {
        // Who reads writes nothing to it.
        (Some(_), Standing::Left) if !options.read_only => Health::Left,
        (Some(_), _) => Health::Present,
        (None, _) => Health::Failed,
    });
    let mut lanes = Vec::new();
    for (device, member) in members.iter().enumerate() {
        if let Some(member) = member {
            lanes.extend(lanes_of(device, member, options, |stream| {
                let found = recovered
                    .streams
                    .iter()
                    .find(|(s, _)| s.stream == stream && Rc::ptr_eq(&s.member, member));
                found.map(|(_, area)| area.clone())
            }));
        }
    }
    let all = empty_room(&present, plan_options.group_units);
    let (health, checkpoint) = (health.collect(), state.checkpoint);
    let (from, end) = (recovered.copy_from, recovered.end);
    if from < end {
        // The end of the log is copied first, in an epoch that has not begun.
        let (lanes, options, health) = (lanes.clone(), plan_options.clone(), Vec::clone(&health));
        // Nothing is left meanwhile: the opening waits.
        let options = PlanOptions { stall: FOREVER, ..options };
        let mut plan = Plan::new(options, lanes, health, state.epoch + 1, from, checkpoint);
        if plan.has_room(end.since(from)) {
            plan.append(end.since(from));
            plan.want(end);
            return (plan, all);
        }
    }
    let mut plan = Plan::new(plan_options, lanes, health, state.epoch, end, checkpoint);
    if from < end {
        // Without room it stays on the devices that have it.
        plan.set_short(end);
    }
    (plan, all)
}

/// The lanes of a device, with the areas that `found` knows; others are empty.
pub(crate) fn lanes_of<D>(
    device: usize,
    member: &Member<D>,
    options: &OpenOptions,
    found: impl Fn(u8) -> Option<Area>,
) -> Vec<LaneSpec> {
    let superblock = &member.superblock;
    let area = |stream: u8| {
        let (base, sections) = superblock.area(stream);
        found(stream).unwrap_or_else(|| Area::new(base, sections, superblock.section_units))
    };
    let table = options.latencies.iter().find(|(name, _)| *name == member.name);
    let known = table.map(|(_, table)| Latencies::of(table, superblock.unit)).unwrap_or_default();
    let has_second = superblock.second_sections > 0;
    let step = if has_second { 2 } else { 1 };
    (0..superblock.streams())
        .step_by(step)
        .map(|stream| LaneSpec {
            device,
            archive: superblock.role == Role::Archive,
            stream,
            main: area(stream),
            second: has_second.then(|| area(stream + 1)),
            known: known.clone(),
        })
        .collect()
}
