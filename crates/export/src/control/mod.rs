//! The plug of a drive that runs: what is asked and answered over its control socket.

mod report;

pub use report::{CutReport, Discharge, Phase, Power, RestoreReport};
