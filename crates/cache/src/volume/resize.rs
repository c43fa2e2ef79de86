//! Another size of the cache of a volume that is used.
//!
//! 1. A flash device that can, a file, becomes larger before the cache does, and smaller after it. So
//!    a process that is killed leaves a cache that fits its device.
//! 2. A device becomes smaller only by what the cache has given up.
//! 3. One change at a time. One that has begun is carried out though nobody waits for it.

use crate::flash::{CacheError, CacheStats};
use crate::volume::plug::CacheVolume;
use tantalum_device::{BlockDevice, IoError, PowerCycle, counted};

/// Why the cache of a volume did not get another size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResizeError {
    /// The volume has no power.
    #[error("the volume has no power: restore it first")]
    Off,
    /// There is no room for so large a flash device.
    #[error("the flash device does not become so large: the file system with its file has no room")]
    NoRoom,
    /// The flash device cannot become so large.
    #[error("the flash device does not become so large: {0}")]
    Device(IoError),
    /// As the cache says.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The runtime has ended.
    #[error("it was given up with its runtime")]
    Ended,
}

impl<F: PowerCycle + 'static, S: PowerCycle + 'static> CacheVolume<F, S> {
    /// The cache has so many bytes of the flash device from now on, while the volume is used
    /// ([`FlashCache::resize`](crate::flash::FlashCache::resize)). A flash device that is a file gets
    /// that length. Returns how the cache is then.
    ///
    /// # Errors
    /// [`ResizeError`]. The cache has its old size or the new one.
    pub async fn resize(&self, bytes: u64) -> Result<CacheStats, ResizeError> {
        let volume = self.clone();
        let work = async move { volume.resize_whole(bytes).await };
        let task = self.inner.rt.spawn("another size of a cache", work);
        task.await.unwrap_or(Err(ResizeError::Ended))
    }

    async fn resize_whole(&self, bytes: u64) -> Result<CacheStats, ResizeError> {
        let _turn = self.inner.resizing.lock().await;
        let cache = self.cache().ok_or(ResizeError::Off)?;
        let device = &self.inner.flash;
        let now = *device.device().caps();
        if !bytes.is_multiple_of(now.block_size.into()) {
            let bytes = counted(bytes, "byte is", "bytes are");
            let why = format!("{bytes} not a multiple of {}", now.block_size);
            return Err(CacheError::Invalid(why).into());
        }
        if bytes > now.bytes() {
            match device.set_bytes(bytes).await {
                // The cache says what the device has.
                Ok(()) | Err(IoError::Invalid(_)) => {}
                Err(IoError::NoSpace) => return Err(ResizeError::NoRoom),
                Err(error) => return Err(ResizeError::Device(error)),
            }
        }
        cache.resize(bytes).await?;
        let stats = cache.stats();
        if bytes < now.bytes() {
            // A device that keeps its length has more than the cache uses.
            let _ = device.set_bytes(bytes).await;
        }
        Ok(stats)
    }
}
