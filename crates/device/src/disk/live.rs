//! What disks show of themselves while they are served: one, and several as an array.
//!
//! 1. An array shows the sums of its members, under the names that one disk has.
//! 2. It takes commands only while each member does.

use super::Disk;
use crate::{
    AfterCut, BlockDevice, Caps, Field, Line, LiveBox, Panel, PowerCycle, PowerState, RaidBox,
    Shown, Unit, unprotected_cut,
};

/// Queues of members that a line lists, at most.
const LISTED: usize = 8;

impl LiveBox for Disk {
    fn title(&self) -> String {
        "disk".to_string()
    }

    fn power_state(&self) -> PowerState {
        match (self.shared.life.borrow().is_some(), self.shared.starting.get()) {
            (true, _) => PowerState::On,
            (false, true) => PowerState::Starting,
            (false, false) => PowerState::Off,
        }
    }

    fn promises(&self) -> Caps {
        self.shared.caps
    }

    fn watch_cut(&self) -> AfterCut {
        watch_cut(std::slice::from_ref(self))
    }

    fn shown(&self) -> Shown {
        shown(std::slice::from_ref(self))
    }
}

impl LiveBox for RaidBox<Disk> {
    fn title(&self) -> String {
        match self.members().len() {
            1 => "disk".to_string(),
            n => format!("{n} disks"),
        }
    }

    fn power_state(&self) -> PowerState {
        let states = self.members().iter().map(Disk::power_state);
        states.min().unwrap_or(PowerState::Off)
    }

    fn promises(&self) -> Caps {
        *self.device().caps()
    }

    fn watch_cut(&self) -> AfterCut {
        watch_cut(self.members())
    }

    fn shown(&self) -> Shown {
        shown(self.members())
    }
}

fn watch_cut(disks: &[Disk]) -> AfterCut {
    let bytes = |disk: &Disk| disk.backlog().0 * u64::from(disk.shared.model.block_bytes);
    let bytes: u64 = disks.iter().map(bytes).sum();
    Box::new(move || unprotected_cut(bytes.div_ceil(4096)))
}

fn shown(disks: &[Disk]) -> Shown {
    let sum = |of: &dyn Fn(&Disk) -> u64| disks.iter().map(of).sum::<u64>();
    let cached = sum(&|disk| disk.backlog().0);
    let queued = sum(&|disk| disk.backlog().1);
    let room = sum(&|disk| match disk.shared.model.write_cache {
        true => disk.shared.model.cache_blocks(),
        false => 0,
    });
    let stored = sum(&|disk| disk.shared.platter.borrow().len() as u64);
    let all = sum(&|disk| disk.shared.model.blocks);
    let places = sum(&|disk| disk.shared.model.queue_depth.into());
    let written = sum(&Disk::bytes_written);
    let fields = vec![
        Field::new("cache.used", Unit::Count, cached, "blocks in the write cache")
            .gauge("cache_used_blocks"),
        Field::new("cache.blocks", Unit::Count, room, "blocks that the write cache can hold")
            .gauge("cache_blocks"),
        Field::new("queued", Unit::Count, queued, "commands that wait for the arm")
            .gauge("queued_commands"),
        Field::new("interface_write_bytes", Unit::Bytes, written, "bytes written by the host")
            .counter("host_written_bytes"),
        Field::new("stored_blocks", Unit::Count, stored, "blocks that hold something")
            .gauge("stored_blocks"),
    ];
    let (cache, cache_bar) = match room {
        0 => {
            let off = Line::new("cache", "switched off");
            (off.clone(), off.dim())
        }
        _ => (
            Line::new("cache", format!("{cached} of {room} blocks")),
            Line::level("cache", cached, room, format_args!("of {room} blocks")),
        ),
    };
    let lines = vec![cache, arms(disks, queued)];
    let bars = vec![
        cache_bar,
        Line::level("queue", queued, places, format_args!("of {places} commands")),
        Line::level("stored", stored, all, format_args!("of {all} blocks")),
    ];
    Shown { fields, lines, panels: vec![Panel::new("inside", bars)] }
}

/// How many commands wait for each arm: an array is as slow as its busiest one.
fn arms(disks: &[Disk], queued: u64) -> Line {
    let each = || disks.iter().map(|disk| disk.backlog().1);
    match disks.len() {
        0 | 1 => Line::new("arm", format!("{queued} commands wait for it")),
        2..=LISTED => {
            let each: Vec<String> = each().map(|n| n.to_string()).collect();
            Line::new("arms", format!("{} commands wait for them", each.join(", ")))
        }
        n => {
            let most = each().max().unwrap_or(0);
            Line::new("arms", format!("{queued} commands wait for {n}, {most} for one at most"))
        }
    }
}

impl Disk {
    /// Blocks in the cache, and commands that wait for the arm.
    fn backlog(&self) -> (u64, u64) {
        self.shared.life.borrow().as_ref().map_or((0, 0), |(life, _)| {
            let s = life.state.borrow();
            (s.cache.len() as u64, s.queue.len() as u64)
        })
    }
}
