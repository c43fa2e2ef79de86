//! Making a log: what each device is, and how it is divided.
//!
//! 1. All checks come first. While one fails nothing is written.
//! 2. A device gets its superblocks before its state: what has states and no superblock was damaged.
//! 3. A device is blank if nothing is where something would have its marks ([`first_mark`]).

use crate::error::SEE_TO_IT;
use crate::format::payload;
use crate::member::{read_head, write_head};
use crate::options::{CreateOptions, LogDevice};
use crate::state::{SLOTS, State};
use crate::superblock::{
    self, AREAS, COPIES, DEVICES_MAX, FoundSuper, PARTITIONS_MAX, Role, Superblock, UNIT_MAX, Uuid,
};
use crate::{Lsn, OpenError};
use crc32c::crc32c;
use tantalum_device::{Block, BlockDevice, Data, Durability, IoError, Payload, first_mark};
use tantalum_rt::{Rt, mix64};

/// Units in a section, at least.
const SECTION_MIN: u64 = 8;
/// Sections of a main stream, at least.
const MAIN_MIN: u64 = 4;
/// Sizes that are asked for are multiples of it.
const GRAIN: u64 = 4096;
/// Bytes of a record at most, on large devices and on small ones, if nobody says how many.
const RECORD_MOST: u32 = 1 << 20;
const RECORD_LEAST: u32 = 4 << 10;

/// Makes a log on the devices of the array and, if there is one, the archive. They are opened in
/// any order with [`crate::Log::open`]. Before anything is written, `check` is asked whether a log
/// of these devices will do.
///
/// # Errors
/// [`OpenError`], or what `check` says. Nothing was written, unless it is an I/O error, or two
/// devices with different names turn out to be one.
pub async fn create<D: BlockDevice, E: From<OpenError>>(
    rt: &Rt,
    array: &[LogDevice<D>],
    archive: Option<&LogDevice<D>>,
    options: &CreateOptions,
    check: impl Fn(&[Superblock]) -> Result<(), E>,
) -> Result<(), E> {
    let all: Vec<(&LogDevice<D>, Role)> =
        array.iter().map(|d| (d, Role::Array)).chain(archive.map(|d| (d, Role::Archive))).collect();
    check_set(array.len(), &all, options)?;
    let unit = choose_unit(&all, options)?;
    let made = |set: Uuid, least: u64| -> Result<Vec<Superblock>, E> {
        let superblocks = superblocks(&all, set, unit, least, options)?;
        check(&superblocks)?;
        Ok(superblocks)
    };
    if let Err(why) = made([0; 16], 0) {
        let needed = least_bytes(|least| made([0; 16], least).is_ok());
        return Err(needed.and_then(|needed| too_small(&all, needed, options)).unwrap_or(why));
    }
    let mut old = 0;
    for (device, _) in &all {
        old ^= u64::from(check_blank(device, options.force).await?);
    }
    let set = options.identity.unwrap_or_else(|| identity(rt, "log", old));
    let superblocks = made(set, 0)?;
    let uuids: Vec<Uuid> = superblocks.iter().map(|s| s.device).collect();
    let state = State::first(set, &uuids);
    for ((device, _), superblock) in all.iter().zip(&superblocks) {
        install(device, superblock, &state).await.map_err(|error| io(device, error))?;
    }
    for (i, (device, _)) in all.iter().enumerate() {
        let found = find(&device.device).await.map_err(|error| io(device, error))?;
        if found != FoundSuper::Good(superblocks[i]) {
            let twin = superblocks.iter().position(|s| found == FoundSuper::Good(*s));
            let twin = twin.map_or("another device".to_string(), |i| all[i].0.name.clone());
            return Err(OpenError::Twice(device.name.clone(), twin).into());
        }
    }
    Ok(())
}

