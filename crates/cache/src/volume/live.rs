//! What a cache volume shows of itself while it is served.

use crate::flash::CacheError;
use crate::volume;
use crate::volume::plug::CacheVolume;
use tantalum_device::{
    AfterCut, BlockDevice, Caps, Field, IoError, Line, LiveBox, Panel, PowerCycle, PowerState,
    ResizeError, Shown, StartError, Unit, unprotected_cut,
};

impl<F: PowerCycle + 'static, S: PowerCycle + 'static> CacheVolume<F, S> {
    /// Bytes that are acknowledged and not durable.
    fn volatile_bytes(&self) -> u64 {
        let Some(cache) = self.cache() else { return 0 };
        let state = cache.core().state.borrow();
        let open = state.ring.open();
        let frames = (state.ring.durable()..=open).flat_map(|b| &state.index.batch(b).frames);
        let dirty = frames.filter(|(frame, _)| frame.dirty).count() as u64;
        dirty * u64::from(self.caps().atomic_unit)
    }
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
            Ok(stats) => Ok(format!("{} frames, with {} pages", stats.frames, stats.pages)),
            Err(e @ volume::ResizeError::Cache(CacheError::Invalid(_))) => {
                Err(ResizeError::Size(e.to_string()))
            }
            Err(e) => Err(ResizeError::Failed(e.to_string())),
        }
    }

    /// With the clean mark: the next start is warm.
    async fn close(&self) -> Result<(), IoError> {
        CacheVolume::close(self).await
    }

    fn shown(&self) -> Shown {
        let Some(s) = self.stats() else {
            return Shown::unknown(&[
                ("cache", "what is in the cache, of a volume with power"),
                ("fetches", "pages read, of a volume with power"),
                ("hits", "of these, found in the cache, of a volume with power"),
                ("second_chances", "pages that stayed, of a volume with power"),
                ("batches", "batches written to flash, of a volume with power"),
                ("flash", "what was written to flash, of a volume with power"),
                ("slow", "what was written to the slow device, of a volume with power"),
                ("damaged", "damaged pages that only the cache had, of a volume with power"),
            ]);
        };
        let field = |name, value: u64, help| Field::new(name, Unit::Count, value, help);
        let fields = vec![
            field("cache.frames", s.frames, "pages for which the cache has room").gauge("frames"),
            field("cache.pages", s.pages, "pages in the cache").gauge("pages"),
            field("cache.dirty", s.dirty, "pages that the slow device lacks").gauge("dirty_pages"),
            field("fetches", s.fetches, "pages read").counter("page_reads"),
            field("hits", s.hits, "of these, found in the cache").counter("page_hits"),
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
        let percent = (s.hits * 100).checked_div(s.fetches).unwrap_or(0);
        let dirty = format!("{} of them dirty", s.dirty);
        let pages = format!("{} of {} frames, {dirty}", s.pages, s.frames);
        let reads = format!("{percent} % of {} pages read were in the cache", s.fetches);
        let slow = format!("{} pages written to the slow device", s.slow_writes);
        let start = match s.restart.clean {
            true => format!("warm, {} pages found", s.restart.found),
            false => format!("after a crash, {} entries rebuilt", s.restart.rebuilt),
        };
        let lines = vec![
            Line::new("cache", pages.clone()),
            Line::new("hits", reads),
            Line::new("slow", slow),
            Line::new("start", start),
        ];
        let mut bars = vec![Line::bar("cache", s.pages as f64 / s.frames.max(1) as f64, pages)];
        bars.extend(lines[1..].iter().cloned());
        Shown { fields, lines, panels: vec![Panel::new("inside", bars)] }
    }
}
