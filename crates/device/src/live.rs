//! A box in a live process: beside its block device and its plug, what it shows of itself.
//!
//! 1. Everything here is asked now and then, by people and monitors. Nothing of it is on the way of
//!    a command.
//! 2. A box describes what it shows ([`Field`]); whoever shows it has no list of its own.

use crate::field::{Field, Line, Panel, Unit, Value};
use crate::{BlockDevice, Caps, IoError, PowerCycle};
use serde::{Deserialize, Serialize};
use tantalum_rt::Nanos;

/// How far a box has power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PowerState {
    /// None at all.
    Off,
    /// It starts, and takes no commands yet.
    Starting,
    /// It takes commands.
    On,
    /// The host's power is gone; the box works on from its capacitors.
    Dying,
}

/// Why a box does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The dump of protected memory is missing. A salvage starts without it.
    Lost(String),
    /// Its medium or image is damaged. A salvage starts without the damaged parts.
    Damaged(String),
    /// Another reason.
    Failed(String),
    /// The power was cut before it had started.
    CutAgain,
}

/// Why a part of a box did not get another size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResizeError {
    /// It cannot have this size. Nothing was changed.
    Size(String),
    /// It can, but something failed.
    Failed(String),
}

/// What a look at every page of the cache of a box found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubOutcome {
    /// Pages that were compared with their checksums.
    pub pages: u64,
    /// Damaged pages that were given up, since the slow device has them.
    pub repaired: u64,
    /// Pages whose newest version is lost, ascending.
    pub lost: Vec<u64>,
}

/// Why the cache of a box was not scrubbed, cleaned or given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpkeepError {
    /// There is no cache.
    NoCache(String),
    /// There is, but something failed.
    Failed(String),
}

/// What became of a cut.
#[derive(Clone, Debug, PartialEq)]
pub struct CutOutcome {
    /// Acknowledged blocks of 4 KiB that are lost, at most. If the box is not `complete`, discards may
    /// be undone, too.
    pub lost_blocks: u64,
    /// Whether the box finished everything that it has to do without the host's power.
    pub complete: bool,
    /// One line about it, if the box took commands.
    pub words: String,
    /// More lines.
    pub lines: Vec<Line>,
    /// What else a report has.
    pub fields: Vec<Field>,
}

/// What a start took and found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartOutcome {
    /// From power to the first command; `None`: the box does not measure that.
    pub ready: Option<Nanos>,
    /// From power until the start was finished to the end.
    pub whole: Option<Nanos>,
    /// Phases, in their order.
    pub phases: Vec<(&'static str, Nanos)>,
    /// It started without something that should have been there.
    pub salvaged: bool,
    /// What it found, in a line; nothing, if there is nothing to be found.
    pub found: Option<String>,
    /// What else a report has.
    pub fields: Vec<Field>,
}

/// What a box has done, and what is in it, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// In values, each with its description.
    pub fields: Vec<Field>,
    /// In lines.
    pub lines: Vec<Line>,
    /// On a screen.
    pub panels: Vec<Panel>,
}

impl Shown {
    /// Of a box without power that then knows nothing of what is in it. The names are those of its
    /// fields, or of groups of them, each with what it is.
    pub fn unknown(names: &[(&'static str, &'static str)]) -> Shown {
        let unknown = |name, help| Field::new(name, Unit::Text, Value::Unknown, help);
        let line = Line::new("contents", "unknown without power");
        Shown {
            fields: names.iter().map(|(name, help)| unknown(name, help)).collect(),
            lines: vec![line.clone()],
            panels: vec![Panel::new("inside", vec![line.dim()])],
        }
    }
}

/// Gives the outcome of a cut, once the box is off.
pub type AfterCut = Box<dyn FnOnce() -> CutOutcome>;

