use super::*;
use proptest::prelude::*;

/// Bytes of a group with its end mark and checksum. Groups fill a block to its last byte.
const GROUP: u64 = 64;

/// A log of groups of 64 bytes from its first byte on. Each group has content of its own.
struct Made {
    file: Vec<u8>,
    first: u64,
    next: u64,
    counter: u32,
}

impl Made {
    fn new(first: u64, blocks: u64) -> Made {
        let mut file = vec![0; RING + (blocks * BLOCK) as usize];
        file[..4].copy_from_slice(b"Phys");
        file[8..16].copy_from_slice(&first.to_be_bytes());
        let mut made = Made { file, first, next: first, counter: 0 };
        made.checkpoint(first);
        made
    }

    fn checkpoint(&mut self, lsn: u64) {
        self.file[4096..4104].copy_from_slice(&lsn.to_be_bytes());
    }

    fn ring(&self) -> u64 {
        (self.file.len() - RING) as u64
    }

    fn place(&self, lsn: u64) -> usize {
        RING + ((lsn - self.first) % self.ring()) as usize
    }

    fn append(&mut self, groups: u64) {
        for _ in 0..groups {
            self.counter += 1;
            // One record of 59 bytes: one with its kind, one with its length, and 57 others.
            let mut group = vec![0x30, 57 - 15 + 1];
            group.extend((0..57).map(|i| 2 + (i as u8 ^ self.counter.to_le_bytes()[i % 4]) % 250));
            let sum = crc32c::crc32c(&group);
            let lap = (self.next + group.len() as u64 - self.first) / self.ring();
            group.push(u8::from(lap.is_multiple_of(2)));
            group.extend(sum.to_be_bytes());
            assert_eq!(group.len() as u64, GROUP);
            let at = self.place(self.next);
            self.file[at..at + group.len()].copy_from_slice(&group);
            self.next += GROUP;
        }
    }

    /// Fills the rest of the last block with what its buffer had `blocks` before.
    fn leave(&mut self, blocks: u64) {
        let rest = (BLOCK - self.place(self.next) as u64 % BLOCK) % BLOCK;
        for lsn in self.next..self.next + rest {
            let (from, to) = (self.place(lsn - blocks * BLOCK), self.place(lsn));
            self.file[to] = self.file[from];
        }
    }
}

#[test]
fn the_end_of_a_sound_log_is_sound() {
    let mut log = Made::new(44404, 64);
    assert_eq!(stale_end(&log.file), None, "nothing is in it");
    log.append(1000);
    assert_eq!((end(&log.file), stale_end(&log.file)), (Some(44404 + 64_000), None));
    // Across the end of the ring, and a lap further.
    for _ in 0..6 {
        let checkpoint = log.next;
        log.checkpoint(checkpoint);
        log.append(1501);
        assert_eq!((end(&log.file), stale_end(&log.file)), (Some(log.next), None));
    }
}

#[test]
fn what_a_buffer_left_is_found_unless_a_byte_says_that_it_is_the_end() {
    let mut log = Made::new(8192, 512);
    log.append(9 * 64 + 64 + 17);
    log.leave(9);
    let bytes = BLOCK - 17 * GROUP;
    let end = log.next;
    assert!(!(17 * GROUP).is_multiple_of(SECTOR));
    assert_eq!(stale_end(&log.file), Some(Stale { end, bytes, blocks: 9 }));
    assert_eq!(tail(&log.file), Some(Tail::WholeBlock), "as recovery finds it");
    // Later the server has written its next groups there.
    let mut later = Made { file: log.file.clone(), ..log };
    later.append(80);
    let (old, stale) = (log.file.clone(), Stale { end, bytes, blocks: 9 });
    assert_eq!(differs(&old, &later.file, &stale), Some(true));
    assert_eq!(differs(&old, &old, &stale), Some(false));
    let at = log.place(end);
    log.file[at] = 0;
    assert_eq!(stale_end(&log.file), None);
    assert_eq!(tail(&log.file), Some(Tail::Marked));
    // (The place was overwritten in a later lap.)
    assert_eq!(differs(&old, &log.file, &stale), None);
}

/// A wrong block from the drive: the one before or an old one, in place of the last block or after
/// it.
#[test]
fn a_block_in_the_wrong_place_is_not_the_servers_doing() {
    for (into, blocks) in [(17, 1), (17, 9), (63, 2), (1, 5)] {
        let mut log = Made::new(8192, 512);
        log.append(20 * 64 + into);
        let block = (log.next - into * GROUP) / BLOCK * BLOCK;
        for to in [block, block + BLOCK] {
            let mut wrong = log.file.clone();
            let (from, to) = (log.place(to - blocks * BLOCK), log.place(to));
            wrong.copy_within(from..from + BLOCK as usize, to);
            assert_eq!(stale_end(&wrong), None);
            // The same for one sector.
            let mut wrong = log.file.clone();
            wrong.copy_within(from..from + 512, to);
            assert_eq!(stale_end(&wrong), None);
        }
    }
}

