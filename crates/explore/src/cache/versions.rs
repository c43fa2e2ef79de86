//! What a cache must hold.
//!
//! 1. A version of a page is a number that no other version has, larger than that of every earlier
//!    one. The content tells page and version.
//! 2. A page whose eviction has ended is found in that version or in a newer one that was handed to
//!    the cache, whole.
//! 3. What was found after a start must be there from then on, unless the flash device may be lost.
//! 4. While a page is being forgotten every older version of it may be found, and on the slow store
//!    a torn one. Afterwards only what was written since.
//! 5. A page that goes past the cache is promised when its eviction has ended. If a cut has torn it
//!    on the slow store, no older version of it is ever found.

use std::collections::BTreeMap;
use tantalum_rt::mix64;

/// What is known of a page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The newest version that was made.
    made: u64,
    /// The newest version that was handed to the cache.
    given: u64,
    /// The oldest version that may be found.
    promised: u64,
    /// The version that a fetch returns; `None`: any, until it is written.
    current: Option<u64>,
    /// It is being forgotten: versions up to this one.
    forgetting: Option<u64>,
    /// It is going past the cache, or was when a cut tore it.
    passing: bool,
}

/// A page in the pool, from which the cache pulls.
#[derive(Clone, Copy, Debug)]
struct Pooled {
    version: u64,
    /// It was changed since the cache had it.
    dirty: bool,
    /// The cache has taken it, and not made it durable yet.
    taken: bool,
}

/// All pages.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    pages: BTreeMap<u64, Page>,
    pool: BTreeMap<u64, Pooled>,
    newest: u64,
    /// Flushes so far.
    pub flushes: u64,
}

