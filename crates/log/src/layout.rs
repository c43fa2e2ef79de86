//! From what recovery found to a plan.

use crate::area::{Area, together};
use crate::format::payload;
use crate::member::Member;
use crate::options::OpenOptions;
use crate::plan::{Health, LaneSpec, Plan, PlanOptions};
use crate::recover::Recovered;
use crate::state::State;
use crate::superblock::Role;
use std::rc::Rc;
use tantalum_rt::Nanos;

/// Longer than any write takes.
const FOREVER: Nanos = Nanos(u64::MAX / 4);

/// The plan of a log that was opened, and the room that it would have if it were empty.
pub(crate) fn plan<D>(
    members: &[Option<Rc<Member<D>>>],
    state: &State,
    recovered: &Recovered<D>,
    options: &OpenOptions,
) -> (Plan, u64) {
    let present: Vec<&Rc<Member<D>>> = members.iter().flatten().collect();
    let superblock = present[0].superblock;
    let unit = u64::from(superblock.unit);
    let section = |role: Role| {
        let of_role = present.iter().filter(|m| m.superblock.role == role);
        of_role.map(|m| u64::from(m.superblock.section_units) - 1).min().unwrap_or(2)
    };
    // Several groups are in memory at once.
    let most = section(Role::Array).min(options.memory as u64 / unit / 4).max(2);
    let archive_most = section(Role::Archive).min(options.memory as u64 / unit).max(2);
    let plan_options = PlanOptions {
        payload: payload(superblock.unit),
        copies: u32::from(superblock.copies),
        group_units: (options.group_bytes / unit).clamp(2, most) as u32,
        archive_bytes: options.archive_bytes.clamp(1, options.memory as u64 / 4),
        archive_units: (options.archive_write_bytes / unit).clamp(2, archive_most) as u32,
        stall: options.stall,
        hedge: options.hedge,
    };
    let health = members.iter().map(|m| match m {
        Some(_) => Health::Present,
        None => Health::Failed,
    });
    let mut lanes = Vec::new();
    for (device, member) in members.iter().enumerate() {
        if let Some(member) = member {
            lanes.extend(lanes_of(device, member, |stream| {
                let found = recovered
                    .streams
                    .iter()
                    .find(|(s, _)| s.stream == stream && Rc::ptr_eq(&s.member, member));
                found.map(|(_, area)| area.clone())
            }));
        }
    }
    let empty = |l: &LaneSpec| l.main.empty().room(plan_options.group_units, state.checkpoint);
    let mut each = vec![0; members.len()];
    lanes.iter().filter(|l| !l.archive).for_each(|l| each[l.device] += empty(l));
    let array = present.iter().filter(|m| m.superblock.role == Role::Array).count() as u32;
    let all = together(each, u32::from(superblock.copies).min(array).max(1));
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
    (Plan::new(plan_options, lanes, health, state.epoch, end, checkpoint), all)
}

/// The lanes of a device, with the areas that `found` knows; others are empty.
pub(crate) fn lanes_of<D>(
    device: usize,
    member: &Member<D>,
    found: impl Fn(u8) -> Option<Area>,
) -> Vec<LaneSpec> {
    let superblock = &member.superblock;
    let area = |stream: u8| {
        let (base, sections) = superblock.area(stream);
        found(stream).unwrap_or_else(|| Area::new(base, sections, superblock.section_units))
    };
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
        })
        .collect()
}