/// How many bytes each device needs: so many will do.
fn least_bytes(will_do: impl Fn(u64) -> bool) -> Option<u64> {
    let mut enough = (AREAS.ilog2()..48).map(|n| 1 << n).find(|bytes| will_do(*bytes))?;
    let mut less = enough / 2;
    while enough - less > GRAIN {
        let middle = (less + (enough - less) / 2).next_multiple_of(GRAIN);
        if middle < enough && will_do(middle) {
            enough = middle;
        } else {
            less = middle.min(enough - GRAIN);
        }
    }
    Some(enough)
}

/// That the smallest device lacks some of the bytes that are needed.
fn too_small<D: BlockDevice, E: From<OpenError>>(
    all: &[(&LogDevice<D>, Role)],
    needed: u64,
    options: &CreateOptions,
) -> Option<E> {
    let bytes = |device: &LogDevice<D>| device.device.caps().bytes();
    let (smallest, _) = all.iter().min_by_key(|(device, _)| bytes(device))?;
    let or = if options.partitions > 1 { ", or fewer partitions" } else { "" };
    let (device, bytes) = (smallest.name.clone(), bytes(smallest));
    (bytes < needed).then(|| OpenError::TooSmall { device, bytes, needed, or }.into())
}

/// What each device will be, as if it had `least` bytes at least. If nobody says how long records may
/// be, the devices do.
fn superblocks<D: BlockDevice>(
    all: &[(&LogDevice<D>, Role)],
    set: Uuid,
    unit: u32,
    least: u64,
    options: &CreateOptions,
) -> Result<Vec<Superblock>, OpenError> {
    let with_limit = |record_limit: u32| -> Result<Vec<Superblock>, OpenError> {
        let superblock = |(i, (device, role)): (usize, &(&LogDevice<D>, Role))| {
            let superblock = Superblock {
                set,
                device: device_identity(&set, i, 0),
                index: i as u32,
                devices: all.len() as u32,
                role: *role,
                copies: options.copies,
                partitions: if *role == Role::Archive { 1 } else { options.partitions },
                unit,
                bytes: device.device.caps().bytes().max(least),
                section_units: 0,
                main_sections: 0,
                second_sections: 0,
                record_limit,
            };
            divide(superblock, &device.name, options)
        };
        all.iter().enumerate().map(superblock).collect()
    };
    let Some(limit) = options.record_limit else {
        let mut limit = RECORD_MOST;
        loop {
            match with_limit(limit) {
                Err(OpenError::TooSmall { .. }) if limit > RECORD_LEAST => limit /= 2,
                made => return made,
            }
        }
    };
    with_limit(limit)
}

pub(crate) fn io<D>(device: &LogDevice<D>, error: tantalum_device::IoError) -> OpenError {
    OpenError::Io { device: device.name.clone(), error, or: SEE_TO_IT }
}

fn check_set<D: BlockDevice>(
    array: usize,
    all: &[(&LogDevice<D>, Role)],
    options: &CreateOptions,
) -> Result<(), OpenError> {
    let wrong = |what: String| Err(OpenError::Options(what));
    if array == 0 {
        return Err(OpenError::NoDevice);
    }
    if all.len() > DEVICES_MAX as usize {
        return Err(OpenError::TooMany(all.len()));
    }
    if !(1..=2).contains(&options.copies) {
        return wrong(format!("a log has 1 or 2 copies, not {}", options.copies));
    }
    if array < usize::from(options.copies) {
        return wrong(format!(
            "2 copies need 2 devices in the array, and there is {array}: name another one"
        ));
    }
    if !(1..=PARTITIONS_MAX).contains(&options.partitions) {
        let partitions = options.partitions;
        return wrong(format!("a device has 1 to {PARTITIONS_MAX} partitions, not {partitions}"));
    }
    if options.second_percent > 50 {
        let percent = options.second_percent;
        return wrong(format!("second streams take at most 50 percent, not {percent}"));
    }
    if let Some(limit) = options.record_limit
        && (limit == 0 || limit > 1 << 30)
    {
        return wrong(format!("records have a limit of 1 byte to 1 GiB, not {limit}"));
    }
    for (i, (device, _)) in all.iter().enumerate() {
        if let Some((twin, _)) = all[..i].iter().find(|(d, _)| d.name == device.name) {
            return Err(OpenError::Twice(twin.name.clone(), device.name.clone()));
        }
        if device.device.caps().payload != Payload::Bytes {
            return Err(OpenError::Stamps(device.name.clone()));
        }
    }
    Ok(())
}

