//! Pages in their places on a volume, as in InnoDB. Torn pages are repaired from the double-write
//! area, or cannot occur, or the engine takes the risk ([`PageWrites`]).
//!
//! 1. With the double-write area the order is: copies, a barrier, the pages, a barrier. Without it:
//!    the pages, a barrier. The last barrier is an fsync of each file with pages of the batch, one
//!    after another, as InnoDB does it. With O_DSYNC each page has a barrier of its own instead of
//!    the last one.
//! 2. Atomic groups are as few as the drive's limit allows, and are written at the same time. A
//!    page is never split over two. There is no barrier, since a completed group is durable. (The
//!    file's time stamp is not committed either: nothing about the pages depends on it.)
//! 3. All writes are tasks of the engine's power domain.

use super::doublewrite::{DoubleWrite, copies};
use super::engine::EngineError;
use super::job::pages_in;
use super::storage::{After, Landed, PageStore, PageVersion, StoreCounts, Stored};
use super::{
    EngineJob, FileNo, Files, LOADED, Layout, Lsn, PageNo, PageWrites, Volume, stamp, whole,
};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tantalum_device::{AtomicError, BlockDevice, Blocks, IoError};
use tantalum_rt::{Domain, Join, Rt};

/// Blocks of the largest page, if they are the smallest.
const PAGE_BLOCKS: usize = 128;

/// Bytes that a load writes at a time.
const LOAD_BYTES: u32 = 128 << 10;

/// Bytes that a survey reads at a time.
const RUN_BYTES: u32 = 256 << 10;

/// Pages in their places on a volume. Cheap to clone: a clone is the same pages.
pub struct InPlace<D> {
    shared: Rc<Shared<D>>,
}

impl<D> Clone for InPlace<D> {
    fn clone(&self) -> InPlace<D> {
        InPlace { shared: self.shared.clone() }
    }
}

struct Shared<D> {
    volume: Volume<D>,
    layout: Layout,
    domain: Domain,
    writes: PageWrites,
    o_dsync: bool,
    /// The files of the tables, if each has its own.
    files: Option<Files>,
    page_bytes: u32,
    area: Option<DoubleWrite<D>>,
    groups: Cell<u64>,
}

impl<D> Shared<D> {
    /// The file that the page is in.
    fn file(&self, page: PageNo) -> FileNo {
        let number = |files: &Files| FileNo(FileNo::SYSTEM.0 + 1 + files.of_page(page));
        self.files.as_ref().map_or(FileNo::SYSTEM, number)
    }
}

