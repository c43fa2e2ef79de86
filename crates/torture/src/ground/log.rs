//! The volume over a flash log whose devices and backing are drives in images, mounted by another
//! process of this program. Its power can be cut, and a device of it can be lost.
//!
//! 1. A device is lost only while the log has all of its copies: the one that was lost before was
//!    replaced by then.

use crate::ground::drive::create;
use crate::ground::mounted::{MountOptions, Mounted};
use crate::ground::{Blow, GroundError};
use crate::program::{Interrupt, ProgramError, command, run};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tantalum_export::control::CutReport;

/// The log, and how its volume is mounted.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The design of its devices and of the backing: a preset, or a file.
    pub design: String,
    /// The number of devices.
    pub devices: u8,
    /// On how many of them each record is.
    pub copies: u8,
    /// How it is mounted. The source is the description; images lie beside it.
    pub mount: MountOptions,
}

/// The capacity of a device, in bytes. The log is filled many times in a run.
pub const DEVICE_BYTES: u64 = 128 << 20;
/// That of the backing.
pub const BACKING_BYTES: u64 = 1 << 30;
/// A bound in real time. Everything should be much quicker.
const DONE: Duration = Duration::from_secs(120);

/// The mounted volume over a log.
pub struct MountedLog {
    options: LogOptions,
    devices: Vec<PathBuf>,
    /// Devices that were lost so far.
    lost: usize,
    mounted: Mounted,
}

impl MountedLog {
    /// A log that is not created yet.
    pub fn new(options: LogOptions) -> MountedLog {
        let mounted = Mounted::new(options.mount.clone());
        let count = usize::from(options.devices);
        let devices = (0..count).map(|n| beside(&options.mount.source, n)).collect();
        MountedLog { options, devices, lost: 0, mounted }
    }

    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.options.mount.mountpoint
    }

    /// Creates the images, the log and a file system, and mounts it.
    pub fn begin(&mut self, interrupt: &Interrupt) -> Result<(), GroundError> {
        let LogOptions { design, copies, mount, .. } = &self.options;
        let backing = mount.source.with_extension("backing");
        for device in &self.devices {
            create(&mount.program, design, DEVICE_BYTES, device, interrupt)?;
        }
        create(&mount.program, design, BACKING_BYTES, &backing, interrupt)?;
        let mut make = command(&mount.program, ["log", "create", "--copies", &copies.to_string()]);
        make.arg(&mount.source).arg("--backing").arg(backing);
        for device in &self.devices {
            make.arg("--device").arg(device);
        }
        run("tantalum log create", &mut make, DONE, interrupt)?;
        self.mounted.mount(interrupt)
    }

    /// Strikes, after this time.
    pub fn strike(
        &mut self,
        blow: Blow,
        after: Duration,
        interrupt: &Interrupt,
    ) -> Result<Option<CutReport>, GroundError> {
        let clock = interrupt.clone();
        let ready = move |_: Option<&mut _>| {
            clock.sleep(after);
            Ok(())
        };
        self.mounted.strike(blow, ready, interrupt)
    }

    /// Restores the power.
    pub fn restore(&mut self, interrupt: &Interrupt) -> Result<(), GroundError> {
        self.mounted.restore(interrupt).map(drop)
    }

    /// Removes a device after a blow, and replaces it by a new one. The log is not served after
    /// that, and is mounted anew by [`MountedLog::restore`].
    pub fn lose(&mut self, interrupt: &Interrupt) -> Result<(), GroundError> {
        if let Some(users) = self.mounted.end()? {
            return Err(GroundError::Gone(format!("the log cannot be unmounted: {users}")));
        }
        let (place, count) = (self.lost % self.devices.len(), self.devices.len());
        let MountOptions { program, source, .. } = &self.options.mount;
        let new = beside(source, count + self.lost);
        #[allow(clippy::disallowed_methods, reason = "the edge: a device is taken away")]
        std::fs::remove_file(&self.devices[place])
            .map_err(|e| GroundError::Gone(format!("{}: {e}", self.devices[place].display())))?;
        create(program, &self.options.design, DEVICE_BYTES, &new, interrupt)?;
        let mut replace = command(program, ["log", "replace"]);
        replace.arg(source).arg("--lost").arg(&self.devices[place]).arg("--with").arg(&new);
        match run("tantalum log replace", &mut replace, DONE, interrupt) {
            // It could not be opened without the device: that is a finding about the log.
            Err(e @ (ProgramError::Failed { .. } | ProgramError::TooLong { .. })) => {
                return Err(GroundError::Gone(e.to_string()));
            }
            replaced => replaced.map(drop)?,
        }
        self.devices[place] = new;
        self.lost += 1;
        Ok(())
    }

    /// Ends in good order, as [`Mounted::end`] does.
    pub fn end(&mut self) -> Result<Option<String>, GroundError> {
        self.mounted.end()
    }
}

/// The image of the device with this number.
fn beside(description: &Path, number: usize) -> PathBuf {
    description.with_extension(format!("{number}.img"))
}
