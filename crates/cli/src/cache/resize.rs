//! `tantalum cache resize`: by the process that serves the cache, or here if nobody does.
//!
//! 1. A file becomes larger before the cache does, and smaller after it. So a command that is killed
//!    leaves a cache that fits its file.
//! 2. A file becomes smaller only by what the cache has given up.

use super::started::{Failed, with_volume};
use crate::counted::counted;
use crate::drive::remote;
use crate::members::{
    CacheDescription, CacheDevices, cache_in_words, cache_told, lacks_room, runtime,
};
use crate::{out, units};
use clap::Args;
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};
use tantalum_cache::flash::CacheError;
use tantalum_device::bytes_in_words;
use tantalum_export::control::{Client, ClientError, Kind};
use tantalum_nand::{ImageFile, Opening};

/// Arguments of `tantalum cache resize`.
#[derive(Args)]
#[command(
    override_usage = "tantalum cache resize --flash-size <SIZE> <CACHE.toml|SOCKET>",
    after_help = "\
Examples:
  tantalum cache resize c.toml --flash-size 4GiB
  tantalum cache resize c.control --flash-size 4GiB   that of --control c.control

The cache may be served meanwhile: then its process does it, while the volume is used.
A file gets that size. Of a block device or the image of a drive the cache has so much
from now on, from its beginning. If that is more than before, every page stays. If it
is less, dirty pages go to the slow device first, and the oldest pages leave the cache.
Exit codes: 0, it has the new size; 1, it has not, and can be used as before; 2, there
is no such cache, or the size cannot be."
)]
pub struct ResizeArguments {
    /// The description of the cache, or the control socket of the process that serves it
    #[arg(value_name = "CACHE.toml|SOCKET")]
    cache: PathBuf,
    /// The new size of the flash device
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    flash_size: u64,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    json: bool,
}

/// What the cache has, as docs/json.md has it.
#[derive(Serialize)]
struct Report {
    cache: String,
    flash_bytes: u64,
    /// These three only if nobody serves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    flash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frames: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<u64>,
}

/// Runs the command; returns the exit code.
pub fn resize(arguments: &ResizeArguments) -> u8 {
    let (path, bytes) = (&arguments.cache, arguments.flash_size);
    let resized = match remote::served(path) {
        Ok(Some(client)) => ask(client, path, bytes),
        Ok(None) => try_resize(path, bytes),
        Err(why) => Err((why, out::USAGE)),
    };
    match resized {
        Ok((report, _)) if arguments.json => out::json(&report),
        Ok((_, said)) => out::bytes(said.as_bytes()),
        Err((why, code)) => out::error(why, code),
    }
}

/// Asks the process that serves the cache.
fn ask(mut client: Client, path: &Path, bytes: u64) -> Result<(Report, String), Failed> {
    let told = client.resize(bytes).map_err(|e| {
        let size = matches!(&e, ClientError::Refused(refusal) if refusal.kind == Kind::Size);
        let code = if size { out::USAGE } else { remote::exit_code(&e) };
        (format!("{}: {}", path.display(), cache_told(path, e)), code)
    })?;
    let now = bytes_in_words(told.flash_bytes);
    let said = format!("{}: {now} of its flash device: {}\n", path.display(), told.words);
    let cache = path.display().to_string();
    let report =
        Report { cache, flash_bytes: told.flash_bytes, flash: None, frames: None, pages: None };
    Ok((report, said))
}

fn try_resize(path: &Path, bytes: u64) -> Result<(Report, String), Failed> {
    let usage = |why| (why, out::USAGE);
    let description = CacheDescription::lasting(path).map_err(usage)?;
    let flash = description.flash.clone();
    let told = |e: std::io::Error| {
        let advice = if lacks_room(&e) { ": make room, or give a smaller size" } else { "" };
        (format!("{}: {e}{advice}", flash.display()), out::FAILED)
    };
    let block = 4096;
    if !bytes.is_multiple_of(block) {
        let (path, more) = (flash.display(), bytes.next_multiple_of(block));
        return Err(usage(format!(
            "{path}: {} not a multiple of {block}: give {more}, say",
            counted(bytes, "byte is", "bytes are")
        )));
    }
    {
        // Nothing is changed while it is in use.
        let runtime = runtime().map_err(usage)?;
        let view = Opening { view: true, ..Opening::default() };
        CacheDevices::made(&runtime.handle(), &description, view).map_err(usage)?;
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
    let resized = with_volume(path, async move |volume| {
        let cache = volume.cache().ok_or("it does not start")?;
        let resized = cache.resize(bytes).await;
        let stats = cache.stats();
        cache.close().await.map_err(cache_in_words)?;
        Ok(resized.map(|()| stats))
    })?;
    let stats = resized.map_err(|e| {
        let code = if matches!(e, CacheError::Invalid(_)) { out::USAGE } else { out::FAILED };
        (format!("{}: {}", path.display(), description.told(e)), code)
    })?;
    if before.is_some_and(|before| before > bytes) {
        ftruncate(&open(&flash).map_err(told)?, bytes).map_err(|e| told(e.into()))?;
    }
    let said = format!(
        "{}: {} of \"{}\": {}, with {}\n",
        path.display(),
        bytes_in_words(bytes),
        flash.display(),
        counted(stats.frames, "frame", "frames"),
        counted(stats.pages, "page", "pages"),
    );
    let report = Report {
        cache: path.display().to_string(),
        flash_bytes: bytes,
        flash: Some(flash.display().to_string()),
        frames: Some(stats.frames),
        pages: Some(stats.pages),
    };
    Ok((report, said))
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
