//! Memory is the same after ten thousand cuts. Counted in a process of its own, by an allocator that
//! counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use tantalum_device::{Ack, Caps, Payload};
use tantalum_explore::{
    AnyBlueprint, BoxBlueprint, Ingredients, LogBlueprint, LogShape, Nesting, RamBlueprint, Tally,
    VolumeBlueprint,
};
use tantalum_rt::Nanos;

/// Counts the bytes that are in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it is; the count changes nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are those of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are those of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn ram(blocks: u64) -> BoxBlueprint {
    let caps = Caps {
        block_size: 512,
        ack: Ack::Volatile,
        ordered: false,
        atomic_unit: 512,
        ..Caps::power_safe(blocks, Payload::Bytes)
    };
    RamBlueprint::new(caps).into()
}

/// Makes so many cuts, and says how many bytes are in use then.
fn after(subject: &AnyBlueprint, cuts: u64, first: u64) -> (usize, u64) {
    let what = Ingredients { commands: 60, hosts: 3, ..Ingredients::default() };
    let mut run = first;
    let mut made = 0;
    while made < cuts {
        let scenario = what.scenario(subject.clone(), run).unwrap();
        let points: Vec<_> = scenario.points(10).unwrap().into_iter().enumerate().collect();
        let mut tally = Tally::default();
        let nesting = Nesting { depth: 1, inner: 2, stride: 4 };
        scenario.explore(&points, nesting, &mut tally, &|| ()).unwrap();
        made += tally.all_cuts();
        run += 1;
    }
    (IN_USE.load(Ordering::Relaxed), run)
}

/// What the allocator's callers keep for later, at most.
const SLACK: usize = 16 << 10;

#[test]
fn memory_is_the_same_after_ten_thousand_cuts() {
    let log = LogBlueprint {
        device: ram(208),
        shape: LogShape { slow_one_in: 8, ..LogShape::default() },
    };
    let (memory, linger) = (8 << 10, Nanos::from_millis(1));
    let volume =
        VolumeBlueprint { log: log.clone(), backing: ram(80), memory, linger, full_limits: false };
    let subjects =
        [AnyBlueprint::Log(Box::new(log)), AnyBlueprint::Volume(Box::new(volume)), ram(96).into()];
    for subject in subjects {
        let (before, run) = after(&subject, 200, 0);
        let (then, _) = after(&subject, 10_000, run);
        assert!(then <= before + SLACK, "{before} bytes in use, then {then}: {subject:?}");
    }
}
