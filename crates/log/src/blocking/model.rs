//! The queue in all orders that loom tells apart: records are taken once and in order, whoever
//! waits is woken, and the thread of the log does not sleep while there are news. A lost wake shows
//! as a deadlock.

use super::queue::{Batch, Queue, Room, Rules, closed};
use super::sys::{Ordering, Parker};
use crate::record::FRAME;
use crate::{LogError, Lsn, WhenFull};
use loom::sync::atomic::AtomicBool;
use loom::thread;
use std::sync::Arc;
use std::task::{Wake, Waker};

const RECORD: u64 = FRAME as u64 + 1;

/// A log that has memory for so many records of one byte, on devices without end.
struct Owner {
    queue: Arc<Queue>,
    batch: Batch,
    taken: Vec<u8>,
    end: Lsn,
    memory: u64,
}

struct Bell(Arc<Parker>);

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.0.wake();
    }
}

fn room(durable: Lsn, memory: u64) -> Room {
    let limit = durable.plus(memory * RECORD);
    Room { memory: limit, devices: Lsn(u64::MAX / 2), ample: true }
}

impl Owner {
    fn new(memory: u64, when_full: WhenFull) -> Owner {
        let rules = Rules { record_limit: 8, read_only: false, when_full };
        let zero = Lsn::ZERO;
        let queue = Arc::new(Queue::new(rules, zero, zero, zero, room(zero, memory)));
        Owner { queue, batch: Batch::default(), taken: Vec::new(), end: zero, memory }
    }

    /// Takes records and makes them durable, until it has this many.
    fn serve(&mut self, records: usize) {
        while self.taken.len() < records {
            let parker = Parker::new();
            if self.queue.arm(&Waker::from(Arc::new(Bell(parker.clone())))) {
                parker.wait();
            }
            self.queue.take(&mut self.batch);
            self.taken.extend(self.batch.records().map(|r| r[0]));
            self.end = Lsn(self.taken.len() as u64 * RECORD);
            self.queue.publish(Lsn::ZERO, self.end, room(self.end, self.memory));
        }
    }
}

fn model(switches: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(switches);
    model.check(scenario);
}

fn commit(queue: &Arc<Queue>, byte: u8) -> thread::JoinHandle<Result<u64, LogError>> {
    let queue = queue.clone();
    thread::spawn(move || {
        let appended = queue.append(&[&[byte]], true)?;
        assert!(queue.durable() >= appended.end, "it was not durable yet");
        Ok(appended.lsn.0 / RECORD)
    })
}

#[test]
fn every_commit_ends_and_its_record_lies_at_its_lsn() {
    model(3, || {
        let mut owner = Owner::new(10, WhenFull::Wait);
        let threads = [commit(&owner.queue, 0), commit(&owner.queue, 1)];
        owner.serve(2);
        for (byte, thread) in threads.into_iter().enumerate() {
            let place = thread.join().unwrap().unwrap() as usize;
            assert_eq!(owner.taken[place], byte as u8);
        }
    });
}

#[test]
fn whoever_finds_no_room_gets_it_when_there_is_some() {
    model(2, || {
        let mut owner = Owner::new(1, WhenFull::Wait);
        let queue = owner.queue.clone();
        let first = thread::spawn(move || {
            queue.append(&[&[0]], false).unwrap();
            queue.append(&[&[1]], true).unwrap();
        });
        let second = commit(&owner.queue, 2);
        owner.serve(3);
        first.join().unwrap();
        second.join().unwrap().unwrap();
        let place = |byte: u8| owner.taken.iter().position(|b| *b == byte);
        assert!(place(0) < place(1) && place(2).is_some());
    });
}

#[test]
fn the_end_of_the_log_ends_every_wait() {
    model(2, || {
        let owner = Owner::new(1, WhenFull::Wait);
        // One waits for its record, the other for room.
        let threads = [commit(&owner.queue, 0), commit(&owner.queue, 1)];
        owner.queue.close(closed());
        for thread in threads {
            assert_eq!(thread.join().unwrap(), Err(closed()));
        }
        assert_eq!(owner.queue.why_closed(), closed());
    });
}

#[test]
fn news_that_come_while_the_log_is_busy_are_seen_after_that() {
    model(3, || {
        let mut owner = Owner::new(10, WhenFull::Wait);
        let begun = Arc::new(AtomicBool::new(false));
        let (queue, seen) = (owner.queue.clone(), begun.clone());
        let thread = thread::spawn(move || {
            let lsn = queue.append(&[&[7]], false).unwrap().end;
            seen.store(true, Ordering::Release);
            queue.wait_durable(lsn).unwrap();
        });
        // It writes something, and takes what there is when that has ended.
        owner.queue.take(&mut owner.batch);
        owner.taken.extend(owner.batch.records().map(|r| r[0]));
        if !owner.taken.is_empty() {
            owner.end = Lsn(RECORD);
            owner.queue.publish(Lsn::ZERO, owner.end, room(owner.end, 10));
        }
        owner.serve(1);
        thread.join().unwrap();
        assert!(begun.load(Ordering::Acquire));
        assert_eq!(owner.taken, [7]);
    });
}
