//! Memory that is not fit for a directory, or has another one.

use super::super::{AttachError, Directory, Owner, Region, Shape};
use super::{Living, Place, version, write};
use std::sync::Arc;

const SHAPE: Shape = Shape { frames: 256, batch: 64 };

fn me() -> Owner {
    Owner::new(1).unwrap()
}

fn format(region: &Region, shape: Shape, first: u64) -> Result<Directory, AttachError> {
    Directory::format(region.clone(), shape, first, me(), Arc::new(Living::default()))
}

fn attach(region: &Region) -> Result<Directory, AttachError> {
    Directory::attach(region.clone(), me(), Arc::new(Living::default()))
}

#[test]
fn memory_that_is_too_small_or_blank_or_damaged_is_refused_and_left_alone() {
    let need = SHAPE.bytes_needed().unwrap();
    let small = Region::owned(need - 64);
    let too_small = AttachError::TooSmall { have: need - 64, need };
    assert_eq!(format(&small, SHAPE, 0).err(), Some(too_small.clone()));
    assert_eq!(attach(&small).err(), Some(AttachError::Blank));
    assert!((0..small.bytes() / 8).all(|at| small.word(at).get() == 0));
    assert!(matches!(attach(&Region::owned(64)).err(), Some(AttachError::TooSmall { .. })));

    let region = Region::owned(need);
    assert_eq!(attach(&region).err(), Some(AttachError::Blank));
    assert_eq!(format(&region, SHAPE, 1 << 48).err(), Some(AttachError::First(1 << 48)));
    assert_eq!(attach(&region).err(), Some(AttachError::Blank));
    format(&region, SHAPE, 0).unwrap();
    for (word, value, error) in [
        (0, 0, AttachError::Blank),
        (1, 2, AttachError::Newer(2)),
        (1, 0, AttachError::Damaged),
        (2, 512, AttachError::Damaged),
        (2, 255, AttachError::Damaged),
        (3, 32, AttachError::Damaged),
        (3, u64::MAX, AttachError::Damaged),
        (4, 1, AttachError::Damaged),
        (5, 1, AttachError::Damaged),
    ] {
        let before = region.word(word).get();
        region.word(word).set(value);
        assert_eq!(attach(&region).err(), Some(error), "word {word} is {value}");
        region.word(word).set(before);
    }
    assert_eq!(attach(&region).unwrap().shape(), SHAPE);
}

#[test]
fn a_directory_of_another_shape_or_in_less_memory_is_refused() {
    let (place, directory) = Place::new(256, 64);
    write(&directory, &[version(1, 1)]);
    let expected = Shape { frames: 512, batch: 64 };
    let living = place.living.clone();
    let other = Directory::attach_shape(place.region.clone(), expected, me(), living);
    assert_eq!(other.err(), Some(AttachError::OtherShape { found: SHAPE, expected }));
    assert!(directory.peek(1).is_some());

    // The same bytes, fewer of them.
    let mut lines = vec![[0u64; 8]; place.region.bytes() / 64 + 1];
    let all: &mut [u64] = lines.as_flattened_mut();
    let skip = all.as_ptr().align_offset(64);
    let copy = &mut all[skip..][..place.region.bytes() / 8];
    for (at, word) in copy.iter_mut().enumerate() {
        *word = place.region.word(at).get();
    }
    let memory = copy.as_mut_ptr().cast::<u8>();
    let bytes = place.region.bytes();
    // SAFETY: the memory outlives the regions, and nobody else uses it.
    let region = |bytes| unsafe { Region::shared(memory, bytes) };
    let found = attach(&region(bytes).unwrap()).unwrap();
    assert_eq!(found.peek(1).map(|entry| entry.lsn), Some(1));
    let (have, need) = (bytes - 64, bytes);
    let error = AttachError::TooSmall { have, need };
    assert_eq!(attach(&region(have).unwrap()).err(), Some(error));
    // SAFETY: as above.
    let askew = unsafe { Region::shared(memory.add(8), bytes - 64) };
    assert_eq!(askew.err(), Some(AttachError::Misaligned));
}
