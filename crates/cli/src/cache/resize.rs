//! `tantalum cache resize`.
//!
//! 1. A file becomes larger before the cache does, and smaller after it. So a command that is killed
//!    leaves a cache that fits its file.
//! 2. A file becomes smaller only by what the cache has given up.

use super::started::{Failed, with_volume};
use crate::members::{CacheDescription, CacheDevices, cache_in_words, runtime};
use crate::{out, size};
use clap::Args;
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};
use tantalum_device::bytes_in_words;
use tantalum_nand::{ImageFile, Opening};

/// Arguments of `tantalum cache resize`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum cache resize c.toml --flash-size 4GiB

While the cache is not served. A file gets that size. Of a block device or the image of
a drive the cache has so much from now on, from its beginning. If that is more than
before, every page stays. If it is less, dirty pages go to the slow device first, and
the oldest pages leave the cache.
Exit codes: 0, it has the new size; 1, it has not, and can be used as before; 2, there
is no such cache, it is in use, or the size cannot be.")]
pub struct ResizeArguments {
    /// The description of the cache
    description: PathBuf,
    /// The new size of the flash device
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    flash_size: u64,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    json: bool,
}

/// What the cache has, as docs/json.md has it.
#[derive(Serialize)]
struct Report {
    cache: String,
    flash: String,
    flash_bytes: u64,
    frames: u64,
    pages: u64,
}

/// Runs the command; returns the exit code.
pub fn resize(arguments: &ResizeArguments) -> u8 {
    match try_resize(&arguments.description, arguments.flash_size) {
        Ok(report) if arguments.json => out::json(&report),
        Ok(report) => out::bytes(said(&report).as_bytes()),
        Err((why, code)) => out::error(why, code),
    }
}

fn said(of: &Report) -> String {
    format!(
        "{}: {} of {}: {} frames, with {} pages\n",
        of.cache,
        bytes_in_words(of.flash_bytes),
        of.flash,
        of.frames,
        of.pages,
    )
}

fn try_resize(path: &Path, bytes: u64) -> Result<Report, Failed> {
    let usage = |why| (why, out::USAGE);
    let description = CacheDescription::lasting(path).map_err(usage)?;
    let flash = description.flash.clone();
    let told = |e: std::io::Error| (format!("{}: {e}", flash.display()), out::FAILED);
    let block = 4096;
    if !bytes.is_multiple_of(block) {
        return Err(usage(format!("{bytes} bytes are not a multiple of {block}")));
    }
    {
        // Nothing is changed while it is in use.
        let runtime = runtime().map_err(usage)?;
        let view = Opening { view: true, ..Opening::default() };
        CacheDevices::open(&runtime.handle(), &description, view).map_err(usage)?;
    }
    let before = plain_bytes(&flash).map_err(told)?;
    if let Some(before) = before.filter(|before| *before < bytes) {
        let file = open(&flash).map_err(told)?;
        let room = fallocate(&file, FallocateFlags::empty(), before, bytes - before);
        room.map_err(|e| {
            // What could not be reserved goes back.
            let _ = ftruncate(&file, before);
            told(e.into())
        })?;
    }
    let stats = with_volume(path, async move |volume| {
        let cache = volume.cache().ok_or("it does not start")?;
        let resized = cache.resize(bytes).await.map_err(cache_in_words);
        let stats = cache.stats();
        cache.close().await.map_err(cache_in_words)?;
        resized.map(|()| stats)
    })?;
    if before.is_some_and(|before| before > bytes) {
        ftruncate(&open(&flash).map_err(told)?, bytes).map_err(|e| told(e.into()))?;
    }
    Ok(Report {
        cache: path.display().to_string(),
        flash: flash.display().to_string(),
        flash_bytes: bytes,
        frames: stats.frames,
        pages: stats.pages,
    })
}

/// Bytes of a file that is no image of a drive; `None`: it is something else.
#[allow(clippy::disallowed_methods, reason = "the edge: the file that the description names")]
fn plain_bytes(path: &Path) -> std::io::Result<Option<u64>> {
    let is = std::fs::metadata(path)?;
    let image = is.is_file() && ImageFile::is_at(path)?;
    Ok((is.is_file() && !image).then_some(is.len()))
}

#[allow(clippy::disallowed_methods, reason = "the edge: the file that the description names")]
fn open(path: &Path) -> std::io::Result<File> {
    File::options().write(true).open(path)
}
