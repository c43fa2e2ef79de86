//! What all devices of a log agree on: epochs, the checkpoint, and which devices take part.
//!
//! ```text
//! state (16384 bytes at most)              device                   epoch
//!   0  8 "TNTLOGST"                         0 16 identity            0  4 number
//!   8  4 version (1)                       16  1 0 takes part,       4  4 zeros
//!  12  4 CRC-32C of 0..length,                   1 left, 2 lost      8  8 LSN at which it
//!        with zeros here                   17  7 see 71                    began
//!  16 16 set
//!  32  4 length
//!  36  4 epoch
//!  40  8 generation
//!  48  8 checkpoint
//!  56  8 number of the checkpoint
//!  64  4 devices
//!  68  2 epochs
//!  70  1 1: this state began its epoch
//!  71  1 1: there may be too few copies; what is below the LSN at 17 of
//!       the first device was acknowledged (zeros with the others)
//!  72 24n devices, then 16m epochs
//! ```
//!
//! 1. **One step.** A state of generation `g + 1` is written only when `g` is durable on every
//!    device that takes part. So after any crash these have `g` or `g + 1`.
//! 2. **Slots.** Even and odd generations have slots of their own: a torn state leaves the one
//!    before.
//! 3. **Epochs.** A byte that a block of epoch `e` has at LSN `l` counts only if `l` is less than
//!    [`State::limit`] of `e`: the LSN at which the first later epoch began that is kept. Blocks of
//!    an epoch that no state has yet do not count.

use crate::Lsn;
use crate::format::{is_count, is_lsn, number};
use crate::planted::planted;
use crate::superblock::{DEVICES_MAX, UNIT_MAX, Uuid, VERSION};
use crc32c::crc32c;

const MAGIC: &[u8; 8] = b"TNTLOGST";
const HEAD: usize = 72;
const DEVICE: usize = 24;
const EPOCH: usize = 16;
/// Where [`State::short`] is, and the highest LSN for which it has room: a lower one says less.
const SHORT: usize = HEAD + 17;
const SHORT_MAX: u64 = (1 << 56) - 1;
/// Where the two slots are.
pub(crate) const SLOTS: [u64; 2] = [32768, 49152];
/// Epochs that a state can keep.
pub(crate) const EPOCHS_MAX: usize =
    (UNIT_MAX as usize - HEAD - DEVICE * DEVICES_MAX as usize) / EPOCH;

/// Whether a device takes part in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It takes part.
    Present,
    /// It did not answer in time. What it holds counts; it was told nothing since.
    Left,
    /// It failed or is gone. What it holds does not count.
    Lost,
}