/// A box that can serve other programs and be watched.
///
/// A test of any box: the power is cut, and restored.
///
/// ```
/// use tantalum_device::{
///     Block, BlockDevice, Caps, Data, Durability, LiveBox, Payload, PowerCycle, PowerState,
///     RamDevice, RamOptions, StartError,
/// };
/// use tantalum_rt::Runtime;
///
/// /// How many blocks are lost at a cut.
/// async fn lost(of: &impl LiveBox) -> Result<u64, StartError> {
///     let after = of.watch_cut();
///     of.cut();
///     let outcome = after();
///     of.bring_up(false).await?;
///     assert_eq!(of.power_state(), PowerState::On);
///     Ok(outcome.lost_blocks)
/// }
///
/// let mut runtime = Runtime::virtual_time(1);
/// let options = RamOptions::new(Caps::power_safe(1024, Payload::Stamps));
/// let ram = RamDevice::new(&runtime.handle(), options);
/// let lost = runtime.block_on(async move {
///     ram.device().write(Block(0), Data::Stamps(&[7]), Durability::Normal).await.unwrap();
///     lost(&ram).await
/// });
/// assert_eq!(lost.unwrap(), Ok(0));
/// ```
#[allow(async_fn_in_trait)] // One thread: no future here has to be Send.
pub trait LiveBox: PowerCycle + Clone + 'static {
    /// What it is, in a word: the name of a design, a model, a kind of device.
    fn title(&self) -> String;

    /// How far it has power.
    fn power_state(&self) -> PowerState;

    /// What it promises, with and without power.
    fn promises(&self) -> Caps;

    /// Restores the power, and waits until the box takes commands. With `salvage` it starts even if
    /// something is lost or damaged. Returns lines about what was lost.
    ///
    /// # Errors
    /// [`StartError`]
    async fn bring_up(&self, _salvage: bool) -> Result<Vec<String>, StartError> {
        self.power_on().await.map(|()| Vec::new()).map_err(|e| match e {
            IoError::PowerLost => StartError::CutAgain,
            e => StartError::Failed(e.to_string()),
        })
    }

    /// Waits until a start is finished to the end.
    ///
    /// # Errors
    /// Why it is not.
    async fn recovered(&self) -> Result<(), StartError> {
        match self.power_state() {
            PowerState::On => Ok(()),
            _ => Err(StartError::CutAgain),
        }
    }

    /// Checks, before the first client of a process, that the state of the box is consistent, if
    /// there is reason for doubt.
    ///
    /// # Errors
    /// What does not fit, and what to do.
    fn verify(&self) -> Result<(), String> {
        Ok(())
    }

    /// Why it does not start, or not to the end.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Why it refuses writes although it has power, if it does: a durability step failed, or a
    /// defect was found. Only a restart helps.
    fn stopped_by(&self) -> Option<String> {
        None
    }

    /// Begins to watch a cut, which comes at this moment.
    fn watch_cut(&self) -> AfterCut;

    /// What the last start took and found.
    fn last_start(&self) -> StartOutcome {
        StartOutcome::default()
    }

    /// One line about what became of a box whose last process was killed: it was
    /// [`PowerState::Dying`] when this process opened it.
    fn left_behind(&self) -> Option<String> {
        None
    }

    /// Gives the cache of a box so many bytes of its flash device, while the box is used. Returns a
    /// line about how it is then.
    ///
    /// # Errors
    /// [`ResizeError`]
    async fn resize(&self, _flash_bytes: u64) -> Result<String, ResizeError> {
        Err(ResizeError::Size("it has no cache that could get another size".to_string()))
    }

    /// Compares every page of the cache of a box with its checksum, while the box is used.
    ///
    /// # Errors
    /// [`UpkeepError`]
    async fn scrub(&self) -> Result<ScrubOutcome, UpkeepError> {
        Err(UpkeepError::NoCache("it has no cache that could be scrubbed".to_string()))
    }

    /// Brings what only the cache of a box has to its slow device, while the box is used. What is
    /// written meanwhile follows, as long as it becomes less.
    ///
    /// # Errors
    /// [`UpkeepError`]: the box is used as before.
    async fn clean(&self) -> Result<(), UpkeepError> {
        Err(UpkeepError::NoCache("it has no cache that could be given up".to_string()))
    }

    /// Ends its work like [`LiveBox::close`], and gives up its cache: the slow device has everything
    /// when this returns. Returns the byte of it at which the box begins.
    ///
    /// # Errors
    /// [`UpkeepError`]: nothing was given up, or nothing is left to be closed.
    async fn detach(&self) -> Result<u64, UpkeepError> {
        Err(UpkeepError::NoCache("it has no cache that could be given up".to_string()))
    }

    /// Ends its work in good order, before its power is cut for good: what was acknowledged is
    /// durable when this returns. Requests are no longer answered.
    ///
    /// # Errors
    /// Those of a flush.
    async fn close(&self) -> Result<(), IoError> {
        self.device().flush().await
    }

    /// Ends the use of the box by this process, after it is off: makes durable what has to be.
    ///
    /// # Errors
    /// Why it is not.
    fn shut(&self) -> Result<(), String> {
        Ok(())
    }

    /// How it is.
    fn status_fields(&self) -> Vec<Field> {
        Vec::new()
    }

    /// The same in lines.
    fn status_lines(&self) -> Vec<Line> {
        vec![Line::promises(&self.promises())]
    }

    /// What it has done, and what is in it: everything from one look at the box.
    fn shown(&self) -> Shown;
}

/// The outcome of a cut of a box that protects no memory. `lost_blocks` acknowledged blocks of 4
/// KiB were only in its memory.
pub fn unprotected_cut(lost_blocks: u64) -> CutOutcome {
    let words = match lost_blocks {
        0 => "nothing that was acknowledged is lost".to_string(),
        n => format!(
            "nothing protects its memory: up to {} lost",
            crate::counted(
                n,
                "acknowledged block that was not flushed is",
                "acknowledged blocks that were not flushed are"
            )
        ),
    };
    CutOutcome { lost_blocks, complete: true, words, lines: Vec::new(), fields: Vec::new() }
}
