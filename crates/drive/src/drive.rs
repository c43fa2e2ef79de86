//! The drive as a box with a plug.
//!
//! 1. Only the flash array (and the counters) outlive a power loss. Protected memory
//!    outlives it in no other way than by the dump.
//! 2. At a cut the link dies and the firmware's tasks are dropped; only then does the
//!    dump run, in a domain of its own, over the memory they left. When it is done the
//!    medium goes off, and what is still in flight is torn.
//! 3. A cut during recovery takes the medium off at once: what recovery reads is still
//!    on flash. From the moment at which the mark that a dump is due may be on flash, a cut
//!    writes the dump.
//! 4. The dump has the energy of the capacitors; when that is spent the medium goes off.

mod on_image;

use crate::design::layout::Layout;
use crate::firmware::Firmware;
use crate::firmware::audit::audit;
use crate::firmware::stats::{DriveStats, Stats};
use crate::format::words::PageHead;
use crate::image::mirror::Mirror;
use crate::power::areas::{clear_old_dump, mark_due};
use crate::power::dump::outage;
use crate::power::supply::{PowerLoss, PowerLosses};
use crate::start::phases::Recoveries;
use crate::start::recover::{finish, recover};
use crate::start::report::{RecoveryError, RecoveryReport, WithoutDump};
use crate::start::rest::Rest;
use crate::state::census::Census;
use crate::state::persistence::MapPersistence;
use crate::state::wear::WearReport;
use crate::tasks::collector::{collect_on, watch_host};
use crate::tasks::flusher::write_to;
use crate::tasks::host::DriveLink;
use crate::tasks::keeper::keep_log;
use crate::{Design, DesignError, EnergyModel};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use tantalum_device::{Caps, IoError, Link, Payload, PowerCycle, PowerState};
use tantalum_nand::{ImageFile, NandArray, SECTOR_BYTES, Unit};
use tantalum_rt::sync::WaitQueue;
use tantalum_rt::{Domain, Nanos, Rt};

/// A software SSD. Cheap to clone: a handle to one box.
///
/// ```
/// use tantalum_device::{Block, BlockDevice, Data, Durability, IoError, Payload, PowerCycle};
/// use tantalum_drive::{Design, Drive};
/// use tantalum_rt::Runtime;
///
/// let small = "geometry.blocks = 64\ngeometry.pages = 64".parse()?;
/// let design = Design::preset("durassd")?.with_overrides(&small)?;
/// let mut runtime = Runtime::virtual_time(1);
/// let drive = Drive::new(&runtime.handle(), &design, Payload::Stamps)?;
/// let plug = drive.clone();
/// runtime.block_on(async move {
///     plug.power_on().await?;
///     plug.device().write(Block(0), Data::Stamps(&[1]), Durability::Normal).await?;
///     plug.cut();
///     plug.off().await;
///     plug.power_on().await
/// })??;
/// assert!(drive.last_power_loss().is_some() && drive.last_recovery().is_some());
/// assert_eq!(drive.audit(), Ok(()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Drive {
    shared: Rc<Shared>,
}

struct Shared {
    rt: Rt,
    design: Rc<Design>,
    layout: Layout,
    nand: Rc<NandArray>,
    stats: Rc<Stats>,
    power: RefCell<Power>,
    changed: WaitQueue,
    report: RefCell<Option<RecoveryReport>>,
    recoveries: RefCell<Recoveries>,
    failure: RefCell<Option<RecoveryError>>,
    loss: RefCell<Option<PowerLoss>>,
    losses: RefCell<PowerLosses>,
    /// The memory of all power cycles that is still referenced.
    memories: RefCell<Vec<Weak<Firmware>>>,
    caps: Caps,
    image: Option<ImageFile>,
}

enum Power {
    Off,
    Starting(Domain),
    /// It marks on flash that a dump is due, and takes no commands yet.
    Marking {
        domain: Domain,
        firmware: Rc<Firmware>,
    },
    On {
        domain: Domain,
        link: Link,
        firmware: Rc<Firmware>,
    },
    Dying,
}

impl Drive {
    /// A blank drive of this design, without power.
    ///
    /// # Errors
    /// [`DesignError`] if it cannot be built, or not with this payload ([`Design::payload`]).
    pub fn new(rt: &Rt, design: &Design, payload: Payload) -> Result<Drive, DesignError> {
        let layout = design.check_with(payload)?;
        let words = PageHead::words(design.geometry.page_sectors());
        let nand = NandArray::new(rt, &design.geometry, &design.timing, payload, words)
            .map_err(|error| DesignError::Geometry { design: design.name.clone(), error })?;
        Ok(Drive::over(rt, &Rc::new(design.clone()), layout, Rc::new(nand), None))
    }

