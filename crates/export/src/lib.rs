//! Drives served to other programs.
//!
//! [`nbd`] is a server of the network block device protocol: any number of named exports of block
//! devices, over any byte stream. [`fuse`] shows a drive as a file. [`control`] is the control
//! socket of a running drive: clients cut and restore its power, and read its state and counters.
//!
//! A device in memory, served at a Unix socket until the process ends:
//!
//! ```no_run
//! use tantalum_device::{Caps, Payload, PowerCycle, RamDevice, RamOptions};
//! use tantalum_export::Volume;
//! use tantalum_export::nbd::{Export, Options, Server};
//! use tantalum_rt::{Runtime, wall::WallOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut runtime = Runtime::wall_time(1, WallOptions::default())?;
//! let rt = runtime.handle();
//! let device = RamDevice::new(&rt, RamOptions::new(Caps::power_safe(1024, Payload::Bytes)));
//! let volume = Volume::new(&rt, device.clone());
//! let exports = vec![Export::new("drive", &volume)];
//! let server = Server::new(&rt, exports, Options::default(), |event| eprintln!("{event}"))?;
//! let clients = rt.io().ok_or("it is on the wall clock")?.listen_unix("drive.sock")?;
//! runtime.block_on(async move {
//!     device.power_on().await?;
//!     server.serve(clients).await; // nbd-client -unix drive.sock -N drive /dev/nbd0
//!     Ok(())
//! })?
//! # }
//! ```

pub mod activation;
mod budget;
pub mod control;
mod crew;
pub mod fuse;
mod lock;
pub mod nbd;
mod volume;

pub use budget::MemoryUse;
pub use lock::{Held, RangeLock};
pub use volume::Volume;
