//! Whether something is on a device that is to be written over.
//!
//! 1. Looked at are the first and the last 128 KiB. There file systems, partition tables, swap,
//!    encrypted volumes and members of arrays keep what names them: btrfs at 64 KiB, the second
//!    partition table and members of arrays of some kinds at the end. The rest is not read, since a
//!    device may be large.

use crate::{Block, BlockDevice, IoError, read_or_zeros};

/// Bytes that are looked at, at the beginning and at the end.
const LOOKED_AT: u64 = 128 << 10;

/// The first byte of a device of bytes that is not zero, of the first and the last 128 KiB. `None`:
/// there is none. Blocks that cannot be read count as zeros.
///
/// # Errors
/// What the device reports but for unreadable blocks.
pub async fn first_mark<D: BlockDevice>(device: &D) -> Result<Option<u64>, IoError> {
    let caps = device.caps();
    let block = u64::from(caps.block_size);
    let each = LOOKED_AT.div_ceil(block).min(caps.blocks);
    let end = (caps.blocks - each).max(each);
    for blocks in [0..each, end..caps.blocks] {
        let mut bytes = vec![0; ((blocks.end - blocks.start) * block) as usize];
        if bytes.is_empty() {
            continue;
        }
        read_or_zeros(device, Block(blocks.start), &mut bytes).await?;
        if let Some(at) = bytes.iter().position(|b| *b != 0) {
            return Ok(Some(blocks.start * block + at as u64));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Caps, Data, Durability, Payload, PowerCycle, RamDevice, RamOptions};
    use tantalum_rt::Runtime;

    #[test]
    fn it_is_found_at_the_beginning_and_at_the_end() {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let task = async move {
            // (Block, whether a byte in it is found): 1,024 blocks are 4 MiB.
            let all = [(0, true), (16, true), (31, true), (32, false), (991, false), (992, true)];
            for (block, found) in all.into_iter().chain([(1023, true)]) {
                let ram =
                    RamDevice::new(&rt, RamOptions::new(Caps::power_safe(1024, Payload::Bytes)));
                let device = ram.device();
                assert_eq!(first_mark(&device).await, Ok(None));
                let mut bytes = vec![0; 4096];
                bytes[64] = 1;
                let data = Data::Bytes(&bytes);
                device.write(Block(block), data, Durability::Normal).await.expect("RAM");
                let at = found.then_some(block * 4096 + 64);
                assert_eq!(first_mark(&device).await, Ok(at), "block {block}");
            }
            // Smaller than what is looked at.
            for blocks in [1, 31, 33, 63, 65] {
                let caps = Caps::power_safe(blocks, Payload::Bytes);
                let device = RamDevice::new(&rt, RamOptions::new(caps)).device();
                let data = Data::Bytes(&[9; 4096]);
                device.write(Block(blocks - 1), data, Durability::Normal).await.expect("RAM");
                assert_eq!(first_mark(&device).await, Ok(Some((blocks - 1) * 4096)));
            }
        };
        runtime.block_on(task).expect("it ends");
    }
}
