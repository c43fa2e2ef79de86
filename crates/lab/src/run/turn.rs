//! A client's turn on a database: from the start of a load to the cut, or to an error.
//!
//! # Invariants
//!
//! 1. Acknowledged commits of a client count whenever its turn ended; operations and their
//!    latencies count only up to the cut.
//! 2. An error after the stop is an effect of the cut, and no error of the client.

use crate::report::RowFindings;
use crate::run::clocks::Clocks;
use crate::run::row::RowError;
use crate::run::sqlite::Engine;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::BlockDevice;
use tantalum_rt::sync::WaitQueue;
use tantalum_rt::{Nanos, Rt};
use tantalum_workload::database::{Benchmark, Client, StepError};
use tantalum_workload::sql::SqlErrorKind;

/// What a client runs, and the books in which its actions are recorded.
#[derive(Clone)]
pub(crate) struct Books {
    pub rt: Rt,
    pub benchmark: Rc<dyn Benchmark>,
    pub latency: Rc<RefCell<Clocks>>,
    pub findings: Rc<RefCell<RowFindings>>,
}

/// How a turn ended.
pub(crate) struct ClientEnd {
    pub client: Client,
    pub operations: u64,
    pub user_bytes: u64,
    pub error: Option<StepError>,
}

/// When clients end.
pub(crate) struct Stop {
    /// At the cut.
    now: Cell<bool>,
    /// One failed: that ends the load before.
    failed: Cell<bool>,
    early: WaitQueue,
}

impl Stop {
    pub(crate) fn new(rt: &Rt) -> Stop {
        let early = WaitQueue::new(rt, "a client's failure");
        Stop { now: Cell::new(false), failed: Cell::new(false), early }
    }

    /// Everybody ends now.
    pub(crate) fn set(&self) {
        self.now.set(true);
    }

    /// Waits until a client failed.
    pub(crate) async fn early(&self) {
        self.early.until(|| self.failed.get()).await;
    }

    /// A client ended with this error. (What is damaged is found by the others, too; that is
    /// for the judge.)
    fn hear(&self, error: &StepError) {
        if let StepError::Sql(e) = error
            && e.kind != SqlErrorKind::Corrupt
        {
            self.failed.set(true);
            self.early.notify_all();
        }
    }
}

/// Starts the turn of a client: operations one after the other, until `stop` is set or one fails.
pub(crate) fn start<D: BlockDevice + Clone + 'static>(
    engine: &Engine<D>,
    client: Client,
    books: Books,
    stop: Rc<Stop>,
) -> impl Future<Output = Result<ClientEnd, RowError>> + use<D> {
    let Books { rt, benchmark, latency, findings } = books;
    // Load goes on where the last cut ended it.
    let (began, loaded) = (rt.now(), findings.borrow().load_ns);
    let name = format!("client {}", client.id());
    let shared = Rc::new(RefCell::new(Some(ClientEnd {
        client,
        operations: 0,
        user_bytes: 0,
        error: None,
    })));
    let (given, halted) = (shared.clone(), stop.clone());
    let join = engine.guest(name, move |sql| {
        let Some(mut end) = given.borrow_mut().take() else { return };
        while !stop.now.get() {
            let start = rt.now();
            let acknowledged = end.client.acknowledged();
            let step = benchmark.operate(sql, &mut end.client);
            let commits = end.client.acknowledged() - acknowledged;
            findings.borrow_mut().commits_acknowledged += commits;
            match step {
                Ok(step) => {
                    end.user_bytes += step.committed.unwrap_or(0);
                    if !stop.now.get() {
                        end.operations += 1;
                        let now = rt.now();
                        latency.borrow_mut().add(step.operation, now.saturating_sub(start));
                        let after = Nanos(loaded + now.saturating_sub(began).0);
                        findings.borrow_mut().series.get_or_insert_default().add(after);
                    }
                }
                Err(error) => {
                    if !stop.now.get() {
                        stop.hear(&error);
                        end.error = Some(error);
                    }
                    break;
                }
            }
        }
        *given.borrow_mut() = Some(end);
    });
    async move {
        let opened = join.await.map_err(|_| RowError::Dropped)?;
        let mut end = shared.borrow_mut().take().ok_or(RowError::Dropped)?;
        if let Err(error) = opened
            && !halted.now.get()
        {
            end.error = Some(error.into());
        }
        Ok(end)
    }
}