    /// A drive over an array that another drive of the same design has used; without
    /// power.
    ///
    /// # Errors
    /// [`DesignError`] if the design cannot be built, or is not that of the array.
    pub fn with_array(rt: &Rt, design: &Design, nand: NandArray) -> Result<Drive, DesignError> {
        let layout = design.check_with(nand.payload())?;
        if *nand.geometry() != design.geometry {
            let what = "its geometry is not that of the array".to_string();
            return Err(DesignError::Value { design: design.name.clone(), what });
        }
        Ok(Drive::over(rt, &Rc::new(design.clone()), layout, Rc::new(nand), None))
    }

    /// A drive in an image file, whose array has power.
    pub(crate) fn in_image(
        rt: &Rt,
        design: &Rc<Design>,
        layout: Layout,
        nand: Rc<NandArray>,
        image: ImageFile,
    ) -> Drive {
        Drive::over(rt, design, layout, nand, Some(image))
    }

    fn over(
        rt: &Rt,
        design: &Rc<Design>,
        layout: Layout,
        nand: Rc<NandArray>,
        image: Option<ImageFile>,
    ) -> Drive {
        nand.set_endurance(design.wear.endurance);
        let stats = Rc::new(Stats::default());
        let caps = Firmware::caps(design, &layout, nand.payload());
        let shared = Rc::new(Shared {
            rt: rt.clone(),
            design: design.clone(),
            layout,
            nand,
            stats,
            power: RefCell::new(Power::Off),
            changed: WaitQueue::new(rt, "the drive's power"),
            report: RefCell::default(),
            recoveries: RefCell::default(),
            failure: RefCell::default(),
            loss: RefCell::default(),
            losses: RefCell::default(),
            memories: RefCell::default(),
            caps,
            image,
        });
        Drive { shared }
    }

    /// The design.
    pub fn design(&self) -> &Design {
        &self.shared.design
    }

    /// How the raw flash is divided.
    pub fn layout(&self) -> &Layout {
        &self.shared.layout
    }

    /// What the drive promises.
    pub fn caps(&self) -> &Caps {
        &self.shared.caps
    }

    /// The flash array inside: for statistics, snapshots and faults.
    pub fn array(&self) -> &NandArray {
        &self.shared.nand
    }

    /// What was done so far, over all power cycles.
    ///
    /// ```
    /// use tantalum_device::{Block, BlockDevice, Data, Durability, IoError, Payload, PowerCycle};
    /// use tantalum_drive::{Design, Drive};
    /// use tantalum_rt::Runtime;
    ///
    /// let small = "geometry.blocks = 64\ngeometry.pages = 64".parse().unwrap();
    /// let design = Design::preset("baseline")?.with_overrides(&small)?;
    /// let mut runtime = Runtime::virtual_time(1);
    /// let drive = Drive::new(&runtime.handle(), &design, Payload::Stamps)?;
    /// let box_ = drive.clone();
    /// let written = runtime.block_on(async move {
    ///     box_.power_on().await?;
    ///     box_.device().write(Block(0), Data::Stamps(&[7; 8]), Durability::Normal).await?;
    ///     Ok::<_, IoError>(box_.stats())
    /// });
    /// let stats = written.unwrap().unwrap();
    /// assert_eq!((stats.host_writes, stats.host_write_bytes), (1, 8 * 4096));
    /// assert!(stats.flash_program_bytes >= stats.host_write_bytes); // without a cache, it is on flash
    /// # Ok::<(), tantalum_drive::DesignError>(())
    /// ```
    pub fn stats(&self) -> DriveStats {
        let mut stats = self.shared.stats.snapshot();
        if let Power::On { firmware, .. } = &*self.shared.power.borrow() {
            let space = firmware.state.space.borrow();
            stats.free_units = space.free().into();
            stats.free_units_min = space.free_min().into();
        }
        stats
    }

    /// Waits until a start is finished to the end. If its dump has a directory, the drive takes
    /// commands before that. Returns at once without power, or if the rest of the start failed.
    pub async fn settled(&self) {
        let this = &*self.shared;
        let is_settled = || match &*this.power.borrow() {
            Power::On { firmware, .. } => firmware.start.is_whole.get() || firmware.is_poisoned(),
            Power::Off => true,
            _ => false,
        };
        this.changed.until(is_settled).await;
    }

