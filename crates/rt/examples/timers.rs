//! How late timers of the wall clock are, and what their punctuality costs.
//!
//! `cargo run --release -p tantalum-rt --example timers [-- COUNT]`
//!
//! For each budget for spinning and each span: median and 99th percentile of how long a
//! sleep really took, and the processor time of the thread in percent of real time. First
//! with nothing else in the runtime, then beside load: a pair of tasks that send each other
//! 4 KiB over a socket, the one after the other, with 20 µs between two rounds.

#![allow(clippy::disallowed_methods, reason = "how often is an argument")]

use rustix::time::{ClockId, Timespec, clock_gettime};
use tantalum_rt::wall::{Backend, Io, WallOptions};
use tantalum_rt::{Nanos, Rt, Runtime};

fn nanos(clock: ClockId) -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    tv_sec as u64 * 1_000_000_000 + tv_nsec as u64
}

async fn echo(io: Io, rt: Rt) -> std::io::Result<()> {
    let listener = io.listen_tcp("127.0.0.1:0".parse().expect("an address"))?;
    let a = io.connect_tcp(listener.address()?).await?;
    let b = listener.accept().await?;
    rt.spawn_background("echo", async move {
        let mut buf = vec![0; 4096];
        while let (Ok(()), back) = b.recv_all(buf, 0).await {
            buf = b.send(back).await.1;
        }
    });
    let mut buf = vec![0; 4096];
    loop {
        buf = a.send(buf).await.1;
        let (result, back) = a.recv_all(buf, 0).await;
        buf = back;
        result?;
        rt.sleep(Nanos::from_micros(20)).await;
    }
}

fn main() -> std::io::Result<()> {
    let count = std::env::args_os().nth(1).and_then(|n| n.to_str()?.parse().ok()).unwrap_or(5000);
    println!(
        "{:>8} {:>6} {:>6} {:>8} {:>8} {:>8} {:>5}",
        "io", "spin", "beside", "span", "median", "99 %", "CPU"
    );
    for backend in [Backend::Uring, Backend::Poll] {
        for spin in [0, 20, 60, 100] {
            for load in [false, true] {
                let spin = Nanos::from_micros(spin);
                let options = WallOptions { io: backend, spin, ..WallOptions::default() };
                let mut runtime = match Runtime::wall_time(1, options) {
                    Ok(runtime) => runtime,
                    Err(e) => {
                        println!("{backend:?}: {e}");
                        continue;
                    }
                };
                let rt = runtime.handle();
                if load {
                    let io = rt.io().expect("on the wall clock");
                    rt.spawn_background("load", echo(io, rt.clone()));
                }
                for us in [20, 50, 100, 1000] {
                    let span = Nanos::from_micros(us);
                    let rt = rt.clone();
                    let n = if us == 1000 { count / 5 } else { count };
                    let (wall, cpu) = (nanos(ClockId::Monotonic), nanos(ClockId::ThreadCPUTime));
                    let mut took = runtime
                        .block_on(async move {
                            let mut took = Vec::with_capacity(n);
                            for _ in 0..n {
                                let before = nanos(ClockId::Monotonic);
                                rt.sleep(span).await;
                                took.push(nanos(ClockId::Monotonic) - before);
                            }
                            took
                        })
                        .map_err(std::io::Error::other)?;
                    let cpu = nanos(ClockId::ThreadCPUTime) - cpu;
                    let wall = nanos(ClockId::Monotonic) - wall;
                    took.sort_unstable();
                    let at = |part: usize| took[(took.len() * part / 100).min(took.len() - 1)];
                    println!(
                        "{:>8} {:>4}µs {:>6} {:>6}µs {:>6.1}µs {:>6.1}µs {:>4.0}%",
                        format!("{backend:?}"),
                        spin.0 / 1000,
                        if load { "load" } else { "idle" },
                        us,
                        at(50) as f64 / 1e3,
                        at(99) as f64 / 1e3,
                        cpu as f64 * 100.0 / wall as f64
                    );
                }
            }
        }
    }
    Ok(())
}