fn choose_unit<D: BlockDevice>(
    all: &[(&LogDevice<D>, Role)],
    options: &CreateOptions,
) -> Result<u32, OpenError> {
    let blocks = all.iter().map(|(d, _)| d.device.caps().block_size);
    let unit = options.unit.unwrap_or_else(|| blocks.max().unwrap_or(0).max(512));
    if !unit.is_power_of_two() || !(512..=UNIT_MAX).contains(&unit) {
        let range = format!("a power of two from 512 to {UNIT_MAX}");
        return Err(match options.unit {
            Some(_) => OpenError::Options(format!("a log block has {range} bytes, not {unit}")),
            None => {
                let device = all.iter().find(|(d, _)| d.device.caps().block_size == unit);
                let device = device.map_or(String::new(), |(d, _)| d.name.clone());
                let help = "use another device";
                OpenError::Blocks { device, block: unit, unit: range, help }
            }
        });
    }
    for (device, _) in all {
        check_blocks(&device.name, device.device.caps().block_size, unit)?;
    }
    Ok(unit)
}

/// Whether log blocks of `unit` bytes can be written to a device with such blocks.
pub(crate) fn check_blocks(name: &str, block: u32, unit: u32) -> Result<(), OpenError> {
    if block > 0 && unit.is_multiple_of(block) {
        return Ok(());
    }
    Err(OpenError::Blocks {
        device: name.to_string(),
        block,
        unit: format!("a divisor of {unit}"),
        help: "create the log with a larger unit, or use another device",
    })
}

/// Whether there is nothing on the device (3). Returns a few bytes that stand for what is there.
pub(crate) async fn check_blank<D: BlockDevice>(
    device: &LogDevice<D>,
    force: bool,
) -> Result<u32, OpenError> {
    let caps = device.device.caps();
    let needed = AREAS + MAIN_MIN * SECTION_MIN * u64::from(caps.block_size.max(512));
    if caps.bytes() < needed {
        let (device, bytes) = (device.name.clone(), caps.bytes());
        return Err(OpenError::TooSmall { device, bytes, needed, or: "" });
    }
    // What a newer program has made, this one does not destroy, not even if asked.
    if let FoundSuper::Newer(version) = find(&device.device).await.map_err(|e| io(device, e))? {
        return Err(OpenError::Newer { device: device.name.clone(), version });
    }
    let found = read_head(&device.device, 0, AREAS as usize).await;
    let found = found.map_err(|e| io(device, e))?;
    let first = first_mark(&device.device).await.map_err(|e| io(device, e))?;
    let has_state = SLOTS.iter().any(|slot| State::decode(&found[*slot as usize..]).is_some());
    let what = match (Superblock::decode(&found), first) {
        (FoundSuper::Good(_) | FoundSuper::Newer(_), _) => "a log".to_string(),
        _ if has_state => "a log whose superblocks are damaged".to_string(),
        (_, Some(at)) => format!("something else (the first byte is at {at})"),
        (_, None) => return Ok(0),
    };
    if !force {
        return Err(OpenError::NotBlank { device: device.name.clone(), what });
    }
    Ok(crc32c(&found))
}

/// Bytes of a section of a stream's room: a 32nd, at most 4 MiB; but so many that there are 4,096 of
/// them at most, since an opening reads the beginning of each.
fn usual_section(bytes: u64) -> u64 {
    (bytes / 32).min(4 << 20).max(bytes / 4096)
}

