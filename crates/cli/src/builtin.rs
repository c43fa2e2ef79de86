//! The experiments that travel with the program: `tantalum run first` runs one in any folder.
//!
//! 1. A file of the user's comes first: a name is built in only where no such file is. `NAME` and
//!    `experiments/NAME.toml`, as documents name it, are the same one.
//! 2. The text is that of the repository's `experiments/`, to the last byte.

use crate::table::behind;
use crate::{input, out, repeat};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

/// An experiment that is built in.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// The name by which it is run: that of its file, without `.toml`.
    pub name: &'static str,
    /// The TOML.
    pub text: &'static str,
}

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$(BuiltIn { name: $name, text: include_str!(concat!("../experiments/", $name, ".toml")) }),*]
    };
}

/// Those of `tantalum run`: first what a newcomer runs first.
pub const RUNS: &[BuiltIn] = built_in![
    "first",
    "flush",
    "linkbench",
    "tpcc",
    "ycsb",
    "tpcc-sqlite",
    "atomic-sqlite",
    "atomic-innodb",
    "atomic-latency",
    "spartan",
    "flash-log",
    "flash-log-requests",
    "log-tail",
    "fsync-frequency",
    "datacenter",
    "cache-devices",
    "cache-disks",
    "flash-cache",
    "grid",
    "jesd219",
    "over-provisioning",
    "thin",
    "raid",
    "trace",
];

/// Those of `tantalum crash`.
pub const CRASHES: &[BuiltIn] = built_in!["crash"];

/// The commands that list what is built in unless a file or a name is given: each with what it
/// takes, and the name of one.
const LISTING: [(&str, &str, &str); 3] = [
    ("run", "an experiment", "first"),
    ("crash", "an exploration", "crash"),
    ("search", "an experiment", "spartan"),
];

impl BuiltIn {
    /// Its title, a line.
    pub fn title(&self) -> &'static str {
        let line = self.text.lines().find_map(|line| line.strip_prefix("title = "));
        line.unwrap_or_default().trim_matches('"')
    }

    /// How long it takes, in words, as its header says.
    pub fn takes(&self) -> &'static str {
        let line = self.text.lines().find_map(|line| line.strip_prefix("# Takes "));
        line.unwrap_or_default().trim_end_matches('.')
    }
}

/// The text of the file that the user names, or of one that is built in. `all` are those that the
/// command takes; the text may be of another one, and then it is for the command to say so.
///
/// # Errors
/// That there is neither, in a line, with the nearest name, or all of them.
pub fn read(path: &Path, all: &[BuiltIn]) -> Result<Cow<'static, str>, String> {
    #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
    let text = std::fs::read_to_string(path);
    let error = match text {
        Ok(text) => return Ok(text.into()),
        Err(error) => error,
    };
    let name = path.to_string_lossy();
    let is_missing = error.kind() == std::io::ErrorKind::NotFound;
    let mut every = RUNS.iter().chain(CRASHES).filter(|_| is_missing);
    let own_name = name.strip_prefix("experiments/").and_then(|file| file.strip_suffix(".toml"));
    if let Some(found) = every.find(|b| b.name == own_name.unwrap_or(&name)) {
        return Ok(found.text.into());
    }
    let names: Vec<_> = all.iter().map(|b| b.name).collect();
    let bare = name.rsplit('/').next().unwrap_or(&name).trim_end_matches(".toml");
    let tip = match tantalum_drive::nearest_name(bare, names.iter().copied()) {
        Some(near) => format!("did you mean the built-in experiment \"{near}\"?"),
        None => format!("built in are: {}", first(&names)),
    };
    Err(input::unreadable("the experiment file", path, &error, tip))
}

/// So many names stand in a message.
const NAMED: usize = 5;

/// All names, or the first of many and how to see the others.
fn first(names: &[&str]) -> String {
    match names {
        few if few.len() <= NAMED => few.join(", "),
        many => {
            let more = many.len() - NAMED;
            format!("{}, and {more} more, which `tantalum run` lists", many[..NAMED].join(", "))
        }
    }
}

/// A list for a user who named none: of each its name and title, and below it a line.
pub fn list<'a>(title: &str, all: impl Iterator<Item = (&'a BuiltIn, String)>) -> String {
    let all: Vec<_> = all.collect();
    let width = all.iter().map(|(one, _)| one.name.len()).max().unwrap_or(0);
    let mut text = format!("{title}:\n\n");
    for (one, below) in all {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", behind(&format!("  {:width$}  ", one.name), one.title()));
        let _ = writeln!(text, "{}", behind(&format!("  {:width$}  ", ""), &below));
    }
    text
}

/// The same as JSON.
pub fn as_json(all: &[BuiltIn]) -> serde_json::Value {
    let one = |one: &BuiltIn| {
        let (name, title, takes) = (one.name, one.title(), one.takes());
        serde_json::json!({"name": name, "title": title, "takes": takes})
    };
    serde_json::json!({"built_in": all.iter().map(one).collect::<Vec<_>>()})
}

