//! The `tantalum` command.
//!
//! Exit codes are in [`out::CODES`]. Commands say in their help what each means there.

mod allocator;
mod bar;
mod bench;
mod builtin;
mod cache;
mod compare;
mod counted;
mod crash;
mod designs;
mod drive;
mod energy;
mod explain;
mod fault;
mod file_kind;
mod fit;
mod init;
mod input;
mod interrupt;
#[cfg(feature = "live")]
mod log;
mod manual;
#[cfg(feature = "live")]
mod members;
mod near;
mod new_file;
mod out;
mod published;
mod random;
mod repeat;
mod run;
mod search;
#[cfg(feature = "live")]
mod shared_words;
mod sums;
mod table;
#[cfg(feature = "torture")]
mod torture;
mod trace;
mod units;
#[cfg(any(test, not(feature = "torture")))]
mod without;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;
use tantalum_drive::nearest_name;
#[cfg(not(feature = "live"))]
use without::log;
#[cfg(not(feature = "torture"))]
use without::torture;

/// A software SSD and the flash-aware storage around it.
#[derive(Parser)]
#[command(name = "tantalum", version, about, propagate_version = true)]
#[command(after_help = "\
Examples:
  tantalum run                                 the experiments that are built in
  tantalum run first                           SQLite on three drives, with power cuts
  tantalum run first --quick                   the same, small
  tantalum run --init mine.toml                an experiment of your own to start from
  tantalum explain engine.clients              what a key of an experiment means
  tantalum crash crash                         power cuts at every moment of a run
  tantalum search spartan --workload random --recovery-max 1s --slowdown-max 5%
                                               the smallest capacitors that suffice
  tantalum fit numbers.toml --design tlc-modern
                                               a design for a drive that was measured
  tantalum drive create disk.img --design durassd --capacity 8GiB
                                               a drive in a file
  tantalum drive serve disk.img --unix drive.sock
                                               the drive as a network block device
  tantalum drive cut disk.img                  cut its power; see also restore and top
  tantalum log create wal.toml --device a --device b --backing disk
                                               a flash log, and a volume over it
  tantalum cache create c.toml --flash a --slow b
                                               a flash cache, and a volume over it
  tantalum cache sim --policy gsc,lru          what a flash cache hits, and writes to flash
  tantalum drive bench --json                  how fast the simulation is
  tantalum designs durassd                     what a preset consists of

Pages that a help or a message names as docs/NAME.md are in /usr/share/doc/tantalum/docs of the
Debian package, in share/doc/tantalum/docs of the archive, and in the folder docs of the sources.")]
struct Arguments {
    /// No notes and no progress, only results and errors
    #[arg(long, global = true, display_order = 990)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run an experiment: workloads on designs, with power cuts
    Run(run::RunArguments),
    /// Explain a key of an experiment or a design: meaning, default, values of the presets
    Explain(explain::ExplainArguments),
    /// Cut the power of drives at every moment, and check the recovered data
    Crash(crash::CrashArguments),
    /// Compare two reports: both values of each measure, and their ratio
    Compare(compare::CompareArguments),
    /// How far reports are off what was published, each and together
    Published(sums::PublishedArguments),
    /// List the preset designs of drives, or print one
    Designs(designs::DesignsArguments),
    #[cfg_attr(
        feature = "live",
        doc = "Drives in image files: create, inspect, check, serve, mount, cut; measure their \
               simulation"
    )]
    #[cfg_attr(
        not(feature = "live"),
        doc = "Drives in image files: create, inspect, check; measure their simulation"
    )]
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  tantalum drive create disk.img --design durassd --capacity 16GiB
  tantalum drive serve disk.img --unix drive.sock --http 9090
  tantalum drive cut disk.img")]
    Drive(drive::DriveCommand),
    #[cfg_attr(
        feature = "live",
        doc = "Flash logs: create, inspect, check, recover, replace, serve, mount, cut"
    )]
    #[cfg_attr(
        not(feature = "live"),
        doc = "Not in this build: create, inspect, check, recover, replace, serve, mount, cut \
               flash logs"
    )]
    #[cfg_attr(feature = "live", command(subcommand))]
    #[command(after_help = "\
