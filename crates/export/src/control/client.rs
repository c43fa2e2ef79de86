//! A client of a control socket. It blocks, so it runs in a thread or process other than the
//! drive's.

use super::report::{
    CutReport, DetachReport, ReplaceReport, ResizeReport, RestoreReport, ScrubReport, StatsReport,
    StatusReport,
};
use super::request::{Refusal, Reply, Request};
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The longest answer that is accepted, in bytes.
pub(super) const LONGEST: u64 = 1 << 20;

/// How an NBD server greets.
const GREETING: &[u8] = b"NBDMAGIC";

/// The default control socket of the drive in this image: beside the image file, after symbolic
/// links in the path are resolved.
pub fn socket_beside(image: &Path) -> PathBuf {
    let file = std::fs::canonicalize(image).unwrap_or_else(|_| image.to_owned());
    let mut name = file.into_os_string();
    name.push(".control");
    name.into()
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no socket.
    #[error("there is no control socket \"{}\"", .0.display())]
    NotThere(PathBuf),
    /// The socket is there, but its process is gone.
    #[error("nothing listens at \"{}\": its process has ended", .0.display())]
    NobodyListens(PathBuf),
    /// The socket belongs to another user.
    #[error("{}: permission denied: {}", .0.display(), whose(*.1))]
    Denied(PathBuf, Option<u32>),
    /// Another error of the system.
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
    /// The connection ended without an answer.
    #[error("the drive's process has ended, or has closed this connection")]
    Gone,
    /// An NBD server listens there.
    #[error(
        "\"{}\" is no control socket: NBD is served there. Name the image or description, or its control \
         socket, whose name ends with .control",
        .0.display()
    )]
    Nbd(PathBuf),
    /// The answer is not valid.
    #[error("the answer cannot be understood: {0}")]
    Nonsense(String),
    /// The drive refused the request.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Advice if the socket belongs to another user.
fn whose(owner: Option<u32>) -> String {
    let owner = owner.map_or("another user".to_string(), |uid| format!("user {uid}"));
    format!("the drive belongs to {owner}: ask as that user, or with sudo")
}

#[allow(clippy::disallowed_methods, reason = "the edge: the owner of the socket")]
fn denied(path: &Path) -> ClientError {
    let owner = std::fs::metadata(path).ok().map(|is| is.uid());
    ClientError::Denied(path.to_owned(), owner)
}

/// A connection to a control socket.
///
/// ```no_run
/// use std::path::Path;
/// use tantalum_export::control::{Client, ClientError, socket_beside};
///
/// // Of a drive that `tantalum drive mount disk.img /mnt/flash` serves.
/// let mut drive = Client::connect(&socket_beside(Path::new("disk.img")))?;
/// let cut = drive.cut()?;
/// println!("{} blocks are lost at most", cut.lost_blocks_at_most);
/// drive.restore(false)?;
/// # Ok::<(), ClientError>(())
/// ```
pub struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn connect(path: &Path) -> Result<Client, ClientError> {
        let stream = UnixStream::connect(path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => ClientError::NotThere(path.to_owned()),
            ErrorKind::ConnectionRefused => ClientError::NobodyListens(path.to_owned()),
            ErrorKind::PermissionDenied => denied(path),
            _ => ClientError::Io(path.to_owned(), e),
        })?;
        Ok(Client { path: path.to_owned(), stream: BufReader::new(stream) })
    }

    /// Sends a request, and waits for the answer as long as it takes.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ClientError> {
        // A server that closes the connection may have sent the reason before it read this.
        let sent = self.stream.get_mut().write_all(&request.line());
        let mut line = Vec::new();
        let read = Read::take(&mut self.stream, LONGEST).read_until(b'\n', &mut line);
        if line.is_empty() {
            let gone = |e: &io::Error| {
                matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
            };
            return Err(match sent.and(read.map(drop)) {
                Err(e) if !gone(&e) => ClientError::Io(self.path.clone(), e),
                _ => ClientError::Gone,
            });
        }
        if line.starts_with(GREETING) {
            return Err(ClientError::Nbd(self.path.clone()));
        }
        let wrong = |e: serde_json::Error| ClientError::Nonsense(e.to_string());
        let reply: Reply = serde_json::from_slice(&line).map_err(wrong)?;
        match (reply.error, reply.result) {
            (Some(refusal), _) => Err(refusal.into()),
            (None, Some(result)) => serde_json::from_value(result).map_err(wrong),
            (None, None) => Err(ClientError::Nonsense("it has neither result nor error".into())),
        }
    }

    /// The drive's state.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn status(&mut self) -> Result<StatusReport, ClientError> {
        self.ask(&Request::Status {})
    }

    /// The drive's counters.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn stats(&mut self) -> Result<StatsReport, ClientError> {
        self.ask(&Request::Stats {})
    }

    /// Cuts the drive's power.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn cut(&mut self) -> Result<CutReport, ClientError> {
        self.ask(&Request::Cut {})
    }

    /// Restores the drive's power.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn restore(&mut self, salvage: bool) -> Result<RestoreReport, ClientError> {
        self.ask(&Request::Restore { salvage })
    }

    /// Gives the cache of a cache volume another size.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn resize(&mut self, flash_bytes: u64) -> Result<ResizeReport, ClientError> {
        self.ask(&Request::Resize { flash_bytes })
    }

    /// Compares every page of the cache of a cache volume with its checksum.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn scrub(&mut self) -> Result<ScrubReport, ClientError> {
        self.ask(&Request::Scrub {})
    }

    /// Gives up the cache of a cache volume, and ends its process.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn detach(&mut self) -> Result<DetachReport, ClientError> {
        self.ask(&Request::Detach {})
    }

    /// Puts another device in the place of one that is lost to a log.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn replace(
        &mut self,
        lost: &str,
        new: &str,
        force: bool,
    ) -> Result<ReplaceReport, ClientError> {
        let (lost, new) = (lost.to_string(), new.to_string());
        self.ask(&Request::Replace { lost, new, force })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_connect_is_told_whose_it_is() {
        let said = denied(Path::new("/")).to_string();
        assert!(said.starts_with("/: permission denied"), "{said}");
        assert!(said.contains("user 0") && said.contains("sudo"), "{said}");
        let said = denied(Path::new("/nonexistent/socket")).to_string();
        assert!(said.contains("another user") && said.contains("sudo"), "{said}");
    }
}
