//! The wall clock: the same runtime on real time, with sockets, files and signals.
//!
//! ```
//! use tantalum_rt::{Nanos, Runtime, wall::WallOptions};
//!
//! let mut runtime = Runtime::wall_time(1, WallOptions::default())?;
//! let io = runtime.handle().io().expect("on the wall clock");
//! let listener = io.listen_tcp("127.0.0.1:0".parse().unwrap())?;
//! let echoed = runtime.block_on(async move {
//!     let client = io.connect_tcp(listener.address()?).await?;
//!     let server = listener.accept().await?;
//!     client.send(b"hello".to_vec()).await.0?;
//!     let (result, heard) = server.recv_all(vec![0; 5], 0).await;
//!     result.map(|()| heard)
//! });
//! assert_eq!(echoed.unwrap()?, b"hello");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Invariants
//!
//! 1. **Time stands still while tasks run**, as on the virtual clock; it is taken anew when
//!    none is ready, and after each 64 polls. A timer never ends before the time for which
//!    it was set, and ties keep the order of setting. Unlike the virtual clock's, this time
//!    also moves while nothing happens.
//! 2. **The world outside** is asked when no task is ready, before timers that are not yet
//!    due, and after each 64 polls: neither it nor a timer can be starved by busy tasks,
//!    nor it by timers.
//! 3. **Buffers** belong to their operation until it completes. Dropping a future neither
//!    frees nor reuses its buffer; dropping the runtime cancels what is under way and waits
//!    for its end.
//! 4. **No quiet end.** A run that nothing can bring on any more, no timer, no operation,
//!    no thread with a [`Post`](crate::Post), ends in
//!    [`RunError::Stalled`](crate::RunError::Stalled). A
//!    [`Waker`](std::task::Waker) in another thread wakes, but does not count here.
//! 5. **Both back ends** keep the same promises; only their speed differs.
//!
//! # Precision of timers
//!
//! A kernel timer is late by tens of microseconds where the processor must first be woken,
//! more so on virtual machines. So the clock asks to be woken earlier, by a margin that it
//! learns, and spins for the rest, looking for completions meanwhile. The margin is at most
//! [`WallOptions::spin`]: more of it costs processor time, less costs punctuality. In the same
//! way it learns how soon something comes from outside when there is nothing to do, and spins
//! for that if it is likely to come within the budget; meanwhile it lets others have the
//! processor.
//!
//! # Time scale
//!
//! [`WallOptions::time_scale`] is how long, in real time, one second of the clock lasts. It is a
//! property of the clock, so every modelled duration is scaled alike; only [`Io::sleep`] is not. At
//! 0 no modelled duration is waited for on behalf of a client: when no task is ready, and a command
//! is announced ([`Rt::outstanding`](crate::Rt::outstanding)) or nothing can come from outside, the
//! clock jumps to the next timer, as the virtual clock does, after a look outside. While nobody
//! waits it goes as real time does: what is done in idle times is done when the world outside is
//! idle, and a periodic timer costs no more than it should.

mod attempt;
mod clock;
mod driver;
mod file;
mod io;
mod net;
mod outside;
mod poll;
mod random;
mod real;
mod scale;
mod signal;
mod storage;
mod uring;
mod watch;
mod work;

pub use clock::WallClock;
pub use driver::Backend;
pub use file::{AlignedBuf, FileOptions, IoBuf, IoFile, Space, WriteOptions};
pub use io::Io;
pub use net::{Listener, Stream};
pub(crate) use outside::Outside;
pub use random::random;
pub use real::RealSleep;
pub use signal::{Signal, Signals};
pub use storage::{AtomicWrites, DirectIo, Storage, StorageKind};
pub use watch::Watch;

use crate::{Nanos, Rt, Runtime};

/// How a runtime on the wall clock works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WallOptions {
    /// What carries out I/O.
    pub io: Backend,
    /// Real seconds for each second of the clock, at most a million: 1 for modelled
    /// latencies, 0.1 for a tenth of them, 0 for none (see [the module](self#time-scale)).
    pub time_scale: f64,
    /// For how long, at most, to spin instead of sleeping, before a timer is due or for what
    /// is about to come from outside; 0: never.
    pub spin: Nanos,
}

impl Default for WallOptions {
    fn default() -> WallOptions {
        WallOptions { io: Backend::Auto, time_scale: 1.0, spin: Nanos::from_micros(60) }
    }
}

impl Runtime {
    /// A runtime on the wall clock, with this seed for its random streams.
    ///
    /// # Errors
    /// [`std::io::ErrorKind::InvalidInput`] if an option makes no sense, else the system's:
    /// io_uring is asked for and not to be had, or the process is out of descriptors.
    pub fn wall_time(seed: u64, options: WallOptions) -> std::io::Result<Runtime> {
        let scale = scale::Scale::new(options.time_scale).ok_or_else(|| {
            let what = format!("time scale {}: it must be in 0..=1000000", options.time_scale);
            std::io::Error::new(std::io::ErrorKind::InvalidInput, what)
        })?;
        let (outside, inbox) = Outside::new(&options)?;
        let now = scale.virtual_time(outside.real_now());
        let rt = Rt::new(seed, now, inbox, Some(outside.clone()));
        let clock = WallClock::new(rt.clone(), outside, scale, options.spin);
        Ok(Runtime::of(rt, Box::new(clock)))
    }
}
