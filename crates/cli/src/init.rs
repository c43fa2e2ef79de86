//! Files to start from, short and commented: what `--init` of `run`, `crash` and `search` writes.

use crate::out;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// A file to start from.
pub struct Start {
    /// The TOML.
    text: &'static str,
    /// The command that takes the file, which is `FILE` in it. The text has it, too.
    command: &'static str,
}

/// An experiment.
pub const RUN: Start = Start { text: include_str!("init/run.toml"), command: "tantalum run FILE" };

/// An exploration.
pub const CRASH: Start =
    Start { text: include_str!("init/crash.toml"), command: "tantalum crash FILE" };

/// An experiment with a block job, and a design to search around.
pub const SEARCH: Start = Start {
    text: include_str!("init/search.toml"),
    command: "tantalum search FILE --workload load --base mine --recovery-max 50ms --slowdown-max 5%",
};

impl Start {
    /// Text and command for a file of this name.
    fn of(&self, name: &str) -> (String, String) {
        let command = self.command.replace("FILE", name);
        (self.text.replace(self.command, &command), command)
    }

    /// Writes it to a new file; returns the exit code.
    pub fn write(&self, path: &Path) -> u8 {
        let name = path.display().to_string();
        let (text, command) = self.of(&name);
        #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
        let made = File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
        match made {
            Ok(()) => {
                out::note(format_args!("\"{name}\" is written; run it with: {command}"));
                out::OK
            }
            Err(e) => out::error(out::unwritable(path, &e), out::USAGE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_lab::file::crash::CrashFile;
    use tantalum_lab::file::experiment::Experiment;
    use tantalum_lab::search::{Effort, Limits, Search};
    use tantalum_rt::Nanos;

    #[test]
    fn each_is_what_its_command_takes() {
        let experiment = Experiment::parse("run.toml", RUN.text).expect("it can be read");
        assert_eq!(experiment.rows().expect("it has rows").len(), 6);
        let exploration = CrashFile::parse("crash.toml", CRASH.text).expect("it can be read");
        assert_eq!(exploration.rows().expect("it has rows").len(), 2);
        let searched = Experiment::parse("search.toml", SEARCH.text).expect("it can be read");
        let limits = Limits { recovery: Nanos::from_millis(50), slowdown: 0.05 };
        let effort = Effort { cuts: 1, measured: Nanos::from_millis(20), all: false };
        Search::new(&searched, "load", "mine", limits, effort).expect("it can be searched");
    }

    /// A question of a line has an answer of a few lines, which says how it is asked.
    #[test]
    fn each_is_short_and_names_its_command() {
        for (start, most) in [(&RUN, 15), (&CRASH, 21), (&SEARCH, 21)] {
            let of_toml = start.text.lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
            assert!(of_toml.count() <= most, "{}", start.command);
            let (text, command) = start.of("mine.toml");
            assert!(text.contains(&command) && !text.contains("FILE"), "{text}");
        }
    }

    #[test]
    fn the_page_of_an_experiment_has_its_text() {
        let page = include_str!("../../../docs/my-database.md");
        assert!(page.contains(RUN.of("mine.toml").0.trim()));
    }
}