impl<D: BlockDevice + 'static> InPlace<D> {
    /// The pages of `job` on a volume, by its layout. All writes will be tasks of `domain`.
    pub fn new(
        rt: &Rt,
        domain: Domain,
        job: &EngineJob,
        layout: Layout,
        volume: Volume<D>,
    ) -> InPlace<D> {
        let area = (job.double_write == PageWrites::Double)
            .then(|| DoubleWrite::new(rt, volume.clone(), layout.area));
        let shared = Shared {
            volume,
            layout,
            domain,
            writes: job.double_write,
            o_dsync: job.o_dsync,
            files: job.file_per_table.then(|| job.mix().files()),
            page_bytes: job.page_bytes,
            area,
            groups: Cell::new(0),
        };
        InPlace { shared: Rc::new(shared) }
    }

    /// Writes the pages of a freshly loaded database, several in a command.
    ///
    /// # Errors
    /// The volume's error.
    pub async fn load(&self) -> Result<(), IoError> {
        let Shared { volume, layout, page_bytes, .. } = &*self.shared;
        let each = layout.page_blocks as usize;
        let step = (LOAD_BYTES / page_bytes).max(1);
        let mut page = 0;
        while page < layout.pages {
            let count = step.min(layout.pages - page);
            let blocks: Vec<u64> = (page..page + count)
                .flat_map(|p| std::iter::repeat_n(stamp(PageNo(p), LOADED), each))
                .collect();
            volume
                .write(self.shared.file(PageNo(page)), layout.place(PageNo(page)), &blocks)
                .await?;
            page += count;
        }
        volume.flush().await
    }

    /// Writes neighbours in one command, without a barrier.
    ///
    /// # Errors
    /// The volume's error.
    pub(super) async fn write_neighbours(&self, pages: &[PageVersion]) -> Result<(), IoError> {
        let Shared { volume, layout, .. } = &*self.shared;
        let Some(first) = pages.first() else { return Ok(()) };
        let each = layout.page_blocks as usize;
        let blocks = |p: &PageVersion| std::iter::repeat_n(stamp(p.page, p.lsn), each);
        let stamps: Vec<u64> = pages.iter().flat_map(blocks).collect();
        volume.write(self.shared.file(first.page), layout.place(first.page), &stamps).await
    }

    /// The state of each page in its place: whole or torn.
    ///
    /// # Errors
    /// The volume's error, except for pages that cannot be read.
    pub(super) async fn survey_in_place(&self, pages: u32) -> Result<Vec<Stored>, IoError> {
        let each = (0..).map(PageNo).zip(self.read_all(pages).await?);
        let of = |(page, found): (PageNo, Option<(PageNo, Lsn)>)| match found {
            Some((number, lsn)) if number == page => Stored::Whole(lsn),
            _ => Stored::Torn,
        };
        Ok(each.map(of).collect())
    }

    /// Makes durable what was written without a barrier.
    ///
    /// # Errors
    /// The volume's error.
    pub(super) async fn sync(&self) -> Result<(), IoError> {
        let s = &*self.shared;
        if s.files.is_some() {
            s.volume.flush().await
        } else {
            s.volume.fsync(FileNo::SYSTEM, false).await
        }
    }

    /// Writes a batch as atomic groups.
    async fn put_groups(&self, pages: &[PageVersion], landed: &Landed) -> Result<(), EngineError> {
        let s = &*self.shared;
        let limit = s.volume.caps().atomic_group.ok_or(AtomicError::Unsupported)?;
        let most = pages_in(limit, s.page_bytes).max(1);
        let parts = pages.chunks(most).zip((0..).step_by(most));
        let tasks = parts.map(|(part, first)| {
            let (this, part, landed) = (self.clone(), part.to_vec(), landed.clone());
            s.domain.spawn_background("a group of pages", async move {
                this.put_group(&part).await?;
                (first..first + part.len()).for_each(|i| landed(i));
                Ok(())
            })
        });
        all(tasks.collect()).await
    }

    /// Writes pages as one atomic group. They are durable when it returns.
    async fn put_group(&self, pages: &[PageVersion]) -> Result<(), EngineError> {
        let s = &*self.shared;
        let each = s.layout.page_blocks as usize;
        let blocks = |p: &PageVersion| std::iter::repeat_n(stamp(p.page, p.lsn), each);
        let stamps: Vec<u64> = pages.iter().flat_map(blocks).collect();
        let places = pages.iter().map(|p| s.layout.place(p.page));
        let extents: Vec<_> = places.zip(stamps.chunks(each)).collect();
        s.volume.write_atomic(&extents).await?;
        s.groups.set(s.groups.get() + 1);
        Ok(())
    }

    /// Writes a batch with one page in a command, with the double-write area if there is one.
    async fn put_batch(&self, pages: &[PageVersion], landed: &Landed) -> Result<(), EngineError> {
        let s = &*self.shared;
        let copies = match &s.area {
            Some(area) => Some(area.batch(pages).await?),
            None => None,
        };
        let tasks = pages.iter().enumerate().map(|(i, page)| {
            let (this, page, landed) = (self.clone(), *page, landed.clone());
            s.domain.spawn_background("a page's write", async move {
                this.put(page).await?;
                landed(i);
                Ok(())
            })
        });
        all(tasks.collect()).await?;
        if !s.o_dsync {
            let files: BTreeSet<_> = pages.iter().map(|p| s.file(p.page)).collect();
            for file in files {
                s.volume.fsync(file, false).await?;
            }
        }
        drop(copies);
        Ok(())
    }

    async fn put(&self, page: PageVersion) -> Result<(), IoError> {
        let s = &*self.shared;
        let blocks = [stamp(page.page, page.lsn); PAGE_BLOCKS];
        let blocks = &blocks[..s.layout.page_blocks as usize];
        s.volume.write(s.file(page.page), s.layout.place(page.page), blocks).await?;
        if s.o_dsync { s.volume.flush().await } else { Ok(()) }
    }

    /// The number and last change in each page; `None` if it is torn or cannot be read.
    async fn read_all(&self, count: u32) -> Result<Vec<Option<(PageNo, Lsn)>>, IoError> {
        let Shared { volume, layout, page_bytes, .. } = &*self.shared;
        let each = layout.page_blocks as usize;
        let mut pages = Vec::with_capacity(count as usize);
        let mut room = vec![0; (RUN_BYTES / page_bytes).max(1) as usize * each];
        while pages.len() < count as usize {
            let some = (room.len() / each).min(count as usize - pages.len());
            let first = pages.len();
            let room = &mut room[..some * each];
            match volume.read(layout.place(PageNo(first as u32)), room).await {
                Ok(()) => pages.extend(room.chunks(each).map(whole)),
                Err(IoError::Uncorrectable(_)) => {
                    for number in first..first + some {
                        let one = &mut room[..each];
                        let at = layout.place(PageNo(number as u32));
                        pages.push(match volume.read(at, one).await {
                            Ok(()) => whole(one),
                            Err(IoError::Uncorrectable(_)) => None,
                            Err(e) => return Err(e),
                        });
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(pages)
    }
}

/// Waits for all of these. Returns the first error.
async fn all(tasks: Vec<Join<Result<(), EngineError>>>) -> Result<(), EngineError> {
    let mut result = Ok(());
    for task in tasks {
        // A task is cancelled only together with this one.
        result = result.and(task.await.unwrap_or(Ok(())));
    }
    result
}

impl<D: BlockDevice + 'static> PageStore for InPlace<D> {
    async fn fetch(&self, page: PageNo) -> Result<Lsn, EngineError> {
        let Shared { volume, layout, .. } = &*self.shared;
        let mut room = [0; PAGE_BLOCKS];
        let blocks = &mut room[..layout.page_blocks as usize];
        volume.read(layout.place(page), blocks).await?;
        let damaged = |what| EngineError::Damaged { page, what };
        let (found, lsn) = whole(blocks).ok_or(damaged("its blocks are of different times"))?;
        if found != page {
            return Err(damaged("another page is in its place"));
        }
        Ok(lsn)
    }

    async fn write(
        &self,
        pages: &[PageVersion],
        _: After,
        landed: Landed,
    ) -> Result<(), EngineError> {
        match self.shared.writes {
            PageWrites::Atomic => self.put_groups(pages, &landed).await,
            PageWrites::Double | PageWrites::Logged | PageWrites::InPlace => {
                self.put_batch(pages, &landed).await
            }
        }
    }

    async fn write_one(&self, page: PageVersion) -> Result<(), EngineError> {
        let s = &*self.shared;
        if s.writes == PageWrites::Atomic {
            return self.put_group(&[page]).await;
        }
        let copy = match &s.area {
            Some(area) => Some(area.single(page).await?),
            None => None,
        };
        self.put(page).await?;
        if !s.o_dsync {
            s.volume.fsync(s.file(page.page), false).await?;
        }
        drop(copy);
        Ok(())
    }

    async fn forget(&self, page: PageNo) -> Result<(), EngineError> {
        let Shared { volume, layout, .. } = &*self.shared;
        let range = Blocks { start: layout.place(page), count: layout.page_blocks.into() };
        Ok(volume.discard(range).await?)
    }

    /// Every written page is durable in its place.
    async fn checkpoint(&self, _: Lsn) -> Result<(), EngineError> {
        Ok(())
    }

    async fn survey(&self, pages: u32) -> Result<Vec<Stored>, IoError> {
        let Shared { volume, layout, .. } = &*self.shared;
        let mut saved = BTreeMap::new();
        for (page, lsn) in copies(volume, layout.area).await? {
            let newest = saved.entry(page).or_insert(lsn);
            *newest = lsn.max(*newest);
        }
        let found = self.read_all(pages).await?;
        let each = (0..).map(PageNo).zip(found);
        let of = |(page, found): (PageNo, Option<(PageNo, Lsn)>)| match found {
            Some((number, lsn)) if number == page => Stored::Whole(lsn),
            _ => saved.get(&page).map_or(Stored::Torn, |lsn| Stored::Copy(*lsn)),
        };
        Ok(each.map(of).collect())
    }

    async fn restore(&self, pages: &[PageVersion]) -> Result<(), IoError> {
        let Shared { volume, layout, .. } = &*self.shared;
        for PageVersion { page, lsn } in pages {
            let blocks = vec![stamp(*page, *lsn); layout.page_blocks as usize];
            volume.write(self.shared.file(*page), layout.place(*page), &blocks).await?;
        }
        volume.flush().await
    }

    fn counts(&self) -> StoreCounts {
        let s = &*self.shared;
        StoreCounts { flushes: s.volume.flushes(), groups: s.groups.get(), cache: None }
    }
}
