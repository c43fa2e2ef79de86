//! The thread of a drive: its runtime, and the desk that holds waiting calls and tickets.
//!
//! 1. Commands begin in the order in which they were posted.
//! 2. Virtual time moves only while a call waits for a command; when the last such call is
//!    answered, it stands still. So a program with calls from one thread has the same run each
//!    time.
//! 3. Answers are sent when the runtime stands still: the caller's next call comes after all events
//!    of that instant.
//! 4. The outcome of a ticket is given to one waiter, once.

use crate::command::{Chassis, Command, Outcome, carry_out};
use crate::error::Failure;
use crate::mailbox::Mailbox;
use crate::report::{Snapshot, snapshot};
use crate::{TANTALUM_EINTERNAL, TANTALUM_ETICKET};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::task::Poll;
use tantalum_device::Stats;
use tantalum_rt::{Nanos, Runtime, TaskId};

/// The answer to a call that waits for one of several tickets: which of them, and its outcome.
pub(crate) type Waited = Result<(usize, Outcome), Failure>;

/// What is posted to the thread of a drive.
pub(crate) enum Letter {
    /// Carry out a command; the call waits.
    Run(Command, Sender<Outcome>),
    /// Carry out a command with this ticket.
    Submit(u64, Command),
    /// Wait for one of these tickets.
    Wait(Vec<u64>, Sender<Waited>),
    /// Return the time.
    Now(Sender<Nanos>),
    /// Return the counters.
    Count(Sender<Box<Snapshot>>),
}

/// An answer that is sent when the runtime stands still.
enum Answer {
    Run(Sender<Outcome>, Outcome),
    Wait(Sender<Waited>, Waited),
}

/// A call that waits for one of several tickets.
struct Waiter {
    tickets: Vec<u64>,
    to: Sender<Waited>,
}

#[derive(Default)]
struct Desk {
    /// Number of calls that wait.
    waiting: Cell<usize>,
    answers: RefCell<Vec<Answer>>,
    /// Submitted commands that were not waited for, with the outcomes of complete ones.
    tickets: RefCell<BTreeMap<u64, Option<Outcome>>>,
    /// Calls that wait for tickets, in the order of their arrival.
    waiters: RefCell<Vec<Waiter>>,
    /// The task that ends a turn of the runtime.
    turn: Cell<Option<TaskId>>,
}

/// Serves until the mailbox ends.
///
/// # Errors
/// The runtime has stalled, or is in a busy loop: a defect.
pub(crate) fn serve<B: Chassis>(
    runtime: &mut Runtime,
    chassis: &Stats<B>,
    mailbox: &std::sync::Arc<Mailbox<Letter>>,
) -> Result<(), Failure> {
    let desk = Rc::new(Desk::default());
    while let Some(letters) = mailbox.take(desk.waiting.get() == 0) {
        for letter in letters {
            accept(runtime, chassis, &desk, letter);
        }
        desk.send();
        if desk.waiting.get() > 0 {
            let turn = turn(runtime, desk.clone(), mailbox.clone());
            runtime
                .block_on(turn)
                .map_err(|e| Failure::new(TANTALUM_EINTERNAL, format!("the run failed: {e}")))?;
            desk.send();
        }
    }
    Ok(())
}

/// A task that ends when there is an answer or a letter.
fn turn(
    runtime: &Runtime,
    desk: Rc<Desk>,
    mailbox: std::sync::Arc<Mailbox<Letter>>,
) -> impl Future<Output = ()> + 'static {
    let rt = runtime.handle();
    poll_fn(move |cx| {
        if !desk.answers.borrow().is_empty() || mailbox.has_letter(cx.waker()) {
            desk.turn.set(None);
            return Poll::Ready(());
        }
        desk.turn.set(Some(rt.park("an answer to a call")));
        Poll::Pending
    })
}

