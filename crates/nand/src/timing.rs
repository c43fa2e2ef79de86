//! When what happens: a die does one operation at a time, a channel moves one
//! transfer at a time, both in order of issue.

use crate::Geometry;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use tantalum_rt::Nanos;

/// How long the array takes for what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// tR: a page from the cells into the register of its plane, µs.
    pub read_us: u64,
    /// tPROG, µs.
    pub program_us: u64,
    /// tBERS, µs.
    pub erase_us: u64,
    /// Command and address cycles of one operation on the channel, ns.
    pub command_ns: u64,
    /// Bandwidth of a channel, MB/s.
    pub channel_mb_s: u64,
}

impl Timing {
    /// How long `bytes` take on the channel, the command included.
    pub fn transfer(&self, bytes: u64) -> Nanos {
        Nanos(self.command_ns + bytes * 1_000 / self.channel_mb_s.max(1))
    }
}

/// When the transfer of a read ends: known from the moment at which it asks for
/// the channel, if the power holds until then.
pub(crate) type TransferEnd = Rc<Cell<Option<Nanos>>>;

/// The transfer of a read that will ask for its channel at `ready`.
struct Transfer {
    ready: Nanos,
    span: Nanos,
    end: TransferEnd,
}

/// A bus, and the reads that will ask for it, in the order in which they will.
#[derive(Default)]
struct Channel {
    free: Nanos,
    waiting: VecDeque<Transfer>,
}

impl Channel {
    /// Gives the channel to those that have asked for it up to `now`.
    fn settle(&mut self, now: Nanos) {
        while let Some(t) = self.waiting.pop_front_if(|t| t.ready <= now) {
            self.free = self.free.max(t.ready) + t.span;
            t.end.set(Some(self.free));
        }
    }
}

/// When each die and each channel is free again.
pub(crate) struct Schedule {
    die_free: Vec<Nanos>,
    channels: Vec<Channel>,
    die_busy: Nanos,
}

impl Schedule {
    pub fn new(geometry: &Geometry) -> Schedule {
        Schedule {
            die_free: vec![Nanos::ZERO; geometry.dies() as usize],
            channels: (0..geometry.channels).map(|_| Channel::default()).collect(),
            die_busy: Nanos::ZERO,
        }
    }

    /// The die works for `span`, not before `ready`; from when to when.
    pub fn die(&mut self, die: u32, ready: Nanos, span: Nanos) -> (Nanos, Nanos) {
        let free = &mut self.die_free[die as usize];
        let start = ready.max(*free);
        *free = start + span;
        self.die_busy += span;
        (start, start + span)
    }

    /// The channel moves something for `span`, asked for at `now`; until when.
    pub fn channel(&mut self, channel: u32, now: Nanos, span: Nanos) -> Nanos {
        let channel = &mut self.channels[channel as usize];
        channel.settle(now);
        channel.free = now.max(channel.free) + span;
        channel.free
    }

    /// The channel will be asked at `ready` to move something for `span`: it can not
    /// be kept for it, and whoever asks earlier goes first.
    pub fn transfer_at(
        &mut self,
        channel: u32,
        now: Nanos,
        ready: Nanos,
        span: Nanos,
    ) -> TransferEnd {
        let channel = &mut self.channels[channel as usize];
        channel.settle(now);
        let end = TransferEnd::default();
        let behind = channel.waiting.partition_point(|t| t.ready <= ready);
        channel.waiting.insert(behind, Transfer { ready, span, end: end.clone() });
        end
    }

    /// Works out all transfers that were asked for up to `now`.
    pub fn settle(&mut self, now: Nanos) {
        for channel in &mut self.channels {
            channel.settle(now);
        }
    }

    /// The same as seen in a time where `from`, up to which all is settled, is `to`;
    /// nothing has been done yet.
    pub fn rebased(&self, from: Nanos, to: Nanos) -> Schedule {
        let shift = |t: Nanos| t.saturating_sub(from) + to;
        let transfer = |t: &Transfer| Transfer {
            ready: shift(t.ready),
            span: t.span,
            end: TransferEnd::default(),
        };
        Schedule {
            die_free: self.die_free.iter().map(|t| shift(*t)).collect(),
            channels: self
                .channels
                .iter()
                .map(|c| Channel {
                    free: shift(c.free),
                    waiting: c.waiting.iter().map(transfer).collect(),
                })
                .collect(),
            die_busy: Nanos::ZERO,
        }
    }

    /// Whether the die would begin an operation at once.
    pub fn is_idle(&self, die: u32, now: Nanos) -> bool {
        self.die_free[die as usize] <= now
    }

    /// All that was to come is off.
    pub fn reset(&mut self) {
        self.die_free.fill(Nanos::ZERO);
        self.channels.fill_with(Channel::default);
    }

    /// Time that dies spent working, summed over dies.
    pub fn busy(&self) -> Nanos {
        self.die_busy
    }
}
