//! The message when the system ends the process because of an image. The image is mapped memory: a
//! store raises SIGBUS if the disk is full.

use signal_hook::consts::SIGBUS;
use std::io;
use std::path::Path;
use tantalum_nand::ImageFile;

/// What to do after a fault in the image of a running drive.
#[cfg(feature = "live")]
pub const POWER_CUT: &str = "start again: to the drive this was a power cut";
/// What to do after a fault in a private view of an image.
pub const NOTHING: &str = "try again: the image is as it was";

/// From now on a fault in one of these images prints a message before it ends the process. `then`
/// is what to do once there is room. A fault elsewhere ends the process without the message. For
/// all images of a process, in one call.
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
    let lines: Vec<_> =
        images.iter().map(|(path, image)| (image.addresses(), line(path))).collect();
    let stderr = io::stderr();
    // SAFETY: the action compares numbers, writes a prepared line by one system call, without a
    // lock or an allocation, and ends the process by a function that is made for signal handlers.
    let known = unsafe {
        signal_hook_registry::register_sigaction(SIGBUS, move |info| {
            // SAFETY: for a fault, `si_addr` is its address. For a signal that a process sent it is
            // another number, which is only compared.
            let at = info.si_addr().addr();
            if let Some((_, line)) = lines.iter().find(|(here, _)| here.contains(&at)) {
                // If standard error is closed, there is nothing else to do.
                let _ = rustix::io::write(&stderr, line);
            }
            // Returning would fault again, for ever.
            let _ = signal_hook::low_level::emulate_default_handler(SIGBUS);
        })
    };
    known.map(drop)
}
