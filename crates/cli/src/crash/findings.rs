//! The file of findings: a line of JSON for each finding, appended at once, and a further line for
//! each case that was reduced.

use crate::out;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use tantalum_explore::{Case, Reduced};

/// The file.
pub struct Findings {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    file: File,
    /// Whether a line could not be written.
    failed: bool,
}

impl Findings {
    /// Opens or creates the file; its content stays.
    ///
    /// # Errors
    /// Why it cannot be written, in a line.
    pub fn open(path: &Path) -> Result<Findings, String> {
        #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
        let file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|e| out::unwritable(path, &e))?;
        let state = Mutex::new(State { file, failed: false });
        Ok(Findings { path: path.to_path_buf(), state })
    }

    /// Adds a finding, with the command that repeats it.
    pub fn found(&self, row: &str, seed: u64, case: &Case, repeat: &str) {
        self.add(&json!({
            "row": row,
            "seed": seed,
            "case": case.id,
            "stage": case.found.stage.to_string(),
            "failure": case.found.failure.to_string(),
            "repeat": repeat,
        }));
    }

    /// Adds a reduced case.
    pub fn reduced(&self, row: &str, seed: u64, case: &Case, reduced: &Reduced) {
        self.add(&json!({
            "row": row,
            "seed": seed,
            "case": case.id,
            "reduced": {
                "commands": reduced.scenario.commands.len(),
                "cuts_ns": reduced.found.cuts.iter().map(|at| at.0).collect::<Vec<_>>(),
                "stage": reduced.found.stage.to_string(),
                "failure": reduced.found.failure.to_string(),
                "test": reduced.to_test(),
            },
        }));
    }

    /// Writes each line with one call, so that a killed process leaves whole lines.
    fn add(&self, line: &Value) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let written = state.file.write_all(format!("{line}\n").as_bytes());
        if let Err(e) = written.and_then(|()| state.file.sync_data())
            && !std::mem::replace(&mut state.failed, true)
        {
            out::error(out::unwritable(&self.path, &e), out::FAILED);
        }
    }

    /// The exit code: whether all lines were written.
    pub fn code(&self) -> u8 {
        let failed = self.state.lock().unwrap_or_else(PoisonError::into_inner).failed;
        if failed { out::FAILED } else { out::OK }
    }
}
