//! Where recorded traces come from: files that an experiment names, or the sample that is built in,
//! so that an experiment that names it runs in any folder.

use crate::file::experiment::Row;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use tantalum_workload::replay::{self, Open, Playing};
use tantalum_workload::trace::{Place, SAMPLE, Trace, TraceError};

/// Bytes that are read at a time.
const ROOM: usize = 1 << 18;

/// The name of the built-in sample. (A file of this name is `./built-in`.)
const BUILT_IN: &str = "built-in";

/// A trace's file as seen from the experiment's.
pub(crate) fn beside(experiment: &str, file: &str) -> String {
    if file == BUILT_IN {
        return file.to_string();
    }
    let place = Path::new(experiment).parent().unwrap_or(Path::new(""));
    place.join(file).display().to_string()
}

/// Opens the trace's file, as often as it is asked to.
pub(crate) fn open(how: &Playing) -> Open {
    let (file, options) = (how.file.clone(), how.options());
    if file == BUILT_IN {
        return Box::new(move || {
            Trace::open(&file, Box::new(SAMPLE) as Box<dyn BufRead>, &options)
        });
    }
    Box::new(move || {
        #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
        let opened = File::open(&file);
        let io = |error| TraceError::Io { name: file.clone(), place: Place::Byte(0), error };
        let input: Box<dyn BufRead> = Box::new(BufReader::with_capacity(ROOM, opened.map_err(io)?));
        Trace::open(&file, input, &options)
    })
}

/// Whether the traces of the rows can be played: their files are there, and mean something
/// from the first line to the last. Each is read once.
///
/// # Errors
/// What is wrong, in a line.
pub(crate) fn check(rows: &[Row]) -> Result<(), String> {
    let mut sound: Vec<&Playing> = Vec::new();
    for row in rows {
        let Some(how) = row.trace().filter(|how| !sound.contains(how)) else { continue };
        replay::check(how, &mut open(how)).map_err(|e| format!("row \"{}\": {e}", row.name))?;
        sound.push(how);
    }
    Ok(())
}
