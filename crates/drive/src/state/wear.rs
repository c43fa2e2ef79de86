//! The wear of erase units, for reports.

use crate::state::space::Role;
use serde::Serialize;

/// Erase counts of some units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Wear {
    /// How many units.
    pub units: u32,
    /// The lowest count.
    pub min: u32,
    /// The highest.
    pub max: u32,
    /// All counts together.
    pub erases: u64,
}

impl Wear {
    /// Of these counts; `None` if there are none.
    pub(crate) fn of(counts: impl Iterator<Item = u32>) -> Option<Wear> {
        let (mut units, mut min, mut max, mut sum) = (0, u32::MAX, 0, 0);
        for count in counts {
            units += 1;
            (min, max) = (min.min(count), max.max(count));
            sum += u64::from(count);
        }
        (units > 0).then_some(Wear { units, min, max, erases: sum })
    }

    /// That of these units and those.
    pub fn with(self, other: Wear) -> Wear {
        Wear {
            units: self.units + other.units,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            erases: self.erases + other.erases,
        }
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        self.erases as f64 / f64::from(self.units.max(1))
    }

    /// The highest count less the lowest.
    pub fn spread(&self) -> u32 {
        self.max - self.min
    }
}

/// How worn the erase units of a drive are. Units that are bad do not count.
///
/// ```
/// use tantalum_device::{Block, BlockDevice, Data, Durability, IoError, Payload, PowerCycle};
/// use tantalum_drive::{Design, Drive};
/// use tantalum_rt::Runtime;
///
/// let small = "geometry = { channels = 2, packages = 2, chips = 1, blocks = 128, pages = 32 }";
/// let design = Design::preset("volatile")?.with_overrides(&small.parse()?)?;
/// let mut runtime = Runtime::virtual_time(1);
/// let drive = Drive::new(&runtime.handle(), &design, Payload::Stamps)?;
/// let wear = runtime.block_on(async move {
///     drive.power_on().await?;
///     let device = drive.device();
///     for pass in 1..=2 {
///         for at in (0..drive.caps().blocks / 64).map(|i| Block(64 * i)) {
///             device.write(at, Data::Stamps(&[pass; 64]), Durability::Normal).await?;
///         }
///     }
///     Ok::<_, IoError>(drive.wear())
/// });
/// let wear = wear.unwrap()?.unwrap();
/// assert!(wear.all.erases > 0 && wear.all.min <= wear.all.max, "{wear:?}");
/// assert_eq!(wear.histogram.iter().map(|(_, units)| units).sum::<u32>(), wear.all.units);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct WearReport {
    /// All units but those kept for emergency dumps, which are not levelled.
    pub all: Wear,
    /// The largest spread within one die, units kept for dumps aside: what `wear.spread_max`
    /// bounds.
    pub die_spread: u32,
    /// Those that hold data of the host, or are free for them.
    pub data: Option<Wear>,
    /// Those of the map log.
    pub map: Option<Wear>,
    /// Those kept for emergency dumps.
    pub dump: Option<Wear>,
    /// How many of `all` have each erase count, in ascending order of counts.
    pub histogram: Vec<(u32, u32)>,
}

impl WearReport {
    /// Of erase counts and roles, unit by unit, of dies of so many units. `None` if all
    /// units are bad.
    pub(crate) fn of(units: &[(u32, Role)], blocks: u32) -> Option<WearReport> {
        let good = |units: &[(u32, Role)]| -> Vec<(u32, Role)> {
            units.iter().copied().filter(|u| u.1 != Role::Bad).collect()
        };
        let dies = units.chunks(blocks as usize).map(good);
        let levelled =
            |die: Vec<(u32, Role)>| Wear::of(die.iter().filter(|u| u.1 != Role::Dump).map(|u| u.0));
        let spreads = dies.filter_map(levelled);
        let units = good(units);
        let of = |role: fn(Role) -> bool| Wear::of(units.iter().filter(|u| role(u.1)).map(|u| u.0));
        let levelled = units.iter().filter(|u| u.1 != Role::Dump);
        let mut counts: Vec<u32> = levelled.map(|u| u.0).collect();
        counts.sort_unstable();
        let same = counts.chunk_by(|a, b| a == b);
        Some(WearReport {
            all: of(|role| role != Role::Dump)?,
            die_spread: spreads.map(|w| w.spread()).max().unwrap_or(0),
            data: of(|role| !matches!(role, Role::Map | Role::Dump)),
            map: of(|role| role == Role::Map),
            dump: of(|role| role == Role::Dump),
            histogram: same.map(|c| (c[0], c.len() as u32)).collect(),
        })
    }
}
