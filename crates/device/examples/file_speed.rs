//! A file as a device beside plain `pread`, `pwrite` and `fdatasync` of the same file.
//!
//! ```text
//! cargo run --release -p tantalum-device --example file_speed -- /path/to/new-file [--small]
//! ```
//!
//! The file is made, measured and removed again. Both sides use direct I/O in blocks of 4 KiB at the
//! same places; rounds of both are interleaved, and the median round counts.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark takes the time"
)]

fn main() -> Result<(), String> {
    use std::path::PathBuf;
    let mut arguments = std::env::args_os().skip(1);
    let path = PathBuf::from(arguments.next().ok_or("usage: file_speed NEW-FILE [--small]")?);
    let scale = match arguments.next() {
        Some(word) if word == "--small" => speed::Scale { mib: 4, rounds: 3, commands: 32 },
        Some(word) => return Err(format!("{}: --small, or nothing", word.display())),
        None => speed::Scale { mib: 256, rounds: 9, commands: 4096 },
    };
    let lines = speed::compare(&path, &scale);
    let _ = std::fs::remove_file(&path);
    lines?.iter().for_each(|line| println!("{line}"));
    Ok(())
}

#[path = "speed/mod.rs"]
mod speed;