/// Divides a device into sections.
pub(crate) fn divide(
    superblock: Superblock,
    name: &str,
    options: &CreateOptions,
) -> Result<Superblock, OpenError> {
    let (unit, partitions) = (u64::from(superblock.unit), u64::from(superblock.partitions));
    let units = superblock.bytes.saturating_sub(AREAS) / unit / partitions;
    let second = if superblock.role == Role::Archive { 0 } else { options.second_percent };
    let wish = options.section_bytes.unwrap_or_else(|| usual_section(units * unit)) / unit;
    // At least the main sections, and two of a second stream if there is one.
    let least = MAIN_MIN + if second > 0 { 2 } else { 0 };
    let section = wish.clamp(SECTION_MIN, (units / least).clamp(SECTION_MIN, 1 << 31));
    let sections = units / section;
    let second = match second {
        0 => 0,
        percent => (sections * u64::from(percent) / 100).max(2),
    };
    let main = sections.saturating_sub(second);
    let capacity = main * (section - 1) * payload(superblock.unit) / 4;
    let record = u64::from(superblock.record_limit) + crate::record::FRAME as u64;
    if main < MAIN_MIN || capacity < record {
        let (device, bytes) = (name.to_string(), superblock.bytes);
        let needed = AREAS + (MAIN_MIN + second).max(least) * SECTION_MIN * unit * partitions;
        return Err(OpenError::TooSmall { device, bytes, needed, or: "" });
    }
    let (Ok(main_sections), Ok(second_sections)) = (u32::try_from(main), u32::try_from(second))
    else {
        let what = format!("\"{name}\" has too many sections: make them larger");
        return Err(OpenError::Options(what));
    };
    let section_units = section as u32;
    Ok(Superblock { section_units, main_sections, second_sections, ..superblock })
}

/// Divides a device of this superblock's bytes as another one of the log is divided: sections as large,
/// and as many of them for a second stream in proportion.
pub(crate) fn divide_like(superblock: Superblock, name: &str) -> Result<Superblock, OpenError> {
    let Superblock { unit, partitions, section_units, .. } = superblock;
    let section = u64::from(section_units) * u64::from(unit);
    let [main, second] = [superblock.main_sections, superblock.second_sections].map(u64::from);
    let sections = superblock.bytes.saturating_sub(AREAS) / u64::from(partitions) / section;
    let seconds = if second == 0 { 0 } else { (sections * second / (main + second)).max(2) };
    let mains = sections.saturating_sub(seconds);
    let least = superblock.main_sections_min().max(MAIN_MIN);
    if mains < least {
        let (device, bytes) = (name.to_string(), superblock.bytes);
        let seconds = if second == 0 { 0 } else { (least * second).div_ceil(main).max(2) };
        let needed = AREAS + u64::from(partitions) * (least + seconds) * section;
        return Err(OpenError::TooSmall { device, bytes, needed, or: "" });
    }
    let most = |sections: u64| u32::try_from(sections).unwrap_or(u32::MAX);
    let (main_sections, second_sections) = (most(mains), most(seconds));
    Ok(Superblock { main_sections, second_sections, ..superblock })
}

impl Superblock {
    /// Main sections that the largest record needs.
    fn main_sections_min(&self) -> u64 {
        let record = u64::from(self.record_limit) + crate::record::FRAME as u64;
        let section = u64::from(self.section_units - 1) * payload(self.unit);
        (4 * record).div_ceil(section.max(1))
    }
}

/// Writes superblocks and state, in this order (2).
pub(crate) async fn install<D: BlockDevice>(
    device: &LogDevice<D>,
    superblock: &Superblock,
    state: &State,
) -> Result<(), tantalum_device::IoError> {
    let d = &device.device;
    let block = d.caps().block_size;
    // What an earlier log has there must not count, in whichever slot it is. Its superblocks say
    // until the end that something is there, though a cut comes.
    let zeros = vec![0; block as usize];
    for at in SLOTS {
        write_head(d, at, &zeros).await?;
    }
    for at in COPIES {
        write_head(d, at, &copy_of(superblock, block)).await?;
    }
    write_head(d, state.slot(), &state.encode(block)).await
}

