//! Descriptors: without free ones a server can accept no connection.
//!
//! 1. If more descriptors are needed, the limit is raised as far as the system allows.
//! 2. If not even the first client could be served, the start is refused.
//! 3. If fewer clients could be served than are allowed, a note says so.

use crate::out;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors beside those of clients: for a restart of the drive, or a request for its state.
const SPARE: u64 = 2;

/// How many further descriptors a process needs.
pub struct Needs {
    /// For one client of each address.
    pub least: u64,
    /// For all clients that are allowed at the same time.
    pub most: u64,
}

/// Raises the limit so that these descriptors can be opened.
///
/// # Errors
/// Why not even the least number can be opened, in a line.
#[allow(clippy::disallowed_methods, reason = "the edge: the process's own descriptors")]
pub fn provide(needs: &Needs) -> Result<(), String> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Without a limit there are enough.
    let Some(limit) = current else { return Ok(()) };
    // The count includes the directory itself. If it cannot be opened, no descriptor is left.
    let open = std::fs::read_dir("/proc/self/fd").map_or(limit, |all| all.count() as u64 - 1);
    let (least, most) = (open + needs.least + SPARE, open + needs.most + SPARE);
    let limit = match maximum {
        _ if most <= limit => limit,
        maximum => {
            let wanted = maximum.map_or(most, |maximum| most.min(maximum));
            let raised = Rlimit { current: Some(wanted.max(limit)), maximum };
            setrlimit(Resource::Nofile, raised).map_or(limit, |()| wanted.max(limit))
        }
    };
    if limit < least {
        return Err(format!(
            "the process may have {limit} descriptors open, and needs {least} to serve anybody \
             ({most} for as many clients as are allowed): raise the limit (ulimit -n)"
        ));
    }
    if limit < most {
        out::note(format_args!(
            "note: the process may have {limit} descriptors open: as many clients as are allowed would need \
             {most} (ulimit -n)"
        ));
    }
    Ok(())
}
