//! The caller's end: a handle that many threads may use at once.
//!
//! 1. Commands that are submitted and not waited for are bounded, in number and in bytes.
//! 2. Memory of the caller is only touched by its own threads, during its own calls.

use crate::command::{Chassis, Command, Done, Outcome};
use crate::error::{Failure, said};
use crate::mailbox::Mailbox;
use crate::report::Snapshot;
use crate::server::{Letter, Waited, serve};
use crate::{
    TANTALUM_EBUSY, TANTALUM_EINTERNAL, TANTALUM_SUBMITTED_BYTES_MAX, TANTALUM_TICKETS_MAX,
};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use tantalum_device::{Caps, PowerCycle, Stats};
use tantalum_rt::{Nanos, Rt, Runtime};

/// The caller's buffer of a submitted read; the wait copies the data there.
pub(crate) struct Room {
    pub to: *mut u8,
}

// SAFETY: it is only an address. The wait for the read writes there, which the caller of
// `tantalum_submit_read` has allowed.
unsafe impl Send for Room {}

/// Commands that are submitted and not waited for.
#[derive(Default)]
struct Submitted {
    next: u64,
    bytes: u64,
    tickets: BTreeMap<u64, (u64, Option<Room>)>,
}

/// A drive, as its callers see it.
pub(crate) struct Client {
    mailbox: Arc<Mailbox<Letter>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    caps: Caps,
    submitted: Mutex<Submitted>,
}

impl Client {
    /// Starts a thread with a runtime and the box that `make` makes, and restores its power.
    pub fn open<B: Chassis>(
        seed: u64,
        make: impl FnOnce(&Rt) -> Result<B, Failure> + Send + 'static,
    ) -> Result<Client, Failure> {
        let mailbox = Arc::new(Mailbox::new());
        let (opened, is_open) = channel();
        let reader = mailbox.clone();
        let body = move || {
            let run = AssertUnwindSafe(|| run(seed, make, opened, &reader));
            let ended = catch_unwind(run).unwrap_or_else(|panic| {
                let what = format!("the drive's thread panicked: {}", said(&*panic));
                Err(Failure::new(TANTALUM_EINTERNAL, what))
            });
            reader.close(ended.err().unwrap_or_else(|| Failure::invalid("the drive is closed")));
        };
        #[allow(clippy::disallowed_methods, reason = "one runtime is one thread: this is that")]
        let thread = std::thread::Builder::new().name("tantalum".into()).spawn(body);
        let thread = thread.map_err(|e| {
            Failure::new(TANTALUM_EINTERNAL, format!("no thread for the drive: {e}"))
        })?;
        let caps = match is_open.recv() {
            Ok(caps) => caps,
            Err(_) => {
                let why = mailbox.why_closed();
                let _ = thread.join();
                return Err(why);
            }
        };
        let thread = Mutex::new(Some(thread));
        Ok(Client { mailbox, thread, caps, submitted: Mutex::default() })
    }

    /// What the drive promises.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// Ends the thread. Calls after that fail.
    pub fn close(&self) {
        self.mailbox.end();
        let thread = self.thread.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(thread) = thread {
            // The thread catches its panics.
            let _ = thread.join();
        }
    }

    fn submitted(&self) -> MutexGuard<'_, Submitted> {
        self.submitted.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn ask<T>(&self, letter: impl FnOnce(Sender<T>) -> Letter) -> Result<T, Failure> {
        let (to, answer) = channel();
        self.mailbox.post(letter(to))?;
        answer.recv().map_err(|_| self.mailbox.why_closed())
    }

    /// Carries out a command.
    pub fn run(&self, command: Command) -> Outcome {
        self.ask(|to| Letter::Run(command, to))?
    }

    /// Carries out a command without a result.
    pub fn order(&self, command: Command) -> Result<(), Failure> {
        self.run(command).map(drop)
    }

    /// Submits the command of `bytes` bytes that `make` makes, if there is room; returns its
    /// ticket.
    pub fn submit(
        &self,
        bytes: u64,
        make: impl FnOnce() -> Command,
        room: Option<Room>,
    ) -> Result<u64, Failure> {
        let mut s = self.submitted();
        let full = s.bytes > 0 && s.bytes.saturating_add(bytes) > TANTALUM_SUBMITTED_BYTES_MAX;
        if s.tickets.len() >= TANTALUM_TICKETS_MAX || full {
            let message = format!(
                "{} commands with {} bytes are submitted: wait for one of them first",
                s.tickets.len(),
                s.bytes
            );
            return Err(Failure::new(TANTALUM_EBUSY, message));
        }
        // Posted under the lock, so that tickets are in the order of submission.
        let ticket = s.next + 1;
        self.mailbox.post(Letter::Submit(ticket, make()))?;
        s.next = ticket;
        s.bytes += bytes;
        s.tickets.insert(ticket, (bytes, room));
        Ok(ticket)
    }

    /// Waits for the first of these tickets that completes; returns its index and outcome. The data
    /// of a read is then in the caller's buffer.
    pub fn wait(&self, tickets: Vec<u64>) -> Result<(usize, Result<(), Failure>), Failure> {
        let waited: Waited = self.ask(|to| Letter::Wait(tickets.clone(), to))?;
        let (which, outcome) = waited?;
        let room = {
            let mut s = self.submitted();
            let (bytes, room) = s.tickets.remove(&tickets[which]).unwrap_or_default();
            s.bytes = s.bytes.saturating_sub(bytes);
            room
        };
        let result = outcome.map(|done| {
            if let (Done::Read(data), Some(room)) = (done, room) {
                // SAFETY: the room is for as many bytes as were read, and the caller of
                // `tantalum_submit_read` keeps it until this wait has returned.
                unsafe { room.to.copy_from_nonoverlapping(data.as_ptr(), data.len()) };
            }
        });
        Ok((which, result))
    }

    /// Virtual time since the drive was opened.
    pub fn now(&self) -> Result<Nanos, Failure> {
        self.ask(Letter::Now)
    }

    /// The counters so far.
    pub fn count(&self) -> Result<Box<Snapshot>, Failure> {
        self.ask(Letter::Count)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
    }
}

/// The body of a drive's thread.
fn run<B: Chassis>(
    seed: u64,
    make: impl FnOnce(&Rt) -> Result<B, Failure>,
    opened: Sender<Caps>,
    mailbox: &Arc<Mailbox<Letter>>,
) -> Result<(), Failure> {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let chassis = Stats::new(&rt, make(&rt)?);
    let first = chassis.clone();
    let started = runtime.block_on(async move {
        first.power_on().await?;
        Ok::<Caps, Failure>(*tantalum_device::BlockDevice::caps(&first.device()))
    });
    let caps = started
        .map_err(|e| Failure::new(TANTALUM_EINTERNAL, format!("the start failed: {e}")))??;
    if opened.send(caps).is_err() {
        return Ok(());
    }
    serve(&mut runtime, &chassis, mailbox)
}

#[cfg(test)]
mod tests;
