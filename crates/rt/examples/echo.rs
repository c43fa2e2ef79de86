//! How fast requests of 4 KiB come back over a UNIX socket: a client thread with blocking
//! calls against a runtime on the wall clock, and against a thread with blocking calls.
//!
//! `cargo run --release -p tantalum-rt --example echo [-- ROUNDS]`
//!
//! With so many requests under way: thousands of round trips a second, and the processor
//! time of the server in percent of real time. The variants take turns, five times; shown
//! are the medians.
#![allow(clippy::disallowed_methods, reason = "the client and what is compared with are threads")]

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use tantalum_rt::Runtime;
use tantalum_rt::wall::{Backend, WallOptions};

const SIZE: usize = 4096;

fn nanos(clock: ClockId) -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    tv_sec as u64 * 1_000_000_000 + tv_nsec as u64
}

fn client(mut stream: UnixStream, rounds: usize, depth: usize) -> std::io::Result<()> {
    let mut buf = vec![1; SIZE];
    for _ in 0..depth {
        stream.write_all(&buf)?;
    }
    for round in 0..rounds {
        stream.read_exact(&mut buf)?;
        if round + depth < rounds {
            stream.write_all(&buf)?;
        }
    }
    Ok(())
}

fn blocking(mut stream: UnixStream) -> std::io::Result<()> {
    let mut buf = vec![0; SIZE];
    while stream.read_exact(&mut buf).is_ok() {
        stream.write_all(&buf)?;
    }
    Ok(())
}

fn runtime(stream: UnixStream, io: Backend) -> std::io::Result<()> {
    let options = WallOptions { io, ..WallOptions::default() };
    let mut runtime = Runtime::wall_time(1, options)?;
    let rt = runtime.handle();
    let io = rt.io().expect("on the wall clock");
    let main = async move {
        let stream = Rc::new(io.stream(stream.into())?);
        let (mut buf, mut filled) = (vec![0; 64 * SIZE], 0);
        loop {
            let (result, back) = stream.recv(buf, filled).await;
            buf = back;
            let count = result?;
            if count == 0 {
                return Ok(());
            }
            filled += count;
            let whole = filled / SIZE * SIZE;
            stream.send(buf[..whole].to_vec()).await.0?;
            buf.copy_within(whole..filled, 0);
            filled -= whole;
        }
    };
    runtime.block_on(main).map_err(std::io::Error::other)?
}

fn main() -> std::io::Result<()> {
    let rounds =
        std::env::args_os().nth(1).and_then(|n| n.to_str()?.parse().ok()).unwrap_or(20_000);
    type Server = Box<dyn Fn(UnixStream) -> std::io::Result<()>>;
    let servers: Vec<(&str, Server)> = vec![
        ("blocking thread", Box::new(blocking)),
        ("io_uring", Box::new(|s| runtime(s, Backend::Uring))),
        ("poll", Box::new(|s| runtime(s, Backend::Poll))),
    ];
    for depth in [1, 8, 32] {
        let mut figures = vec![Vec::new(); servers.len()];
        for _ in 0..5 {
            for ((_, server), figures) in servers.iter().zip(&mut figures) {
                let (ours, theirs) = UnixStream::pair()?;
                let (wall, cpu) = (nanos(ClockId::Monotonic), nanos(ClockId::ThreadCPUTime));
                let thread = std::thread::spawn(move || client(theirs, rounds, depth));
                server(ours)?;
                let cpu = nanos(ClockId::ThreadCPUTime) - cpu;
                let wall = nanos(ClockId::Monotonic) - wall;
                thread.join().expect("the client does not panic")?;
                figures.push((rounds as f64 * 1e6 / wall as f64, cpu as f64 * 100.0 / wall as f64));
            }
        }
        for ((name, _), figures) in servers.iter().zip(&mut figures) {
            figures.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (rate, cpu) = figures[2];
            println!("depth {depth:>2}  {name:<20} {rate:>7.1} k/s  {cpu:>4.0} %");
        }
    }
    Ok(())
}
