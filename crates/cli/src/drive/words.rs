//! Cuts and restarts, in words.

use tantalum_export::control::{CutReport, Discharge, Power, RestoreReport};
use tantalum_nand::ImageFile;

/// A cut, in a line.
pub fn cut_in_a_line(r: &CutReport) -> String {
    if r.was != Power::On {
        return match r.was {
            Power::Starting => "the drive had not started; it has lost nothing".to_string(),
            _ => "the drive had no power".to_string(),
        };
    }
    let held = format!(
        "{} pages buffered, {} map entries in memory alone",
        r.buffered_pages, r.unstored_entries
    );
    match r.discharge {
        Some(d) if d.complete => format!("{}: {held}", dump_in_words(&d)),
        Some(d) => format!(
            "{}: {held}; up to {} acknowledged blocks are lost",
            dump_in_words(&d),
            r.lost_blocks_at_most
        ),
        None if r.lost_blocks_at_most > 0 => format!(
            "nothing protects the memory of the drive: up to {} acknowledged blocks that were not \
             flushed are lost ({held})",
            r.lost_blocks_at_most
        ),
        None => format!("nothing that was acknowledged is lost ({held})"),
    }
}

fn dump_in_words(d: &Discharge) -> String {
    let there = joules(d.joules_there);
    match d.complete {
        true => {
            let (took, drawn) = (time(d.took_ns), joules(d.joules_drawn));
            format!("the dump is complete in {took}, {drawn} of {there} drawn")
        }
        false => {
            let more = joules(d.joules_missing);
            format!("THE DUMP IS NOT COMPLETE, {there} were there and {more} more needed at least")
        }
    }
}

/// What became of a drive whose process was killed, in a line.
pub fn killed_in_a_line(d: &Discharge) -> String {
    format!("the last process that had the drive was killed: {}", dump_in_words(d))
}

/// What a restart found, in a line.
pub fn found_in_a_line(r: &RestoreReport) -> String {
    match r.salvaged {
        true => format!("{} map entries found out again", r.salvaged_entries),
        false => {
            format!("{} buffered pages, {} map entries in the dump", r.dump_pages, r.dump_entries)
        }
    }
}

/// A restart, in a line.
pub fn restore_in_a_line(r: &RestoreReport) -> String {
    if r.was == Power::On {
        return "the drive had power already".to_string();
    }
    format!(
        "the drive took commands after {}, and had recovered after {}{}; that was {} of real time",
        time(r.ready_ns),
        time(r.whole_ns),
        if r.salvaged { ", SALVAGED without its dump" } else { "" },
        time(r.real_ns)
    )
}

/// Nanoseconds in words.
pub fn time(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// Joules in words.
pub fn joules(joules: f64) -> String {
    match joules {
        j if j >= 1.0 => format!("{j:.2} J"),
        j if j >= 1e-3 => format!("{:.2} mJ", j * 1e3),
        j => format!("{:.1} µJ", j * 1e6),
    }
}

/// What a crash of the host left of an image.
pub fn host_crashed(image: &ImageFile) -> String {
    let what = match image.was_synced() {
        true => "the image is that of the newest moment that was synced".to_string(),
        false => "the image was not synced: what was written last may be missing".to_string(),
    };
    format!("the host crashed: {what}; {} pages can not be read any more", image.torn_by_crash())
}
