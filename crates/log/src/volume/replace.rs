//! A new box in the place of a lost one, while the volume is used.
//!
//! 1. The new box has power before the log is told of it, and shares the plug from then on.
//! 2. If the power is cut meanwhile, the next start finds out whether the new box has joined. If it
//!    has not, the log is as it was, without the lost device.
//! 3. One at a time. One that has begun is carried out though nobody waits for it.

use crate::replace::check_lost;
use crate::volume::places::Put;
use crate::volume::plug::LogVolume;
use crate::{LogDevice, LogError, LogStats};
use tantalum_device::{IoError, PowerCycle};

/// Why a device of a volume's log was not replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplaceError {
    /// The volume has no power.
    #[error("the volume has no power: restore it first")]
    Off,
    /// The new device does not start.
    #[error("\"{device}\" does not start: {error}")]
    Device {
        /// The device.
        device: String,
        /// Its error.
        error: IoError,
    },
    /// As the log says.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The power was cut meanwhile.
    #[error("the power was cut meanwhile: restore it, and replace the device again if it is lost")]
    Cut,
}

/// Of the link to the volume: it fails only with the power.
impl From<IoError> for ReplaceError {
    fn from(_: IoError) -> ReplaceError {
        ReplaceError::Cut
    }
}

impl<L: PowerCycle + 'static, B: PowerCycle + 'static> LogVolume<L, B> {
    /// Puts a new box in the place of a device of the log that is lost (with two copies), while the
    /// volume is used: [`Log::replace`](crate::Log::replace). The box gets power, and shares the
    /// plug of the volume from then on; the lost one does so no longer. `index` is that of the
    /// device in the log, `name` is what the new one is called. Returns how the log is then.
    ///
    /// # Errors
    /// [`ReplaceError`]. Unless the power was cut, the new device does not take part then.
    pub async fn replace(
        &self,
        index: usize,
        name: String,
        new: L,
        force: bool,
    ) -> Result<LogStats, ReplaceError> {
        let volume = self.clone();
        let work = async move { volume.replace_whole(index, name, new, force).await };
        let task = self.inner.rt.spawn("log volume: replace", work);
        task.await.unwrap_or(Err(ReplaceError::Cut))
    }

    async fn replace_whole(
        &self,
        index: usize,
        name: String,
        new: L,
        force: bool,
    ) -> Result<LogStats, ReplaceError> {
        let inner = &*self.inner;
        let _turn = inner.replacing.lock().await;
        let log = inner.running.borrow().as_ref().map(|r| r.core.log.clone());
        let log = log.ok_or(ReplaceError::Off)?;
        check_lost(&log.core.state.borrow(), index).map_err(LogError::from)?;
        let mut others = log.stats().devices;
        let lost = others.remove(index).name;
        // A lost box has no name there if it was not looked at when the log was opened.
        let is_other = |name: &str| others.iter().any(|d| d.name == name);
        let put = inner.places.put((name.clone(), new), log.identity(), is_other);
        let place = put.new.clone();
        let work = async {
            if let Err(error) = place.of.power_on().await {
                return Err(ReplaceError::Device { device: name.clone(), error });
            }
            let device = LogDevice::new(name.clone(), place.of.device());
            log.replace(index, device, force).await?;
            Ok(log.stats())
        };
        let link = inner.link.borrow().clone();
        let stays = |put: Put<'_, L>, joined: bool| {
            let mut names = inner.names.borrow_mut();
            // Until it is known to have joined, either may be the one that is missing.
            names.retain(|name| !joined || *name != lost);
            if !names.contains(&name) {
                names.push(name.clone());
            }
            // Whatever had this name before, it may be of the array now.
            inner.roles.borrow_mut().retain(|(device, _)| *device != name);
            put.stays(joined);
        };
        match link.command("replace a device of a log volume", work).await {
            Ok(stats) => {
                stays(put, true);
                Ok(stats)
            }
            // The next start finds out.
            Err(_) if !link.is_alive() => {
                stays(put, false);
                Err(ReplaceError::Cut)
            }
            // A log that could not write a state does not know whether it counts.
            Err(error @ ReplaceError::Log(LogError::Failed(_))) => {
                stays(put, false);
                Err(error)
            }
            Err(error) => {
                put.goes().await;
                Err(error)
            }
        }
    }
}