Examples:
  tantalum log create wal.toml --device a --device b --backing disk
  tantalum log serve wal.toml --unix wal.sock
  tantalum log check wal.toml")]
    Log(log::LogCommand),
    #[cfg_attr(
        feature = "live",
        doc = "Flash caches: create, inspect, check, scrub, detach, serve, mount, cut; simulate \
               policies"
    )]
    #[cfg_attr(
        not(feature = "live"),
        doc = "Flash caches: simulate policies; measure the directory in memory"
    )]
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  tantalum cache create c.toml --flash a --slow b
  tantalum cache serve c.toml --unix cache.sock
  tantalum cache sim --policy gsc,lru")]
    Cache(cache::CacheCommand),
    /// Energy to survive a power loss: joules, farads, capacitors
    Energy(energy::EnergyArguments),
    /// Search for the least energy with which a drive is fast enough and starts soon enough
    Search(search::SearchArguments),
    /// Fit a design to numbers that were measured on a drive
    Fit(fit::FitArguments),
    #[cfg_attr(
        feature = "torture",
        doc = "Run a real database on a drive, cut the power under load, and look for lost data"
    )]
    #[cfg_attr(
        not(feature = "torture"),
        doc = "Not in this build: run a real database on a drive, cut the power under load, and \
               look for lost data"
    )]
    Torture(torture::TortureArguments),
    /// Describe recorded block traces
    #[command(subcommand)]
    #[command(after_help = "\
Examples:
  tantalum trace info w.log")]
    Trace(trace::TraceCommand),
    /// Other words of `tantalum drive bench` and `tantalum cache bench`
    #[command(subcommand, hide = true)]
    Bench(BenchCommand),
    /// Print completions for a shell
    #[command(after_help = "\
Examples:
  tantalum completions bash > ~/.local/share/bash-completion/completions/tantalum
  tantalum completions fish > ~/.config/fish/completions/tantalum.fish")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// The reference of all commands
    #[command(subcommand, hide = true)]
    Manual(manual::ManualCommand),
}

/// Other words of `tantalum drive bench` and `tantalum cache bench`: they work, and no help names
/// them.
#[derive(Subcommand)]
enum BenchCommand {
    /// `tantalum drive bench`
    Drive(bench::DriveArguments),
    /// `tantalum cache bench`
    Cache(cache::bench::BenchArguments),
}

fn main() -> ExitCode {
    allocator::keep_memory();
    let matches = command().try_get_matches().unwrap_or_else(|e| no_command(e));
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    if arguments.quiet {
        out::be_quiet();
    }
    if let Some(message) = builtin::nameless(&matches, &command()) {
        return ExitCode::from(out::error(message, out::USAGE));
    }
    let code = match arguments.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Crash(arguments) => crash::crash(&arguments),
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Published(arguments) => sums::published(&arguments),
        Command::Designs(arguments) => designs::designs(&arguments),
        Command::Drive(command) => drive::drive(&command),
        Command::Log(command) => log::log(&command),
        Command::Cache(command) => cache::cache(&command),
        Command::Energy(arguments) => energy::energy(&arguments),
        Command::Search(arguments) => search::search(&arguments),
        Command::Fit(arguments) => fit::fit(&arguments),
        Command::Torture(arguments) => torture::torture(&arguments),
        Command::Trace(command) => trace::trace(&command),
        Command::Bench(BenchCommand::Drive(arguments)) => bench::bench(&arguments),
        Command::Bench(BenchCommand::Cache(arguments)) => cache::bench::bench(&arguments),
        Command::Completions { shell } => completions(shell),
        Command::Manual(what) => manual::manual(&what, command()),
    };
    ExitCode::from(code)
}

/// Ends with the error of the command line.
#[allow(clippy::disallowed_methods, reason = "the edge: what the user typed")]
fn no_command(error: clap::Error) -> ! {
    if let Some(message) = no_such_command(&error, std::env::args().skip(1)) {
        std::process::exit(out::error(message, out::USAGE).into());
    }
    let error = value_missing(&error, std::env::args()).unwrap_or(error);
    without_useless_tip(error, std::env::args()).exit()
}