    /// What the last restart took and found.
    pub fn last_recovery(&self) -> Option<RecoveryReport> {
        self.shared.report.borrow().clone()
    }

    /// The times of all restarts that got to taking commands and have been finished or cut. The
    /// first start of a blank drive does not count.
    pub fn recoveries(&self) -> Recoveries {
        *self.shared.recoveries.borrow()
    }

    /// Why the last restart failed, if it did: before the first command, or in the rest of it.
    pub fn last_failure(&self) -> Option<RecoveryError> {
        self.shared.failure.borrow().clone()
    }

    /// The outcome of the last power cut of a protected drive that took commands.
    ///
    /// ```
    /// use tantalum_device::{Block, BlockDevice, Data, Durability, Payload, PowerCycle};
    /// use tantalum_drive::{Design, Drive};
    /// use tantalum_rt::Runtime;
    ///
    /// let small = "geometry.blocks = 64\ngeometry.pages = 64".parse().unwrap();
    /// let design = Design::preset("durassd").unwrap().with_overrides(&small).unwrap();
    /// let mut runtime = Runtime::virtual_time(1);
    /// let drive = Drive::new(&runtime.handle(), &design, Payload::Stamps).unwrap();
    /// let box_ = drive.clone();
    /// let cut = async move {
    ///     box_.start().await.unwrap();
    ///     let link = box_.device();
    ///     link.write(Block(0), Data::Stamps(&[1; 100]), Durability::Normal).await.unwrap();
    ///     box_.cut();
    ///     box_.off().await;
    /// };
    /// runtime.block_on(cut).unwrap();
    /// let loss = drive.last_power_loss().unwrap();
    /// assert!(loss.complete && loss.spent_j < loss.budget_j, "{loss:?}");
    /// ```
    pub fn last_power_loss(&self) -> Option<PowerLoss> {
        *self.shared.loss.borrow()
    }

    /// All of these together.
    pub fn power_losses(&self) -> PowerLosses {
        *self.shared.losses.borrow()
    }

    /// Pages in the write buffer, and map entries that the map log does not have yet;
    /// zeros without power.
    pub fn backlog(&self) -> (u32, u32) {
        match &*self.shared.power.borrow() {
            Power::On { firmware, .. } => (
                firmware.state.buffer.borrow().used(),
                firmware.state.log.borrow().persistence().backlog(),
            ),
            _ => (0, 0),
        }
    }

    /// Joules that a cut at this moment would take, as [`EnergyModel::full`] counts them: for the
    /// buffered pages and the changes that the map log does not have, with operations in flight at
    /// their worst. 0 without power, and of a drive that nothing protects.
    pub fn joules_needed(&self) -> f64 {
        let Power::On { firmware, .. } = &*self.shared.power.borrow() else { return 0.0 };
        let design = &self.shared.design;
        let buffered = u64::from(firmware.state.buffer.borrow().used()) * u64::from(SECTOR_BYTES);
        let changed = firmware.state.log.borrow().persistence().dumped_sectors();
        EnergyModel::holding(design, &self.shared.layout, buffered, changed).full().total_j()
    }

    /// Erase units that are bad now; 0 without power.
    pub fn bad_units(&self) -> u32 {
        match &*self.shared.power.borrow() {
            Power::On { firmware, .. } => firmware.state.space.borrow().bad(),
            _ => 0,
        }
    }

    /// Whether the drive's life is over, and the mark that says so is durable. It then takes no
    /// more writes, now and after every restart. False without power.
    pub fn is_worn_out(&self) -> bool {
        match &*self.shared.power.borrow() {
            Power::On { firmware, .. } => firmware.is_end_durable(),
            _ => false,
        }
    }

    /// How worn the erase units are; `None` without power, or if all are bad.
    pub fn wear(&self) -> Option<WearReport> {
        let Power::On { firmware, .. } = &*self.shared.power.borrow() else { return None };
        let space = firmware.state.space.borrow();
        let g = &self.shared.design.geometry;
        let unit = |n| (self.shared.nand.erase_count(Unit(n)), space.role(Unit(n)));
        WearReport::of(&(0..g.units()).map(unit).collect::<Vec<_>>(), g.blocks)
    }

