//! `tantalum design`: the presets.

use crate::out;
use clap::Subcommand;
use tantalum_drive::Design;

/// What to do with designs.
#[derive(Subcommand)]
pub enum DesignCommand {
    /// List the presets
    List,
    /// Print a preset as TOML: a start for one of your own
    #[command(after_help = "\
Example:
  tantalum design show durassd > my-drive.toml")]
    Show {
        /// Its name, as `tantalum design list` gives it
        name: String,
    },
}

/// Carries it out; gives the exit code.
pub fn design(command: &DesignCommand) -> u8 {
    match command {
        DesignCommand::List => {
            let mut names = Design::presets().join("\n");
            names.push('\n');
            out::bytes(names.as_bytes())
        }
        DesignCommand::Show { name } => match Design::preset_text(name) {
            Ok(text) => out::bytes(text.as_bytes()),
            Err(e) => out::error(e, out::USAGE),
        },
    }
}