/// The same error, without the tip to give the wrong word behind `--` if the command takes no further
/// word there either.
fn without_useless_tip(mut error: clap::Error, words: impl Iterator<Item = String>) -> clap::Error {
    let words: Vec<String> = words.collect();
    let unknown = |words: Vec<&str>| {
        let why = command().try_get_matches_from(words).err()?;
        let is_unknown = why.kind() == ErrorKind::UnknownArgument;
        why.get(ContextKind::InvalidArg).filter(|_| is_unknown).map(ToString::to_string)
    };
    let wrong = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    if error.kind() != ErrorKind::UnknownArgument || wrong.is_none() {
        return error;
    }
    // The first word with which the words until then are wrong.
    let until = |end: usize| words[..end].iter().map(String::as_str);
    let Some(at) = (1..words.len()).find(|&at| unknown(until(at + 1).collect()) == wrong) else {
        return error;
    };
    let behind = until(at).chain(["--", &words[at]]).collect();
    if unknown(behind).is_some()
        && let Some(ContextValue::StyledStrs(tips)) = error.remove(ContextKind::Suggested)
    {
        let is_other = |tip: &StyledStr| !tip.to_string().contains("as a value, use");
        let others: Vec<StyledStr> = tips.into_iter().filter(is_other).collect();
        if !others.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(others));
        }
    }
    error
}

/// Of `--for --json out`: that `--for` has no value. The error is another one where an option is taken
/// for the value, which may be a negative number, and what follows is left over.
fn value_missing(error: &clap::Error, words: impl Iterator<Item = String>) -> Option<clap::Error> {
    // A value that was read has been told to be negative, or an option.
    let is_read = error.kind() == ErrorKind::ValueValidation;
    let missing = negative_numbers(command(), false).try_get_matches_from(words).err();
    missing.filter(|missing| !is_read && missing.kind() == ErrorKind::InvalidValue)
}

/// What to say of an unknown command: a verb without its noun, a misspelt name, or the name of an
/// experiment. `None`: the error is another one.
fn no_such_command(error: &clap::Error, mut words: impl Iterator<Item = String>) -> Option<String> {
    let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let all = command();
    let group = words.find(|word| !word.starts_with('-') && word != "help");
    let group = group.and_then(|word| all.find_subcommand(word));
    let before = group.map_or("tantalum".to_string(), |g| format!("tantalum {}", g.get_name()));
    let no = format!("there is no command `{before} {verb}`");
    if group.is_none() && (builtin::RUNS.iter().any(|b| b.name == verb) || verb.ends_with(".toml"))
    {
        return Some(format!("{no}: `tantalum run {verb}` runs an experiment"));
    }
    let shown = |of: &clap::Command| -> Vec<String> {
        let shown = of.get_subcommands().filter(|command| !command.is_hide_set());
        shown.map(|command| command.get_name().to_string()).collect()
    };
    let groups: Vec<_> = all.get_subcommands().filter(|group| !group.is_hide_set()).collect();
    let whole = |verb: &str| {
        let has = groups.iter().filter(|group| group.find_subcommand(verb).is_some());
        let whole: Vec<_> = has.map(|g| format!("`tantalum {} {verb}`", g.get_name())).collect();
        let (last, others) = whole.split_last()?;
        Some(match others {
            [] => last.clone(),
            others => format!("{} or {last}", others.join(", ")),
        })
    };
    if let Some(whole) = whole(verb) {
        return Some(format!("{no}: it is {whole}"));
    }
    let of_level = shown(group.unwrap_or(&all));
    let of_groups = groups.iter().filter(|_| group.is_none()).flat_map(|group| shown(group));
    let known: Vec<String> = of_level.iter().cloned().chain(of_groups).collect();
    Some(match nearest_name(verb, known.iter().map(String::as_str)) {
        Some(near) if of_level.iter().any(|name| name == near) => {
            format!("{no}: did you mean `{before} {near}`?")
        }
        Some(near) => format!("{no}: did you mean {}?", whole(near)?),
        None => format!("{no}: `{before} --help` lists all"),
    })
}