fn accept<B: Chassis>(runtime: &Runtime, chassis: &Stats<B>, desk: &Rc<Desk>, letter: Letter) {
    let rt = runtime.handle();
    match letter {
        Letter::Run(command, to) => {
            desk.waiting.set(desk.waiting.get() + 1);
            let (desk, chassis) = (desk.clone(), chassis.clone());
            rt.clone().spawn(command.name(), async move {
                let outcome = carry_out(rt.clone(), chassis, command).await;
                desk.answer(Answer::Run(to, outcome));
                desk.end_turn(&rt);
            });
        }
        Letter::Submit(ticket, command) => {
            desk.tickets.borrow_mut().insert(ticket, None);
            let (desk, chassis) = (desk.clone(), chassis.clone());
            rt.clone().spawn(command.name(), async move {
                let outcome = carry_out(rt.clone(), chassis, command).await;
                desk.complete(ticket, outcome);
                desk.end_turn(&rt);
            });
        }
        Letter::Wait(tickets, to) => desk.wait(tickets, to),
        // If the caller is gone, the answer is not needed.
        Letter::Now(to) => drop(to.send(rt.now())),
        Letter::Count(to) => drop(to.send(Box::new(snapshot(rt.now(), chassis)))),
    }
}

impl Desk {
    /// Keeps the answer to a call until the runtime stands still.
    fn answer(&self, answer: Answer) {
        self.waiting.set(self.waiting.get() - 1);
        self.answers.borrow_mut().push(answer);
    }

    fn end_turn(&self, rt: &tantalum_rt::Rt) {
        if !self.answers.borrow().is_empty()
            && let Some(turn) = self.turn.get()
        {
            rt.wake(turn);
        }
    }

    fn send(&self) {
        for answer in self.answers.take() {
            // The caller is gone and needs no answer.
            match answer {
                Answer::Run(to, outcome) => drop(to.send(outcome)),
                Answer::Wait(to, waited) => drop(to.send(waited)),
            }
        }
    }

    /// Makes a call wait for one of `tickets`.
    fn wait(&self, tickets: Vec<u64>, to: Sender<Waited>) {
        self.waiting.set(self.waiting.get() + 1);
        let mut known = self.tickets.borrow_mut();
        if let Some(unknown) = tickets.iter().find(|t| !known.contains_key(t)) {
            let failure = no_such_ticket(*unknown);
            drop(known);
            return self.answer(Answer::Wait(to, Err(failure)));
        }
        let is_done = |t: &u64| known.get(t).is_some_and(Option::is_some);
        match tickets.iter().position(is_done) {
            Some(which) => {
                let outcome = known.remove(&tickets[which]).flatten();
                drop(known);
                if let Some(outcome) = outcome {
                    self.taken(tickets[which]);
                    self.answer(Answer::Wait(to, Ok((which, outcome))));
                }
            }
            None => self.waiters.borrow_mut().push(Waiter { tickets, to }),
        }
    }

    /// Completes a submitted command: its outcome goes to the first call that waits for it, or is
    /// kept.
    fn complete(&self, ticket: u64, outcome: Outcome) {
        let mut waiters = self.waiters.borrow_mut();
        let place = |w: &Waiter| w.tickets.iter().position(|t| *t == ticket);
        let found = waiters.iter().enumerate().find_map(|(i, w)| Some((i, place(w)?)));
        let Some((i, which)) = found else {
            self.tickets.borrow_mut().insert(ticket, Some(outcome));
            return;
        };
        let waiter = waiters.remove(i);
        drop(waiters);
        self.tickets.borrow_mut().remove(&ticket);
        self.answer(Answer::Wait(waiter.to, Ok((which, outcome))));
        self.taken(ticket);
    }

    /// Fails the other calls that wait for a ticket that was just taken.
    fn taken(&self, ticket: u64) {
        let all = self.waiters.take();
        let (gone, stay) = all.into_iter().partition(|w| w.tickets.contains(&ticket));
        *self.waiters.borrow_mut() = stay;
        let gone: Vec<Waiter> = gone;
        for waiter in gone {
            self.answer(Answer::Wait(waiter.to, Err(no_such_ticket(ticket))));
        }
    }
}

fn no_such_ticket(ticket: u64) -> Failure {
    let message = format!("there is no ticket {ticket}, or it was waited for already");
    Failure::new(TANTALUM_ETICKET, message)
}
