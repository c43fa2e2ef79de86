//! A read returns what was programmed: bytes, stamps, and bytes beside stamps.

use crate::common::*;
use tantalum_device::{Data, DataMut, Payload};
use tantalum_nand::{NandArray, OpError, PageAddr, PageState, ReadRequest, Unit};

fn bytes(tag: u8, pages: usize) -> Vec<u8> {
    (0..pages * 8192).map(|i| (i / 7) as u8 ^ tag).collect()
}

fn put_bytes(a: &NandArray, at: PageAddr, pages: usize, tag: u8) {
    let oob = oob(u64::from(tag), pages as u32);
    drop(a.program(at, Data::Bytes(&bytes(tag, pages)), &oob).unwrap());
}

fn read_bytes(a: &NandArray, at: PageAddr, count: u32, first: u32, sectors: usize) -> Vec<u8> {
    let mut data = vec![0xee; sectors * 4096];
    let mut states = vec![PageState::Erased; count as usize];
    let request = ReadRequest {
        at,
        count,
        first,
        data: Some(DataMut::Bytes(&mut data)),
        oob: None,
        states: &mut states,
    };
    drop(a.read(request).unwrap());
    data
}

#[test]
fn bytes_come_back_whole_in_parts_and_over_planes() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Bytes);
        assert_eq!(a.payload(), Payload::Bytes);
        let u = Unit(4);
        put_bytes(&a, page(u, 0), 2, 1);
        put_bytes(&a, page(u, 2), 1, 2);
        let (row, single) = (bytes(1, 2), bytes(2, 1));
        assert_eq!(read_bytes(&a, page(u, 0), 2, 0, 4), row);
        assert_eq!(read_bytes(&a, page(u, 1), 1, 0, 2), row[8192..]);
        assert_eq!(read_bytes(&a, page(u, 1), 1, 1, 1), row[8192 + 4096..]);
        assert_eq!(read_bytes(&a, page(u, 1), 1, 0, 1), row[8192..8192 + 4096]);
        assert_eq!(read_bytes(&a, page(u, 1), 1, 2, 0), []);
        // The second page of this row is still erased.
        let got = read_bytes(&a, page(u, 2), 2, 0, 4);
        assert_eq!(got[..8192], single);
        assert!(got[8192..].iter().all(|b| *b == 0));
        a.corrupt(page(u, 0));
        let got = read_bytes(&a, page(u, 0), 2, 0, 4);
        assert!(got[..8192].iter().all(|b| *b == 0), "nothing shows of a torn page");
        assert_eq!(got[8192..], row[8192..]);
    });
}

#[test]
fn sectors_come_from_wherever_they_lie() {
    run(1, |rt| async move {
        let whole = bytes(1, 2);
        let [a, b] = [0, 1].map(|_| array(&rt, Payload::Bytes));
        put_bytes(&a, page(Unit(0), 0), 2, 1);
        // The same sectors from separate places, the last one first in memory.
        let scattered: Vec<Vec<u8>> = whole.chunks(4096).rev().map(<[u8]>::to_vec).collect();
        let list: Vec<_> = scattered.iter().rev().map(|sector| Data::Bytes(sector)).collect();
        drop(b.program_gathered(page(Unit(0), 0), &list, &oob(1, 2)).unwrap());
        for array in [&a, &b] {
            assert_eq!(read_bytes(array, page(Unit(0), 0), 2, 0, 4), whole);
        }
        let refused = |list: &[Data<'_>], pages| {
            let refused = b.program_gathered(page(Unit(0), 2), list, &oob(1, pages)).map(drop);
            assert!(matches!(refused, Err(OpError::Rule { .. })), "{refused:?}");
        };
        refused(&list[..1], 1);
        refused(&[list[0], Data::Stamps(&[1])], 1);
        refused(&[Data::Bytes(&whole[..8192])], 1);
        refused(&[], 0);
        assert_eq!(b.next_page(Unit(0)), 2);
    });
}

