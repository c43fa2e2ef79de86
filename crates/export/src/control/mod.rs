//! The control socket of a running drive: clients cut and restore its power, give its cache another
//! size, scrub it or give it up, replace a lost device of its log, and read its state.
//!
//! `docs/control.md` describes the protocol byte by byte. A client sends lines of JSON, and gets
//! one line of answer for each, in order. [`Request`] and [`Reply`] are those lines.
//! [`ControlServer`] answers them on the drive's runtime. [`Client`] asks from any other thread or
//! process.
//!
//! # What a client cannot do
//!
//! 1. Make the server hold more than [`MAX_CLIENTS`] times [`MAX_LINE`] bytes, and one answer for
//!    each client.
//! 2. Keep another client waiting: each has a task of its own.
//! 3. Keep its place without using it: a client that sends nothing for [`IDLE`] is disconnected,
//!    and so is one that does not take an answer for [`PATIENCE`].
//! 4. Bring the drive down: a line that is not a valid request gets an error as its answer. A
//!    request that has begun is carried out even if its client is gone.

mod client;
mod report;
mod request;
mod server;

pub use client::{Client, ClientError, socket_beside};
pub use report::{
    Clients, CommandCounts, CutReport, Described, DetachReport, LATENCY_BOUNDS, LatencyCounts,
    Line, Panel, Phase, Power, ReplaceReport, ResizeReport, RestoreReport, ScrubReport,
    StatsReport, StatusReport, Values,
};
pub use request::{Kind, Refusal, Reply, Request, VERSION};
pub use server::{ControlServer, Handler, IDLE, MAX_CLIENTS, MAX_LINE, PATIENCE};
