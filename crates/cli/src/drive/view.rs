//! A drive in an image as a restart would find it, without changing the image: on a private view
//! of the image, in virtual time.

use crate::counted::counted;
use crate::fault;
use std::path::Path;
use tantalum_device::PowerCycle;
use tantalum_drive::{Drive, DriveImageError};
use tantalum_nand::{ImageFile, Opening};
use tantalum_rt::{RunError, Runtime};

/// A drive on a view of its image.
pub struct View {
    pub runtime: Runtime,
    pub image: ImageFile,
}

/// Why there is no view.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    #[error(transparent)]
    Image(#[from] DriveImageError),
    #[error(transparent)]
    Run(#[from] RunError),
}

impl View {
    /// `host_crashed`: also if the host crashed while the image was in use.
    pub fn open(path: &Path, host_crashed: bool) -> Result<View, ViewError> {
        let opening = Opening { view: true, host_crashed, ..Opening::default() };
        let image = ImageFile::open_with(path, opening).map_err(DriveImageError::from)?;
        // If this fails, a fault still ends the process, but without a message.
        let _ = fault::tell(&[(path, &image)], fault::NOTHING);
        Ok(View { runtime: Runtime::virtual_time(1), image })
    }

    /// The drive without power; if a dump was due, it has been written.
    pub fn off(&mut self) -> Result<Drive, ViewError> {
        let drive = Drive::on_file(&self.runtime.handle(), self.image.clone())?;
        let waiting = drive.clone();
        self.runtime.block_on(async move { waiting.off().await })?;
        Ok(drive)
    }

    /// Starts the drive completely; the inner error says in a line why it does not start.
    pub fn start(&mut self, drive: &Drive) -> Result<Result<(), String>, ViewError> {
        let starting = drive.clone();
        let started = self.runtime.block_on(async move {
            let started = starting.start().await;
            starting.settled().await;
            match (starting.last_failure(), started) {
                (Some(why), _) => Err(why.to_string()),
                (None, Err(e)) => Err(e.to_string()),
                (None, Ok(())) => Ok(()),
            }
        });
        Ok(started?)
    }
}

/// The state of an image after a crash of the host.
pub fn host_crashed(image: &ImageFile) -> String {
    let what = match image.was_synced() {
        true => "the image has the state of its newest sync".to_string(),
        false => "the image was not synced: the last writes may be missing".to_string(),
    };
    let torn = counted(image.torn_by_crash(), "page", "pages");
    format!("the host crashed: {what}; {torn} cannot be read any more")
}