#[test]
fn an_array_of_bytes_takes_and_gives_no_stamps() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Bytes);
        let at = page(Unit(0), 0);
        let refused = a.program(at, Data::Stamps(&stamps(1, 1)), &oob(1, 1)).map(drop);
        assert!(matches!(refused, Err(OpError::Rule { .. })));
        put_bytes(&a, at, 1, 1);
        let mut data = [0; 2];
        let request = ReadRequest {
            at,
            count: 1,
            first: 0,
            data: Some(DataMut::Stamps(&mut data)),
            oob: None,
            states: &mut [PageState::Erased],
        };
        assert!(matches!(a.read(request).map(drop), Err(OpError::Rule { .. })));
    });
}

#[test]
fn stamps_come_back_with_states_and_words_over_planes() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let u = Unit(0);
        put(&a, page(u, 0), 2, 1);
        put(&a, page(u, 2), 1, 2);
        let read = |p: u32, count: u32, first: u32, sectors: usize| {
            let (mut data, mut words) = (vec![0; sectors], vec![0; count as usize * WORDS]);
            let mut states = vec![PageState::Uncorrectable; count as usize];
            let request = ReadRequest {
                at: page(u, p),
                count,
                first,
                data: Some(DataMut::Stamps(&mut data)),
                oob: Some(&mut words),
                states: &mut states,
            };
            drop(a.read(request).unwrap());
            (data, words, states)
        };
        let good = PageState::Programmed;
        assert_eq!(read(0, 2, 0, 4), (stamps(1, 2), oob(1, 2), vec![good; 2]));
        assert_eq!(read(1, 1, 1, 1), (vec![1004], oob(1, 2)[2..].to_vec(), vec![good]));
        let (data, words, states) = read(2, 2, 0, 4);
        assert_eq!(data, [2001, 2002, 0, 0]);
        assert_eq!(words, [207, 208, 0, 0]);
        assert_eq!(states, [good, PageState::Erased]);
    });
}

#[test]
fn an_array_of_stamps_keeps_metadata_bytes_aside() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let u = Unit(0);
        put(&a, page(u, 0), 2, 1);
        put_bytes(&a, page(u, 2), 2, 9);
        put(&a, page(u, 4), 2, 2);
        assert_eq!(read_bytes(&a, page(u, 2), 2, 0, 4), bytes(9, 2));
        assert_eq!(read_bytes(&a, page(u, 3), 1, 1, 1), bytes(9, 2)[8192 + 4096..]);
        assert_holds(&a, page(u, 1), 1, 1);
        assert_holds(&a, page(u, 4), 2, 0);
        // A read of the other kind gives zeros.
        assert_eq!(look(&a, page(u, 2)), (PageState::Programmed, vec![0; 2], oob(9, 1)));
        assert!(read_bytes(&a, page(u, 0), 1, 0, 2).iter().all(|b| *b == 0));
        wipe(&a, u);
        assert!(read_bytes(&a, page(u, 2), 1, 0, 2).iter().all(|b| *b == 0));
        put(&a, page(u, 0), 2, 3);
        put(&a, page(u, 2), 2, 4);
        assert_holds(&a, page(u, 3), 4, 1);
        assert!(read_bytes(&a, page(u, 2), 1, 0, 2).iter().all(|b| *b == 0));
    });
}

#[test]
fn bytes_that_were_never_programmed_do_not_come_back() {
    for kind in [Payload::Stamps, Payload::Bytes] {
        run(1, move |rt| async move {
            let a = array(&rt, kind);
            let u = Unit(0);
            put_bytes(&a, page(u, 0), 2, 9);
            a.power_off();
            a.power_on();
            assert!(read_bytes(&a, page(u, 0), 2, 0, 4).iter().all(|b| *b == 0));
            if kind == Payload::Stamps {
                assert_erased(&a, page(u, 0));
                put(&a, page(u, 0), 2, 3);
                assert_holds(&a, page(u, 1), 3, 1);
            } else {
                put_bytes(&a, page(u, 0), 2, 3);
                assert_eq!(read_bytes(&a, page(u, 0), 2, 0, 4), bytes(3, 2));
                return;
            }
            assert!(read_bytes(&a, page(u, 0), 2, 0, 4).iter().all(|b| *b == 0));
        });
    }
}
