//! Arrays in image files: they run as in memory, and a killed process leaves a snapshot.
#![allow(clippy::disallowed_methods, reason = "tests of files")]

use crate::common::*;
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use tantalum_device::{Data, DataMut, Payload};
use tantalum_nand::{
    IMAGE_VERSION, ImageError, ImageFile, ImageSpec, NandArray, OpError, PageAddr, PageState,
    Timing, Unit,
};
use tantalum_rt::{Nanos, Rt};

/// A file that is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("image-{}-{n}", std::process::id());
        Scratch(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn spec(payload: Payload) -> ImageSpec {
    ImageSpec {
        version: IMAGE_VERSION,
        serial: *b"0123456789abcdef",
        geometry: geometry(),
        payload,
        oob_words: WORDS as u32,
        flights: 64,
        protected: 8192,
        design: "name = \"a small array\"\n".to_string(),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Program { unit: u32, pages: u32, zeros: bool },
    Erase { unit: u32 },
    Read { unit: u32, page: u32 },
    Wait { ns: u64 },
    Cut,
}

fn step() -> impl Strategy<Value = Step> {
    let unit = || 0..12u32;
    let ns = prop_oneof![0..200u64, Just(TR), 0..200_000u64, 0..4_000_000u64, Just(TPROG)];
    prop_oneof![
        12 => (unit(), 1..3u32, prop::bool::weighted(0.1))
            .prop_map(|(unit, pages, zeros)| Step::Program { unit, pages, zeros }),
        4 => unit().prop_map(|unit| Step::Erase { unit }),
        4 => (unit(), 0..8u32).prop_map(|(unit, page)| Step::Read { unit, page }),
        8 => ns.prop_map(|ns| Step::Wait { ns }),
        1 => Just(Step::Cut),
    ]
}

fn rules() -> impl Strategy<Value = Timing> {
    let priority = prop::sample::select(vec![0, 1, 100]);
    let suspend = (prop::sample::select(vec![0, 20]), prop::sample::select(vec![0, 50]), 0..4u32);
    (priority, suspend, any::<bool>()).prop_map(|(read_priority, suspend, apart)| Timing {
        independent_reads: apart,
        read_priority,
        suspend_program_us: suspend.0,
        suspend_erase_us: suspend.1,
        suspend_limit: suspend.2,
        ..timing()
    })
}

/// Payload for this many pages.
fn payload(kind: Payload, tag: u64, pages: u32, zeros: bool) -> tantalum_device::OwnedData {
    let mut data = tantalum_device::OwnedData::zeros(kind, pages as usize * 2, 4096);
    match data.as_mut() {
        DataMut::Bytes(bytes) if !zeros => {
            bytes.iter_mut().enumerate().for_each(|(i, b)| *b = (tag as usize * 31 + i / 7) as u8);
        }
        DataMut::Stamps(s) => (1..).zip(s).for_each(|(i, s)| *s = tag * 1000 + i),
        DataMut::Bytes(_) => {}
    }
    data
}

async fn carry_out(rt: &Rt, a: &NandArray, tag: u64, step: &Step) {
    match *step {
        Step::Program { unit, pages, zeros } => {
            let at = PageAddr { unit: Unit(unit), page: a.next_page(Unit(unit)) };
            let pages = pages.min(2 - at.page % 2);
            // (Metadata are bytes, also in an array of stamps.)
            let kind = if tag.is_multiple_of(5) { Payload::Bytes } else { a.payload() };
            let data = payload(kind, tag, pages, zeros);
            match a.program(at, data.as_data(), &oob(tag, pages)) {
                Ok(_) | Err(OpError::Rule { .. }) => {}
                Err(e) => panic!("{e}"),
            }
        }
        Step::Erase { unit } => drop(a.erase(Unit(unit)).unwrap()),
        Step::Read { unit, page } => {
            let mut states = [PageState::Erased];
            let at = PageAddr { unit: Unit(unit), page };
            let request = tantalum_nand::ReadRequest {
                at,
                count: 1,
                first: 0,
                data: None,
                oob: None,
                states: &mut states,
            };
            drop(a.read(request).unwrap());
        }
        Step::Wait { ns } => rt.sleep(Nanos(ns)).await,
        Step::Cut => {
            a.power_off();
            a.power_on();
        }
    }
}

type Cells = Vec<(PageState, Vec<u64>, Vec<u8>, Vec<u64>)>;

/// Everything that can be seen without an operation.
fn cells(a: &NandArray) -> (Cells, Vec<(u32, u32, bool)>) {
    let g = a.geometry().clone();
    let units = (0..g.units()).map(Unit);
    let pages = units.clone().flat_map(|unit| (0..8).map(move |page| PageAddr { unit, page }));
    let look = |at| {
        let (mut words, mut bytes, mut stamps) = (vec![9; WORDS], vec![9; 8192], vec![9; 2]);
        let state = a.inspect(at, &mut words);
        a.inspect_payload(at, DataMut::Bytes(&mut bytes));
        if a.payload() == Payload::Stamps {
            a.inspect_payload(at, DataMut::Stamps(&mut stamps));
        }
        assert!(a.verify(at), "{at:?}");
        (state, words, bytes, stamps)
    };
    let facts = units.map(|u| (a.next_page(u), a.erase_count(u), a.is_erased(u)));
    (pages.map(look).collect(), facts.collect())
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Memory,
    Image,
}

fn make(rt: &Rt, place: Place, kind: Payload, timing: &Timing, file: &Scratch) -> NandArray {
    match place {
        Place::Memory => {
            let a = NandArray::new(rt, &geometry(), timing, kind, WORDS as u32).unwrap();
            a.power_on();
            a
        }
        Place::Image => {
            let image = ImageFile::create(&file.0, &spec(kind), true).unwrap();
            NandArray::on_image(rt, &image, timing).unwrap()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn an_image_has_the_same_run_as_memory(
        steps in prop::collection::vec(step(), 1..80),
        timing in rules(),
        stamps in any::<bool>(),
    ) {
        prop_assert!(same_run(steps, timing, stamps));
    }

    #[test]
    fn what_a_killed_process_leaves_is_a_snapshot(
        steps in prop::collection::vec(step(), 1..40),
        timing in rules(),
        stamps in any::<bool>(),
        end in 0..3u32,
    ) {
        killed(steps, timing, stamps, end);
    }
}

/// Whether an array in an image behaves like one in memory, also after a power loss.
fn same_run(steps: Vec<Step>, timing: Timing, stamps: bool) -> bool {
    let kind = if stamps { Payload::Stamps } else { Payload::Bytes };
    let [memory, image] = [Place::Memory, Place::Image].map(|place| {
        let (steps, timing) = (steps.clone(), timing.clone());
        run(11, move |rt| async move {
            let file = Scratch::new();
            let a = make(&rt, place, kind, &timing, &file);
            for (tag, step) in (1..).zip(&steps) {
                carry_out(&rt, &a, tag, step).await;
            }
            let seen = cells(&a);
            a.power_off();
            (seen, cells(&a), rt.trace_hash(), rt.now())
        })
    });
    memory == image
}

/// Of two erases of a unit that have not begun, the first one removed its pages.
#[test]
fn pages_come_back_that_were_erased_twice_and_overwritten_before_that_began() {
    let steps = vec![
        Step::Program { unit: 5, pages: 1, zeros: false },
        Step::Wait { ns: 1_082_660 },
        Step::Program { unit: 0, pages: 1, zeros: false },
        Step::Erase { unit: 5 },
        Step::Erase { unit: 5 },
        Step::Program { unit: 5, pages: 1, zeros: false },
    ];
    assert!(same_run(steps, timing(), false));
}

/// A killed process leaves the array of that moment, as a snapshot has it. Checked after each step.
fn killed(steps: Vec<Step>, timing: Timing, stamps: bool, end: u32) {
    let kind = if stamps { Payload::Stamps } else { Payload::Bytes };
    run(11, move |rt| async move {
        let (file, copy) = (Scratch::new(), Scratch::new());
        let a = make(&rt, Place::Image, kind, &timing, &file);
        let mut overwritten = false;
        for (tag, step) in (1..).zip(&steps) {
            // Pages that an erase removed before it began are lost if they were overwritten.
            let erased = |u: u32| a.next_page(Unit(u)) == 0;
            overwritten |= matches!(step, Step::Program { unit, .. } if erased(*unit))
                && a.activity().until != Nanos::MAX;
            carry_out(&rt, &a, tag, step).await;
            a.activity();
            std::fs::copy(&file.0, &copy.0).unwrap();
            let snapshot = a.snapshot();
            let timing = timing.clone();
            let finish = move |rt: Rt, b: NandArray| async move {
                match end {
                    0 => b.power_off(),
                    1 => b.abandon(true),
                    _ => b.abandon(false),
                }
                rt.sleep(Nanos::from_micros(1_000_000)).await;
                b.power_off();
                cells(&b)
            };
            let want = run(7, move |rt| async move {
                let b = NandArray::from_image(&rt, &snapshot);
                finish(rt, b).await
            });
            let path = copy.0.clone();
            let have = run(7, move |rt| async move {
                let image = ImageFile::open(&path).unwrap();
                let b = NandArray::on_image(&rt, &image, &timing).unwrap();
                let cells = finish(rt, b).await;
                assert_eq!(image.under_way(), 0);
                cells
            });
            if !overwritten {
                assert!(want == have, "after {step:?}");
            }
            assert_eq!(want.0.len(), have.0.len());
        }
    });
}

/// An erase that has not begun restores the pages that it removed, even if an earlier one has
/// ended.
#[test]
fn a_unit_to_be_erased_keeps_its_space_when_an_erase_before_that_ends() {
    let steps = vec![
        Step::Erase { unit: 11 },
        Step::Program { unit: 11, pages: 2, zeros: false },
        Step::Wait { ns: 1_000_000 },
        Step::Erase { unit: 11 },
        Step::Wait { ns: 2_000_101 },
        Step::Program { unit: 0, pages: 1, zeros: false },
    ];
    killed(steps, timing(), false, 0);
}

/// An erase that cannot be taken back has had what was programmed there before, though neither has
/// begun: with that program taken back the unit would have its former pages, not their content.
#[test]
fn pages_before_an_erase_that_cannot_be_taken_back_do_not_come_back() {
    let steps = vec![
        Step::Program { unit: 0, pages: 1, zeros: false },
        Step::Program { unit: 10, pages: 2, zeros: false },
        Step::Program { unit: 10, pages: 1, zeros: false },
        Step::Wait { ns: 1_000_000 },
        Step::Erase { unit: 10 },
        Step::Program { unit: 10, pages: 1, zeros: false },
    ];
    for end in 0..3 {
        killed(steps.clone(), timing(), false, end);
    }
}

/// The same for an erase before it: the unit keeps the count of both.
#[test]
fn an_erase_before_one_that_cannot_be_taken_back_is_not_taken_back() {
    let file = Scratch::new();
    let copy = Scratch::new();
    let path = (file.0.clone(), copy.0.clone());
    run(11, move |rt| async move {
        let a = make(&rt, Place::Image, Payload::Bytes, &timing(), &file);
        for (tag, unit) in [(1, 11), (2, 10), (3, 10), (4, 10), (5, 10)] {
            let step = match tag {
                2 | 4 => Step::Erase { unit },
                _ => Step::Program { unit, pages: 1, zeros: false },
            };
            carry_out(&rt, &a, tag, &step).await;
        }
        std::fs::copy(&path.0, &path.1).unwrap();
        let image = ImageFile::open(&path.1).unwrap();
        let b = NandArray::on_image(&rt, &image, &timing()).unwrap();
        b.abandon(false);
        rt.sleep(Nanos::from_micros(1_000_000)).await;
        b.power_off();
        assert_eq!((b.erase_count(Unit(10)), b.next_page(Unit(10))), (2, 0));
        cells(&b);
    });
}

fn small() -> Scratch {
    let file = Scratch::new();
    let path = file.0.clone();
    run(1, move |rt| async move {
        let image = ImageFile::create(&path, &spec(Payload::Bytes), false).unwrap();
        let a = NandArray::on_image(&rt, &image, &timing()).unwrap();
        for (tag, unit) in (1..).zip([0, 1, 3, 3, 4]) {
            carry_out(&rt, &a, tag, &Step::Program { unit, pages: 2, zeros: false }).await;
        }
        rt.sleep(Nanos::from_micros(900)).await;
        carry_out(&rt, &a, 9, &Step::Erase { unit: 6 }).await;
    });
    file
}

/// A damaged image is refused or can be used.
fn use_damaged(path: &Path) {
    let path = path.to_path_buf();
    run(5, move |rt| async move {
        let Ok(image) = ImageFile::open(&path) else { return };
        let Ok(a) = NandArray::on_image(&rt, &image, &timing()) else { return };
        for unit in (0..12).map(Unit) {
            for page in 0..8 {
                let at = PageAddr { unit, page };
                let (mut words, mut bytes) = (vec![0; WORDS], vec![0; 8192]);
                a.inspect(at, &mut words);
                a.inspect_payload(at, DataMut::Bytes(&mut bytes));
                a.verify(at);
            }
        }
        a.power_off();
        a.power_on();
        for unit in (0..12).map(Unit) {
            a.erase(unit).unwrap().await.unwrap();
            let page = PageAddr { unit, page: 0 };
            a.program(page, Data::Bytes(&[7; 16384]), &oob(1, 2)).unwrap().await.unwrap();
        }
        a.snapshot();
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_damaged_image_is_refused_or_can_be_used(
        flips in prop::collection::vec((0..4u32, any::<u32>(), 1..=255u8), 1..6),
    ) {
        let file = small();
        let mut bytes = std::fs::read(&file.0).unwrap();
        for (where_, at, with) in flips {
            let end = match where_ {
                0 => 4096,
                1 => 9000,
                2 => 32768,
                _ => bytes.len(),
            };
            let at = at as usize % end;
            bytes[at] ^= with;
        }
        std::fs::write(&file.0, &bytes).unwrap();
        use_damaged(&file.0);
    }
}

fn refusal(file: &Scratch, change: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut bytes = std::fs::read(&file.0).unwrap();
    change(&mut bytes);
    std::fs::write(&file.0, &bytes).unwrap();
    let path = file.0.clone();
    run(1, move |rt| async move {
        let image = ImageFile::open(&path);
        let array = image.and_then(|image| NandArray::on_image(&rt, &image, &timing()));
        array.err().map_or_else(|| "opened".to_string(), |e| e.to_string())
    })
}

#[test]
fn refusals_say_what_is_wrong_and_where() {
    assert_eq!(refusal(&small(), |_| ()), "opened");
    assert_eq!(
        refusal(&small(), |b| b[0] = b'X'),
        "not an image: it does not begin with \"TANTALUM\" at offset 0"
    );
    let text = refusal(&small(), |b| b[8] = 3);
    assert!(text.starts_with("the image has format 3 (offset 8)"), "{text}");
    let text = refusal(&small(), |b| b[41] ^= 1);
    assert!(
        text.starts_with("the image is damaged at offset 4092: the header's checksum"),
        "{text}"
    );
    let text = refusal(&small(), |b| b[8193] ^= 1);
    assert!(text.starts_with("the image is damaged at offset 8192: the design's"), "{text}");
    let text = refusal(&small(), |b| b.truncate(b.len() - 1));
    assert!(text.contains("bytes, and should have"), "{text}");
    let text = refusal(&small(), |b| b.push(0));
    assert!(text.contains("cut off or added to"), "{text}");
    let text = refusal(&small(), |b| b.truncate(100));
    assert_eq!(text, "the image has 100 bytes, and should have 4096: it was cut off or added to");
    // After header, state and design come 64 records of operations, then the units.
    let text = refusal(&small(), |b| b[12288 + 4096] = 99);
    assert_eq!(
        text,
        "the image is damaged at offset 16384: unit 0 is said to have 99 pages, flags 0x2"
    );
    let text = refusal(&small(), |b| b[12288 + 16] = 99);
    assert!(text.starts_with("the image is damaged at offset 12288: an operation"), "{text}");
}

#[test]
fn an_image_has_one_user_and_is_not_overwritten_unasked() {
    let file = Scratch::new();
    let image = ImageFile::create(&file.0, &spec(Payload::Bytes), false).unwrap();
    assert_eq!(*image.spec(), spec(Payload::Bytes));
    assert!(matches!(ImageFile::open(&file.0), Err(ImageError::InUse)));
    let again = |replace| ImageFile::create(&file.0, &spec(Payload::Bytes), replace);
    assert!(matches!(again(false), Err(ImageError::Exists)));
    assert!(matches!(again(true), Err(ImageError::InUse)));
    image.protected().write(100, b"kept");
    image.sync().unwrap();
    drop(image);
    let mut kept = [0; 4];
    ImageFile::open(&file.0).unwrap().protected().read(100, &mut kept);
    assert_eq!(&kept, b"kept");
    again(true).unwrap().protected().read(100, &mut kept);
    assert_eq!(kept, [0; 4]);
}

#[test]
fn an_image_takes_the_space_of_what_is_programmed() {
    use std::os::unix::fs::MetadataExt;
    let file = Scratch::new();
    let path = file.0.clone();
    let taken = move || std::fs::metadata(&path).unwrap().blocks() * 512;
    let path = file.0.clone();
    run(1, move |rt| async move {
        let image = ImageFile::create(&path, &spec(Payload::Bytes), false).unwrap();
        let a = Rc::new(NandArray::on_image(&rt, &image, &timing()).unwrap());
        let blank = taken();
        assert!(blank < 65536 && image.bytes() > 96 * 8192, "{blank} of {}", image.bytes());
        for row in 0..4 {
            let data = payload(Payload::Bytes, 3, 2, row == 3);
            let at = PageAddr { unit: Unit(2), page: 2 * row };
            a.program(at, data.as_data(), &oob(1, 2)).unwrap().await.unwrap();
        }
        let full = taken();
        assert!(full >= blank + 6 * 8192 && full < blank + 9 * 8192, "{full}, {blank} when blank");
        a.erase(Unit(2)).unwrap().await.unwrap();
        // The next operation on the die finds that the erase has ended.
        a.erase(Unit(1)).unwrap().await.unwrap();
        assert!(taken() < blank + 3 * 8192, "{} of {full}", taken());
    });
}

#[test]
fn an_image_without_room_for_more_operations_says_so() {
    let file = Scratch::new();
    let path = file.0.clone();
    run(1, move |rt| async move {
        let spec = ImageSpec { flights: 2, ..spec(Payload::Stamps) };
        let image = ImageFile::create(&path, &spec, false).unwrap();
        let a = NandArray::on_image(&rt, &image, &timing()).unwrap();
        put(&a, page(Unit(0), 0), 2, 1);
        put(&a, page(Unit(0), 2), 2, 2);
        assert!(matches!(a.erase(Unit(3)).map(drop), Err(OpError::Busy { .. })));
        rt.sleep(Nanos::from_micros(10_000)).await;
        put(&a, page(Unit(0), 4), 2, 3);
        assert_holds(&a, page(Unit(0), 4), 3, 0);
    });
}
