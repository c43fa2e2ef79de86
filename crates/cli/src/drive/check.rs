//! `tantalum drive check`.

use super::inspect::refused;
use super::view::{View, ViewError, host_crashed};
use crate::counted::counted;
use crate::out;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tantalum_device::{Block, BlockDevice, IoError, OwnedData, PowerCycle};
use tantalum_drive::{Drive, is_dump_owed};
use tantalum_nand::{PageAddr, PageState, Unit};

/// Arguments of `tantalum drive check`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum drive check disk.img
  tantalum drive check disk.img --json

Compares every page with its checksum, starts the drive on a private view of
the image, checks the invariants of its map and its erase units, and reads
every block that holds data. The file does not change. A page that a power loss
tore is no fault.
Exit codes: 0, all is well; 1, something is damaged; 2, there is no image, or
it is in use, or of a newer format.")]
pub struct CheckArguments {
    /// The image
    image: PathBuf,
    /// Open an image even if the host crashed while it was in use: all of it is verified, and pages
    /// that are not what was programmed cannot be read
    #[arg(long)]
    host_crashed: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Faults named one by one; more are counted.
const NAMED: usize = 20;

/// Blocks read at a time.
const CHUNK: u64 = 256;

#[derive(Default, Serialize)]
struct Report {
    image: String,
    /// The last process was killed: the check includes the data that its dump saves.
    dump_owed: bool,
    pages_programmed: u64,
    pages_torn: u64,
    blocks_read: u64,
    faults: u64,
    /// The first faults.
    first: Vec<String>,
}

impl Report {
    fn fault(&mut self, what: String) {
        self.faults += 1;
        if self.first.len() < NAMED {
            self.first.push(what);
        }
    }
}

/// Runs the command; returns the exit code.
pub fn check(arguments: &CheckArguments) -> u8 {
    let path = &arguments.image;
    let report = match View::open(path, arguments.host_crashed)
        .and_then(|mut view| examine(path, &mut view))
    {
        Ok(report) => report,
        Err(e) => return refused(path, &e),
    };
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&report).map(|json| json + "\n"),
        false => Ok(text(&report)),
    };
    match text {
        Ok(text) => match out::bytes(text.as_bytes()) {
            out::OK if report.faults > 0 => out::FAILED,
            code => code,
        },
        Err(e) => out::error(e, out::FAILED),
    }
}

fn examine(path: &Path, view: &mut View) -> Result<Report, ViewError> {
    let dump_owed = is_dump_owed(&view.image);
    let mut report = Report { image: path.display().to_string(), dump_owed, ..Report::default() };
    let payload = view.image.payload_offset();
    let drive = view.off()?;
    if view.image.was_crashed() && view.image.torn_by_crash() > 0 {
        report.fault(host_crashed(&view.image));
    }
    pages(&drive, payload, &mut report);
    if let Err(why) = view.start(&drive)? {
        report.fault(format!("the drive does not start: {why}"));
        return Ok(report);
    }
    if let Err(what) = drive.audit() {
        report.fault(what);
    }
    let (blocks, unreadable) = view.runtime.block_on(async move { blocks(&drive).await })?;
    report.blocks_read = blocks;
    unreadable.into_iter().for_each(|what| report.fault(what));
    Ok(report)
}

/// Compares every readable page with its checksum.
fn pages(drive: &Drive, payload: u64, report: &mut Report) {
    let (array, g) = (drive.array(), drive.design().geometry.clone());
    let mut words = vec![0; array.oob_words()];
    for unit in (0..g.units()).map(Unit) {
        for page in 0..array.next_page(unit) {
            let at = PageAddr { unit, page };
            match array.inspect(at, &mut words) {
                PageState::Programmed => report.pages_programmed += 1,
                PageState::Uncorrectable => report.pages_torn += 1,
                PageState::Erased => {}
            }
            if !array.verify(at) {
                let number = u64::from(unit.0) * u64::from(g.unit_pages()) + u64::from(page);
                let offset = payload + number * u64::from(g.page_bytes);
                report.fault(format!(
                    "page {page} of unit {} (offset {offset}) is not what its checksum says",
                    unit.0
                ));
            }
        }
    }
}

/// Reads every block; returns how many were read, and the faults.
async fn blocks(drive: &Drive) -> (u64, Vec<String>) {
    let device = drive.device();
    let caps = *device.caps();
    let (mut read, mut faults) = (0, Vec::new());
    let mut at = 0;
    while at < caps.blocks {
        let count = CHUNK.min(caps.blocks - at);
        let mut room = OwnedData::zeros(caps.payload, count as usize, caps.block_size);
        if device.read(Block(at), room.as_mut()).await.is_ok() {
            (read, at) = (read + count, at + count);
            continue;
        }
        for block in at..at + count {
            let mut room = OwnedData::zeros(caps.payload, 1, caps.block_size);
            match device.read(Block(block), room.as_mut()).await {
                Ok(()) => read += 1,
                Err(IoError::Uncorrectable(_)) => {
                    faults.push(format!("block {block} cannot be read"));
                }
                Err(e) => {
                    faults.push(format!("block {block}: {e}"));
                    return (read, faults);
                }
            }
        }
        at += count;
    }
    (read, faults)
}

fn text(r: &Report) -> String {
    let mut t = String::new();
    for what in &r.first {
        t += &format!("fault: {what}\n");
    }
    if r.faults > r.first.len() as u64 {
        t += &format!("and {} more\n", r.faults - r.first.len() as u64);
    }
    let verdict = match r.faults {
        0 => "all is well".to_string(),
        n => counted(n, "fault", "faults"),
    };
    let owed =
        if r.dump_owed { "; with the dump that the last user left to the next start" } else { "" };
    t += &format!(
        "{}: {} programmed, {} torn, {} read: {verdict}{owed}\n",
        r.image,
        counted(r.pages_programmed, "page", "pages"),
        r.pages_torn,
        counted(r.blocks_read, "block", "blocks")
    );
    t
}
