//! A small array and helpers to use it.

pub mod reference;

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use tantalum_device::{Data, DataMut, Payload};
use tantalum_nand::{Geometry, NandArray, PageAddr, PageState, ReadRequest, Timing, Unit};
use tantalum_rt::{Nanos, Rt, Runtime};

/// Dies 0 and 2 are on channel 0, dies 1 and 3 on channel 1. A unit has four rows of
/// two pages, a page two sectors.
pub fn geometry() -> Geometry {
    Geometry {
        channels: 2,
        packages: 1,
        chips: 2,
        planes: 2,
        blocks: 3,
        pages: 4,
        page_bytes: 8192,
        oob_bytes: 64,
    }
}

/// Ten nanoseconds a byte on the channel.
pub fn timing() -> Timing {
    Timing {
        read_us: 50,
        program_us: 1000,
        erase_us: 3000,
        command_ns: 100,
        channel_mb_s: 100,
        ..Timing::default()
    }
}

pub const WORDS: usize = 2;
pub const TR: u64 = 50_100;
pub const TPROG: u64 = 1_000_000;
pub const TBERS: u64 = 3_000_100;
/// One page and its out-of-band bytes on the channel.
pub const PAGE_MOVE: u64 = 100 + (8192 + 64) * 10;
/// Two pages in one operation.
pub const ROW_MOVE: u64 = 100 + 2 * (8192 + 64) * 10;

/// The first unit of a die.
pub fn unit_of(die: u32) -> Unit {
    Unit(die * geometry().blocks)
}

pub fn page(unit: Unit, page: u32) -> PageAddr {
    PageAddr { unit, page }
}

pub fn array(rt: &Rt, payload: Payload) -> Rc<NandArray> {
    let array = NandArray::new(rt, &geometry(), &timing(), payload, WORDS as u32).unwrap();
    array.power_on();
    Rc::new(array)
}

/// Runs `main` to its end in virtual time.
pub fn run<T: 'static, F: Future<Output = T> + 'static>(
    seed: u64,
    main: impl FnOnce(Rt) -> F,
) -> T {
    let mut runtime = Runtime::virtual_time(seed);
    let main = main(runtime.handle());
    runtime.block_on(main).unwrap()
}

/// Stamps for `pages` pages that differ for each `tag`.
pub fn stamps(tag: u64, pages: u32) -> Vec<u64> {
    (0..u64::from(pages) * 2).map(|i| tag * 1000 + i + 1).collect()
}

pub fn oob(tag: u64, pages: u32) -> Vec<u64> {
    (0..u64::from(pages) * WORDS as u64).map(|i| tag * 100 + i + 7).collect()
}

/// Issues a program of stamps and drops its future.
pub fn put(array: &NandArray, at: PageAddr, pages: u32, tag: u64) {
    drop(array.program(at, Data::Stamps(&stamps(tag, pages)), &oob(tag, pages)).unwrap());
}

/// Issues an erase and drops its future.
pub fn wipe(array: &NandArray, unit: Unit) {
    drop(array.erase(unit).unwrap());
}

/// The content of a page of stamps: state, stamps, out-of-band words.
pub fn look(array: &NandArray, at: PageAddr) -> (PageState, Vec<u64>, Vec<u64>) {
    let (mut data, mut words, mut states) = (vec![9; 2], vec![9; WORDS], [PageState::Erased]);
    let request = ReadRequest {
        at,
        count: 1,
        first: 0,
        data: Some(DataMut::Stamps(&mut data)),
        oob: Some(&mut words),
        states: &mut states,
    };
    drop(array.read(request).unwrap());
    (states[0], data, words)
}

pub fn state(array: &NandArray, at: PageAddr) -> PageState {
    look(array, at).0
}

/// The page is erased, and shows no content.
pub fn assert_erased(array: &NandArray, at: PageAddr) {
    assert_eq!(look(array, at), (PageState::Erased, vec![0; 2], vec![0; WORDS]), "{at:?}");
}

/// The page cannot be read, and shows no content.
pub fn assert_unreadable(array: &NandArray, at: PageAddr) {
    assert_eq!(look(array, at), (PageState::Uncorrectable, vec![0; 2], vec![0; WORDS]), "{at:?}");
}

/// The page is the `i`-th of a program with this tag.
pub fn assert_holds(array: &NandArray, at: PageAddr, tag: u64, i: usize) {
    let (state, data, words) = look(array, at);
    assert_eq!(state, PageState::Programmed, "{at:?}");
    assert_eq!(data, stamps(tag, 8)[i * 2..][..2], "{at:?}");
    assert_eq!(words, oob(tag, 8)[i * WORDS..][..WORDS], "{at:?}");
}

/// Everything that can be seen of an array without changing its cells.
pub fn all(array: &NandArray) -> Vec<(PageState, Vec<u64>, Vec<u64>)> {
    let g = geometry();
    let units = (0..g.units()).map(Unit);
    units
        .flat_map(|u| (0..g.unit_pages()).map(move |p| page(u, p)))
        .map(|at| look(array, at))
        .collect()
}

/// Reads the state and `sectors` stamps. Returns when the read ends.
pub async fn timed_read(rt: &Rt, array: &NandArray, at: PageAddr, sectors: usize) -> Nanos {
    let (mut data, mut states) = (vec![0; sectors], [PageState::Erased]);
    let request = ReadRequest {
        at,
        count: 1,
        first: 0,
        data: Some(DataMut::Stamps(&mut data)),
        oob: None,
        states: &mut states,
    };
    array.read(request).unwrap().await;
    rt.now()
}

/// Polls a future once.
pub async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(out) => Poll::Ready(Some(out)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