#[test]
fn what_is_at_the_end_is_told() {
    let mut log = Made::new(8192, 512);
    assert_eq!(tail(&log.file), Some(Tail::WholeBlock));
    log.append(9 * 64 + 64 + 17);
    assert_eq!(tail(&log.file), Some(Tail::Marked));
    // An older block in which no group begins at that place.
    let rest = (BLOCK - 17 * GROUP) as usize;
    let at = log.place(log.next);
    for i in 0..rest {
        log.file[at + i] = log.file[at + i - 3 * BLOCK as usize + 1];
    }
    assert_eq!(tail(&log.file), Some(Tail::Other));
    let checkpoint = log.next - 17 * GROUP;
    log.checkpoint(checkpoint);
    let group = log.place(log.next - 9 * BLOCK);
    log.file[group + 5] ^= 1;
    log.leave(9);
    assert_eq!((end(&log.file), tail(&log.file)), (Some(log.next), Some(Tail::Older(9))));
    assert_eq!(tail(&[0; 20_000]), None);
    // A lap later: one whole lap before is the same place of the ring.
    let mut log = Made::new(8192, 16);
    log.append(5 * 64);
    for _ in 0..2 {
        let checkpoint = log.next;
        log.checkpoint(checkpoint);
        log.append(10 * 64 + 7);
    }
    let at = log.place(log.next);
    (0..).zip(&mut log.file[at..at + 100]).for_each(|(i, byte): (u8, _)| *byte = 200 - i);
    assert_eq!(tail(&log.file), Some(Tail::Other));
}

/// Three blocks of a log of MariaDB 10.11.19 under load, with 122 record groups and an unmarked
/// end.
#[test]
fn the_end_of_a_real_log_is_found_and_moved() {
    let (first, checkpoint, last) = (19_947_224u64, 19_947_341u64, 19_954_277);
    let mut file = vec![0; RING];
    file[..4].copy_from_slice(b"Phys");
    file[8..16].copy_from_slice(&first.to_be_bytes());
    file[4096..4104].copy_from_slice(&checkpoint.to_be_bytes());
    file.extend(include_bytes!("real.bin"));
    assert_eq!((end(&file), tail(&file)), (Some(last), Some(Tail::Other)));
    assert_eq!(stale_end(&file), None);
    let (groups, _) = Log::new(&file).unwrap().groups();
    assert_eq!(groups.len(), 122);
    // The log can be made to end before any of its groups, and nowhere else.
    for (begin, _) in groups {
        let mut marked = file.clone();
        assert!(!mark_end(&mut marked, begin + 1) && marked == file);
        assert!(mark_end(&mut marked, begin));
        assert_eq!((end(&marked), tail(&marked)), (Some(begin), Some(Tail::Marked)));
    }
    assert!(mark_end(&mut file, last));
    assert_eq!((end(&file), tail(&file)), (Some(last), Some(Tail::Marked)));
    assert!(!mark_end(&mut [0; 20_000], 0));
}

#[test]
fn what_is_left_of_another_lap_is_no_log() {
    let mut log = Made::new(8192, 16);
    log.append(15 * 64);
    let checkpoint = log.next;
    log.checkpoint(checkpoint);
    log.append(2 * 64 + 5);
    log.leave(4);
    assert_eq!((end(&log.file), stale_end(&log.file)), (Some(log.next), None));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn stale_bytes_are_found_wherever_they_are(
        first in 0u64..1 << 40,
        groups in 0u64..20_000,
        into in 1u64..64,
        blocks in 1u64..60,
    ) {
        let mut log = Made::new(first, 256);
        log.append(groups);
        let checkpoint = log.next;
        log.checkpoint(checkpoint);
        // In the middle of a block, after this many whole blocks.
        let there = log.place(log.next) as u64 % BLOCK / GROUP;
        log.append((64 - there) + blocks * 64 + into);
        let lap = |lsn: u64| (lsn - first) / log.ring();
        let block = log.next - into * GROUP;
        let same_lap = lap(block - blocks * BLOCK) == lap(block);
        log.leave(blocks);
        let found = stale_end(&log.file);
        if (into * GROUP).is_multiple_of(SECTOR) {
            prop_assert_eq!(found, None, "a drive could do that");
        } else if same_lap {
            let bytes = BLOCK - into * GROUP;
            prop_assert_eq!(found, Some(Stale { end: log.next, bytes, blocks }));
        } else {
            prop_assert_eq!(found, None);
        }
    }

    #[test]
    fn whatever_bytes_there_are_reading_them_ends(
        bytes in proptest::collection::vec(any::<u8>(), 0..40_000),
        first in any::<u64>(),
        checkpoint in any::<u64>(),
    ) {
        let mut file = bytes;
        stale_end(&file);
        if file.len() > 8200 {
            file[..4].copy_from_slice(b"Phys");
            file[8..16].copy_from_slice(&first.to_be_bytes());
            file[4096..4104].copy_from_slice(&checkpoint.to_be_bytes());
            stale_end(&file);
        }
    }
}
