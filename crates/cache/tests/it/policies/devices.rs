//! A flash device and a slow store that hold versions, and carry out the work of a policy.
//!
//! Each fetch is compared with the newest version that left RAM: a hit must be of that version, read
//! from a frame which has it; after a miss the slow store must have it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tantalum_cache::policy::{
    Access, Config, Exit, Hit, Kind, Lsn, Mode, Op, PageId, Policy, Pull, Source, Version, Work,
};

/// What the user of a cache does.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A page is read; `changed`: and changed while it is in RAM.
    Use {
        page: u64,
        client: u32,
        changed: bool,
    },
    /// A page is dropped.
    Forget(u64),
    Flush,
    Clean,
    /// The policy is told of all copies from frames to the slow store since it was told last, the
    /// newest first.
    Tell,
}

/// A page in RAM.
#[derive(Clone, Copy)]
struct InRam {
    page: PageId,
    client: u32,
    lsn: Lsn,
    dirty: bool,
    fdirty: bool,
}

/// A RAM buffer of a few pages, first in, first out.
struct Ram {
    pages: VecDeque<InRam>,
    pulls: bool,
}

impl Pull for Ram {
    fn pull(&mut self) -> Option<Exit> {
        if !self.pulls {
            return None;
        }
        let InRam { page, client, lsn, dirty, fdirty } = self.pages.pop_front()?;
        Some(Exit { page, client, lsn, dirty, fdirty })
    }
}

/// The user, RAM, cache and both devices.
pub struct Scene {
    policy: Box<dyn Policy>,
    config: Config,
    work: Work,
    ram: Ram,
    room: usize,
    /// By first byte.
    flash: BTreeMap<u64, Version>,
    /// What was read from flash, by first byte, and may go to the slow store.
    at_hand: BTreeSet<(u64, Version)>,
    slow: BTreeMap<PageId, Lsn>,
    /// Copies that the policy was not told of.
    copied: Vec<Version>,
    /// The newest version of each page outside of RAM.
    newest: BTreeMap<PageId, Lsn>,
    now: u64,
    pub hits: u64,
    pub fetches: Vec<bool>,
}

impl Scene {
    /// A cache below a RAM of so many pages.
    pub fn new(config: &Config, room: usize) -> Scene {
        Scene {
            policy: config.build().expect("it can be built"),
            config: config.clone(),
            work: Work::new(),
            ram: Ram { pages: VecDeque::new(), pulls: config.kind == Kind::Gsc },
            room,
            flash: BTreeMap::new(),
            at_hand: BTreeSet::new(),
            slow: BTreeMap::new(),
            copied: Vec::new(),
            newest: BTreeMap::new(),
            now: 0,
            hits: 0,
            fetches: Vec::new(),
        }
    }

    pub fn step(&mut self, step: Step) {
        match step {
            Step::Use { page, client, changed } => self.use_page(PageId(page), client, changed),
            Step::Forget(page) => self.forget(PageId(page)),
            Step::Flush => self.policy.flush(&mut self.work),
            Step::Clean => self.policy.clean(&mut self.work),
            Step::Tell => self.copied.drain(..).rev().for_each(|v| self.policy.cleaned(v)),
        }
        self.carry_out();
        self.check(matches!(step, Step::Clean));
    }

    fn use_page(&mut self, page: PageId, client: u32, changed: bool) {
        if !self.ram.pages.iter().any(|p| p.page == page) {
            self.make_room();
            self.fetch(page, client);
        }
        if changed {
            self.now += 1;
            let in_ram = self.ram.pages.iter_mut().find(|p| p.page == page);
            let in_ram = in_ram.expect("it was fetched");
            *in_ram = InRam { client, lsn: Lsn(self.now), dirty: true, fdirty: true, ..*in_ram };
        }
    }

    fn make_room(&mut self) {
        if self.ram.pages.len() < self.room {
            return;
        }
        let InRam { page, client, lsn, dirty, fdirty } =
            self.ram.pages.pop_front().expect("RAM has room for a page");
        let exit = Exit { page, client, lsn, dirty, fdirty };
        // A pulled page leaves RAM as well.
        let before: Vec<InRam> = self.ram.pages.iter().copied().collect();
        self.policy.evict(exit, &mut self.ram, &mut self.work);
        self.leaves(page, lsn);
        for gone in &before[..before.len() - self.ram.pages.len()] {
            self.leaves(gone.page, gone.lsn);
        }
        self.carry_out();
    }

