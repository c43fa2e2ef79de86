//! What the commands that logs share with drives say of themselves when they are called on a log.

use crate::shared_words::{Group, Words};
use clap::Command;

const WORDS: [Words; 7] = [
    (
        "serve",
        "tantalum log serve [OPTIONS] LOG.toml",
        "Serve the volume over a log as a network block device (NBD)",
        "\
Examples:
  tantalum log create wal.toml --device a --device b --backing disk
  tantalum log serve wal.toml --unix wal.sock
  tantalum log serve wal.toml --tcp 10809

When the volume is ready, a line for each address prints its URI (U):
  nbdcopy file U                       copy a file of whole blocks of 4096 bytes to it
                                       (`truncate -s %4096 file` fills the last one)
  nbd-client -unix wal.sock -N drive /dev/nbd0   as a disk of the kernel

From another terminal:
  tantalum log cut wal.toml            cuts the power of all its devices at one moment
  tantalum log restore wal.toml        restores it: clients connect again

SIGINT and SIGTERM stop the server: requests under way are answered first. What is
not destaged stays in the log; `tantalum log recover` brings it to the backing.
Exit codes: 0, it ended in good order; 1, it did not, or it cannot be served; 2,
nothing was done: an argument, a file or a design is invalid, not there or in use, or
something listens at an address already; 130, it was interrupted before it was ready.",
    ),
    (
        "mount",
        "tantalum log mount [OPTIONS] LOG.toml DIR",
        "Mount the volume over a log, as a file or with a file system",
        "\
Examples:
  tantalum log mount wal.toml /mnt/wal --fs ext4    for a database's log directory
  initdb -D /srv/db --waldir /mnt/wal/pg_wal        PostgreSQL with its log there
  tantalum log mount wal.toml /mnt/wal              the volume is the file /mnt/wal/drive

When the volume is ready, the line \"ready: DIR\" is printed. --fs mounts a file system
through a loop device with direct I/O, and makes one on a blank volume; it needs root.

SIGINT and SIGTERM unmount it and end it in good order. If it is in use, the process
names its users and waits; a second signal leaves the mount to its users. `umount DIR`
does the same, unless the power is off. After `tantalum log restore` the
file system is checked and mounted again.
Exit codes: 0, it ended in good order; 1, it did not, or it cannot be mounted; 2,
nothing was done: an argument, a file or a design is invalid, not there or in use, or
something listens at an address already; 130, it was interrupted before it was ready.",
    ),
    (
        "status",
        "tantalum log status [OPTIONS] <LOG.toml|SOCKET>",
        "Show the state of a served log: its power, what is not destaged, the last cut",
        "\
Examples:
  tantalum log status wal.toml
  tantalum log status wal.toml --json | jq -r .power

Exit codes: 0, it is served, with or without power; 2, no such log is served.",
    ),
    (
        "stats",
        "tantalum log stats [OPTIONS] <LOG.toml|SOCKET>",
        "Show what a served log has done: commands, latencies, groups, bytes destaged",
        "\
Examples:
  tantalum log stats wal.toml
  tantalum log stats wal.toml --json

Exit codes: 0, it is served, with or without power; 2, no such log is served.",
    ),
    (
        "top",
        "tantalum log top [OPTIONS] <LOG.toml|SOCKET>",
        "Watch a served log: throughput, latencies, memory, destaging",
        "\
Examples:
  tantalum log top wal.toml
  tantalum log top wal.toml --once             one picture, as text

Keys: c and then y cuts the power, r restores it, q ends. The histogram and the rates
cover the last 10 intervals.
Exit codes: 0; 1, the terminal cannot be used; 2, no such log is served.",
    ),
    (
        "cut",
        "tantalum log cut [OPTIONS] <LOG.toml|SOCKET>",
        "Cut the power of all devices of a served log, at one moment",
        "\
Examples:
  tantalum log cut wal.toml                    that of `tantalum log serve wal.toml`
  tantalum log cut wal.control                 that of --control wal.control

Exit codes: 0, the power is off; 2, no such log is served.",
    ),
    (
        "restore",
        "tantalum log restore [OPTIONS] <LOG.toml|SOCKET>",
        "Restore the power of a served log",
        "\
Examples:
  tantalum log restore wal.toml
  tantalum log restore wal.toml --salvage      a damaged log, with what is before the damage

Exit codes: 0, the log has recovered; 1, it does not start; 2, no such log is served.",
    ),
];

static LOGS: Group = Group {
    name: "log",
    description: "LOG.toml",
    served: "LOG.toml|SOCKET",
    words: &WORDS,
    salvage: Some("Start on a damaged log with what is before the damage: the rest is lost"),
};

/// The command `tantalum` with these words below `log`.
pub fn in_words_of_logs(command: Command) -> Command {
    LOGS.in_words(command)
}
