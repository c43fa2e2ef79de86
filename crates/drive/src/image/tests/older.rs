//! Images of older versions of the format: they open as they are, go on, and stay what they are.
//!
//! The files in `v1` were written by the last program of that version. Each is a drive whose
//! process was killed. They are kept as their words that are not 0: where (less where the one
//! before ended), how often in a row, and what, each a number of 8 bytes; the first number is the
//! length of the file.

use super::shadow::{BLOCKS, HOSTS, Shadow, content};
use super::{Scratch, recover, tiny, work};
use crate::Drive;
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, Durability, Payload, PowerCycle};
use tantalum_nand::{ImageError, ImageFile, Opening};
use tantalum_rt::Runtime;

/// What was done to each of them: the second half was not flushed.
async fn old_work(drive: Drive, shadow: Rc<RefCell<Shadow>>, payload: Payload) {
    for i in 0..160u64 {
        let (at, stamp) = (i * 7 % (HOSTS * BLOCKS), (i + 1) << 8);
        shadow.borrow_mut().begin(at, stamp);
        let data = content(payload, stamp);
        drive.device().write(Block(at), data.as_data(), Durability::Normal).await.unwrap();
        shadow.borrow_mut().ack(at, stamp);
        if i == 80 {
            let acked = shadow.borrow().acked();
            drive.device().flush().await.unwrap();
            shadow.borrow_mut().flushed(acked);
        }
    }
}

/// The file that was kept so.
fn unpacked(packed: &[u8]) -> Vec<u8> {
    let words: Vec<u64> =
        packed.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().unwrap())).collect();
    let mut file = vec![0; words[0] as usize];
    let mut at = 0;
    for run in words[1..].chunks_exact(3) {
        at += run[0] as usize * 8;
        for _ in 0..run[1] {
            file[at..at + 8].copy_from_slice(&run[2].to_le_bytes());
            at += 8;
        }
    }
    file
}

/// They open as they are, are right, go on over several killed processes, and stay of their
/// version.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test's own files")]
fn an_image_of_version_1_goes_on_as_it_is() {
    let kept: [(&str, Payload, &[u8]); 3] = [
        ("durassd", Payload::Stamps, include_bytes!("v1/durassd.img")),
        ("spartan-es", Payload::Stamps, include_bytes!("v1/spartan-es.img")),
        ("volatile", Payload::Bytes, include_bytes!("v1/volatile.img")),
    ];
    for (preset, payload, packed) in kept {
        let file = Scratch::new();
        std::fs::write(&file.0, unpacked(packed)).unwrap();
        // What is in it: the same was done once more, in memory.
        let protected = tiny(preset).is_protected();
        let mut shadow = {
            let shadow = Rc::new(RefCell::new(Shadow::new(protected)));
            let (theirs, mut runtime) = (shadow.clone(), Runtime::virtual_time(1));
            let drive = Drive::new(&runtime.handle(), &tiny(preset), payload).unwrap();
            let main = async move {
                drive.power_on().await.unwrap();
                old_work(drive, theirs, payload).await;
            };
            runtime.block_on(main).unwrap();
            shadow.borrow().clone()
        };
        for life in 0..3 {
            shadow.forget_acked();
            let mut runtime = Runtime::virtual_time(life);
            let drive = Drive::on_image(&runtime.handle(), &file.0).unwrap();
            assert_eq!(drive.image().unwrap().spec().version, 1);
            assert!(drive.image().unwrap().openings() == life + 2, "{preset}");
            let main = async move {
                recover(&drive, &mut shadow).await.unwrap_or_else(|e| panic!("{preset}: {e}"));
                let shadow = Rc::new(RefCell::new(shadow));
                work(drive, shadow.clone(), (life, 0), 40).await;
                shadow.borrow().clone()
            };
            shadow = runtime.block_on(main).unwrap();
        }
        let synced = Opening { host_sync: true, ..Opening::default() };
        let refused = ImageFile::open_with(&file.0, synced).err();
        assert!(matches!(refused, Some(ImageError::Older { version: 1 })), "{refused:?}");
    }
}
