//! The message when the system ends the process because of an image. The image is mapped memory: a
//! store raises SIGBUS if the disk is full.

use signal_hook::consts::SIGBUS;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr};
use tantalum_nand::ImageFile;

/// What to do after a fault in the image of a running drive.
#[cfg(feature = "live")]
pub const POWER_CUT: &str = "start again: to the drive this was a power cut";
/// What to do after a fault in a private view of an image.
pub const NOTHING: &str = "try again: the image is as it was";

/// An image of this process, and the message.
struct Known {
    here: Range<usize>,
    line: Vec<u8>,
    before: *mut Known,
}

/// The image that was opened last.
static LAST: AtomicPtr<Known> = AtomicPtr::new(null_mut());
/// There is a handler.
static HANDLED: AtomicBool = AtomicBool::new(false);

/// The image that has this address.
fn image_at(at: usize) -> Option<&'static Known> {
    // SAFETY: what `LAST` leads to was made by `Box::into_raw` before it was stored, and is never
    // changed or freed.
    let image = |at: *mut Known| unsafe { at.as_ref() };
    let mut all = std::iter::successors(image(LAST.load(Acquire)), |known| image(known.before));
    all.find(|known| known.here.contains(&at))
}

/// From now on a fault in one of these images prints a message before it ends the process. `then`
/// is what to do once there is room. A fault elsewhere ends the process without the message.
///
/// # Errors
/// The system's.
pub fn tell(images: &[(&Path, &ImageFile)], then: &str) -> io::Result<()> {
    let line = |path: &Path| {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let line = format!(
            "error: {}: the host has no room for it: its disk is full (or the file was shortened, or \
             cannot be read). Make room, and {then}\n",
            path.display()
        );
        line.into_bytes()
    };
    for (path, image) in images {
        let known = Known { here: image.addresses(), line: line(path), before: LAST.load(Acquire) };
        // It is never freed: a handler may read it at any time.
        LAST.store(Box::into_raw(Box::new(known)), Release);
    }
    if HANDLED.swap(true, AcqRel) {
        return Ok(());
    }
    let stderr = io::stderr();
    // SAFETY: the action compares numbers, writes a prepared line by one system call, without a
    // lock or an allocation, and ends the process by a function that is made for signal handlers.
    let known = unsafe {
        signal_hook_registry::register_sigaction(SIGBUS, move |info| {
            // SAFETY: for a fault, `si_addr` is its address. For a signal that a process sent it is
            // another number, which is only compared.
            let at = info.si_addr().addr();
            if let Some(known) = image_at(at) {
                // If standard error is closed, there is nothing else to do.
                let _ = rustix::io::write(&stderr, &known.line);
            }
            // Returning would fault again, for ever.
            let _ = signal_hook::low_level::emulate_default_handler(SIGBUS);
        })
    };
    known.map(drop)
}
