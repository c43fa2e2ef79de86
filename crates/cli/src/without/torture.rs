//! Replacement for `tantalum torture`, in a build without it.

use crate::out;
use clap::Args;
use std::ffi::OsString;

/// Any arguments.
#[derive(Args)]
#[command(disable_help_flag = true)]
#[command(about = "Not in this build: real databases on mounted drives", long_about = None)]
pub struct TortureArguments {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _words: Vec<OsString>,
}

/// Prints that the command is missing; returns the exit code.
pub fn torture(_: &TortureArguments) -> u8 {
    let why = out::NOT_HERE;
    out::error(format_args!("this build has no databases on mounted drives: {why}"), out::USAGE)
}