    /// The page exists outside of RAM in this version.
    fn leaves(&mut self, page: PageId, lsn: Lsn) {
        self.newest.insert(page, lsn);
    }

    fn fetch(&mut self, page: PageId, client: u32) {
        let newest = self.newest.get(&page).copied();
        let access = Access { page, client };
        let hit = self.policy.fetch(access, &mut self.work);
        self.fetches.push(hit.is_some());
        let in_ram = match hit {
            Some(Hit { lsn, dirty, frame }) => {
                self.hits += 1;
                assert_eq!(Some(lsn), newest, "{page:?}: a hit is of the newest version");
                let version = Version { page, lsn };
                if let Some(offset) = frame {
                    assert_eq!(self.flash.get(&offset), Some(&version), "its frame has it");
                }
                let on_slow = self.slow.get(&page) == newest.as_ref();
                assert!(dirty || on_slow, "{page:?}: a clean version is on the slow store");
                InRam { page, client, lsn, dirty, fdirty: false }
            }
            None => {
                let lsn = self.slow.get(&page).copied();
                assert_eq!(lsn, newest, "{page:?}: after a miss the slow store has the newest");
                let lsn = lsn.unwrap_or_default();
                self.policy.fetched(access, lsn, &mut self.work);
                self.slow.insert(page, lsn);
                self.newest.insert(page, lsn);
                InRam { page, client, lsn, dirty: false, fdirty: false }
            }
        };
        self.ram.pages.push_back(in_ram);
    }

    fn forget(&mut self, page: PageId) {
        self.ram.pages.retain(|p| p.page != page);
        self.policy.forget(page, &mut self.work);
        self.slow.remove(&page);
        self.newest.remove(&page);
    }

    fn carry_out(&mut self) {
        let page_bytes = u64::from(self.config.page_bytes);
        let end = self.policy.flash_bytes();
        for op in self.work.ops() {
            match *op {
                Op::FlashRead { offset, bytes } => {
                    assert!(bytes > 0 && offset + bytes <= end);
                    for (&at, &version) in self.flash.range(offset..offset + bytes) {
                        self.at_hand.insert((at, version));
                    }
                }
                Op::FlashWrite { offset, bytes, first, pages } => {
                    assert!(bytes > 0 && offset + bytes <= end);
                    let old: Vec<u64> =
                        self.flash.range(offset..offset + bytes).map(|(&at, _)| at).collect();
                    self.flash.retain(|at, _| !old.contains(at));
                    let start = offset + bytes - u64::from(pages) * page_bytes;
                    for (i, &version) in (0..).zip(self.work.versions(first, pages)) {
                        self.flash.insert(start + i * page_bytes, version);
                    }
                }
                Op::SlowWrite { version, from } => {
                    let newest = self.newest.get(&version.page);
                    let at_hand = match from {
                        Source::Ram | Source::Cache(None) => newest == Some(&version.lsn),
                        Source::Cache(Some(at)) => self.at_hand.contains(&(at, version)),
                    };
                    assert!(at_hand, "{version:?} from {from:?}: only what is in memory");
                    assert!(newest.is_some(), "{version:?} was forgotten");
                    let was = self.slow.insert(version.page, version.lsn);
                    assert!(was <= Some(version.lsn), "{version:?} went over {was:?}");
                }
            }
        }
        self.copied.extend(self.work.copied());
        self.work.clear();
        self.at_hand.clear();
    }

    fn check(&mut self, cleaned: bool) {
        let occupancy = self.policy.occupancy();
        assert!(occupancy.dirty <= occupancy.valid && occupancy.valid <= occupancy.used);
        assert!(occupancy.used <= u64::from(self.config.usable_frames()), "{occupancy:?}");
        if self.config.mode == Mode::Through || cleaned {
            assert_eq!(occupancy.dirty, 0);
        }
    }

    /// Empties RAM and cleans: the slow store has the newest version of everything.
    pub fn end(mut self) {
        self.ram.pulls = false;
        self.room = 0;
        while !self.ram.pages.is_empty() {
            self.make_room();
        }
        self.step(Step::Clean);
        assert_eq!(self.slow, self.newest);
    }
}
