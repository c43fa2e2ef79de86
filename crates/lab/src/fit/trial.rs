//! A number of a design, measured in virtual time.
//!
//! 1. The drive has few blocks in each plane, and what is parallel is as in the design. It does not
//!    collect: what is written in a trial is a fraction of what it has room for.
//! 2. Reads find what was written in sequence before.
//! 3. All trials of a number issue the same commands, so that only the design makes a difference.

use super::Number;
use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, Data, Durability, IoError, Payload, PowerCycle};
use tantalum_drive::{Design, Drive};
use tantalum_rt::{Rt, Runtime};
use tantalum_workload::jobs::{self, Job};

/// Bytes that are written before reads.
const READ_BYTES: u64 = 64 << 20;
/// Bytes over which writes go, at most.
const WRITE_BYTES: u64 = 1 << 30;
/// The least capacity of the drive, if the design has as much.
const CAPACITY: u64 = 4 << 30;
/// Blocks in a command of the fill.
const FILL_BLOCKS: u64 = 256;

/// How long is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Length {
    /// Seconds of load before.
    pub warm_up: f64,
    /// Seconds of load that count.
    pub seconds: f64,
    /// Fsyncs, for numbers of these.
    pub fsyncs: u64,
}

/// The design with as few blocks and pages as a trial needs. If no smaller one can be built it stays
/// as it is.
pub(super) fn smaller(design: &Design) -> Design {
    let g = &design.geometry;
    let sizes = [(64, 32), (128, 64), (256, 128), (512, 256)];
    let fitting = sizes.iter().filter_map(|(blocks, pages)| {
        let mut small = design.clone();
        small.geometry.blocks = g.blocks.min(*blocks);
        small.geometry.pages = g.pages.min(*pages);
        let layout = small.check().ok()?;
        (u64::from(layout.logical) * 4096 >= CAPACITY).then_some(small)
    });
    fitting.into_iter().next().unwrap_or_else(|| design.clone())
}

/// Measures a number of a drive.
///
/// # Errors
/// In a line: it cannot be built, or a command failed.
pub(super) fn measure(
    number: &Number,
    design: &Design,
    length: Length,
    seed: u64,
) -> Result<f64, String> {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let drive = Drive::new(&rt, design, Payload::Stamps).map_err(|e| e.to_string())?;
    let number = *number;
    let done = runtime.block_on(async move { run(rt, drive, number, length, seed).await });
    let done = done.map_err(|e| e.to_string())?;
    runtime.drain().map_err(|e| e.to_string())?;
    done.map_err(|e| format!("{}: {e}", number.key))
}

async fn run(
    rt: Rt,
    drive: Drive,
    number: Number,
    length: Length,
    seed: u64,
) -> Result<f64, String> {
    let told = |e: IoError| e.to_string();
    drive.start().await.map_err(|e| e.to_string())?;
    let device = drive.device();
    let capacity = device.caps().blocks * 4096;
    let bytes = if number.reads() { READ_BYTES } else { WRITE_BYTES }.min(capacity / 2);
    if number.reads() {
        fill(&device, bytes / 4096).await.map_err(told)?;
        device.flush().await.map_err(told)?;
    }
    let job = Job { range: bytes as f64 / capacity as f64, ..number.job() };
    let (before, counted) = match number.fsync_every {
        0 => {
            let lasting = |seconds| Job { seconds: Some(seconds), ..job.clone() };
            (lasting(length.warm_up), lasting(length.seconds))
        }
        every => {
            let rounds = |n: u64| Job { commands: Some(n * every), ..job.clone() };
            (rounds(2), rounds(length.fsyncs.div_ceil(every.min(8))))
        }
    };
    let run = async |job: Job, seed| jobs::run(&rt, &device, &job, seed).await;
    run(before, seed).await.map_err(|e| e.to_string())?;
    let report = run(counted, seed ^ 1).await.map_err(|e| e.to_string())?;
    let found = number.of(report.commands() as f64, report.elapsed.as_secs_f64());
    drive.cut();
    drive.off().await;
    Ok(found)
}

/// Writes the first blocks in sequence.
async fn fill<D: BlockDevice>(device: &D, blocks: u64) -> Result<(), IoError> {
    let stamps: Rc<[u64]> = (1..=FILL_BLOCKS).collect();
    let mut at = 0;
    while at < blocks {
        let count = FILL_BLOCKS.min(blocks - at);
        let data = Data::Stamps(&stamps[..count as usize]);
        device.write(Block(at), data, Durability::Normal).await?;
        at += count;
    }
    Ok(())
}
