//! Clients that send random and almost valid bytes: the same as the fuzz target, and its corpus.

#[path = "../../../../fuzz/src/session.rs"]
mod session;

use proptest::prelude::*;
use tantalum_export::nbd::{Request, wire};

/// An option with the right length or a wrong one.
fn option() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![Just("a"), Just("b"), Just("r"), Just(""), Just("none")];
    let named = (name, 0..3u16, any::<bool>()).prop_map(|(name, kinds, bare)| {
        let mut data = Vec::new();
        if !bare {
            data.extend_from_slice(&(name.len() as u32).to_be_bytes());
        }
        data.extend_from_slice(name.as_bytes());
        if !bare {
            data.extend_from_slice(&kinds.to_be_bytes());
            data.extend((0..kinds).flat_map(|k| k.to_be_bytes()));
        }
        data
    });
    let data = prop_oneof![4 => named, 1 => prop::collection::vec(any::<u8>(), 0..40)];
    let length = prop_oneof![8 => Just(None), 1 => any::<u32>().prop_map(Some)];
    (prop_oneof![4 => Just(7u32), 3 => Just(1), 3 => 0..13u32], data, length).prop_map(
        |(option, data, length)| {
            let mut bytes = wire::OPTION_MAGIC.to_be_bytes().to_vec();
            bytes.extend_from_slice(&option.to_be_bytes());
            let length = length.unwrap_or(data.len() as u32);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(&data);
            bytes
        },
    )
}

/// A request with its payload, which may be a byte too short or too long.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let offset = prop_oneof![6 => 0..64 * 4096u64, 1 => any::<u64>()];
    let length =
        prop_oneof![4 => 0..9000u32, 2 => Just(4096), 1 => 0..300_000u32, 1 => any::<u32>()];
    let flags = prop_oneof![3 => Just(0u16), 1 => any::<u16>()];
    let kind = prop_oneof![4 => Just(1u16), 3 => Just(0), 3 => 0..9u16];
    (offset, length, flags, kind, -1..2i32, prop::bool::weighted(0.1)).prop_map(
        |(offset, length, flags, kind, off, odd)| {
            let request = Request { flags, kind, cookie: offset, offset, length };
            let mut bytes = request.encode().to_vec();
            if kind == wire::cmd::WRITE && length < 400_000 {
                let off = if odd { off } else { 0 };
                bytes
                    .resize(bytes.len() + length.saturating_add_signed(off) as usize, length as u8);
            }
            bytes
        },
    )
}

/// A valid session in which some bytes may be replaced.
fn almost_right() -> impl Strategy<Value = Vec<u8>> {
    let options = prop::collection::vec(option(), 0..6);
    let requests = prop::collection::vec(request(), 0..40);
    let wrong = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    let enters = prop::bool::weighted(0.8);
    (any::<u8>(), options, enters, requests, wrong).prop_map(
        |(manner, options, enters, requests, wrong)| {
            let mut bytes = vec![manner, 0, 0, 0, 3];
            bytes.extend(options.concat());
            if enters {
                bytes.extend_from_slice(b"IHAVEOPT\0\0\0\x07\0\0\0\x07\0\0\0\x01a\0\0");
            }
            bytes.extend(requests.concat());
            for (at, byte) in wrong {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn almost_right_bytes_do_no_harm(input in almost_right()) {
        session::session(&input);
    }

    #[test]
    fn random_bytes_do_no_harm(input in prop::collection::vec(any::<u8>(), 0..2000)) {
        session::session(&input);
    }
}

#[test]
#[allow(clippy::disallowed_methods)] // The corpus is in files.
fn the_corpus_does_no_harm() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/session");
    let mut inputs = 0;
    for entry in std::fs::read_dir(corpus).expect("a corpus") {
        let path = entry.expect("an entry").path();
        session::session(&std::fs::read(&path).expect("an input"));
        inputs += 1;
    }
    assert!(inputs >= 10, "the corpus has only {inputs} inputs");
}
