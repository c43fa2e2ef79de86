//! A device whose times are drawn from tables, as they were measured on a real one.
//!
//! 1. Except for its times it is a [`RamDevice`], and keeps the contract as that does.
//! 2. Seed, model and commands decide every time. Modes, stalls and latencies have random streams
//!    of their own: one more command moves no stall.
//! 3. A command takes a latency of the table for its kind, stream and size, times the mode and the
//!    penalty of an overlapping write, and outliers on top. It takes one of `queue_depth` places
//!    meanwhile. Its data pass the bus, which may belong to several devices. A command that meets a
//!    stall ends later, by the rest of the stall.

mod model;
mod schedule;

pub use model::{
    LatencyRow, Mode, Outlier, Overlap, SampledFault, SampledModel, Stall, StreamKind,
};

use crate::ram::Timing;
use crate::{Bus, CommandKind, Payload, RamDevice};
use model::Tables;
use schedule::Schedule;
use std::collections::VecDeque;
use tantalum_rt::{Nanos, Rt, Stream};

impl SampledModel {
    /// The device, full of zeros, with its power on. `name` names its random streams: two devices
    /// of one run have two names. Without a `bus` it has one of its own, if the model has
    /// `bus_mb_s`.
    ///
    /// # Errors
    /// What is wrong with the model.
    pub fn build(
        &self,
        rt: &Rt,
        name: &str,
        payload: Payload,
        bus: Option<&Bus>,
    ) -> Result<RamDevice, String> {
        self.check()?;
        let own = self.bus_mb_s.map(Bus::new).transpose()?;
        let sampler = self.sampler(rt, name, bus.cloned().or(own));
        let options = self.ram_options(name, payload);
        Ok(RamDevice::timed(rt, options, Box::new(sampler)))
    }

    fn sampler(&self, rt: &Rt, name: &str, bus: Option<Bus>) -> Sampler {
        let stream = |what: &str| rt.stream(&format!("{name} {what}"));
        Sampler {
            tables: Tables::of(self),
            model: self.clone(),
            bus,
            dice: stream("latency"),
            stalls: self
                .stall
                .iter()
                .enumerate()
                .map(|(i, s)| s.schedule(stream(&format!("stall {i}"))))
                .collect(),
            modes: Schedule::new(stream("mode")),
            places: Vec::new(),
            reads: Ends::default(),
            writes: Ends::default(),
            recent: VecDeque::new(),
            unflushed: 0,
        }
    }
}

/// Where the last few sequential streams go on, the one that was used last in front.
#[derive(Default)]
struct Ends(VecDeque<u64>);

impl Ends {
    /// Whether a command goes on with one of at most `most` streams.
    fn follows(&mut self, at: u64, count: u64, most: usize) -> bool {
        let known = self.0.iter().position(|&end| end == at);
        if let Some(i) = known {
            self.0.remove(i);
        }
        self.0.push_front(at + count);
        self.0.truncate(most);
        known.is_some()
    }
}

/// Draws the times of one device.
struct Sampler {
    tables: Tables,
    model: SampledModel,
    bus: Option<Bus>,
    dice: Stream,
    stalls: Vec<Schedule>,
    modes: Schedule,
    /// When each place of the queue is free.
    places: Vec<Nanos>,
    reads: Ends,
    writes: Ends,
    /// The last writes: first block and number of blocks.
    recent: VecDeque<(u64, u64)>,
    /// Bytes written since the last flush.
    unflushed: u64,
}

impl Timing for Sampler {
    /// (A bus that several devices share is one for each copy there.)
    fn copy(&self, rt: &Rt, name: &str) -> Box<dyn Timing> {
        let bus = self.bus.as_ref().map(Bus::idle);
        Box::new(self.model.sampler(rt, name, bus))
    }

    fn restart(&mut self) {
        self.places.clear();
        (self.reads, self.writes) = (Ends::default(), Ends::default());
        self.recent.clear();
        self.unflushed = 0;
    }

    fn end_of(&mut self, now: Nanos, kind: CommandKind, at: u64, count: u64) -> Nanos {
        let bytes = count * u64::from(self.model.block_bytes);
        let span = self.span(now, kind, at, count, bytes);
        let place = self.take_place(now);
        let begin = self.places[place].max(now);
        let mut end = begin.saturating_add(Nanos(span));
        let moves = !matches!(kind, CommandKind::Flush | CommandKind::Discard);
        if let (true, Some(bus)) = (moves, &self.bus) {
            end = end.max(bus.pass(now, begin, bytes));
        }
        for (schedule, stall) in self.stalls.iter_mut().zip(&self.model.stall) {
            end = stall.delayed(schedule, begin, end);
        }
        self.places[place] = end;
        end
    }
}

impl Sampler {
    /// How long the device works at it, ns.
    fn span(&mut self, now: Nanos, kind: CommandKind, at: u64, count: u64, bytes: u64) -> u64 {
        let writes = matches!(kind, CommandKind::Write | CommandKind::Fua | CommandKind::Group);
        let (ends, is_stream) = match kind {
            CommandKind::Read => (&mut self.reads, true),
            _ => (&mut self.writes, writes),
        };
        let follows = is_stream && ends.follows(at, count, self.model.streams);
        let size = match kind {
            CommandKind::Flush => std::mem::take(&mut self.unflushed),
            _ => bytes,
        };
        let stream = if follows { StreamKind::Sequential } else { StreamKind::Random };
        let mut span = self.tables.draw(kind, stream, size, &mut self.dice);
        let (read_percent, write_percent) = self.mode(now);
        let reads = kind == CommandKind::Read;
        span = percent(span, if reads { read_percent } else { write_percent });
        if writes {
            self.unflushed += bytes;
            span = self.with_overlap(span, at, count);
        }
        for outlier in self.model.outliers(kind) {
            if self.dice.below(outlier.one_in) == 0 {
                let (least, most) = (outlier.us[0] * 1000, outlier.us[1] * 1000);
                span = span.saturating_add(self.dice.range(least, most + 1));
            }
        }
        span
    }

    /// The mode's percentages for reads and for all else.
    fn mode(&mut self, now: Nanos) -> (u64, u64) {
        let modes = &self.model.mode;
        if modes.is_empty() {
            return (100, 100);
        }
        let now_in = self.modes.mode_at(now, modes);
        (modes[now_in].read_percent, modes[now_in].write_percent)
    }

    fn with_overlap(&mut self, span: u64, at: u64, count: u64) -> u64 {
        let Some(overlap) = &self.model.overlap else { return span };
        let shares = |&(from, len): &(u64, u64)| at < from + len && from < at + count;
        let overlaps = self.recent.iter().any(shares);
        self.recent.push_front((at, count));
        self.recent.truncate(overlap.recent);
        if overlaps { percent(span, overlap.percent) } else { span }
    }

    /// The place that is free first.
    fn take_place(&mut self, now: Nanos) -> usize {
        if self.places.len() < self.model.queue_depth as usize {
            self.places.push(now);
            return self.places.len() - 1;
        }
        let first = self.places.iter().enumerate().min_by_key(|(_, free)| **free);
        first.map_or(0, |(i, _)| i)
    }
}

fn percent(span: u64, percent: u64) -> u64 {
    (u128::from(span) * u128::from(percent) / 100).min(u128::from(u64::MAX)) as u64
}
