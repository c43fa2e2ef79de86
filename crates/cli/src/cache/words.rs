//! What the commands that caches share with drives say of themselves when they are called on a cache.

use crate::shared_words::{Group, Words};
use clap::Command;

const WORDS: [Words; 7] = [
    (
        "serve",
        "tantalum cache serve [OPTIONS] CACHE.toml",
        "Serve the volume over a cache as a network block device (NBD)",
        "\
Examples:
  tantalum cache create c.toml --flash a --flash-size 1GiB --slow b --slow-size 8GiB
  tantalum cache serve c.toml --unix c.sock
  tantalum cache serve c.toml --tcp 10809

When the volume is ready, a line for each address prints its URI (U):
  nbdcopy file U                       copy a file of whole blocks of 4096 bytes to it
                                       (`truncate -s %4096 file` fills the last one)
  nbd-client -unix c.sock -N drive /dev/nbd0   as a disk of the kernel

From another terminal:
  tantalum cache cut c.toml            cuts the power of both devices at one moment
  tantalum cache restore c.toml        restores it: clients connect again

SIGINT and SIGTERM stop the server: requests under way are answered first, everything
is made durable, and the next start is warm. A cut or a killed process loses what was
not flushed. With `mode = \"through\"` a blank flash device is taken for a new one.
Exit codes: 0, it ended in good order; 1, it did not, or it cannot be served; 2,
nothing was done: an argument, a file or a design is invalid, not there or in use, or
something listens at an address already; 130, it was interrupted before it was ready.",
    ),
    (
        "mount",
        "tantalum cache mount [OPTIONS] CACHE.toml DIR",
        "Mount the volume over a cache, as a file or with a file system",
        "\
Examples:
  tantalum cache mount c.toml /mnt/data --fs xfs    for the files of a database
  tantalum cache mount c.toml /mnt/data             the volume is the file /mnt/data/drive

When the volume is ready, the line \"ready: DIR\" is printed. --fs mounts a file system
through a loop device with direct I/O, and makes one on a blank volume; it needs root.

SIGINT and SIGTERM unmount it and end it in good order. If it is in use, the process
names its users and waits; a second signal leaves the mount to its users. `umount DIR`
does the same, unless the power is off. After `tantalum cache restore` the
file system is checked and mounted again.
Exit codes: 0, it ended in good order; 1, it did not, or it cannot be mounted; 2,
nothing was done: an argument, a file or a design is invalid, not there or in use, or
something listens at an address already; 130, it was interrupted before it was ready.",
    ),
    (
        "status",
        "tantalum cache status [OPTIONS] <CACHE.toml|SOCKET>",
        "Show the state of a served cache: its power, the last cut",
        "\
Examples:
  tantalum cache status c.toml
  tantalum cache status c.toml --json | jq -r .power

Exit codes: 0, it is served, with or without power; 2, no such cache is served.",
    ),
    (
        "stats",
        "tantalum cache stats [OPTIONS] <CACHE.toml|SOCKET>",
        "Show what a served cache has done: commands, latencies, hits, bytes written",
        "\
Examples:
  tantalum cache stats c.toml
  tantalum cache stats c.toml --json

Exit codes: 0, it is served; 2, no such cache is served.",
    ),
    (
        "top",
        "tantalum cache top [OPTIONS] <CACHE.toml|SOCKET>",
        "Watch a served cache: throughput, latencies, pages, hits",
        "\
Examples:
  tantalum cache top c.toml
  tantalum cache top c.toml --once             one picture, as text

Keys: c and then y cuts the power, r restores it, q ends. The histogram and the rates
cover the last 10 intervals.
Exit codes: 0; 1, the terminal cannot be used; 2, no such cache is served.",
    ),
    (
        "cut",
        "tantalum cache cut [OPTIONS] <CACHE.toml|SOCKET>",
        "Cut the power of both devices of a served cache, at one moment",
        "\
Examples:
  tantalum cache cut c.toml                    that of `tantalum cache serve c.toml`
  tantalum cache cut c.control                 that of --control c.control

Exit codes: 0, the power is off; 2, no such cache is served.",
    ),
    (
        "restore",
        "tantalum cache restore [OPTIONS] <CACHE.toml|SOCKET>",
        "Restore the power of a served cache",
        "\
Examples:
  tantalum cache restore c.toml

Exit codes: 0, the cache has recovered; 1, it does not start; 2, no such cache is
served.",
    ),
];

static CACHES: Group = Group {
    name: "cache",
    description: "CACHE.toml",
    served: "CACHE.toml|SOCKET",
    words: &WORDS,
    salvage: None,
};

/// The command `tantalum` with these words below `cache`.
pub fn in_words_of_caches(command: Command) -> Command {
    CACHES.in_words(command)
}
