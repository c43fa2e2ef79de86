//! Another length of a file that is in use.
//!
//! 1. A file that becomes longer has room for every new block first, and its length is durable
//!    before a command can reach them. They read as zeros. If there is no such room, others keep
//!    what there is.
//! 2. One change at a time. One that has begun is carried out though nobody waits for it.
//! 3. The capacity of a device changes at one moment, for all handles. What was said before stays
//!    readable.

use super::received::Received;
use super::{Busy, File, Inner, error};
use crate::{Caps, IoError};
use std::cell::OnceCell;
use std::rc::Rc;
use tantalum_rt::wall::Space;

/// What a device promises: the last of its promises counts (3).
pub(super) struct Promised {
    caps: Caps,
    then: OnceCell<Box<Promised>>,
}

impl Promised {
    pub fn new(caps: Caps) -> Promised {
        Promised { caps, then: OnceCell::new() }
    }

    fn last(&self) -> &Promised {
        let mut at = self;
        while let Some(then) = at.then.get() {
            at = then;
        }
        at
    }

    pub fn now(&self) -> &Caps {
        &self.last().caps
    }

    pub fn change(&self, caps: Caps) {
        // Nothing follows the last one.
        let _ = self.last().then.set(Box::new(Promised::new(caps)));
    }
}

impl File {
    /// Gives a file so many bytes; see [`PowerCycle::set_bytes`](crate::PowerCycle::set_bytes).
    pub(super) async fn give_bytes(&self, bytes: u64) -> Result<(), IoError> {
        let body = change(Busy::new(&self.inner), bytes);
        Received::new(&self.inner.rt, "another length of a file", body).await
    }
}

async fn change(busy: Busy, bytes: u64) -> Result<(), IoError> {
    let inner = &busy.0;
    let _turn = inner.length.lock().await;
    let now = *inner.caps();
    let block = u64::from(now.block_size);
    if !inner.is_file || inner.settings.read_only {
        return Err(IoError::Invalid("the capacity of this device is fixed"));
    }
    if bytes == 0 || !bytes.is_multiple_of(block) {
        return Err(IoError::Invalid("the length is not a whole number of blocks"));
    }
    if bytes > now.bytes() {
        if let Err(e) = lengthen(inner, now.bytes(), bytes).await {
            // What could not be had whole goes back.
            let _ = inner.owner.set_len(now.bytes());
            let full = error::is_full(&e);
            return Err(if full { IoError::NoSpace } else { error::of_command(&e) });
        }
    } else {
        inner.owner.set_len(bytes).map_err(|e| error::of_command(&e))?;
    }
    inner.promised.change(Caps { blocks: bytes / block, ..now });
    Ok(())
}

async fn lengthen(inner: &Rc<Inner>, from: u64, to: u64) -> std::io::Result<()> {
    error::check_room(&inner.owner, to - from)?;
    inner.owner.allocate(Space::Reserve, from, to - from).await?;
    inner.owner.sync_data().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Payload;

    #[test]
    fn the_last_promise_counts_and_earlier_ones_stay() {
        let of = |blocks| Caps::power_safe(blocks, Payload::Bytes);
        let promised = Promised::new(of(1));
        let first = promised.now();
        promised.change(of(2));
        promised.change(of(3));
        assert_eq!((first.blocks, promised.now().blocks), (1, 3));
    }
}
