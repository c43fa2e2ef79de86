//! What a cache volume shows of itself while it is served.

use crate::flash::{CacheError, CacheStats, DeviceStore, FlashCache, Scrubbed};
use crate::volume;
use crate::volume::plug::CacheVolume;
use tantalum_device::{
    AfterCut, BlockDevice, Caps, Field, IoError, Line, LiveBox, Panel, PowerCycle, PowerState,
    ResizeError, ScrubOutcome, Shown, StartError, Unit, UpkeepError, counted, unprotected_cut,
};

/// The cache of a volume, and its slow store.
type Cache<F, S> = FlashCache<<F as PowerCycle>::Device, DeviceStore<<S as PowerCycle>::Device>>;

fn failed(why: impl ToString) -> UpkeepError {
    UpkeepError::Failed(why.to_string())
}

/// Why dirty pages are not on the slow device.
fn not_clean(error: CacheError) -> UpkeepError {
    match error {
        CacheError::Full { page, waited, error } => {
            failed(format!("for {waited} the slow device has refused page {page}: {error}"))
        }
        error => failed(error),
    }
}

impl<F: PowerCycle + 'static, S: PowerCycle + 'static> CacheVolume<F, S> {
    /// Its cache, if it has power.
    fn powered(&self) -> Result<Cache<F, S>, UpkeepError> {
        self.cache().ok_or_else(|| failed(volume::ResizeError::Off))
    }

    /// Lets `work` use the cache until the power is cut.
    async fn while_on<T>(
        &self,
        what: &'static str,
        work: impl Future<Output = Result<T, CacheError>>,
    ) -> Result<T, UpkeepError> {
        let link = self.inner.link.borrow().clone();
        let ended = link.command(what, async { Ok::<_, IoError>(work.await) }).await;
        ended.map_err(failed)?.map_err(not_clean)
    }

    /// Bytes that are acknowledged and not durable.
    fn volatile_bytes(&self) -> u64 {
        let Some(cache) = self.cache() else { return 0 };
        let state = cache.core().state.borrow();
        let (durable, open) = (state.ring.durable(), state.ring.open());
        let frames = (durable.batch..=open.batch).flat_map(|b| &state.index.batch(b).frames);
        let safe = state.index.batch(durable.batch).frames_before(durable.number);
        let dirty = frames.skip(safe).filter(|(frame, _)| frame.dirty).count() as u64;
        dirty * u64::from(self.caps().atomic_unit)
    }

    /// Lines about pages that the slow device refuses, and about damaged ones.
    fn trouble(&self) -> Vec<Line> {
        let Some(cache) = self.cache() else { return Vec::new() };
        let refused = cache.refused_in_words().map(|refused| Line::new("refused", refused));
        let lost = cache.damaged();
        let damaged = lost.first().map(|first| {
            let pages = counted(lost.len() as u64, "page", "pages");
            let at = first * u64::from(self.caps().atomic_unit);
            let text = format!(
                "{pages} that only the cache had, the first at byte {at}: reads fail until they are \
                 written again"
            );
            Line::new("damaged", text)
        });
        refused.into_iter().chain(damaged).collect()
    }
}

/// What twice the size would gain, in words.
fn twice_in_words(stats: &CacheStats) -> String {
    let Some(gain) = stats.gain_of_twice() else {
        return "nothing is known yet of twice the size".to_string();
    };
    let more = (gain * 100.0).round().max(0.0) as u64;
    format!("twice the size would find another {more} % of the pages read")
}

impl<F: PowerCycle + 'static, S: PowerCycle + 'static> LiveBox for CacheVolume<F, S> {
    fn title(&self) -> String {
        "cache-volume".to_string()
    }

    fn power_state(&self) -> PowerState {
        match (self.device().is_alive(), self.inner.link.borrow().is_alive()) {
            (true, _) => PowerState::On,
            (false, true) => PowerState::Starting,
            (false, false) => PowerState::Off,
        }
    }

    fn promises(&self) -> Caps {
        self.caps()
    }

    async fn bring_up(&self, _: bool) -> Result<Vec<String>, StartError> {
        match self.power_on().await {
            Ok(()) if self.inner.replaced.get() => {
                let new = "the flash device is blank, and the slow device has everything that was \
                           flushed: it goes on with a new cache";
                Ok(vec![new.to_string()])
            }
            Ok(()) => Ok(Vec::new()),
            Err(IoError::PowerLost) => Err(StartError::CutAgain),
            Err(e) => Err(StartError::Failed(LiveBox::failure(self).unwrap_or(e.to_string()))),
        }
    }

    /// What it promises, pages that the slow device refuses, and pages that are lost.
    fn status_lines(&self) -> Vec<Line> {
        let mut lines = vec![Line::promises(&self.caps())];
        lines.extend(self.trouble());
        lines
    }

    fn failure(&self) -> Option<String> {
        self.start_failure().map(|e| e.to_string())
    }

    fn stopped_by(&self) -> Option<String> {
        self.stopped()
    }

    fn watch_cut(&self) -> AfterCut {
        let bytes = self.volatile_bytes();
        Box::new(move || unprotected_cut(bytes.div_ceil(4096)))
    }

    async fn resize(&self, flash_bytes: u64) -> Result<String, ResizeError> {
        match CacheVolume::resize(self, flash_bytes).await {
            Ok(stats) => Ok(format!(
                "{}, with {}",
                counted(stats.frames, "frame", "frames"),
                counted(stats.pages, "page", "pages")
            )),
            Err(e @ volume::ResizeError::Cache(CacheError::Invalid(_))) => {
                Err(ResizeError::Size(e.to_string()))
            }
            Err(e) => Err(ResizeError::Failed(e.to_string())),
        }
    }

