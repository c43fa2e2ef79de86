//! The clients of a torture run as a program. Its argument is their orders.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[allow(clippy::disallowed_methods, reason = "the edge: a program's arguments")]
    let orders = std::env::args().nth(1).unwrap_or_default();
    ExitCode::from(tantalum_torture::clients::run(&orders))
}