/// The content of a version of a page, in so many bytes. A new slow store has version 0.
pub fn content(page: u64, version: u64, size: usize) -> Vec<u8> {
    if version == 0 {
        return vec![0; size];
    }
    let mut word = mix64(page) ^ version;
    let mut bytes = version.to_le_bytes().to_vec();
    while bytes.len() < size {
        word = mix64(word);
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// Which version of the page this is, if it is whole.
fn version_of(page: u64, bytes: &[u8]) -> Option<u64> {
    let version = bytes.first_chunk().map(|word| u64::from_le_bytes(*word))?;
    (content(page, version, bytes.len()) == bytes).then_some(version)
}

impl Versions {
    fn page(&mut self, page: u64) -> &mut Page {
        self.pages.entry(page).or_insert_with(|| Page { current: Some(0), ..Page::default() })
    }

    /// A new version of a page, which is in RAM.
    pub fn make(&mut self, page: u64) -> u64 {
        self.newest += 1;
        let version = self.newest;
        self.page(page).made = version;
        version
    }

    /// It is handed to the cache, from which a fetch returns it.
    pub fn give(&mut self, page: u64, version: u64) {
        let page = self.page(page);
        page.given = page.given.max(version);
        page.current = Some(version);
    }

    /// A new version begins to go past the cache (5).
    pub fn pass(&mut self, page: u64) {
        self.page(page).passing = true;
    }

    /// It is there, and survives from now on.
    pub fn passed(&mut self, page: u64, version: u64) {
        self.give(page, version);
        self.promise(page, version);
        self.page(page).passing = false;
    }

    /// It survives from now on.
    pub fn promise(&mut self, page: u64, version: u64) {
        let page = self.page(page);
        page.promised = page.promised.max(version);
        page.forgetting = page.forgetting.filter(|last| version <= *last);
    }

    /// What the cache has of each page.
    pub fn given(&self) -> Vec<(u64, u64)> {
        self.pages.iter().map(|(page, known)| (*page, known.given)).collect()
    }

    /// A page is being forgotten (4).
    pub fn forget(&mut self, page: u64) {
        let newest = self.newest;
        let page = self.page(page);
        (page.forgetting, page.current) = (Some(newest), None);
    }

    /// The page stays in the pool in this version; whether it was changed.
    pub fn put_into_pool(&mut self, page: u64, version: u64, dirty: bool) {
        self.pool.insert(page, Pooled { version, dirty, taken: false });
    }

    /// Takes a page out of the pool, unless the cache is taking it. Returns its version, and whether
    /// that was changed.
    pub fn take_from_pool(&mut self, page: u64) -> Option<(u64, bool)> {
        let Pooled { version, dirty, .. } = *self.pool.get(&page).filter(|pooled| !pooled.taken)?;
        self.pool.remove(&page);
        Some((version, dirty))
    }

    /// Whether the cache is taking the page from the pool.
    pub fn is_being_pulled(&self, page: u64) -> bool {
        self.pool.get(&page).is_some_and(|pooled| pooled.taken)
    }

    /// The version that a fetch returns, if that is known.
    pub fn current(&mut self, page: u64) -> Option<u64> {
        self.page(page).current
    }

    /// The pages of the pool.
    pub fn pooled(&self) -> Vec<u64> {
        self.pool.keys().copied().collect()
    }

    /// Whether the page is in the pool.
    pub fn is_in_pool(&self, page: u64) -> bool {
        self.pool.contains_key(&page)
    }

    /// The pages of the pool that may be pulled, with their versions, and whether they were changed.
    pub fn cold(&self, most: usize) -> Vec<(u64, u64, bool)> {
        let free = self.pool.iter().filter(|(_, pooled)| !pooled.taken);
        free.map(|(page, p)| (*page, p.version, p.dirty)).take(most).collect()
    }

    /// The cache has taken this version from the pool.
    pub fn pulled(&mut self, page: u64, version: u64) {
        if let Some(pooled) = self.pool.get_mut(&page) {
            pooled.taken = true;
        }
        self.give(page, version);
    }

    /// It is durable, and leaves the pool.
    pub fn pulled_for_good(&mut self, page: u64, version: u64) {
        self.pool.remove(&page);
        self.promise(page, version);
    }

    /// What a cut leaves: RAM is gone.
    #[must_use]
    pub fn after_cut(&self) -> Versions {
        Versions { pool: BTreeMap::new(), ..self.clone() }
    }

    /// Compares what was fetched after a start (2, 4, 5). With `seen` it is promised from now on (3).
    ///
    /// # Errors
    /// In a line, what is wrong.
    pub fn check(
        &mut self,
        page: u64,
        bytes: &[u8],
        from_slow: bool,
        seen: bool,
    ) -> Result<(), String> {
        let known = self.page(page);
        let Some(version) = version_of(page, bytes) else {
            if known.passing && from_slow {
                if known.current.take().is_some() {
                    // Flash has no version of it any more, and the slow store no whole one.
                    known.promised += 1;
                }
                known.given = 0;
                return Ok(());
            }
            if known.forgetting.is_some() && from_slow {
                // What was handed to the cache since is gone: a flush promises nothing of it.
                (known.current, known.given) = (None, 0);
                return Ok(());
            }
            return Err(format!("page {page} is no version of it: {known:?}"));
        };
        if version > known.made {
            return Err(format!("page {page}: version {version} was never made: {known:?}"));
        }
        if version < known.promised && known.forgetting.is_none() {
            return Err(format!("page {page}: version {version} is stale: {known:?}"));
        }
        (known.current, known.given, known.passing) = (Some(version), version, false);
        if seen {
            (known.promised, known.forgetting) = (version, None);
        }
        Ok(())
    }

    /// Compares what was fetched while there is power: it must be the newest.
    ///
    /// # Errors
    /// In a line, what it is instead.
    pub fn compare(&mut self, page: u64, bytes: &[u8]) -> Result<(), String> {
        let Some(current) = self.page(page).current else { return Ok(()) };
        match version_of(page, bytes) {
            Some(version) if version == current => Ok(()),
            found => Err(format!("page {page} is version {found:?}, and not {current}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 64;

    /// A page that goes past the cache may be torn on the slow store. Then no older version may be
    /// found, as one that flash still had would be.
    #[test]
    fn a_page_that_was_torn_on_its_way_past_the_cache_never_gets_older() {
        let (old, new) = (content(3, 1, SIZE), content(3, 2, SIZE));
        let torn = [&new[..8], &old[8..]].concat();
        let mut versions = Versions::default();
        let first = versions.make(3);
        versions.pass(3);
        versions.passed(3, first);
        versions.clone().check(3, &torn, true, true).unwrap_err();
        let second = versions.make(3);
        versions.pass(3);
        versions.clone().check(3, &torn, false, true).unwrap_err();
        versions.clone().check(3, &old, true, true).unwrap();
        versions.check(3, &torn, true, true).unwrap();
        let mut versions = versions.after_cut();
        versions.check(3, &torn, true, true).unwrap();
        versions.clone().check(3, &new, true, true).unwrap();
        versions.clone().check(3, &old, true, true).unwrap_err();
        versions.passed(3, second);
        versions.clone().check(3, &torn, true, true).unwrap_err();
        versions.check(3, &new, true, true).unwrap();
    }

    /// A page is forgotten, torn on the slow store by a cut, and evicted anew without anybody waiting
    /// for that. The next cut loses the eviction: a flush after it does not promise the page.
    #[test]
    fn a_version_that_a_cut_has_lost_is_promised_by_no_flush() {
        let mut torn = content(3, 1, SIZE);
        torn[SIZE - 1] ^= 1;
        let mut versions = Versions::default();
        let first = versions.make(3);
        versions.give(3, first);
        versions.promise(3, first);
        versions.forget(3);
        let mut versions = versions.after_cut();
        versions.check(3, &torn, true, true).unwrap();
        let second = versions.make(3);
        versions.give(3, second);
        let mut versions = versions.after_cut();
        versions.check(3, &torn, true, true).unwrap();
        for (page, version) in versions.given() {
            versions.promise(page, version);
        }
        versions.check(3, &torn, true, true).unwrap();
        // What is found after that is promised: torn, it is an error.
        versions.check(3, &content(3, second, SIZE), false, true).unwrap();
        versions.check(3, &torn, true, true).unwrap_err();
        versions.check(3, &content(3, first, SIZE), false, true).unwrap_err();
    }
}
