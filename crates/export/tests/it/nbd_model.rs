//! Random requests against a model of bytes: an export holds what was written to it, whatever the
//! alignment, the order in which requests end, and the buffers in which they arrived.

use crate::common::{Client, serve};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tantalum_export::nbd::wire::{cmd, cmd_flag};
use tantalum_export::nbd::{Limits, Options};
use tantalum_rt::Runtime;

/// Bytes of the exports.
const SIZE: u64 = 64 * 4096;

#[derive(Clone, Debug)]
enum Op {
    Read(u64, u32),
    Write(u64, u32, u8, bool),
    Zero(u64, u32, u16),
    Trim(u64, u32),
    Flush,
}

/// A range inside the export, often of whole blocks or sectors.
fn range() -> impl Strategy<Value = (u64, u32)> {
    let unit = prop_oneof![Just(1u64), Just(512), Just(4096)];
    (unit, 0..SIZE, 0..3 * 4096u64, any::<bool>()).prop_map(|(unit, at, length, long)| {
        let length = if long { length * 16 } else { length };
        let at = at / unit * unit;
        (at, (length.div_ceil(unit) * unit).min(SIZE - at) as u32)
    })
}

fn op() -> impl Strategy<Value = Op> {
    let zero_flags = prop_oneof![
        Just(0),
        Just(cmd_flag::NO_HOLE),
        Just(cmd_flag::FUA),
        Just(cmd_flag::FAST_ZERO | cmd_flag::FUA)
    ];
    prop_oneof![
        4 => range().prop_map(|(at, length)| Op::Read(at, length)),
        6 => (range(), any::<u8>(), any::<bool>())
            .prop_map(|((at, length), fill, fua)| Op::Write(at, length, fill, fua)),
        2 => (range(), zero_flags).prop_map(|((at, length), flags)| Op::Zero(at, length, flags)),
        1 => range().prop_map(|(at, length)| Op::Trim(at, length)),
        1 => Just(Op::Flush),
    ]
}

/// Bytes that differ from place to place, so that shifted data are noticed.
fn content(fill: u8, at: u64, length: u32) -> Vec<u8> {
    (at..at + u64::from(length)).map(|i| fill ^ (i as u8) ^ ((i >> 8) as u8)).collect()
}

impl Op {
    fn range(&self) -> (u64, u64) {
        let (at, length) = match *self {
            Op::Read(at, n) | Op::Write(at, n, ..) | Op::Zero(at, n, _) | Op::Trim(at, n) => {
                (at, n)
            }
            Op::Flush => (0, 0),
        };
        (at, at + u64::from(length))
    }

    /// Bytes of its reply, at most.
    fn reply_bytes(&self) -> u64 {
        let data = if let Op::Read(_, length) = *self { length } else { 0 };
        u64::from(data) + 100
    }

    async fn send(&self, c: &mut Client) -> u64 {
        match *self {
            Op::Read(at, length) => c.ask(cmd::READ, 0, at, length, &[]).await,
            Op::Write(at, length, fill, fua) => {
                let flags = if fua { cmd_flag::FUA } else { 0 };
                c.ask(cmd::WRITE, flags, at, length, &content(fill, at, length)).await
            }
            Op::Zero(at, length, flags) => c.ask(cmd::WRITE_ZEROES, flags, at, length, &[]).await,
            Op::Trim(at, length) => c.ask(cmd::TRIM, 0, at, length, &[]).await,
            Op::Flush => c.ask(cmd::FLUSH, 0, 0, 0, &[]).await,
        }
    }

    /// Carries it out on the model. Returns what a read must return.
    fn apply(&self, model: &mut [u8]) -> Vec<u8> {
        let (at, end) = self.range();
        let range = at as usize..end as usize;
        match *self {
            Op::Read(..) => return model[range].to_vec(),
            Op::Write(at, length, fill, _) => {
                model[range].copy_from_slice(&content(fill, at, length))
            }
            Op::Zero(..) => model[range].fill(0),
            // Whole blocks only.
            Op::Trim(..) => {
                let (first, last) = (at.div_ceil(4096) * 4096, end / 4096 * 4096);
                if first < last {
                    model[first as usize..last as usize].fill(0);
                }
            }
            Op::Flush => {}
        }
        Vec::new()
    }
}

/// Bytes of replies that a pipe surely holds while nobody reads them.
const ROOM: u64 = 60_000;

/// Sends `ops` in rounds, by two clients in turns. Requests of one round are in flight together,
/// and their bytes do not overlap. A client reads replies only when it has sent its requests; a
/// server that takes few at once takes no more while it cannot send replies. So a client sends
/// nothing behind more replies than the pipe holds.
fn check(ops: Vec<Op>, structured: bool, limits: Limits) {
    let mut runtime = Runtime::virtual_time(ops.len() as u64);
    let rt = runtime.handle();
    let task = async move {
        let (server, _) = serve(&rt, SIZE / 4096, Options { limits, ..Options::default() });
        let mut clients = [
            Client::open(&rt, &server, "one", structured).await,
            Client::open(&rt, &server, "one", !structured).await,
        ];
        let mut model = vec![0; SIZE as usize];
        let mut rest = &ops[..];
        while !rest.is_empty() {
            let overlaps = |i: usize| {
                let (at, end) = rest[i].range();
                rest[..i].iter().any(|o| at < o.range().1 && o.range().0 < end)
            };
            let chokes = |i: usize| {
                let before = rest[..i].iter().skip(i % 2).step_by(2);
                before.map(Op::reply_bytes).sum::<u64>() > ROOM
            };
            let count = (1..rest.len().min(24))
                .find(|i| overlaps(*i) || chokes(*i))
                .unwrap_or(rest.len().min(24));
            let mut expected = [BTreeMap::new(), BTreeMap::new()];
            for (i, op) in rest[..count].iter().enumerate() {
                let cookie = op.send(&mut clients[i % 2]).await;
                expected[i % 2].insert(cookie, (op.apply(&mut model), op));
            }
            for (client, expected) in clients.iter_mut().zip(&mut expected) {
                while !expected.is_empty() {
                    let reply = client.reply().await.expect("a reply");
                    let (data, op) = expected.remove(&reply.cookie).expect("asked for");
                    assert_eq!(reply.error, 0, "{op:?}");
                    assert!(reply.data == data, "{op:?} read something else than was written");
                }
            }
            rest = &rest[count..];
        }
        let mut look = Client::open(&rt, &server, "look", structured).await;
        assert!(look.read(0, SIZE as u32).await == Ok(model));
        let mut two = Client::open(&rt, &server, "two", structured).await;
        assert!(two.read(0, SIZE as u32).await == Ok(vec![0; SIZE as usize]));
    };
    runtime.block_on(task).expect("the run ends");
}

/// A reply as large as the pipe, and a request that is larger behind it.
#[test]
fn a_large_reply_before_a_large_request_is_read_first() {
    let ops = vec![Op::Read(0, 65_520), Op::Read(65_520, 0), Op::Write(65_520, 131_024, 0, false)];
    check(ops, true, Limits { requests: 2, bytes: 4096, ..Limits::default() });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn an_export_holds_what_was_written(
        ops in prop::collection::vec(op(), 1..150),
        structured: bool,
    ) {
        check(ops, structured, Limits::default());
    }

    #[test]
    fn so_it_does_when_few_may_be_in_flight(ops in prop::collection::vec(op(), 1..80)) {
        check(ops, true, Limits { requests: 2, bytes: 4096, ..Limits::default() });
    }
}
