//! The plug of a running drive: requests and answers over its control socket.
//!
//! `docs/control.md` has the protocol byte by byte. A client sends lines of JSON, and gets one line
//! for each, in their order. [`Request`] and [`Reply`] are those lines, [`ControlServer`] answers
//! them on the runtime of the drive, [`Client`] asks from anywhere else.
//!
//! # What a client cannot do
//!
//! 1. Make the server hold more than [`MAX_CLIENTS`] times [`MAX_LINE`] bytes, and an answer each.
//! 2. Keep another client waiting: each has a task of its own.
//! 3. Keep its place by doing nothing: who says nothing for [`IDLE`] is let go, as is who does not
//!    take an answer for [`PATIENCE`].
//! 4. Bring the drive down: what cannot be understood is answered so, and what was begun is carried
//!    out, though the client be gone.

mod client;
mod report;
mod request;
mod server;

pub use client::{Client, ClientError, socket_beside};
pub use report::{
    Clients, CommandCounts, CutReport, Described, LATENCY_BOUNDS, LatencyCounts, Line, Panel,
    Phase, Power, RestoreReport, StatsReport, StatusReport, Values,
};
pub use request::{Kind, Refusal, Reply, Request, VERSION};
pub use server::{ControlServer, Handler, IDLE, MAX_CLIENTS, MAX_LINE, PATIENCE};
