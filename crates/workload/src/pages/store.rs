//! Where an engine's pages are: in their places on a volume, or in a cache before it.

use super::cache_job::CacheJob;
use super::cached::Cached;
use super::engine::EngineError;
use super::in_place::InPlace;
use super::policed::Policed;
use super::storage::{After, ColdEnd, Landed, PageStore, PageVersion, StoreCounts, Stored};
use super::{Lsn, PageNo};
use std::rc::Weak;
use tantalum_cache::flash::Beside;
use tantalum_device::{BlockDevice, IoError};
use tantalum_rt::{Domain, Rt};

/// A store of pages of any kind.
pub enum Store<D: BlockDevice + Clone + 'static> {
    /// In their places.
    InPlace(InPlace<D>),
    /// Behind a flash cache.
    Cached(Cached<D>),
    /// Behind a cache by another policy.
    Policed(Policed<D>),
}

macro_rules! each {
    ($self:ident, $store:ident => $call:expr) => {
        match $self {
            Store::InPlace($store) => $call,
            Store::Cached($store) => $call,
            Store::Policed($store) => $call,
        }
    };
}

impl<D: BlockDevice + Clone + 'static> Store<D> {
    /// These pages (their number and bytes of each) behind the cache of `job` on `flash`. Of a drive
    /// that carries stamps the rest lies in `beside`.
    ///
    /// # Errors
    /// The flash drive does not suit.
    pub fn behind(
        rt: &Rt,
        domain: &Domain,
        job: &CacheJob,
        (pages, count, page_bytes): (InPlace<D>, u32, u32),
        flash: D,
        beside: Beside,
    ) -> Result<Store<D>, EngineError> {
        Ok(match job.is_flash_cache() {
            true => Store::Cached(Cached::new(rt, job, (pages, count, page_bytes), flash, beside)?),
            false => {
                let places = (pages, page_bytes);
                Store::Policed(Policed::new(rt, domain.clone(), job, places, flash)?)
            }
        })
    }

    /// Writes the pages of a freshly loaded database to their places, and makes an empty cache.
    ///
    /// # Errors
    /// The devices' errors.
    pub async fn load(&self) -> Result<(), EngineError> {
        match self {
            Store::InPlace(store) => Ok(store.load().await?),
            Store::Cached(store) => store.load().await,
            Store::Policed(store) => store.load().await,
        }
    }

    /// Opens the cache, however it ended.
    ///
    /// # Errors
    /// The cache is damaged, or a device's error.
    pub async fn open(&self) -> Result<(), EngineError> {
        match self {
            Store::Cached(store) => store.open().await,
            Store::InPlace(_) | Store::Policed(_) => Ok(()),
        }
    }

    /// Closes the cache, so that it can be opened while the power stays on.
    ///
    /// # Errors
    /// A device's error.
    pub async fn close(&self) -> Result<(), EngineError> {
        match self {
            Store::Cached(store) => store.close().await,
            Store::InPlace(_) | Store::Policed(_) => Ok(()),
        }
    }
}

impl<D: BlockDevice + Clone + 'static> PageStore for Store<D> {
    async fn fetch(&self, page: PageNo) -> Result<Lsn, EngineError> {
        each!(self, store => store.fetch(page).await)
    }

    async fn write(
        &self,
        pages: &[PageVersion],
        after: After,
        landed: Landed,
    ) -> Result<(), EngineError> {
        each!(self, store => store.write(pages, after, landed).await)
    }

    async fn write_one(&self, page: PageVersion) -> Result<(), EngineError> {
        each!(self, store => store.write_one(page).await)
    }

    async fn evict_clean(&self, pages: &[PageVersion]) -> Result<(), EngineError> {
        each!(self, store => store.evict_clean(pages).await)
    }

    async fn forget(&self, page: PageNo) -> Result<(), EngineError> {
        each!(self, store => store.forget(page).await)
    }

    async fn checkpoint(&self, lsn: Lsn) -> Result<(), EngineError> {
        each!(self, store => store.checkpoint(lsn).await)
    }

    async fn survey(&self, pages: u32) -> Result<Vec<Stored>, IoError> {
        each!(self, store => store.survey(pages).await)
    }

    async fn restore(&self, pages: &[PageVersion]) -> Result<(), IoError> {
        each!(self, store => store.restore(pages).await)
    }

    fn attach(&self, pool: Weak<dyn ColdEnd>) {
        each!(self, store => store.attach(pool));
    }

    fn warm_fetch(&self, page: PageNo) {
        each!(self, store => store.warm_fetch(page));
    }

    async fn warm_evict(&self, pages: &[(PageNo, bool)]) -> Result<bool, EngineError> {
        each!(self, store => store.warm_evict(pages).await)
    }

    async fn warm_end(&self) -> Result<(), EngineError> {
        each!(self, store => store.warm_end().await)
    }

    fn counts(&self) -> StoreCounts {
        each!(self, store => store.counts())
    }
}