    /// What the erase units are there for; `None` without power.
    pub fn census(&self) -> Option<Census> {
        let Power::On { firmware, .. } = &*self.shared.power.borrow() else { return None };
        let space = firmware.state.space.borrow();
        let mapped_pages = firmware.state.map.borrow().live();
        let mut census = Census { mapped_pages, ..Census::default() };
        (0..space.count()).for_each(|unit| census.count(space.role(Unit(unit))));
        Some(census)
    }

    /// How many power cycles' memory is still referenced: that of the present one, and of those
    /// whose links are still held. For tests that look for leaks.
    pub fn memories(&self) -> usize {
        self.shared.memories.borrow().iter().filter(|m| m.strong_count() > 0).count()
    }

    /// How far the drive has power.
    pub fn power(&self) -> PowerState {
        match *self.shared.power.borrow() {
            Power::Off => PowerState::Off,
            Power::Starting(_) | Power::Marking { .. } => PowerState::Starting,
            Power::On { .. } => PowerState::On,
            Power::Dying => PowerState::Dying,
        }
    }

    /// Whether the drive has no power at all.
    pub fn is_off(&self) -> bool {
        self.power() == PowerState::Off
    }

    /// Restores the power, like [`PowerCycle::power_on`].
    ///
    /// # Errors
    /// [`IoError::PowerLost`] if it is cut meanwhile; [`IoError::Failed`] if the drive
    /// does not start ([`Drive::last_failure`] says why).
    pub async fn start(&self) -> Result<(), IoError> {
        self.start_by(WithoutDump::Refuse).await
    }

    /// Restores the power of any drive, also of one that does not start by itself because its dump
    /// is not complete ([`RecoveryError::DumpLost`]) or because a page that its journal of units
    /// names cannot be read ([`RecoveryError::Damaged`]). Without the dump it searches the flash,
    /// page by page, for the newest copy of each logical page. What only the protected memory had
    /// is lost, though it was acknowledged; what was discarded last may be there again.
    /// [`Drive::last_recovery`] says how much was put right.
    ///
    /// # Errors
    /// Those of [`Drive::start`].
    pub async fn salvage(&self) -> Result<(), IoError> {
        self.start_by(WithoutDump::Salvage).await
    }

    async fn start_by(&self, without_dump: WithoutDump) -> Result<(), IoError> {
        self.off_if_dying().await;
        let this = &*self.shared;
        if matches!(*this.power.borrow(), Power::On { .. }) {
            return Ok(());
        }
        if !this.is_starting() {
            let domain = this.rt.domain();
            *this.power.borrow_mut() = Power::Starting(domain.clone());
            this.nand.power_on();
            *this.failure.borrow_mut() = None;
            // The drive starts by itself: dropping this future changes nothing.
            let shared = self.shared.clone();
            domain
                .clone()
                .spawn("recovery", async move { shared.boot(domain, without_dump).await });
        }
        this.changed.until(|| !this.is_starting()).await;
        if matches!(*this.power.borrow(), Power::On { .. }) {
            return Ok(());
        }
        Err(match &*this.failure.borrow() {
            Some(RecoveryError::DumpLost { .. }) => {
                IoError::Failed("the drive does not start: its emergency dump is not complete")
            }
            Some(_) => IoError::Failed("the drive does not start: its content is damaged"),
            None => IoError::PowerLost,
        })
    }

    /// A copy of this drive in another runtime, as if its power were cut at this moment. The copy
    /// is dying or off, and has what the dump needs and nothing else. This drive goes on and
    /// notices nothing. `None` while it is dying itself: it has been cut already.
    ///
    /// So one run can be cut at each of its moments, without beginning anew for each. Only
    /// what survives is copied (cells are shared until either side writes): protected
    /// memory, the flash array with its operations in flight. Counters begin at zero; failures
    /// that were ordered from the array are not copied.
    pub fn cut_copy(&self, rt: &Rt) -> Option<Drive> {
        let this = &*self.shared;
        let nand = Rc::new(this.nand.copy(rt));
        let copy = Drive::over(rt, &this.design, this.layout.clone(), nand, None);
        let power = match &*this.power.borrow() {
            Power::Off => {
                copy.shared.nand.power_off();
                Power::Off
            }
            Power::Starting(_) => Power::Starting(rt.domain()),
            Power::On { firmware, .. } | Power::Marking { firmware, .. } => {
                let firmware = firmware.protected_copy(rt, &copy.shared.nand, &copy.shared.stats);
                let (domain, link) = (rt.domain(), Link::new(rt));
                Power::On { domain, link, firmware: Rc::new(firmware) }
            }
            Power::Dying => return None,
        };
        *copy.shared.power.borrow_mut() = power;
        copy.cut();
        Some(copy)
    }