impl Standing {
    /// Whether a device that stands so may have no newer state than this, where others have the newest.
    pub fn allows(self, generation: u64, newest: u64) -> bool {
        match self {
            Standing::Present => generation + 1 >= newest,
            Standing::Left => generation > 0,
            // What it holds does not count.
            Standing::Lost => true,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub set: Uuid,
    pub generation: u64,
    pub epoch: u32,
    /// This state began its epoch; else something came since.
    pub began: bool,
    /// What is behind the checkpoint may have fewer copies than are wanted, though all devices take
    /// part. What is below this LSN was acknowledged.
    pub short: Option<Lsn>,
    pub checkpoint: Lsn,
    pub number: u64,
    pub devices: Vec<(Uuid, Standing)>,
    /// Epochs and where they began, in order.
    pub epochs: Vec<(u32, Lsn)>,
}

impl State {
    /// The first state of a log.
    pub fn first(set: Uuid, devices: &[Uuid]) -> State {
        State {
            set,
            generation: 1,
            epoch: 0,
            began: true,
            short: None,
            checkpoint: Lsn::ZERO,
            number: 0,
            devices: devices.iter().map(|d| (*d, Standing::Present)).collect(),
            epochs: Vec::new(),
        }
    }

    /// The state after this one, with nothing changed.
    #[must_use]
    pub fn next(&self) -> State {
        State { generation: self.generation + 1, began: false, ..self.clone() }
    }

    /// The state in which a new epoch begins at `start`.
    #[must_use]
    pub fn new_epoch(&self, start: Lsn) -> State {
        self.new_epoch_after(self.epoch, start)
    }

    /// The same; its number is higher than `epoch`, too.
    #[must_use]
    pub fn new_epoch_after(&self, epoch: u32, start: Lsn) -> State {
        let epoch = self.epoch.max(epoch) + 1;
        let mut next = State { began: true, epoch, ..self.next() };
        // An epoch that began no earlier has nothing that counts, and needs no entry.
        next.epochs.retain(|(_, began)| *began < start);
        next.epochs.push((next.epoch, start));
        next
    }

    /// The state with a new checkpoint.
    #[must_use]
    pub fn new_checkpoint(&self, checkpoint: Lsn, number: u64) -> State {
        let mut next = State { checkpoint, number, ..self.next() };
        // Of the epochs that began before the checkpoint the last one says all that counts.
        let below = next.epochs.iter().filter(|(_, began)| *began <= checkpoint).count();
        next.epochs.drain(..below.saturating_sub(1));
        next
    }

    /// How the device of this identity stands, which says that it has this index.
    pub fn standing(&self, index: usize, device: &Uuid) -> Standing {
        match self.devices.get(index) {
            Some((uuid, standing)) if uuid == device => *standing,
            // A device that was replaced.
            _ => Standing::Lost,
        }
    }

    /// The state that says that the devices with these indices are lost; `None` if this one does.
    pub fn without(&self, missing: impl Fn(usize) -> bool) -> Option<State> {
        let mut next = self.next();
        for (index, (_, standing)) in next.devices.iter_mut().enumerate() {
            if missing(index) {
                *standing = Standing::Lost;
            }
        }
        (next.devices != self.devices).then_some(next)
    }

    /// Blocks of this epoch count below this LSN. Those of an epoch that has not begun do not.
    pub fn limit(&self, epoch: u32) -> Lsn {
        if epoch > self.epoch {
            return Lsn::ZERO;
        }
        if planted!(StaleEpochCounts) {
            return Lsn(u64::MAX);
        }
        let later = self.epochs.iter().find(|(number, _)| *number > epoch);
        later.map_or(Lsn(u64::MAX), |(_, start)| *start)
    }

    /// Whether one more epoch that begins at `start` can be kept.
    pub fn has_room(&self, start: Lsn) -> bool {
        self.epochs.iter().filter(|(_, began)| *began < start).count() < EPOCHS_MAX
    }

    /// The slot of this generation.
    pub fn slot(&self) -> u64 {
        SLOTS[(self.generation % 2) as usize]
    }

    /// The bytes of the state; the length is a multiple of `block`.
    pub fn encode(&self, block: u32) -> Vec<u8> {
        let length = HEAD + DEVICE * self.devices.len() + EPOCH * self.epochs.len();
        let mut b = vec![0; length.next_multiple_of(block as usize)];
        b[..8].copy_from_slice(MAGIC);
        b[8..12].copy_from_slice(&VERSION.to_le_bytes());
        b[16..32].copy_from_slice(&self.set);
        b[32..36].copy_from_slice(&(length as u32).to_le_bytes());
        b[36..40].copy_from_slice(&self.epoch.to_le_bytes());
        b[40..48].copy_from_slice(&self.generation.to_le_bytes());
        b[48..56].copy_from_slice(&self.checkpoint.0.to_le_bytes());
        b[56..64].copy_from_slice(&self.number.to_le_bytes());
        b[64..68].copy_from_slice(&(self.devices.len() as u32).to_le_bytes());
        b[68..70].copy_from_slice(&(self.epochs.len() as u16).to_le_bytes());
        b[70] = u8::from(self.began);
        b[71] = u8::from(self.short.is_some());
        let mut at = HEAD;
        for (uuid, standing) in &self.devices {
            b[at..at + 16].copy_from_slice(uuid);
            b[at + 16] = *standing as u8;
            at += DEVICE;
        }
        let short = self.short.unwrap_or_default().0.min(SHORT_MAX);
        b[SHORT..SHORT + 7].copy_from_slice(&short.to_le_bytes()[..7]);
        for (epoch, start) in &self.epochs {
            b[at..at + 4].copy_from_slice(&epoch.to_le_bytes());
            b[at + 8..at + 16].copy_from_slice(&start.0.to_le_bytes());
            at += EPOCH;
        }
        let crc = crc32c(&b[..length]);
        b[12..16].copy_from_slice(&crc.to_le_bytes());
        b
    }

    /// Whether a log can have come so far.
    fn makes_sense(&self) -> bool {
        let epochs = self.epochs.iter().all(|(epoch, start)| is_count(*epoch) && is_lsn(*start));
        let own = is_count(self.epoch) && self.generation < 1 << 62 && is_lsn(self.checkpoint);
        epochs && own && !self.devices.is_empty()
    }

    /// The state in a slot, if a whole one is there.
    pub fn decode(slot: &[u8]) -> Option<State> {
        if slot.len() < HEAD || &slot[..8] != MAGIC || number(slot, 8, 4) != u64::from(VERSION) {
            return None;
        }
        let length = number(slot, 32, 4) as usize;
        let (devices, epochs) = (number(slot, 64, 4) as usize, number(slot, 68, 2) as usize);
        let fits = devices <= DEVICES_MAX as usize && epochs <= EPOCHS_MAX;
        if !fits || length != HEAD + DEVICE * devices + EPOCH * epochs || length > slot.len() {
            return None;
        }
        let crc = crc32c(&slot[..12]);
        let crc = crc32c::crc32c_append(crc32c::crc32c_append(crc, &[0; 4]), &slot[16..length]);
        if number(slot, 12, 4) != u64::from(crc) {
            return None;
        }
        let uuid = |at: usize| {
            let mut uuid = [0; 16];
            uuid.copy_from_slice(&slot[at..at + 16]);
            uuid
        };
        let device = |i: usize| {
            let at = HEAD + DEVICE * i;
            let standing = match slot[at + 16] {
                0 => Standing::Present,
                1 => Standing::Left,
                _ => Standing::Lost,
            };
            (uuid(at), standing)
        };
        let epoch = |i: usize| {
            let at = HEAD + DEVICE * devices + EPOCH * i;
            (number(slot, at, 4) as u32, Lsn(number(slot, at + 8, 8)))
        };
        let state = State {
            set: uuid(16),
            epoch: number(slot, 36, 4) as u32,
            generation: number(slot, 40, 8),
            began: slot[70] != 0,
            short: (slot[71] != 0).then(|| Lsn(number(slot, SHORT, 7))),
            checkpoint: Lsn(number(slot, 48, 8)),
            number: number(slot, 56, 8),
            devices: (0..devices).map(device).collect(),
            epochs: (0..epochs).map(epoch).collect(),
        };
        state.makes_sense().then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The table forgets nothing that counts: limits are those of a table that is never
        /// pruned, for every LSN from the checkpoint on.
        #[test]
        fn pruned_epochs_say_the_same(steps in proptest::collection::vec((0..4u64, any::<bool>()), 1..40)) {
            let mut state = State::first([7; 16], &[[1; 16], [2; 16]]);
            let mut all = vec![];
            let mut end = Lsn::ZERO;
            for (step, checkpoint) in steps {
                end = end.plus(step);
                if checkpoint {
                    state = state.new_checkpoint(end, 0);
                } else {
                    state = state.new_epoch(end);
                    all.push((state.epoch, end));
                }
                prop_assert_eq!(State::decode(&state.encode(512)), Some(state.clone()));
                for epoch in 0..=state.epoch {
                    let later = all.iter().filter(|(number, _)| *number > epoch);
                    let full = later.map(|(_, start)| *start).min().unwrap_or(Lsn(u64::MAX));
                    let floor = state.checkpoint;
                    prop_assert_eq!(state.limit(epoch).max(floor), full.max(floor));
                }
            }
        }

        #[test]
        fn a_changed_byte_is_noticed(at in 0..170usize, change in 1..=255u8) {
            let state = State::first([7; 16], &[[1; 16], [2; 16]]).new_epoch(Lsn(3));
            let mut bytes = state.encode(512);
            prop_assume!(at < HEAD + 2 * DEVICE + EPOCH);
            bytes[at] ^= change;
            prop_assert_eq!(State::decode(&bytes), None);
        }
    }

    #[test]
    fn what_may_have_too_few_copies_is_kept() {
        let state = State::first([7; 16], &[[1; 16], [2; 16]]);
        for (short, kept) in [
            (None, None),
            (Some(Lsn(0)), Some(Lsn(0))),
            (Some(Lsn(SHORT_MAX)), Some(Lsn(SHORT_MAX))),
            (Some(Lsn(SHORT_MAX + 9)), Some(Lsn(SHORT_MAX))),
        ] {
            let wrote = State { short, ..state.clone() };
            let read = State::decode(&wrote.encode(512));
            assert_eq!(read, Some(State { short: kept, ..state.clone() }));
        }
    }

    #[test]
    fn the_largest_state_fits_its_slot() {
        let devices = [[1; 16]; DEVICES_MAX as usize];
        let mut state = State::first([7; 16], &devices);
        let mut start = Lsn(1);
        while state.has_room(start) {
            state = state.new_epoch(start);
            start = start.plus(1);
        }
        assert_eq!(state.epochs.len(), EPOCHS_MAX);
        assert!(state.encode(UNIT_MAX).len() <= UNIT_MAX as usize);
    }
}