/// The whole command line.
fn command() -> clap::Command {
    let command = negative_numbers(Arguments::command(), true);
    #[cfg(feature = "live")]
    let command = cache::in_words_of_caches(log::in_words_of_logs(command));
    #[cfg(not(feature = "torture"))]
    let command = without::with_examples_of_this_build(command);
    command
}

/// `-5` is a value that may be wrong, and not an option that nobody knows. With `units`, `-5s` is, too.
fn negative_numbers(command: clap::Command, units: bool) -> clap::Command {
    let of = |argument: clap::Arg| {
        let names = argument.get_value_names().unwrap_or_default();
        let has_unit = names.iter().any(|name| UNITS.iter().any(|unit| name.starts_with(unit)));
        let is_option = argument.get_long().is_some() && argument.get_action().takes_values();
        match has_unit && is_option {
            true => argument.allow_hyphen_values(units),
            false => argument,
        }
    };
    let below = |command| negative_numbers(command, units);
    command.allow_negative_numbers(true).mut_args(of).mut_subcommands(below)
}

/// How the names of values begin that are numbers with units.
const UNITS: [&str; 3] = ["SIZE", "TIME", "PERCENT"];

fn completions(shell: clap_complete::Shell) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "tantalum", &mut script);
    out::bytes(&script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    /// Calls `seen` with each argument of the command that has a value and of those below it.
    fn each_argument(command: &clap::Command, seen: &mut impl FnMut(String, &clap::Arg)) {
        for argument in command.get_arguments().filter(|a| a.get_action().takes_values()) {
            seen(format!("{}, {}", command.get_name(), argument.get_id()), argument);
        }
        command.get_subcommands().for_each(|below| each_argument(below, seen));
    }

    /// Whether the parser of this argument takes the value, or why not.
    fn takes(argument: &clap::Arg, value: &str) -> Result<(), String> {
        let alone = clap::Arg::new("x").value_parser(argument.get_value_parser().clone());
        let parsed = clap::Command::new("t").arg(alone).try_get_matches_from(["t", value]);
        parsed.map(|_| ()).map_err(|e| e.to_string())
    }

    /// Calls `seen` with the name and the long help of the command and of those below it.
    fn each_help(command: &mut clap::Command, seen: &mut impl FnMut(&str, &str)) {
        let help = command.render_long_help().to_string();
        seen(command.get_name(), &help);
        command.get_subcommands_mut().for_each(|below| each_help(below, seen));
    }

    #[test]
    fn no_help_names_what_only_a_checkout_has() {
        let mut helps = 0;
        let mut all = command();
        each_help(&mut all, &mut |name, help| {
            helps += 1;
            for folder in ["experiments/", "scripts/", ".ci/"] {
                assert!(!help.contains(folder), "{name}: {folder}\n{help}");
            }
        });
        assert!(helps > 15, "{helps}");
    }

    /// What serves or mounts explains exit code 2 in the words of docs/exit-codes.md.
    #[test]
    #[cfg(feature = "live")]
    fn what_serves_says_of_an_invalid_request_what_the_table_says() {
        let (.., when) = out::CODES.iter().find(|code| code.0 == out::USAGE).expect("it is one");
        let of_a_server = when.replace("no such drive, log or cache runs, ", "");
        assert_ne!(&of_a_server, when);
        let mut seen = Vec::new();
        each_help(&mut command(), &mut |name, help| {
            let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
            if matches!(name, "serve" | "mount") && help.contains("Exit codes: ") {
                assert!(help.contains(&format!("; 2, {of_a_server}; 130,")), "{name}: {help}");
                seen.push(name.to_string());
            }
        });
        assert_eq!(seen, ["serve", "mount"].repeat(3));
    }

    /// A help may name a page, since the help of `tantalum` says where all of them are.
    #[test]
    fn pages_that_a_help_names_are_there() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let mut named = 0;
        each_help(&mut command(), &mut |name, help| {
            for page in help.split("docs/").skip(1) {
                let Some((page, _)) = page.split_once(".md") else { continue };
                let is_there = page == "NAME" || docs.join(format!("{page}.md")).is_file();
                assert!(is_there, "{name}: docs/{page}.md\n{help}");
                named += 1;
            }
        });
        assert!(named > 5, "{named}");
        let top = command().render_long_help().to_string();
        assert!(top.contains("docs/NAME.md are in /usr/share/doc/tantalum/docs"), "{top}");
    }

    /// Rust's words for what is no number tell nobody what to give.
    #[test]
    fn what_is_no_number_is_told_in_plain_words() {
        let mut numbers = 0;
        each_argument(&command(), &mut |whose, argument| {
            for wrong in ["-5", "-5x", "--x", "99999999999999999999"] {
                let Err(why) = takes(argument, wrong) else { continue };
                numbers += 1;
                for of_rust in ["invalid digit", "invalid float", "number too large"] {
                    assert!(!why.contains(of_rust), "{whose}: {why}");
                }
            }
        });
        assert!(numbers > 100, "{numbers}");
    }

    #[test]
    #[cfg(feature = "live")]
    fn a_verb_alone_is_told_with_its_nouns() {
        let told = |words: &[&str]| {
            let all = ["tantalum"].iter().chain(words);
            let error = command().try_get_matches_from(all).expect_err("it is wrong");
            no_such_command(&error, words.iter().map(|word| word.to_string()))
        };
        let serve = told(&["serve", "x.img"]).expect("drives, logs and caches have it");
        let whole = "it is `tantalum drive serve`, `tantalum log serve` or `tantalum cache serve`";
        assert!(serve.contains(whole), "{serve}");
        assert!(
            told(&["scrub"]).expect("caches have it").ends_with("it is `tantalum cache scrub`")
        );
        for (words, end) in [
            (&["drive", "scrub"][..], "`tantalum drive scrub`: it is `tantalum cache scrub`"),
            (&["rnu"], "there is no command `tantalum rnu`: did you mean `tantalum run`?"),
            (&["help", "rnu"], "did you mean `tantalum run`?"),
            (&["scrb"], "did you mean `tantalum cache scrub`?"),
            (&["drive", "mnt"], "did you mean `tantalum drive mount`?"),
            (&["drive", "xyzzyx"], "`tantalum drive --help` lists all"),
            (&["xyzzyx"], "`tantalum --help` lists all"),
            (&["first"], "`tantalum run first` runs an experiment"),
            (&["mine.toml"], "`tantalum run mine.toml` runs an experiment"),
        ] {
            let told = told(words).expect("no such command");
            assert!(told.starts_with("there is no command `") && told.ends_with(end), "{told}");
        }
        assert_eq!(told(&["run", "--sirve"]), None);
    }

    /// `-5GiB` behind an option is its value.
    #[test]
    fn negative_values_with_units_are_told_to_be_negative() {
        for line in [
            "drive create x.img --capacity -5GiB",
            "drive create x.img --capacity -5",
            "crash --for -5s",
            "search --recovery-max -1s",
            "search --slowdown-max -1%",
        ] {
            let line = ["tantalum"].into_iter().chain(line.split(' '));
            let why = command().try_get_matches_from(line).expect_err("it is negative").to_string();
            assert!(why.contains("it must not be negative"), "{why}");
        }
        // An option is no value.
        for (line, option, needed) in [
            ("crash crash --for --json", "--for <TIME>", "it needs a time"),
            ("drive create x.img --capacity --design", "--capacity <SIZE>", "it needs a size"),
            ("search --slowdown-max -h", "--slowdown-max <PERCENT>", "it needs a percentage"),
            ("crash crash --for --json out", "--for <TIME>", "a value is required"),
            ("drive create x.img --capacity --design durassd", "--capacity <SIZE>", "is required"),
        ] {
            let line = ["tantalum"].into_iter().chain(line.split(' ')).map(String::from);
            let line = line.collect::<Vec<_>>();
            let why = command().try_get_matches_from(&line).expect_err("a value is missing");
            let why = value_missing(&why, line.into_iter()).unwrap_or(why).to_string();
            assert!(why.contains(option) && why.contains(needed), "{why}");
        }
        // Another error stays.
        let line = ["tantalum", "crash", "crash", "--jsn"].map(String::from);
        let why = command().try_get_matches_from(&line).expect_err("no option");
        assert!(value_missing(&why, line.into_iter()).is_none(), "{why}");
        let mut seen = 0;
        each_argument(&command(), &mut |whose, argument| {
            let names = argument.get_value_names().unwrap_or_default();
            let has_unit = names.iter().any(|name| UNITS.iter().any(|unit| name.starts_with(unit)));
            if argument.get_long().is_some() && has_unit {
                assert!(argument.is_allow_hyphen_values_set(), "{whose}");
                seen += 1;
            }
        });
        assert!(seen > 10, "{seen}");
    }

    /// A tip is there only if it helps.
    #[test]
    fn a_wrong_word_is_to_stand_behind_two_dashes_only_where_it_is_taken() {
        let told = |line: &str| {
            let words = ["tantalum"].into_iter().chain(line.split(' ')).map(String::from);
            let words = words.collect::<Vec<_>>();
            let why = command().try_get_matches_from(&words).expect_err("a word is wrong");
            let before = why.to_string();
            (before, without_useless_tip(why, words.into_iter()).to_string())
        };
        for line in [
            "run first -5",
            "run -5 -5",
            "run first --quick -5 --json -",
            "designs durassd -5",
            "drive inspect a -5",
            "drive inspect a -x",
            "drive inspect a --xyzzyx=3",
        ] {
            let (before, told) = told(line);
            assert!(before.contains("as a value, use"), "{line}: {before}");
            assert!(told.contains("unexpected argument '-"), "{line}: {told}");
            assert!(!told.contains("tip:") && told.contains("Usage: "), "{line}: {told}");
        }
        for line in ["drive inspect -x", "run -x --json -", "compare a -x"] {
            let (before, told) = told(line);
            assert!(told.contains("as a value, use '-- -x'") && told == before, "{line}: {told}");
        }
        // Another tip stays.
        let (before, told) = told("run first --jsn");
        assert!(told.contains("'--json'") && told == before, "{told}");
    }

    /// (A build that has all commands has all examples.)
    #[test]
    fn no_example_is_of_a_command_that_is_not_in_this_build() {
        let all = command();
        each_help(&mut command(), &mut |name, help| {
            for line in help.lines() {
                assert!(!without::is_missing_example(&all, line), "{name}: {line}");
            }
        });
        let is_here = cfg!(feature = "torture");
        let top = command().render_long_help().to_string();
        assert_eq!(top.contains("Not in this build: run a real database"), !is_here, "{top}");
        assert!(top.contains("tantalum cache sim --policy gsc,lru"), "{top}");
        assert_eq!(top.contains("tantalum log create"), cfg!(feature = "live"), "{top}");
        let mut bench = command();
        let bench = bench.find_subcommand_mut("cache").and_then(|c| c.find_subcommand_mut("bench"));
        let bench = bench.expect("every build has it").render_long_help().to_string();
        assert!(bench.contains("Examples:\n  tantalum cache bench"), "{bench}");
    }

    #[test]
    fn sizes_times_and_percentages_have_one_form_everywhere() {
        let forms = [("SIZE", "1.5GiB"), ("TIME", "250us"), ("PERCENT", "5%")];
        let mut seen = Vec::new();
        each_argument(&command(), &mut |whose, argument| {
            for name in argument.get_value_names().unwrap_or_default() {
                let other_units = ["MS", "US", "KIB", "MIB", "BYTES", "SECONDS", "SHARE", "TIMES"];
                assert!(!other_units.contains(&name.as_str()), "{whose}: {name}");
                let of = |form: &&(&str, &str)| name.split([',', '[']).next() == Some(form.0);
                let Some((kind, value)) = forms.iter().find(of) else { continue };
                if let Err(why) = takes(argument, value) {
                    assert!(why.contains("it should be from"), "{whose}: {why}");
                }
                assert!(takes(argument, "5 parsec").is_err(), "{whose}");
                seen.push(*kind);
            }
        });
        let count = |kind: &str| seen.iter().filter(|seen| **seen == kind).count();
        assert!(count("TIME") >= 3 && count("PERCENT") >= 6, "{seen:?}");
        assert!(count("SIZE") >= 3, "{seen:?}");
    }
}
