//! Creates, opens and locks image files.
//!
//! 1. A file becomes an image when its header is complete. The header is written last.
//! 2. One process has an image at a time, and one owner in it.
//! 3. Only its user can read and write a new image. The mode of an existing image is its user's
//!    choice, and is never changed.
//! 4. The last user is marked in the image (`marks`) before anything is changed.
#![allow(
    clippy::disallowed_methods,
    reason = "the edge: only this module of the crate opens files"
)]

use super::book::ImageState;
use super::format::{FLIGHT_BYTES, Part, Parts};
use super::host::boot;
use super::mapped::{Mapped, PAGE, Region};
use super::marks::{Boot, Mark};
use super::sync::{rebuild, settle};
use super::{Book, ImageClock, ImageError, ImageSpec, ImageStore, Syncer, Ticket};
use crate::flight::Flight;
use std::cell::{Cell, OnceCell};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::rc::Rc;
use tantalum_rt::{FileLockError, Nanos, lock_file};

/// An image file that only this process has open. Cheap to clone: a clone is a handle to the same
/// one.
#[derive(Clone)]
pub struct ImageFile {
    map: Rc<Mapped>,
    spec: Rc<ImageSpec>,
    parts: Rc<Parts>,
    user: Rc<User>,
}

/// How an image is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// Opens it as a view: changes stay in memory and are lost at the end, and the file does not
    /// change. Meanwhile others can open it only as a view, too.
    pub view: bool,
    /// Accepts an image whose host crashed while it was in use. All pages are verified, and pages
    /// that do not have the content that was programmed become unreadable. Without this such an
    /// image is refused.
    pub host_crashed: bool,
    /// Makes it possible at any moment to wait until what was stored survives a crash of the host
    /// ([`ImageFile::ticket`]).
    pub host_sync: bool,
    /// The waiting task syncs by itself, without a thread: for virtual time.
    pub sync_here: bool,
    /// The id of the host's boot, in place of the real one: for tests.
    pub boot: Option<[u8; 16]>,
}

/// How this process uses the image.
struct User {
    opening: Opening,
    boot: Boot,
    mark: Cell<Mark>,
    crashed: bool,
    /// The newest synced moment was restored.
    rebuilt: bool,
    begun: Cell<bool>,
    damaged: Cell<u64>,
    syncer: OnceCell<Syncer>,
}

fn io(what: &'static str) -> impl Fn(std::io::Error) -> ImageError {
    move |source| ImageError::Io { what, source }
}

/// The mode of a new image.
const PRIVATE: u32 = 0o600;

fn lock(file: &File, alone: bool) -> Result<(), ImageError> {
    lock_file(file, alone).map_err(|e| match e {
        FileLockError::InUse => ImageError::InUse,
        FileLockError::System(source) => {
            ImageError::Io { what: "the image cannot be locked", source }
        }
    })
}

/// Creates a file that only this user may read and write, whatever the umask is. With `replace` it
/// opens an existing file, which keeps its mode.
fn make(path: &Path, replace: bool) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match options.clone().create_new(true).mode(PRIVATE).open(path) {
        Ok(file) => {
            // The umask may have removed permissions.
            file.set_permissions(Permissions::from_mode(PRIVATE))?;
            Ok(file)
        }
        Err(e) if replace && e.kind() == std::io::ErrorKind::AlreadyExists => options.open(path),
        Err(e) => Err(e),
    }
}

