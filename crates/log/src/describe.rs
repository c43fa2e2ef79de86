//! What a device says of itself and of its log. Nothing is changed.

use crate::create::{find, io};
use crate::member::read_head;
use crate::options::LogDevice;
use crate::state::{SLOTS, Standing, State};
use crate::superblock::{FoundSuper, UNIT_MAX};
use crate::{Lsn, OpenError, Role};
use tantalum_device::BlockDevice;

/// What a device of a log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceDescription {
    /// The identity of the log.
    pub log: [u8; 16],
    /// Its index in the log.
    pub index: usize,
    /// Devices of the log.
    pub devices: usize,
    /// What it is for.
    pub role: Role,
    /// Copies of each record.
    pub copies: u8,
    /// Parts that it is divided into.
    pub partitions: u16,
    /// Bytes of a log block.
    pub unit: u32,
    /// Bytes of the device when it joined the log.
    pub bytes: u64,
    /// Bytes of a record, at most.
    pub record_limit: u32,
    /// Its newest state; `None`: none is whole.
    pub state: Option<StateDescription>,
}

/// What a device knows of the log as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDescription {
    /// Its generation. Those of the devices differ by one at most.
    pub generation: u64,
    /// Openings and new beginnings of the log.
    pub epoch: u32,
    /// Where the log begins.
    pub checkpoint: Lsn,
    /// The number that was given with the checkpoint.
    pub number: u64,
    /// Indexes of devices that are lost to the log.
    pub lost: Vec<usize>,
}

impl DeviceDescription {
    /// Reads what the device says.
    ///
    /// # Errors
    /// [`OpenError`] if it holds no log that can be read.
    pub async fn read<D: BlockDevice>(
        device: &LogDevice<D>,
    ) -> Result<DeviceDescription, OpenError> {
        let name = || device.name.clone();
        if device.device.caps().bytes() < crate::superblock::AREAS {
            return Err(OpenError::NoLog(name()));
        }
        let superblock = match find(&device.device).await.map_err(|e| io(device, e))? {
            FoundSuper::Good(superblock) => superblock,
            FoundSuper::Newer(version) => {
                return Err(OpenError::Newer { device: name(), version });
            }
            FoundSuper::Damaged => return Err(OpenError::Superblock(name())),
            FoundSuper::Nothing => return Err(OpenError::NoLog(name())),
        };
        let mut newest: Option<State> = None;
        for slot in SLOTS {
            let bytes = read_head(&device.device, slot, UNIT_MAX as usize).await;
            let state = State::decode(&bytes.map_err(|e| io(device, e))?);
            let state = state.filter(|s| s.set == superblock.set);
            newest = newest.into_iter().chain(state).max_by_key(|s| s.generation);
        }
        Ok(DeviceDescription {
            log: superblock.set,
            index: superblock.index as usize,
            devices: superblock.devices as usize,
            role: superblock.role,
            copies: superblock.copies,
            partitions: superblock.partitions,
            unit: superblock.unit,
            bytes: superblock.bytes,
            record_limit: superblock.record_limit,
            state: newest.map(|s| StateDescription {
                generation: s.generation,
                epoch: s.epoch,
                checkpoint: s.checkpoint,
                number: s.number,
                lost: (0..s.devices.len()).filter(|i| s.devices[*i].1 == Standing::Lost).collect(),
            }),
        })
    }
}