/// Prints a list, or writes it as JSON to where `--json` says; returns the exit code.
pub fn show(json: Option<&Path>, list: &str, as_json: &serde_json::Value) -> u8 {
    match json {
        Some(file) => out::json_to(as_json, file),
        None => out::bytes(list.as_bytes()),
    }
}

/// What to say of options that are for an experiment where none is named, in a line. `all` is the
/// whole command line, and `matches` is what the user gave.
pub fn nameless(matches: &ArgMatches, all: &Command) -> Option<String> {
    let (verb, given) = matches.subcommand()?;
    let (_, what, name) = LISTING.iter().find(|(of, ..)| *of == verb)?;
    if given.contains_id("experiment") {
        return None;
    }
    let id = |option: &Arg| option.get_id().as_str().to_string();
    let is_given =
        |option: &&Arg| given.value_source(&id(option)) == Some(ValueSource::CommandLine);
    let options: Vec<&Arg> = all.find_subcommand(verb)?.get_arguments().filter(is_given).collect();
    // (The list itself may be JSON.)
    let is_for_one = |option: &&&Arg| !["init", "json"].contains(&id(option).as_str());
    let first = options.iter().find(is_for_one)?.get_long()?;
    let mut words = vec![verb.to_string(), (*name).to_string()];
    for option in options {
        let long = format!("--{}", option.get_long()?);
        if !option.get_action().takes_values() {
            words.push(long);
            continue;
        }
        for value in given.get_raw(&id(option))? {
            words.extend([long.clone(), value.to_string_lossy().into_owned()]);
        }
    }
    let line = repeat::line(&words);
    Some(format!("--{first}: it is for {what}; name one: `tantalum {line}`"))
}

/// A list with how long each takes, and how to begin a file of one's own.
pub fn list_with_times(of: &str, what: &str, all: &[BuiltIn]) -> String {
    let title = format!("Built-in {what}; run one with `tantalum {of} NAME`");
    let list = list(&title, all.iter().map(|one| (one, one.takes().to_string())));
    list + &own(of)
}

/// How to begin a file of one's own.
pub fn own(of: &str) -> String {
    format!(
        "\nOne of your own: `tantalum {of} --init FILE` writes a commented one to start from.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_lab::file::experiment::Experiment;
    use tantalum_lab::run::runner;

    #[test]
    fn each_experiment_of_the_repository_is_built_in_and_says_how_long_it_takes() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
        #[allow(clippy::disallowed_methods, reason = "a test reads the folder of experiments")]
        let files = std::fs::read_dir(folder).expect("the folder is there");
        let files = files.map(|f| f.expect("it can be read").path());
        let mut files: Vec<_> = files
            .filter(|p| p.extension().is_some_and(|e| e == "toml"))
            .map(|p| p.file_stem().expect("it has a name").to_string_lossy().into_owned())
            .collect();
        files.sort();
        let mut names: Vec<_> = RUNS.iter().chain(CRASHES).map(|b| b.name).collect();
        names.sort_unstable();
        assert_eq!(files, names);
        for one in RUNS.iter().chain(CRASHES) {
            assert!(!one.title().is_empty() && !one.takes().is_empty(), "{}", one.name);
        }
        // "Some minutes" helps nobody to decide.
        for one in RUNS {
            assert!(!one.takes().starts_with("some "), "{}: {}", one.name, one.takes());
        }
    }

    #[test]
    fn each_can_be_run_where_no_file_of_the_repository_is() {
        for one in RUNS {
            let experiment = Experiment::parse(one.name, one.text).expect(one.name);
            runner::check(&experiment.rows().expect(one.name)).expect(one.name);
        }
    }

    #[test]
    fn near_names_are_named() {
        let wrong = |name: &str| read(Path::new(name), RUNS).expect_err("it is not there");
        assert!(wrong("frst").contains("\"first\""), "{}", wrong("frst"));
        assert!(wrong("experiments/frist.toml").contains("\"first\""));
        assert!(wrong("elsewhere/first.toml").contains("\"first\""));
        let as_documented = read(Path::new("experiments/first.toml"), RUNS);
        assert_eq!(
            as_documented.expect("built in"),
            read(Path::new("first"), RUNS).expect("it is")
        );
        let far = wrong("nothing-like-it");
        assert!(far.contains("linkbench") && far.contains("`tantalum run` lists"), "{far}");
        assert!(far.len() < 200, "{far}");
        assert!(read(Path::new("first"), RUNS).expect("built in").contains("title"));
        // What another command takes is found, so that this can be said.
        assert!(read(Path::new("crash"), RUNS).expect("built in").contains("samples"));
        assert!(read(Path::new("first"), CRASHES).expect("built in").contains("workload"));
    }
}