    /// Checks the firmware's memory against itself and against the flash array. It changes nothing,
    /// and no time passes. Without power there is nothing to check.
    ///
    /// # Errors
    /// The first invariant found broken, and where.
    pub fn audit(&self) -> Result<(), String> {
        match &*self.shared.power.borrow() {
            Power::On { firmware, .. } => audit(firmware),
            _ => Ok(()),
        }
    }

    /// Why the drive has stopped itself, if it did: a step that would have destroyed data was not
    /// taken, which is a defect of the firmware, or the host failed to write the image to its disk.
    /// `None` without power.
    pub fn defect(&self) -> Option<&'static str> {
        let firmware = match &*self.shared.power.borrow() {
            Power::On { firmware, .. } => firmware.clone(),
            _ => return None,
        };
        firmware.look_for_defects();
        firmware.defect()
    }

    /// The memory of a drive that has power.
    #[cfg(test)]
    pub(crate) fn firmware(&self) -> Rc<Firmware> {
        match &*self.shared.power.borrow() {
            Power::On { firmware, .. } => firmware.clone(),
            _ => panic!("the drive has no power"),
        }
    }

    pub(crate) fn file(&self) -> Option<&ImageFile> {
        self.shared.image.as_ref()
    }

    pub(crate) fn counters(&self) -> &Rc<Stats> {
        &self.shared.stats
    }

    /// Cuts the power of a drive that is off, as if it had been on with this memory.
    pub(crate) fn cut_left_behind(&self, firmware: Firmware) {
        let (domain, link) = (self.shared.rt.domain(), Link::new(&self.shared.rt));
        let power = Power::On { domain, link, firmware: Rc::new(firmware) };
        *self.shared.power.borrow_mut() = power;
        self.cut();
    }

    async fn off_if_dying(&self) {
        let this = &*self.shared;
        this.changed.until(|| !matches!(*this.power.borrow(), Power::Dying)).await;
    }
}

impl Shared {
    fn is_starting(&self) -> bool {
        matches!(*self.power.borrow(), Power::Starting(_) | Power::Marking { .. })
    }

    async fn boot(self: Rc<Shared>, domain: Domain, without_dump: WithoutDump) {
        let began = self.rt.now();
        match self.ready(&domain, without_dump).await {
            Ok((firmware, report, rest)) => {
                let mut memories = self.memories.borrow_mut();
                memories.retain(|m| m.strong_count() > 0);
                memories.push(Rc::downgrade(&firmware));
                drop(memories);
                if report.early {
                    let rest = self.clone().finish(domain.clone(), firmware.clone(), rest, began);
                    domain.spawn("the rest of the start", rest);
                } else {
                    if !report.blank {
                        self.recoveries.borrow_mut().add(&report);
                    }
                    start_tasks(&domain, &firmware);
                }
                *self.report.borrow_mut() = Some(report);
                let link = Link::new(&self.rt);
                *self.power.borrow_mut() = Power::On { domain, link, firmware };
            }
            Err(error) => {
                *self.failure.borrow_mut() = Some(error);
                self.power_off();
            }
        }
        self.changed.notify_all();
    }

    /// Up to the moment at which commands can be taken.
    async fn ready(
        &self,
        domain: &Domain,
        without_dump: WithoutDump,
    ) -> Result<(Rc<Firmware>, RecoveryReport, Rest), RecoveryError> {
        let began = self.rt.now();
        let (firmware, mut report, mut rest) =
            recover(&self.rt, &self.design, &self.layout, &self.nand, &self.stats, without_dump)
                .await?;
        let firmware = Rc::new(firmware);
        report.early = rest.is_early() && !firmware.is_read_only();
        if !report.early {
            finish(&firmware, &mut rest, &mut report).await?;
        }
        let state = Power::Marking { domain: domain.clone(), firmware: firmware.clone() };
        *self.power.borrow_mut() = state;
        self.keep(&firmware);
        let marking = self.rt.now();
        mark_due(&firmware).await?;
        report.mark = self.rt.now() - marking;
        report.total = self.rt.now() - began;
        if !report.early {
            report.whole = report.total;
        }
        Ok((firmware, report, rest))
    }