/// Writes damaged copies of a superblock again, as far as the device does that. They are durable
/// with what is written durably later: a durable write that failed would make it useless.
pub(crate) async fn mend<D: BlockDevice>(
    device: &D,
    superblock: &Superblock,
    copies: &[u64],
) -> Result<(), IoError> {
    let block = device.caps().block_size;
    for at in copies {
        let (at, bytes) = (Block(at / u64::from(block)), copy_of(superblock, block));
        let written = device.write(at, Data::Bytes(&bytes), Durability::Normal).await;
        if written == Err(IoError::PowerLost) {
            return written;
        }
    }
    Ok(())
}

/// The bytes of a copy of a superblock, in whole blocks.
fn copy_of(superblock: &Superblock, block: u32) -> Vec<u8> {
    let mut bytes = superblock.encode().to_vec();
    bytes.resize(bytes.len().next_multiple_of(block as usize), 0);
    bytes
}

/// The superblock of a device. Where it is gone and a state of a log is there, it is damaged.
pub(crate) async fn find<D: BlockDevice>(
    device: &D,
) -> Result<FoundSuper, tantalum_device::IoError> {
    Ok(find_copies(device).await?.0)
}

/// The same, and where copies lie that are not like it.
pub(crate) async fn find_copies<D: BlockDevice>(
    device: &D,
) -> Result<(FoundSuper, Vec<u64>), tantalum_device::IoError> {
    let mut all = Vec::new();
    for at in COPIES {
        all.push((Superblock::decode(&read_head(device, at, superblock::BYTES).await?), at));
    }
    // A copy whose version is damaged looks newer than it is: a whole one comes first.
    let rank = |(found, _): &&(FoundSuper, u64)| match found {
        FoundSuper::Good(_) => 3,
        FoundSuper::Newer(_) => 2,
        FoundSuper::Damaged => 1,
        FoundSuper::Nothing => 0,
    };
    let found = all.iter().max_by_key(rank).map_or(FoundSuper::Nothing, |(found, _)| *found);
    if found == FoundSuper::Nothing {
        for slot in SLOTS {
            if State::decode(&read_head(device, slot, UNIT_MAX as usize).await?).is_some() {
                return Ok((FoundSuper::Damaged, COPIES.to_vec()));
            }
        }
    }
    Ok((found, all.iter().filter(|(other, _)| *other != found).map(|(_, at)| *at).collect()))
}

/// An identity that no other log has.
fn identity(rt: &Rt, name: &str, old: u64) -> Uuid {
    let mut stream = rt.stream(name);
    let words = [rt.now().0, rt.events(), old];
    let salt = words.into_iter().fold(Lsn::ZERO.0, |salt, word| mix64(salt ^ word));
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&mix64(stream.next_u64() ^ salt).to_le_bytes());
    uuid[8..].copy_from_slice(&mix64(stream.next_u64() ^ mix64(salt)).to_le_bytes());
    uuid
}

/// The identity of the `n`-th device that has had this index in a log.
pub(crate) fn device_identity(set: &Uuid, index: usize, n: u64) -> Uuid {
    let (mut a, mut b) = ([0; 8], [0; 8]);
    a.copy_from_slice(&set[..8]);
    b.copy_from_slice(&set[8..]);
    let a = mix64(u64::from_le_bytes(a) ^ mix64(index as u64 + 1));
    let b = mix64(u64::from_le_bytes(b) ^ mix64(n + 1) ^ a);
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&a.to_le_bytes());
    uuid[8..].copy_from_slice(&b.to_le_bytes());
    uuid
}
