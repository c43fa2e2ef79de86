//! A volume on devices some of whose writes are slow, or that do not answer for a while.

use super::rig::{BLOCK, Boxes, Shape, with, write};
use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, DataMut, PowerCycle, RamDevice};
use tantalum_explore::Slow;
use tantalum_log::LogVolume;
use tantalum_oracle::harness::{CrashPlan, CutAt, torture};
use tantalum_rt::{Nanos, Rt, Runtime};

type Device = Slow<RamDevice>;
type Volume = LogVolume<Device, Device>;

/// A formatted volume, and its boxes: those of the log, and the backing.
async fn make(rt: &Rt, shape: &Shape) -> (Volume, Vec<Device>, Device) {
    let boxes = Boxes::new(rt, shape);
    let all = boxes.array.iter().chain(&boxes.archive).enumerate();
    let log: Vec<Device> =
        all.map(|(i, d)| Slow::new(rt, d.clone(), &format!("slow {i}"))).collect();
    let backing = Slow::new(rt, boxes.backing.clone(), "slow backing");
    let named = log.iter().enumerate().map(|(i, d)| (format!("log {i}"), d.clone()));
    let mut array: Vec<_> = named.collect();
    let archive = shape.archive.then(|| array.pop()).flatten();
    let volume = LogVolume::new(rt, array, archive, backing.clone(), shape.options()).unwrap();
    volume.format(&shape.create()).await.unwrap();
    (volume, log, backing)
}

/// Each block as the last of the writes left it.
async fn holds(device: &impl BlockDevice, blocks: u64, byte: impl Fn(u64) -> u8) {
    for at in 0..blocks {
        let mut bytes = vec![0; BLOCK as usize];
        device.read(Block(at), DataMut::Bytes(&mut bytes)).await.unwrap();
        assert!(bytes.iter().all(|b| *b == byte(at)), "block {at}");
    }
}

#[test]
fn random_cuts_while_writes_are_slow() {
    let shapes = [
        Shape::volatile(2),
        Shape { archive: true, ..Shape::tight(3) },
        Shape { copies: 2, ..Shape::tight(3) },
    ];
    for (seed, shape) in shapes.into_iter().enumerate() {
        let mut runtime = Runtime::virtual_time(seed as u64);
        let rt = runtime.handle();
        let plan = CrashPlan {
            rounds: 12,
            depth: 6,
            commands: 300,
            range: 48,
            think: Nanos::from_micros(200),
            cut: CutAt::Within(Nanos::from_millis(40)),
            restart_within: Nanos::from_millis(20),
            ..CrashPlan::default()
        };
        let told = format!("{shape:?}");
        let report = runtime.block_on(async move {
            let (volume, log, backing) = make(&rt, &shape).await;
            for slow in log.iter().chain([&backing]) {
                slow.plan.one_in.set(6);
                slow.plan.delay.set(Nanos::from_millis(3));
            }
            let report = torture(rt, Rc::new(volume.clone()), plan).await;
            volume.cut();
            report
        });
        let report = report.unwrap();
        assert!(report.is_clean(), "{report}\n{told}");
        assert!(report.cuts >= 12 && report.succeeded > 100, "{report}\n{told}");
    }
}

#[test]
fn while_a_device_of_the_log_does_not_answer_writes_go_on() {
    for copies in [1, 2] {
        with(11, move |rt| async move {
            let shape = Shape { copies, ..Shape::volatile(3) };
            let (volume, log, _) = make(&rt, &shape).await;
            volume.power_on().await.unwrap();
            let device = volume.device();
            for at in 0..20 {
                write(&device, at, 1).await.unwrap();
            }
            log[1].plan.stalled.set(true);
            for i in 0..400 {
                write(&device, i % 20, 2).await.unwrap();
            }
            let stats = volume.log_stats().unwrap();
            assert!(stats.stalls > 0, "{stats:?}");
            assert!(volume.stats().unwrap().memory <= shape.memory);
            let before = stats.devices[1].writes;
            log[1].let_go();
            for i in 0..400 {
                write(&device, i % 20, 3).await.unwrap();
            }
            let stats = volume.log_stats().unwrap();
            assert!(stats.devices[1].writes > before, "it is used again: {stats:?}");
            holds(&device, 20, |_| 3).await;
        });
    }
}

/// What stands still is `still`; whoever writes waits then, with bounded memory, and nothing fails.
fn nothing_is_lost_while(still: fn(&[Device], &Device) -> Vec<Device>) {
    with(11, move |rt| async move {
        let shape = Shape { linger: Nanos::from_millis(1), ..Shape::tight(2) };
        let (volume, log, backing) = make(&rt, &shape).await;
        volume.power_on().await.unwrap();
        let still = still(&log, &backing);
        still.iter().for_each(|b| b.plan.stalled.set(true));
        let device = volume.device();
        let writer = device.clone();
        let writes = rt.spawn("a writer", async move {
            for i in 0..200 {
                write(&writer, i % 40, (i / 40) as u8).await.unwrap();
            }
        });
        rt.sleep(Nanos::from_secs(30)).await;
        assert!(!writes.is_finished(), "it waits");
        assert!(volume.stopped().is_none(), "{:?}", volume.stopped());
        assert!(volume.stats().unwrap().memory <= shape.memory);
        still.iter().for_each(Slow::let_go);
        writes.await.unwrap();
        holds(&device, 40, |_| 4).await;
        volume.cut();
        volume.off().await;
        volume.power_on().await.unwrap();
        holds(&volume.device(), 40, |_| 4).await;
    });
}

#[test]
fn nothing_is_lost_while_the_backing_does_not_answer() {
    nothing_is_lost_while(|_, backing| vec![backing.clone()]);
}

#[test]
fn nothing_is_lost_while_no_device_of_the_log_answers() {
    nothing_is_lost_while(|log, _| log.to_vec());
}

#[test]
fn nothing_is_lost_while_no_device_answers() {
    nothing_is_lost_while(|log, backing| log.iter().chain([backing]).cloned().collect());
}
