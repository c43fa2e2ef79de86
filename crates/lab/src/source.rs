//! Where recorded traces come from: files that an experiment names.

use crate::experiment::Row;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use tantalum_workload::replay::{Open, Playing};
use tantalum_workload::trace::{Place, Trace, TraceError};

/// Bytes that are read at a time.
const ROOM: usize = 1 << 18;

/// A trace's file as seen from the experiment's.
pub(crate) fn beside(experiment: &str, file: &str) -> String {
    let place = Path::new(experiment).parent().unwrap_or(Path::new(""));
    place.join(file).display().to_string()
}

/// Opens the trace's file, as often as it is asked to.
pub(crate) fn open(how: &Playing) -> Open {
    let (file, options) = (how.file.clone(), how.options());
    Box::new(move || {
        #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
        let opened = File::open(&file);
        let io = |error| TraceError::Io { name: file.clone(), place: Place::Byte(0), error };
        let input: Box<dyn BufRead> = Box::new(BufReader::with_capacity(ROOM, opened.map_err(io)?));
        Trace::open(&file, input, &options)
    })
}

/// Whether the trace of a row, if it has one, can be played: its numbers make sense, its
/// file is there and begins as its format does.
///
/// # Errors
/// What is wrong, in a line.
pub(crate) fn check(row: &Row) -> Result<(), String> {
    let Some(how) = row.trace() else { return Ok(()) };
    how.check().map_err(|e| e.to_string())?;
    match open(how)().map_err(|e| e.to_string())?.next() {
        Some(Err(e)) => Err(e.to_string()),
        None => Err(format!("the trace {} has no request", how.file)),
        Some(Ok(_)) => Ok(()),
    }
}