/// Syncs a new file and its directory: it survives a crash of the host only if the directory has
/// its name.
fn sync_with_name(file: &File, path: &Path) -> std::io::Result<()> {
    file.sync_all()?;
    let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    OpenOptions::new().read(true).open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

impl ImageFile {
    /// Creates a blank image and opens it. The file is sparse: it takes as much space as is
    /// programmed. With `replace` any existing file is overwritten.
    ///
    /// # Errors
    /// [`ImageError`] if such an image is not possible, or the file cannot be written.
    pub fn create(path: &Path, spec: &ImageSpec, replace: bool) -> Result<ImageFile, ImageError> {
        spec.check()?;
        let parts = spec.parts();
        let mut file = make(path, replace).map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => ImageError::Exists,
            _ => io("the image cannot be made")(e),
        })?;
        lock(&file, true)?;
        let written = file.set_len(0).and_then(|()| file.set_len(parts.end));
        written.map_err(io("the image cannot be given its length"))?;
        let mut put = |at: u64, bytes: &[u8]| {
            file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(bytes))
        };
        put(parts.design.at, spec.design.as_bytes())
            .and_then(|()| put(0, &spec.encode()))
            .map_err(io("the image cannot be written"))?;
        sync_with_name(&file, path).map_err(io("the image cannot be synced"))?;
        ImageFile::map(file, spec.clone(), parts, Opening::default(), Mark::default())
    }

    /// Whether there is an image at `path`, of any version, whole or damaged: a regular file that
    /// begins as images do. Nothing is locked or changed.
    ///
    /// # Errors
    /// Those of the system.
    pub fn is_at(path: &Path) -> std::io::Result<bool> {
        // (Opening something else, such as a pipe, may block or have effects.)
        if !std::fs::metadata(path)?.is_file() {
            return Ok(false);
        }
        let mut begin = [0; super::format::MAGIC.len()];
        match File::open(path)?.read_exact(&mut begin) {
            Ok(()) => Ok(begin == *super::format::MAGIC),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Opens an image.
    ///
    /// # Errors
    /// [`ImageError`] says what is wrong with it.
    pub fn open(path: &Path) -> Result<ImageFile, ImageError> {
        ImageFile::open_with(path, Opening::default())
    }

    /// Opens an image as a view. Changes stay in memory and are lost at the end, and the file does
    /// not change. Meanwhile others can open it only as a view, too.
    ///
    /// # Errors
    /// [`ImageError`] says what is wrong with it.
    pub fn open_view(path: &Path) -> Result<ImageFile, ImageError> {
        ImageFile::open_with(path, Opening { view: true, ..Opening::default() })
    }

    /// Opens an image as `opening` says.
    ///
    /// # Errors
    /// [`ImageError`] says what is wrong with it.
    pub fn open_with(path: &Path, opening: Opening) -> Result<ImageFile, ImageError> {
        let shared = !opening.view;
        let file = OpenOptions::new().read(true).write(shared).open(path);
        let mut file = file.map_err(io("the image cannot be opened"))?;
        lock(&file, shared)?;
        let have = file.metadata().map_err(io("the image cannot be looked at"))?.len();
        let mut header = vec![0; PAGE as usize];
        let some = have.min(PAGE) as usize;
        let failed = io("the image cannot be read");
        file.read_exact(&mut header[..some]).map_err(&failed)?;
        if have < PAGE && header[..8] == *super::format::MAGIC {
            return Err(ImageError::Length { have, want: PAGE });
        }
        let (mut spec, parts, sum) = ImageSpec::decode(&header)?;
        if have != parts.end {
            return Err(ImageError::Length { have, want: parts.end });
        }
        let mut design = vec![0; parts.design.len as usize];
        file.seek(SeekFrom::Start(parts.design.at)).map_err(&failed)?;
        file.read_exact(&mut design).map_err(&failed)?;
        let damaged =
            |what: &str| ImageError::Damaged { offset: parts.design.at, what: what.to_string() };
        if crc32c::crc32c(&design) != sum {
            return Err(damaged("the design's description is not what its checksum says"));
        }
        spec.design = String::from_utf8(design)
            .map_err(|_| damaged("the design's description is not valid text"))?;
        let mark = match spec.version {
            1 => Mark::default(),
            _ => Mark::read(&file, parts.marks.at).map_err(|e| match e {
                Some(e) => failed(e),
                None => ImageError::Damaged {
                    offset: parts.marks.at,
                    what: "neither mark of who had it last has its checksum".to_string(),
                },
            })?,
        };
        if spec.version < 2 && opening.host_sync {
            return Err(ImageError::Older { version: spec.version });
        }
        let file = ImageFile::map(file, spec, parts, opening, mark)?;
        if file.user.crashed {
            if !opening.host_crashed {
                return Err(ImageError::HostCrashed);
            }
            if mark.synced {
                rebuild(&file.map, &file.parts, mark.number).map_err(&failed)?;
            }
        }
        Ok(file)
    }

    fn map(
        file: File,
        spec: ImageSpec,
        parts: Parts,
        opening: Opening,
        mark: Mark,
    ) -> Result<ImageFile, ImageError> {
        let boot = match opening.boot {
            Some(boot) => boot,
            None => boot().map_err(io("the id of the host's boot cannot be read"))?,
        };
        let map = Mapped::new(file, parts.end, !opening.view);
        let map = map.map_err(io("the image cannot be mapped"))?;
        let user = User {
            opening,
            boot,
            mark: Cell::new(mark),
            crashed: mark.in_use && mark.boot != boot,
            rebuilt: mark.synced && mark.in_use && mark.boot != boot,
            begun: Cell::new(false),
            damaged: Cell::new(0),
            syncer: OnceCell::new(),
        };
        let (map, spec, parts) = (Rc::new(map), Rc::new(spec), Rc::new(parts));
        Ok(ImageFile { map, spec, parts, user: Rc::new(user) })
    }

    /// Marks the image as in use before the first store: from now on the file may differ from what
    /// is on the host's disk, and after a crash only what was synced counts, if anything was.
    fn begin_use(&self) -> Result<(), ImageError> {
        if self.spec.version < 2 || !self.map.is_shared() || self.user.begun.replace(true) {
            return Ok(());
        }
        let failed = || io("the image cannot be marked as in use");
        let (mut mark, synced) = (self.user.mark.get(), self.user.opening.host_sync);
        if mark.in_use && !mark.synced && !synced && mark.boot == self.user.boot {
            return Ok(());
        }
        // Makes everything before the first store of this process durable, including a restored
        // image.
        settle(self.map.file()).map_err(failed())?;
        if mark.in_use && synced {
            mark = Mark { number: mark.number + 1, boot: self.user.boot, ..Mark::default() };
            mark.write(self.map.file(), self.parts.marks.at).map_err(failed())?;
        }
        let number = mark.number + 1;
        if synced {
            let worker = !self.user.opening.sync_here;
            let syncer = Syncer::new(&self.map, &self.parts, number, worker)?;
            let _ = self.user.syncer.set(syncer);
        }
        let mark = Mark { number, boot: self.user.boot, in_use: true, synced };
        mark.write(self.map.file(), self.parts.marks.at).map_err(failed())?;
        self.user.mark.set(mark);
        Ok(())
    }

    /// Ends the use of the image in good order: all of it is on the host's disk, and its mark says
    /// so. Nothing may be stored afterwards.
    ///
    /// # Errors
    /// The error of the host's file system.
    pub fn end(&self) -> Result<(), ImageError> {
        self.sync()?;
        if self.user.begun.get() {
            let failed = io("the image cannot be marked as no longer in use");
            settle(self.map.file()).map_err(&failed)?;
            let number = self.user.mark.get().number + 1;
            let mark = Mark { number, boot: self.user.boot, ..Mark::default() };
            mark.write(self.map.file(), self.parts.marks.at).map_err(&failed)?;
            self.user.mark.set(mark);
            self.user.begun.set(false);
        }
        Ok(())
    }

    /// A wait until all that was stored so far survives a crash of the host; `None` if the image
    /// was not opened for that ([`Opening::host_sync`]).
    pub fn ticket(&self) -> Option<Ticket> {
        self.user.syncer.get().map(Syncer::ticket)
    }

    /// Whether the host crashed while the image was in use ([`Opening::host_crashed`]).
    pub fn was_crashed(&self) -> bool {
        self.user.crashed
    }

    /// Whether the content after a crash of the host is that of one moment, the newest synced one.
    pub fn was_synced(&self) -> bool {
        self.user.rebuilt
    }

    /// How many pages became unreadable by a crash of the host, since they do not have the content
    /// that was programmed. Known once an array was made of the image.
    pub fn torn_by_crash(&self) -> u64 {
        self.user.damaged.get()
    }

    /// Its specification.
    pub fn spec(&self) -> &ImageSpec {
        &self.spec
    }

    /// Length of the file. (It takes less space: see [`ImageFile::create`].)
    pub fn bytes(&self) -> u64 {
        self.parts.end
    }

    /// The addresses of the mapping in this process, for handlers of faults.
    pub fn addresses(&self) -> Range<usize> {
        self.map.addresses()
    }

    fn region(&self, part: Part) -> Region {
        Region::new(self.map.clone(), part.at, part.len)
    }

    /// Memory for other data that have to outlive the process: as many bytes as
    /// [`ImageSpec::protected`], zeros at first. The array does not touch it.
    pub fn protected(&self) -> Region {
        self.region(self.parts.protected)
    }

    /// The offset of the protected memory in the file.
    pub fn protected_offset(&self) -> u64 {
        self.parts.protected.at
    }

    /// The offset of the payload in the file.
    pub fn payload_offset(&self) -> u64 {
        self.parts.payload.at
    }

    /// Waits until all that was stored so far also survives a crash of the host. (It survives the
    /// process in any case.)
    ///
    /// # Errors
    /// The error of the host's file system.
    pub fn sync(&self) -> Result<(), ImageError> {
        if let Some(syncer) = self.user.syncer.get() {
            let failed = || std::io::Error::other("the host's disk failed");
            return match syncer.settle(syncer.next()) || syncer.is_settled() {
                true => Ok(()),
                false => Err(io("the image cannot be synced")(failed())),
            };
        }
        self.map.sync().map_err(io("the image cannot be synced"))
    }

    /// The number of programs and erases that were under way when the last user was killed. A clean
    /// image has none.
    pub fn under_way(&self) -> u64 {
        let flights = self.region(self.parts.flights);
        let slots = 0..flights.len() / FLIGHT_BYTES;
        slots.filter(|slot| flights.word(slot * FLIGHT_BYTES) != 0).count() as u64
    }

    /// How many times it was opened for an array.
    pub fn openings(&self) -> u64 {
        let state = ImageState::open(self.region(self.parts.state), self.spec.version);
        state.map_or(0, |(state, _)| state.opened())
    }

    /// Cells and operations under way, as of `now`.
    pub(crate) fn parts(&self, now: Nanos) -> Result<(ImageStore, Book, Vec<Flight>), ImageError> {
        let all = Region::new(self.map.clone(), 0, self.parts.end);
        let mut store = ImageStore::open(&self.spec, &self.parts, &all)?;
        let state = ImageState::open(self.region(self.parts.state), self.spec.version);
        let offset = self.parts.state.at;
        let (state, base) = state.map_err(|what| ImageError::Damaged { offset, what })?;
        if self.user.crashed {
            self.user.damaged.set(store.tear_damaged());
        }
        self.begin_use()?;
        store.set_syncer(self.user.syncer.get().cloned());
        let clock = Rc::new(ImageClock::new(state, base, now));
        let (region, offset) = (self.region(self.parts.flights), self.parts.flights.at);
        let (book, flights) = Book::open(region, clock, &self.spec.geometry, offset)?;
        Ok((store, book, flights))
    }
}
