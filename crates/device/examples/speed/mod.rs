//! The comparison; its small form is a test.

use rustix::fs::{Mode, OFlags, fdatasync};
use rustix::io::{pread, pwrite};
use std::fmt;
use std::path::Path;
use std::time::Instant;
use tantalum_device::{Block, BlockDevice, Data, DataMut, Durability, File, FileSettings};
use tantalum_rt::wall::{AlignedBuf, Backend, WallOptions};
use tantalum_rt::{Rt, Runtime};

const BLOCK: usize = 4096;

/// How much is measured.
pub struct Scale {
    /// Size of the file, MiB.
    pub mib: u64,
    /// Rounds of each side.
    pub rounds: usize,
    /// Commands in a round; of those that sync a 16th.
    pub commands: u64,
}

/// What one line measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Reads of a block, one at a time.
    Read,
    /// Writes of a block, one at a time.
    Write,
    /// Forced writes of a block (`RWF_DSYNC`), one at a time; plainly, a write and `fdatasync`.
    Forced,
    /// Reads of a block, 16 at a time. (Plainly, one at a time all the same.)
    DeepRead,
}

impl Work {
    /// All of it.
    pub const ALL: [Work; 4] = [Work::Read, Work::Write, Work::Forced, Work::DeepRead];

    fn commands(self, scale: &Scale) -> u64 {
        if self == Work::Forced { scale.commands.div_ceil(16) } else { scale.commands }
    }
}

/// Commands each second of both.
pub struct Line {
    /// What they did.
    pub work: Work,
    /// The file as a device.
    pub device: f64,
    /// Plain calls.
    pub plain: f64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { work, device, plain } = self;
        let ratio = device / plain;
        write!(f, "{work:?}: device {device:.0}/s, plain {plain:.0}/s, ratio {ratio:.2}")
    }
}

/// Where command `i` goes: all over the file, the same for both.
fn place(i: u64, blocks: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks
}

fn per_second(commands: u64, work: impl FnOnce() -> Result<(), String>) -> Result<f64, String> {
    let begin = Instant::now();
    work()?;
    Ok(commands as f64 / begin.elapsed().as_secs_f64())
}

/// Makes the file and measures.
pub fn compare(path: &Path, scale: &Scale) -> Result<Vec<Line>, String> {
    let mut runtime =
        Runtime::wall_time(1, WallOptions { io: Backend::Auto, ..WallOptions::default() })
            .map_err(|e| e.to_string())?;
    let rt = runtime.handle();
    let settings = FileSettings { block_size: Some(BLOCK as u32), ..FileSettings::default() };
    let (rt2, path2, bytes) = (rt.clone(), path.to_path_buf(), scale.mib << 20);
    let made = async move { File::create(&rt2, &path2, bytes, &settings).await };
    let file = runtime.block_on(made).map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
    let blocks = file.caps().blocks;
    let mut lines = Vec::new();
    for work in Work::ALL {
        let commands = work.commands(scale);
        let (mut device, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..scale.rounds {
            let (rt, file) = (rt.clone(), file.clone());
            device.push(per_second(commands, || {
                let ran = runtime.block_on(on_device(rt, file, work, commands, blocks));
                ran.map_err(|e| e.to_string())?
            })?);
            plain.push(per_second(commands, || plainly(path, work, commands, blocks))?);
        }
        let median = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        lines.push(Line { work, device: median(device), plain: median(plain) });
    }
    Ok(lines)
}

async fn on_device(
    rt: Rt,
    file: File,
    work: Work,
    commands: u64,
    blocks: u64,
) -> Result<(), String> {
    let lanes = if work == Work::DeepRead { 16 } else { 1 };
    let tasks: Vec<_> = (0..lanes)
        .map(|lane| {
            let file = file.clone();
            rt.spawn("host", async move {
                let mut buf = vec![7; BLOCK];
                for i in (lane..commands).step_by(lanes as usize) {
                    let at = Block(place(i, blocks));
                    match work {
                        Work::Read | Work::DeepRead => {
                            file.read(at, DataMut::Bytes(&mut buf)).await?;
                        }
                        Work::Write => {
                            file.write(at, Data::Bytes(&buf), Durability::Normal).await?;
                        }
                        Work::Forced => file.write(at, Data::Bytes(&buf), Durability::Fua).await?,
                    }
                }
                Ok(())
            })
        })
        .collect();
    for task in tasks {
        let ended: Result<(), tantalum_device::IoError> = task.await.map_err(|e| e.to_string())?;
        ended.map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn plainly(path: &Path, work: Work, commands: u64, blocks: u64) -> Result<(), String> {
    let told = |e: rustix::io::Errno| format!("{}: {e}", path.display());
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(told)?;
    let mut buf = AlignedBuf::zeroed(BLOCK);
    for i in 0..commands {
        let at = place(i, blocks) * BLOCK as u64;
        let moved = match work {
            Work::Read | Work::DeepRead => pread(&fd, &mut buf[..], at),
            Work::Write | Work::Forced => pwrite(&fd, &buf, at),
        };
        if moved.map_err(told)? != BLOCK {
            return Err(format!("{}: a part of a block", path.display()));
        }
        if work == Work::Forced {
            fdatasync(&fd).map_err(told)?;
        }
    }
    Ok(())
}
