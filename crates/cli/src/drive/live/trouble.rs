//! Repeated errors are printed only now and then.

use crate::out;
use std::cell::Cell;
use std::fmt::Display;
use tantalum_rt::Nanos;
use tantalum_rt::wall::Io;

/// Real time between two messages.
const PAUSE: Nanos = Nanos::from_secs(10);

/// Errors of one kind.
pub struct Trouble {
    io: Io,
    told: Cell<Option<Nanos>>,
}

impl Trouble {
    /// No error was printed yet.
    pub fn new(io: &Io) -> Trouble {
        Trouble { io: io.clone(), told: Cell::new(None) }
    }

    /// Prints the error, unless one was printed a short time ago.
    pub fn tell(&self, what: impl Display) {
        let now = self.io.real_now();
        if is_due(self.told.get(), now) {
            self.told.set(Some(now));
            out::note(format_args!("{what}; it is tried again"));
        }
    }
}

fn is_due(told: Option<Nanos>, now: Nanos) -> bool {
    told.is_none_or(|then| now >= then.saturating_add(PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_at_once_and_then_now_and_then() {
        let first = Nanos::from_secs(3);
        assert!(is_due(None, first));
        assert!(!is_due(Some(first), Nanos::from_millis(12_999)));
        assert!(is_due(Some(first), Nanos::from_secs(13)));
    }
}
