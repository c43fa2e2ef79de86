//! File systems of the kernel on a drive: recognising, making and checking them.

use super::programs;
use crate::out;
use clap::ValueEnum;
use tantalum_device::{Block, BlockDevice, Blocks, IoError, OwnedData};
use tantalum_rt::Rt;

/// A file system that can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// ext4
    Ext4,
    /// XFS
    Xfs,
}

impl Kind {
    /// As the kernel calls it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ext4 => "ext4",
            Kind::Xfs => "xfs",
        }
    }
}

/// The content of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing but zeros, if anything was ever written.
    Nothing,
    /// A file system.
    Known(Found),
    /// Something else.
    Unknown,
}

/// A file system that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which one.
    pub kind: Kind,
    /// Bytes of a block.
    pub block: u32,
    /// The least that it reads and writes, bytes: its device has no larger blocks.
    pub unit: u32,
    /// How far it reaches, bytes.
    pub bytes: u64,
}

impl Found {
    /// In words, if the kernel does not mount it on the loop device.
    pub fn too_fine(&self) -> Option<String> {
        let (kind, unit) = (self.kind.name(), self.unit);
        (unit < SECTOR).then(|| {
            format!(
                "the {kind} on it writes {unit} bytes at a time, and --fs takes one that writes \
                 {SECTOR}: mount it without --fs, and the file in it by `mount -o loop`"
            )
        })
    }
}

/// Bytes of a block of the loop device on which a file system is mounted.
pub const SECTOR: u32 = 4096;

/// Bytes that suffice to recognise a file system.
const HEAD_BYTES: u64 = 8192;

/// Bytes that are read at a time.
const STEP_BYTES: u64 = 1 << 20;
/// After so many bytes a message says why it takes long.
const LONG_BYTES: u64 = 4 << 30;

/// The file system with which a device begins, if it is known.
pub async fn found<D: BlockDevice>(device: &D) -> Result<Option<Found>, IoError> {
    let caps = *device.caps();
    let count = (HEAD_BYTES / u64::from(caps.block_size)).max(1).min(caps.blocks);
    let mut head = OwnedData::zeros(caps.payload, count as usize, caps.block_size);
    device.read(Block(0), head.as_mut()).await?;
    Ok(match &head {
        OwnedData::Bytes(bytes) => known(bytes),
        OwnedData::Stamps(_) => None,
    })
}

/// Recognises the content of a device. A device of zeros is read to its end, except for holes.
pub async fn content<D: BlockDevice>(device: &D) -> Result<Content, IoError> {
    let caps = *device.caps();
    if let Some(found) = found(device).await? {
        return Ok(Content::Known(found));
    }
    let (mut at, mut looked_at) = (0, 0);
    while at < caps.blocks {
        let found = device.allocation(Blocks { start: Block(at), count: caps.blocks - at }).await?;
        if !found.hole && !is_zeros(device, at, found.blocks, &mut looked_at).await? {
            return Ok(Content::Unknown);
        }
        at += found.blocks.max(1);
    }
    Ok(Content::Nothing)
}

/// Whether these blocks are zeros, like those of a new file. `looked_at` counts bytes.
async fn is_zeros<D: BlockDevice>(
    device: &D,
    at: u64,
    count: u64,
    looked_at: &mut u64,
) -> Result<bool, IoError> {
    let caps = *device.caps();
    let step = (STEP_BYTES / u64::from(caps.block_size)).max(1).min(count);
    let mut data = OwnedData::zeros(caps.payload, step as usize, caps.block_size);
    let mut done = 0;
    while done < count {
        // The last step may read blocks again.
        let from = done.min(count - step);
        device.read(Block(at + from), data.as_mut()).await?;
        if !data.as_data().is_zero() {
            return Ok(false);
        }
        let was = *looked_at;
        *looked_at += step * u64::from(caps.block_size);
        if was < LONG_BYTES && *looked_at >= LONG_BYTES {
            out::note("reading the drive to overwrite no data; --force skips this");
        }
        done = from + step;
    }
    Ok(true)
}