    /// The rest of a start, while commands are taken.
    async fn finish(
        self: Rc<Shared>,
        domain: Domain,
        firmware: Rc<Firmware>,
        mut rest: Rest,
        began: Nanos,
    ) {
        let mut report = self.report.borrow().clone().unwrap_or_default();
        match finish(&firmware, &mut rest, &mut report).await {
            Ok(()) => start_tasks(&domain, &firmware),
            Err(error) => {
                *self.failure.borrow_mut() = Some(error);
                firmware.poison();
            }
        }
        report.whole = self.rt.now() - began;
        self.recoveries.borrow_mut().add(&report);
        *self.report.borrow_mut() = Some(report);
        self.changed.notify_all();
    }

    /// From now on protected memory outlives the process, if the drive is in an image.
    fn keep(&self, firmware: &Rc<Firmware>) {
        let Some(image) = self.image.as_ref().filter(|_| self.design.is_protected()) else {
            return;
        };
        let mirror = Mirror::begin(firmware, &image.protected(), image.spec().version);
        firmware.publish_to(Box::new(mirror));
        let firmware = Rc::downgrade(firmware);
        self.nand.before_changes(Some(Rc::new(move || {
            if let Some(firmware) = firmware.upgrade() {
                firmware.publish();
            }
        })));
    }

    /// The host's power is gone.
    fn lose_power(self: &Rc<Self>, domain: &Domain, firmware: Rc<Firmware>) {
        self.stats.cuts.add(1);
        domain.kill();
        // The dump changes nothing in protected memory. So if it is interrupted, it can begin anew.
        firmware.publish();
        self.nand.before_changes(None);
        if !firmware.start.is_whole.get()
            && let Some(report) = &*self.report.borrow()
        {
            self.recoveries.borrow_mut().add(report);
        }
        if !self.design.is_protected() {
            self.power_off();
            return;
        }
        let shared = self.clone();
        self.rt.spawn("emergency dump", async move {
            let loss = outage(&firmware).await;
            drop(firmware);
            *shared.loss.borrow_mut() = Some(loss);
            shared.losses.borrow_mut().add(&loss);
            shared.power_off();
        });
    }

    fn power_off(&self) {
        self.nand.before_changes(None);
        self.nand.power_off();
        if let Some(image) = &self.image {
            Mirror::clear(&image.protected());
        }
        *self.power.borrow_mut() = Power::Off;
        self.changed.notify_all();
    }
}

/// Starts the tasks that the firmware runs by itself.
fn start_tasks(domain: &Domain, firmware: &Rc<Firmware>) {
    for die in (0..firmware.design.geometry.dies()).take_while(|_| !firmware.is_read_only()) {
        domain.spawn_background("flusher", write_to(firmware.clone(), die));
        domain.spawn_background("collector", collect_on(firmware.clone(), die));
    }
    if !firmware.is_read_only() {
        domain.spawn_background("map keeper", keep_log(firmware.clone()));
        domain.spawn_background("eraser of the old dump", clear_old_dump(firmware.clone()));
        domain.spawn_background("idle watch", watch_host(firmware.clone()));
    }
}

impl PowerCycle for Drive {
    type Device = DriveLink;

    fn device(&self) -> DriveLink {
        let caps = self.shared.caps;
        let this_image = || self.shared.image.clone();
        match &*self.shared.power.borrow() {
            Power::On { link, firmware, .. } => {
                let (image, firmware) = (this_image(), Some(firmware.clone()));
                DriveLink { link: link.clone(), caps, firmware, image }
            }
            _ => {
                let link = Link::new(&self.shared.rt);
                link.cut();
                DriveLink { link, caps, firmware: None, image: None }
            }
        }
    }

    fn cut(&self) {
        let this = &self.shared;
        let power = std::mem::replace(&mut *this.power.borrow_mut(), Power::Dying);
        match power {
            Power::Off => *this.power.borrow_mut() = Power::Off,
            Power::Dying => {}
            Power::Starting(domain) => {
                this.stats.cuts.add(1);
                domain.kill();
                this.power_off();
            }
            Power::Marking { domain, firmware } => this.lose_power(&domain, firmware),
            Power::On { domain, link, firmware } => {
                link.cut();
                this.lose_power(&domain, firmware);
            }
        }
    }

    async fn off(&self) {
        let this = &*self.shared;
        this.changed.until(|| matches!(*this.power.borrow(), Power::Off)).await;
    }

    async fn power_on(&self) -> Result<(), IoError> {
        self.start().await
    }
}
