//! Files of experiments and files of explorations, told apart: a command that is given the other kind
//! says what it is, and which command takes it.

use std::fmt::Display;
use tantalum_lab::file::crash::CrashFile;

/// Keys of explorations that no experiment has.
const OF_EXPLORATIONS: [&str; 7] =
    ["samples", "random_times", "nested", "inner", "stride", "runs", "mix"];

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Experiment,
    Exploration,
}

/// What the file is for, also if something is wrong with it; `None`: that cannot be seen.
fn kind(name: &str, text: &str) -> Option<Kind> {
    let table: toml::Table = text.parse().ok()?;
    let rows = table.get("row").and_then(toml::Value::as_array);
    let mut rows = rows.into_iter().flatten();
    if rows.any(|row| row.get("workload").is_some()) {
        return Some(Kind::Experiment);
    }
    let explores = OF_EXPLORATIONS.iter().any(|key| table.contains_key(*key))
        || CrashFile::parse(name, text).is_ok();
    explores.then_some(Kind::Exploration)
}

/// What to say of a file that is to be an experiment and has this error.
pub fn no_experiment(name: &str, text: &str, error: impl Display) -> String {
    match kind(name, text) {
        Some(Kind::Exploration) => {
            format!("\"{name}\" is an exploration; run it with: tantalum crash {name}")
        }
        _ => error.to_string(),
    }
}

/// What to say of a file that is to be an exploration and has this error.
pub fn no_exploration(name: &str, text: &str, error: impl Display) -> String {
    match kind(name, text) {
        Some(Kind::Experiment) => {
            format!("\"{name}\" is an experiment; run it with: tantalum run {name}")
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::{CRASHES, RUNS};

    #[test]
    fn each_built_in_file_is_known_for_what_it_is() {
        for (all, is) in [(RUNS, Kind::Experiment), (CRASHES, Kind::Exploration)] {
            for one in all {
                assert_eq!(kind(one.name, one.text), Some(is), "{}", one.name);
            }
        }
    }

    /// A mistake in the file does not hide what it is.
    #[test]
    fn a_file_with_a_mistake_is_known_too() {
        let error = "unknown key";
        let other = "title = 'x'\nsamples = 3\ncutz = 1\n[[row]]\ndesign = 'durassd'\n";
        assert!(no_experiment("x.toml", other, error).contains("tantalum crash x.toml"));
        assert_eq!(no_exploration("x.toml", other, error), error);
        let other = "title = 'x'\ncutz = 1\n[[row]]\nworkload = 'ycsb-a'\ndesign = 'durassd'\n";
        assert!(no_exploration("x.toml", other, error).contains("tantalum run x.toml"));
        assert_eq!(no_experiment("x.toml", other, error), error);
        for neither in ["title = ", "devices = ['a']\n"] {
            assert_eq!(no_experiment("x.toml", neither, error), error);
            assert_eq!(no_exploration("x.toml", neither, error), error);
        }
    }
}
