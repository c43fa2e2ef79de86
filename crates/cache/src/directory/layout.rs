//! Where everything lies in the memory of a directory.
//!
//! 1. The layout follows from the [`Shape`] alone: offsets, no pointers. Processes may have the
//!    memory at different addresses.
//! 2. Each part begins at a cache line, so no entry lies in two of them.
//!
//! All is words of 64 bits in the byte order of the machine:
//!
//! | part | words | content |
//! |---|---|---|
//! | header | 32 | magic, version, shape, bytes; front, rear and settled |
//! | locks | 8 for each partition | owner of the partition's lock |
//! | batches | 8 for each batch | its state, its owner, what has to be durable before it goes |
//! | entries | 4 for each frame | page, LSN, checksum and older version, control |
//! | links | 1 for each frame | the next frame of the same chain |
//! | heads | 1 for each chain | version of the chain, its first frame |

/// Most frames in a batch.
pub const BATCH_MAX: u32 = 128;
/// Most frames of a directory: a link has 32 bits, and one value means "none".
const FRAMES_MAX: u64 = u32::MAX as u64 - 1;
/// Most partitions: their number has 16 bits in an entry.
const PARTITIONS_MAX: u64 = 4096;
/// Fewest chains of one partition.
const CHAINS_IN_PARTITION: u64 = 64;

/// How large a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Frames in the ring, a multiple of `batch`, two batches at least.
    pub frames: u64,
    /// Frames in a batch, 1 to [`BATCH_MAX`]. One batch is one write; FaCE has 64 or 128.
    pub batch: u32,
}

/// Why there is no directory of a shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// The batch is too small or too large.
    #[error("a batch of {0} frames: it has 1 to {max}, 64 is usual", max = BATCH_MAX)]
    Batch(u32),
    /// The frames do not make whole batches, or too few.
    #[error("{frames} frames are not two or more whole batches of {batch}: {help} would be")]
    Frames {
        /// The frames asked for.
        frames: u64,
        /// Frames in a batch.
        batch: u32,
        /// The nearest number that would do.
        help: u64,
    },
    /// There are too many frames.
    #[error("{0} frames are too many: a directory has {max} at most", max = FRAMES_MAX)]
    TooMany(u64),
}

impl Shape {
    /// Bytes of memory that a directory of this shape needs: about 56 for each frame.
    ///
    /// # Errors
    /// [`ShapeError`]: there is no directory of this shape.
    pub fn bytes_needed(&self) -> Result<usize, ShapeError> {
        Ok(Layout::of(*self)?.words * 8)
    }
}

/// Offsets in words, and what is counted in powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub shape: Shape,
    pub batches: u64,
    pub partitions: u64,
    pub chains: u64,
    pub locks: usize,
    pub records: usize,
    pub entries: usize,
    pub links: usize,
    pub heads: usize,
    pub words: usize,
}

/// Words of a cache line.
pub(crate) const LINE: usize = 8;
const HEADER: usize = 4 * LINE;

impl Layout {
    pub fn of(shape: Shape) -> Result<Layout, ShapeError> {
        let Shape { frames, batch } = shape;
        if batch == 0 || batch > BATCH_MAX {
            return Err(ShapeError::Batch(batch));
        }
        let in_batch = u64::from(batch);
        if frames > FRAMES_MAX {
            return Err(ShapeError::TooMany(frames));
        }
        if frames % in_batch != 0 || frames / in_batch < 2 {
            let help = (frames / in_batch).max(2) * in_batch;
            return Err(ShapeError::Frames { frames, batch, help });
        }
        let batches = frames / in_batch;
        // One frame for one and a half to three chains: most chains have one entry or none.
        let chains = (frames + frames / 2).next_power_of_two();
        let partitions = (chains / CHAINS_IN_PARTITION).clamp(1, PARTITIONS_MAX);
        let mut next = 0;
        let mut part = |words: u64| {
            let at = next;
            next += (words as usize).next_multiple_of(LINE);
            at
        };
        part(HEADER as u64);
        Ok(Layout {
            shape,
            batches,
            partitions,
            chains,
            locks: part(partitions * LINE as u64),
            records: part(batches * LINE as u64),
            entries: part(frames * 4),
            links: part(frames),
            heads: part(chains),
            words: part(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_one_behind_the_other() {
        for (frames, batch) in [(2, 1), (64 * 2, 64), (500_000 / 64 * 64, 64), (1280, 128)] {
            let layout = Layout::of(Shape { frames, batch }).unwrap();
            let Layout { locks, records, entries, links, heads, words, .. } = layout;
            let (partitions, batches, chains) = (layout.partitions, layout.batches, layout.chains);
            let parts = [
                (HEADER, locks, 0),
                (locks, records, partitions * 8),
                (records, entries, batches * 8),
                (entries, links, frames * 4),
                (links, heads, frames),
                (heads, words, chains),
            ];
            for (from, to, least) in parts {
                assert!(from % LINE == 0 && (to - from) as u64 >= least, "{layout:?}");
            }
            assert!(chains % partitions == 0 && chains >= frames);
            assert_eq!(Shape { frames, batch }.bytes_needed(), Ok(words * 8));
        }
    }

    #[test]
    fn a_shape_that_cannot_be_says_which_could() {
        let of = |frames, batch| Shape { frames, batch }.bytes_needed().unwrap_err();
        assert_eq!(of(64, 0), ShapeError::Batch(0));
        assert_eq!(of(1290, 129), ShapeError::Batch(129));
        assert_eq!(of(64, 64), ShapeError::Frames { frames: 64, batch: 64, help: 128 });
        assert_eq!(of(1000, 64), ShapeError::Frames { frames: 1000, batch: 64, help: 960 });
        assert_eq!(of(1 << 32, 64), ShapeError::TooMany(1 << 32));
        assert_eq!(
            of(1000, 64).to_string(),
            "1000 frames are not two or more whole batches of 64: 960 would be"
        );
    }
}
