//! Signals to the process.

use super::io::Io;
use super::watch::Watch;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use signal_hook::SigId;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A signal that a task may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// `SIGINT`: Ctrl-C.
    Interrupt,
    /// `SIGTERM`: an orderly end is asked for.
    Terminate,
    /// `SIGHUP`: the terminal is gone.
    Hangup,
}

impl Signal {
    fn number(self) -> i32 {
        match self {
            Signal::Interrupt => signal_hook::consts::SIGINT,
            Signal::Terminate => signal_hook::consts::SIGTERM,
            Signal::Hangup => signal_hook::consts::SIGHUP,
        }
    }
}

/// Takes signals in place of the system's default; see [`Io::signals`].
pub struct Signals {
    came: Vec<(Signal, Arc<AtomicBool>)>,
    handlers: Vec<SigId>,
    bytes: Watch,
}

impl Io {
    /// From now on these signals, to whichever thread, are told to the task that waits in
    /// [`Signals::next`]. Once the [`Signals`] is dropped they do nothing: the system's
    /// default does not come back.
    ///
    /// # Errors
    /// The system's.
    pub fn signals(&self, which: &[Signal]) -> io::Result<Signals> {
        let (read, write) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let mut signals =
            Signals { came: Vec::new(), handlers: Vec::new(), bytes: self.watch(read)? };
        for &signal in which {
            let flag = Arc::new(AtomicBool::new(false));
            // In this order: the byte is there after the flag.
            let handler = signal_hook::flag::register(signal.number(), flag.clone())?;
            signals.handlers.push(handler);
            let handler =
                signal_hook::low_level::pipe::register(signal.number(), write.try_clone()?)?;
            signals.handlers.push(handler);
            signals.came.push((signal, flag));
        }
        Ok(signals)
    }
}

impl Signals {
    /// The next signal. Several of one kind may be told as one.
    ///
    /// # Errors
    /// The system's.
    pub async fn next(&mut self) -> io::Result<Signal> {
        loop {
            for (signal, came) in &self.came {
                if came.swap(false, Ordering::AcqRel) {
                    return Ok(*signal);
                }
            }
            // In this order: a call that is given up takes no byte, and no signal with it.
            self.bytes.readable().await?;
            match rustix::io::read(&self.bytes, &mut [0; 64]) {
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            signal_hook::low_level::unregister(handler);
        }
    }
}