/// The file system that begins with these bytes.
fn known(head: &[u8]) -> Option<Found> {
    // XFS, big-endian: magic, the block size, the number of blocks; at 102 the size of a sector.
    if head.starts_with(b"XFSB") {
        let block = u32::from_be_bytes(*head.get(4..)?.first_chunk()?);
        let blocks = u64::from_be_bytes(*head.get(8..)?.first_chunk()?);
        let unit = u16::from_be_bytes(*head.get(102..)?.first_chunk()?).into();
        let bytes = blocks.saturating_mul(block.into());
        return Some(Found { kind: Kind::Xfs, block, unit, bytes });
    }
    // ext: the superblock is at 1024, with the magic at 56, the number of blocks at 4 and its upper
    // half at 336, the logarithm of the block size over 1024 at 24, and feature flags at 96: 0x40,
    // extents, means ext4, and with 0x80 the upper half counts.
    let ext = head.get(1024..)?;
    let word = |at: usize| Some(u32::from_le_bytes(*ext.get(at..)?.first_chunk()?));
    if *ext.get(56..58)? != [0x53, 0xef] || word(96)? & 0x40 == 0 {
        return None;
    }
    let block = 1024u32.checked_shl(word(24)?)?;
    let high = if word(96)? & 0x80 == 0 { 0 } else { word(336)? };
    let blocks = u64::from(high) << 32 | u64::from(word(4)?);
    let bytes = blocks.saturating_mul(block.into());
    Some(Found { kind: Kind::Ext4, block, unit: block, bytes })
}

/// Makes a file system on a block device of the kernel.
pub async fn make(rt: &Rt, kind: Kind, block: u32, device: &str) -> Result<(), String> {
    let size = block.to_string();
    let ended = match kind {
        Kind::Ext4 => {
            // Discarded blocks read as zeros, so tables of inodes need not be zeroed.
            let how = "discard,lazy_itable_init=1,lazy_journal_init=1";
            programs::run(rt, "mkfs.ext4", &["-q", "-F", "-b", &size, "-E", how, device]).await?
        }
        Kind::Xfs => {
            let size = format!("size={size}");
            programs::run(rt, "mkfs.xfs", &["-q", "-f", "-b", &size, device]).await?
        }
    };
    ended.ok(&format!("making {}", kind.name())).map(drop)
}

/// Checks a file system that may not have been unmounted, as far as its mount requires: ext4's
/// journal is replayed and its state is examined; XFS does so when it is mounted.
pub async fn check(rt: &Rt, kind: Kind, device: &str) -> Result<(), String> {
    if kind == Kind::Xfs {
        return Ok(());
    }
    let ended = programs::run(rt, "e2fsck", &["-p", device]).await?;
    match ended.code {
        // Clean, or made so.
        0 | 1 => Ok(()),
        code => Err(format!(
            "e2fsck finds the file system damaged ({code}); to have it repaired, mount the drive \
             without --fs and run e2fsck -f on the file: {}",
            ended.out.split_whitespace().collect::<Vec<_>>().join(" ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_are_known_by_their_beginning() {
        let mut head = vec![0; 8192];
        assert_eq!(known(&head), None);
        head[1024 + 56] = 0x53;
        head[1024 + 57] = 0xef;
        head[1024 + 24] = 2;
        // Without extents it is older.
        assert_eq!(known(&head), None);
        head[1024 + 96] = 0x42;
        head[1024 + 4..][..4].copy_from_slice(&[1, 2, 0, 0]);
        head[1024 + 336] = 1;
        let ext4 = Found { kind: Kind::Ext4, block: 4096, unit: 4096, bytes: 513 * 4096 };
        assert_eq!(known(&head), Some(ext4));
        assert_eq!(ext4.too_fine(), None);
        head[1024 + 96] = 0xc2;
        let bytes = ((1 << 32) + 513) * 4096;
        assert_eq!(known(&head), Some(Found { bytes, ..ext4 }), "with an upper half");
        head[1024 + 24] = 77;
        assert_eq!(known(&head), None);
        head[..8].copy_from_slice(b"XFSB\0\0\x40\0");
        head[15] = 7;
        head[102..104].copy_from_slice(&[2, 0]);
        let xfs = Found { kind: Kind::Xfs, block: 16384, unit: 512, bytes: 7 * 16384 };
        assert_eq!(known(&head), Some(xfs));
        assert!(xfs.too_fine().is_some_and(|why| why.contains("writes 512 bytes")));
        assert_eq!(known(b"XFSB"), None);
        assert_eq!(known(&[]), None);
    }
}
