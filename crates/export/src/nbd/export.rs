//! Exports, and how clients see them.

use super::Offer;
use crate::volume::{Access, Volume, unit};
use std::rc::Rc;
use tantalum_device::{BlockDevice, Payload, PowerCycle};

/// The minimum block size that is advertised: a sector as old software knows it. Requests of any
/// other length are taken too.
const BLOCK_MIN: u32 = 512;

/// Why exports cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The device carries stamps, not bytes.
    #[error("export \"{0}\": the device carries stamps, not bytes: build it with payload")]
    Stamps(String),
    /// The protocol cannot carry the name.
    #[error("export \"{0}\": a name has at most 4096 bytes, and no NUL among them")]
    Name(String),
    /// Two exports have one name.
    #[error("two exports are called \"{0}\": give each a name of its own")]
    Twice(String),
    /// There is no export.
    #[error("there is nothing to export")]
    Nothing,
    /// A limit is out of bounds.
    #[error("the limit of {what} is {value}; it must be from {min} to {max}")]
    Limit {
        /// What it limits.
        what: &'static str,
        /// The limit.
        value: u64,
        /// The least valid value.
        min: u64,
        /// The most valid value.
        max: u64,
    },
    /// The clients do not fit into the memory that the server may take.
    #[error(
        "{clients} clients need {} KiB of memory at least, and {} KiB are allowed: allow more \
         memory, or fewer clients",
        .least.div_ceil(1024), .memory >> 10
    )]
    Memory {
        /// Bytes that are allowed.
        memory: u64,
        /// Bytes that they need.
        least: u64,
        /// How many clients there may be.
        clients: u64,
    },
}

/// A volume under a name.
///
/// See [the crate](crate) for an example.
pub struct Export<P: PowerCycle> {
    name: String,
    description: String,
    volume: Rc<Volume<P>>,
    read_only: bool,
}

impl<P: PowerCycle> Export<P> {
    /// The volume under this name. Clients that give no name get the first export of a server.
    pub fn new(name: impl Into<String>, volume: &Rc<Volume<P>>) -> Export<P> {
        let (name, description) = (name.into(), String::new());
        Export { name, description, volume: volume.clone(), read_only: false }
    }

    /// The same with a description for people.
    pub fn described(mut self, description: impl Into<String>) -> Export<P> {
        self.description = description.into();
        self
    }

    /// The same, but read-only.
    pub fn read_only(mut self) -> Export<P> {
        self.read_only = true;
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its volume.
    pub fn volume(&self) -> &Rc<Volume<P>> {
        &self.volume
    }

    /// The export as clients see it.
    pub(crate) fn offer(&self, payload_max: u32) -> Result<Offer, ExportError> {
        let device = self.volume.plug().device();
        let caps = device.caps();
        if caps.payload != Payload::Bytes {
            return Err(ExportError::Stamps(self.name.clone()));
        }
        if self.name.len() > super::wire::NAME_BYTES || self.name.contains('\0') {
            return Err(ExportError::Name(self.name.clone()));
        }
        Ok(Offer {
            name: self.name.clone(),
            description: self.description.clone(),
            size: caps.bytes(),
            read_only: self.read_only,
            fast_zero: true,
            allocation: true,
            block_min: BLOCK_MIN.min(caps.block_size),
            block_preferred: caps.block_size,
            payload_max,
        })
    }

    /// The bytes at whose multiples writes may be split, and the bytes of a block.
    pub(crate) fn unit(&self) -> (u64, u64) {
        let device = self.volume.plug().device();
        (unit(device.caps()), device.caps().block_size.into())
    }

    /// The device as it is now.
    pub(crate) fn access(&self) -> Access<P> {
        Volume::access(&self.volume)
    }
}