    async fn scrub(&self) -> Result<ScrubOutcome, UpkeepError> {
        let cache = self.powered()?;
        let found = self.while_on("scrub a cache volume", cache.scrub()).await?;
        let Scrubbed { frames, repaired, damaged } = found;
        Ok(ScrubOutcome { pages: frames, repaired, lost: damaged })
    }

    async fn clean(&self) -> Result<(), UpkeepError> {
        let cache = self.powered()?;
        let passes = async {
            let mut before = u64::MAX;
            loop {
                cache.clean().await?;
                let dirty = cache.stats().dirty;
                if dirty >= before / 2 {
                    return Ok(());
                }
                before = dirty;
            }
        };
        self.while_on("clean a cache volume", passes).await
    }

    async fn detach(&self) -> Result<u64, UpkeepError> {
        let cache = self.powered()?;
        let store = &cache.core().slow;
        let begin = store.block(0).0 * u64::from(store.device().caps().block_size);
        self.while_on("detach a cache volume", cache.clone().detach()).await?;
        Ok(begin)
    }

    /// With the clean mark: the next start is warm.
    async fn close(&self) -> Result<(), IoError> {
        CacheVolume::close(self).await
    }

    fn shown(&self) -> Shown {
        let Some(s) = self.stats() else {
            let mut names = vec![
                ("cache", "what is in the cache, of a volume with power"),
                ("fetches", "pages read, of a volume with power"),
                ("hits", "of these, found in the cache, of a volume with power"),
                ("kept_out", "pages of scans that did not enter, of a volume with power"),
                ("second_chances", "pages that stayed, of a volume with power"),
                ("batches", "batches written to flash, of a volume with power"),
                ("flash", "what was written to flash, of a volume with power"),
                ("slow", "what was written to the slow device, of a volume with power"),
                ("damaged", "damaged pages that only the cache had, of a volume with power"),
            ];
            if self.inner.options.cache.ghosts {
                names.push(("ghosts", "hits with twice the size, of a volume with power"));
            }
            return Shown::unknown(&names);
        };
        let field = |name, value: u64, help| Field::new(name, Unit::Count, value, help);
        let mut fields = vec![
            field("cache.frames", s.frames, "pages for which the cache has room").gauge("frames"),
            field("cache.pages", s.pages, "pages in the cache").gauge("pages"),
            field("cache.dirty", s.dirty, "pages that the slow device lacks").gauge("dirty_pages"),
            field("fetches", s.fetches, "pages read").counter("page_reads"),
            field("hits", s.hits, "of these, found in the cache").counter("page_hits"),
            field("kept_out", s.kept_out, "clean pages of scans that did not enter")
                .counter("kept_out_pages"),
            field("second_chances", s.second_chances, "pages that stayed since they were read")
                .counter("second_chances"),
            field("batches", s.batches, "batches written to flash").counter("batches"),
            Field::new("flash.bytes", Unit::Bytes, s.flash_bytes, "bytes written to flash")
                .counter("flash_bytes"),
            field("slow.writes", s.slow_writes, "pages written to the slow device")
                .counter("slow_page_writes"),
            field("slow.refusals", s.slow_refusals, "tries of the slow device that failed")
                .counter("slow_refusals"),
            field("damaged", s.damaged, "damaged pages that only the cache had")
                .counter("damaged_pages"),
        ];
        if let Some(of) = s.ghosts {
            let fetches = "pages read, of those that the ghosts have a sample of";
            let hits = "of these, those that this size finds";
            fields.push(field("ghosts.fetches", of.fetches, fetches).counter("ghost_reads"));
            fields.push(field("ghosts.hits", of.hits, hits).counter("ghost_hits"));
            let twice = "of these, those that twice the size finds";
            let twice_hits = field("ghosts.twice_hits", of.twice_hits, twice);
            fields.push(twice_hits.counter("ghost_twice_hits"));
        }
        let percent = (s.hits * 100).checked_div(s.fetches).unwrap_or(0);
        let dirty = format!("{} of them dirty", s.dirty);
        let pages = format!("{} of {} frames, {dirty}", s.pages, s.frames);
        let read = counted(s.fetches, "page read was", "pages read were");
        let reads = format!("{percent} % of {read} in the cache");
        let written = counted(s.slow_writes, "page", "pages");
        let slow = format!("{written} written to the slow device");
        let start = match s.restart.clean {
            true => format!("warm, {} found", counted(s.restart.found, "page", "pages")),
            false => {
                let entries = counted(s.restart.rebuilt, "entry", "entries");
                format!("after a crash, {entries} rebuilt")
            }
        };
        let mut lines = vec![Line::new("cache", pages.clone()), Line::new("hits", reads)];
        if s.ghosts.is_some() {
            lines.push(Line::new("twice", twice_in_words(&s)));
        }
        if s.kept_out > 0 {
            lines.push(Line::new(
                "scans",
                format!("{} kept out", counted(s.kept_out, "page was", "pages were")),
            ));
        }
        lines.extend([Line::new("slow", slow), Line::new("start", start)]);
        lines.extend(self.trouble());
        let mut bars = vec![Line::bar("cache", s.pages as f64 / s.frames.max(1) as f64, pages)];
        bars.extend(lines[1..].iter().cloned());
        Shown { fields, lines, panels: vec![Panel::new("inside", bars)] }
    }
}
