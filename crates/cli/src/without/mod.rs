//! Replacements for commands that a build does not have. (In a build that has the commands, these
//! modules are compiled only for their tests.)

mod log;
mod running;
mod torture;

use clap::Parser;

#[derive(Parser)]
enum Command {
    #[command(flatten)]
    Running(running::RunningCommand),
    Log(log::LogCommand),
    Torture(torture::TortureArguments),
}

#[test]
fn whatever_a_missing_command_is_given_it_says_that_it_is_missing() {
    for words in [
        "serve disk.img --unix drive.sock",
        "mount disk.img /mnt --fs ext4",
        "mount --ram 64MiB /mnt",
        "cut disk.img",
        "restore",
        "status --json",
        "stats --help",
        "top -h",
        "log create wal.toml --device a",
        "log --help",
        "torture --db postgres --cuts 100",
    ] {
        let told = match Command::try_parse_from(["tantalum"].into_iter().chain(words.split(' '))) {
            Ok(Command::Running(command)) => running::running(&command),
            Ok(Command::Log(command)) => log::log(&command),
            Ok(Command::Torture(arguments)) => torture::torture(&arguments),
            Err(e) => panic!("{words}: {e}"),
        };
        assert_eq!(told, crate::out::USAGE, "{words}");
    }
}

#[test]
fn the_reason_says_what_is_not_there() {
    let command = Command::try_parse_from(["tantalum", "mount", "/mnt"]).expect("it is taken");
    let Command::Running(command) = command else { panic!("it is a command of drives that run") };
    assert!(running::reason(&command).starts_with("this build has no FUSE: "));
}
