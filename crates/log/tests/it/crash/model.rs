//! Whoever writes to a log and reads it.

use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::BlockDevice;
use tantalum_explore::Journal;
use tantalum_log::{Log, LogError, Lsn, Record};
use tantalum_rt::{Nanos, Rt, Stream};

pub type Shared = Rc<RefCell<Journal>>;

/// How a log is used.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub writers: u64,
    pub records: u64,
    /// Bytes of a record, at most.
    pub bytes: u64,
    /// One step in so many moves the checkpoint; 0: none does.
    pub checkpoints: u64,
    /// One step in so many reads everything; 0: none does.
    pub reads: u64,
}

/// The next record: two in three are short.
fn content(journal: &mut Journal, dice: &mut Stream, most: u64) -> Vec<u8> {
    let small = dice.chance(2, 3);
    let length = dice.below(if small { most / 8 + 1 } else { most + 1 });
    journal.content(length as usize, |rest| dice.fill(rest))
}

/// Appends, commits, moves the checkpoint and reads, until the log fails or all is done.
pub async fn work<D: BlockDevice + Clone + 'static>(
    rt: Rt,
    log: Log<D>,
    journal: Shared,
    work: Work,
) {
    let mut writers = Vec::new();
    for writer in 0..work.writers {
        let name = format!("writer {writer} at {}", log.end());
        let dice = rt.stream(&name);
        let body = write(rt.clone(), log.clone(), journal.clone(), work, dice);
        writers.push(rt.spawn(name, body));
    }
    for writer in writers {
        let _ = writer.await;
    }
}

async fn write<D: BlockDevice + Clone + 'static>(
    rt: Rt,
    log: Log<D>,
    journal: Shared,
    work: Work,
    mut dice: Stream,
) {
    for _ in 0..work.records {
        if let Err(e) = step(&log, &journal, work, &mut dice).await {
            let allowed = matches!(&e, LogError::Failed(_) | LogError::Io { .. });
            assert!(allowed, "{e}");
            return;
        }
        rt.sleep(Nanos(dice.below(60_000))).await;
    }
}

async fn step<D: BlockDevice + Clone + 'static>(
    log: &Log<D>,
    journal: &Shared,
    work: Work,
    dice: &mut Stream,
) -> Result<(), LogError> {
    let bytes = content(&mut journal.borrow_mut(), dice, work.bytes);
    let split = dice.below(bytes.len() as u64 + 1) as usize;
    let (a, b) = bytes.split_at(split);
    let at = log.append_pieces(&[a, b]).await?;
    journal.borrow_mut().records.push(Record { lsn: at.lsn, end: at.end, bytes });
    match dice.below(4) {
        0 => {}
        1 => drop(log.flush().await?),
        _ => log.wait_durable(at.end).await?,
    }
    if work.checkpoints > 0 && dice.chance(1, work.checkpoints) && journal.borrow().asked.is_none()
    {
        checkpoint(log, journal, dice).await?;
    }
    if work.reads > 0 && dice.chance(1, work.reads) {
        let (journal, first) = (journal.borrow().clone(), log.first());
        let read = journal.compare(log).await;
        // The checkpoint may overtake a reader.
        let may_fail = log.first() > first || !log_works(log).await;
        assert!(read.is_ok() || may_fail, "{read:?}");
    }
    Ok(())
}

/// Whether the log still takes records; a reader fails with the power, too.
async fn log_works<D: BlockDevice + Clone + 'static>(log: &Log<D>) -> bool {
    log.flush().await.is_ok()
}

async fn checkpoint<D: BlockDevice + Clone + 'static>(
    log: &Log<D>,
    journal: &Shared,
    dice: &mut Stream,
) -> Result<(), LogError> {
    let (durable, first) = (log.durable(), log.first());
    let ends: Vec<Lsn> = journal.borrow().records.iter().map(|r| r.end).collect();
    let may: Vec<Lsn> = ends.into_iter().filter(|e| *e >= first && *e <= durable).collect();
    if may.is_empty() {
        return Ok(());
    }
    // Most of the time nearly everything is given up.
    let back = if dice.chance(1, 2) { 1 } else { dice.range(1, may.len() as u64 + 1) as usize };
    let (lsn, number) = (may[may.len() - back], dice.next_u64());
    journal.borrow_mut().asked = Some((lsn, number));
    let moved = log.checkpoint(lsn, number).await;
    let mut j = journal.borrow_mut();
    if moved.is_ok() {
        j.moved((lsn, number));
    }
    moved
}
