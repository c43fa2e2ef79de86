//! Processes that are killed by SIGKILL while they write.
#![allow(clippy::disallowed_methods, reason = "processes that are started to be killed")]

use super::shadow::{BLOCKS, HOSTS, Shadow, content};
use super::{Scratch, create, recover, tiny};
use crate::Drive;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;
use tantalum_device::{Block, BlockDevice, Durability, Payload, PowerCycle};
use tantalum_rt::{Runtime, Stream};

// What a process says that it does, before or after it did it.
const WRITES: u64 = 1;
const WROTE: u64 = 2;
const FLUSHES: u64 = 3;
const FLUSHED: u64 = 4;

/// The process: writes until it is killed. (A test only so that it can be started.)
#[test]
#[ignore = "started by another test, to be killed"]
fn child() {
    let [image, notes, life] = ["IMAGE", "NOTES", "LIFE"].map(|name| std::env::var(name).unwrap());
    let life: u64 = life.parse().unwrap();
    let mut runtime = Runtime::virtual_time(life);
    let rt = runtime.handle();
    let drive = Drive::on_image(&rt, Path::new(&image)).unwrap();
    let file = Rc::new(File::options().append(true).create(true).open(notes).unwrap());
    let main = async move {
        drive.power_on().await.unwrap();
        for host in 0..HOSTS {
            rt.spawn("a host", write(drive.clone(), file.clone(), life, host));
        }
        std::future::pending::<()>().await;
    };
    runtime.block_on(main).unwrap();
}

async fn write(drive: Drive, file: Rc<File>, life: u64, host: u64) {
    let (device, mut dice) = (drive.device(), Stream::new(life * HOSTS + host, "a host"));
    let note = |what: u64, block: u64, stamp: u64| {
        let words = [what, block, stamp].map(u64::to_le_bytes);
        (&*file).write_all(&words.concat()).unwrap();
    };
    for i in 1u64.. {
        let block = host * BLOCKS + dice.below(BLOCKS);
        let stamp = life << 40 | i << 8 | host;
        note(WRITES, block, stamp);
        let data = content(Payload::Bytes, stamp);
        device.write(Block(block), data.as_data(), Durability::Normal).await.unwrap();
        note(WROTE, block, stamp);
        if dice.chance(1, 8) {
            note(FLUSHES, host, stamp);
            device.flush().await.unwrap();
            note(FLUSHED, host, stamp);
        }
    }
}

/// What a process said; how many writes were acknowledged.
fn learn(shadow: &mut Shadow, notes: &[u8]) -> usize {
    let mut flushes = [0; HOSTS as usize];
    for note in notes.chunks_exact(24) {
        let word = |i: usize| u64::from_le_bytes(note[i * 8..i * 8 + 8].try_into().unwrap());
        let (at, stamp) = (word(1), word(2));
        match word(0) {
            WRITES => shadow.begin(at, stamp),
            WROTE => shadow.ack(at, stamp),
            FLUSHES => flushes[at as usize] = shadow.acked(),
            FLUSHED => shadow.flushed(flushes[at as usize]),
            what => panic!("note {what}"),
        }
    }
    let acked = shadow.acked();
    shadow.forget_acked();
    acked
}

fn kill_again_and_again(preset: &str, kills: u64) {
    let (image, notes, design) = (Scratch::new(), Scratch::new(), tiny(preset));
    create(&image, &design, Payload::Bytes);
    let mut dice = Stream::new(17, preset);
    let (mut shadow, mut writes) = (Shadow::new(design.is_protected()), 0);
    for life in 1..=kills {
        let _ = std::fs::remove_file(&notes.0);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["image::tests::killed::child", "--exact", "--ignored"])
            .env("IMAGE", &image.0)
            .env("NOTES", &notes.0)
            .env("LIFE", life.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(2_000 + dice.below(40_000)));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), None, "{preset}: life {life} ended by itself");
        writes += learn(&mut shadow, &std::fs::read(&notes.0).unwrap_or_default());
        // Most are followed by another one that is killed; some are looked at.
        if life % 3 == 0 || life == kills {
            let mut runtime = Runtime::virtual_time(life);
            let drive = Drive::on_image(&runtime.handle(), &image.0).unwrap();
            let name = preset.to_string();
            let looking = async move {
                let found = recover(&drive, &mut shadow).await;
                found.unwrap_or_else(|e| panic!("{name}, life {life}: {e}"));
                shadow
            };
            shadow = runtime.block_on(looking).unwrap();
        }
    }
    println!("{preset}: {kills} kills, {writes} writes acknowledged");
    assert!(writes > 0, "{preset}: no process lived long enough to write");
}

#[test]
fn killed_processes_lose_nothing_that_was_promised() {
    for preset in ["durassd", "volatile", "spartan-es"] {
        kill_again_and_again(preset, 30);
    }
}

/// The same with hundreds of kills.
#[test]
#[ignore = "takes a minute; .ci/run runs it"]
fn hundreds_of_killed_processes() {
    for preset in ["durassd", "volatile", "spartan-es", "full-protection"] {
        kill_again_and_again(preset, 250);
    }
}
