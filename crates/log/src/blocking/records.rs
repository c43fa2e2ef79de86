//! Records for a thread.

use super::Handle;
use super::thread::More;
use crate::{LogError, Record};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::vec::IntoIter;
use tantalum_rt::Post;

/// The records of a log from an LSN on, up to what was durable when the reading began; see
/// [`BlockingLog::read`](super::BlockingLog::read). After an error there is nothing more.
///
/// See [`BlockingLog`](super::BlockingLog) for an example.
pub struct BlockingRecords {
    pub(super) ask: Option<Post<More>>,
    pub(super) piece: IntoIter<Record>,
    pub(super) handle: Arc<Handle>,
}

impl BlockingRecords {
    fn more(&mut self) -> Result<(), LogError> {
        let Some(ask) = self.ask.take() else { return Ok(()) };
        let (to, piece) = channel();
        let posted = ask.post_wait(to).is_ok();
        let piece = match piece.recv() {
            Ok(piece) if posted => piece?,
            _ => return Err(self.handle.front.why_closed()),
        };
        if !piece.is_empty() {
            (self.ask, self.piece) = (Some(ask), piece.into_iter());
        }
        Ok(())
    }
}

impl Iterator for BlockingRecords {
    type Item = Result<Record, LogError>;

    fn next(&mut self) -> Option<Result<Record, LogError>> {
        if self.piece.as_slice().is_empty()
            && let Err(e) = self.more()
        {
            return Some(Err(e));
        }
        self.piece.next().map(Ok)
    }
}
