//! A file as a live process shows it.

use super::File;
use crate::{
    AfterCut, Caps, CutOutcome, Field, IoError, Line, LiveBox, Panel, PowerCycle, PowerState,
    StartError, Unit, bytes_in_words,
};

impl File {
    /// Syncs that were begun since the power came.
    fn syncs(&self) -> u64 {
        self.inner.life.borrow().as_ref().map_or(0, |life| life.begun.get())
    }

    /// Bytes that the host's file system has allocated. `None`: it does not say.
    fn allocated(&self) -> Option<u64> {
        self.inner.owner.storage().ok().map(|storage| storage.allocated)
    }

    fn lines(&self) -> Vec<Line> {
        let inner = &self.inner;
        let how = if inner.settings.buffered { "page cache" } else { "direct I/O" };
        let (block, unit) = (inner.caps.block_size, inner.caps.atomic_unit);
        let (under_way, syncs) = (inner.under_way.get(), self.syncs());
        vec![
            Line::new("file", format!("{how}, blocks of {block} bytes, {unit} of them atomic")),
            Line::new("host", format!("{under_way} operations, {syncs} syncs")),
        ]
    }
}

impl LiveBox for File {
    fn title(&self) -> String {
        "file".to_string()
    }

    fn power_state(&self) -> PowerState {
        match (self.inner.life.borrow().is_some(), self.inner.under_way.get()) {
            (true, _) => PowerState::On,
            // The host completes every operation that it has accepted.
            (false, 1..) => PowerState::Dying,
            (false, 0) => PowerState::Off,
        }
    }

    fn promises(&self) -> Caps {
        self.inner.caps
    }

    async fn bring_up(&self, _salvage: bool) -> Result<Vec<String>, StartError> {
        match self.power_on().await {
            Ok(()) => Ok(Vec::new()),
            Err(IoError::PowerLost) => Err(StartError::CutAgain),
            Err(e) => Err(StartError::Failed(format!("{}: {e}", self.path().display()))),
        }
    }

    fn stopped_by(&self) -> Option<String> {
        self.device().is_poisoned().then(|| {
            "a flush or a forced write of the file failed: what was written since the last flush may \
             be lost"
                .to_string()
        })
    }

    /// The host still has power, and keeps what it has accepted.
    fn watch_cut(&self) -> AfterCut {
        let words = "the link is cut; what the file was told is there, as long as the host runs";
        Box::new(move || CutOutcome {
            lost_blocks: 0,
            complete: true,
            words: words.to_string(),
            lines: Vec::new(),
            fields: Vec::new(),
        })
    }

    fn stats_fields(&self) -> Vec<Field> {
        let inner = &self.inner;
        let count = |name, n: u64, help| Field::new(name, Unit::Count, n, help);
        let bytes = |name, n: u32, help| Field::new(name, Unit::Bytes, n, help);
        vec![
            bytes("block_bytes", inner.caps.block_size, "the block of the file"),
            bytes("atomic_bytes", inner.caps.atomic_unit, "what is written whole or not at all"),
            Field::new(
                "direct",
                Unit::Flag,
                !inner.settings.buffered,
                "past the host's page cache",
            ),
            count(
                "operations",
                inner.under_way.get() as u64,
                "operations that the host carries out",
            )
            .gauge("host_operations"),
            count("syncs", self.syncs(), "syncs of the file since the power came")
                .gauge("file_syncs"),
            Field::new(
                "allocated_bytes",
                Unit::Bytes,
                self.allocated(),
                "room that the host's file system has given the file",
            )
            .gauge("file_allocated_bytes"),
        ]
    }

    fn stats_lines(&self) -> Vec<Line> {
        let (has, all) = (self.allocated(), bytes_in_words(self.inner.caps.bytes()));
        let has = has.map_or("unknown".to_string(), bytes_in_words);
        let mut lines = self.lines();
        lines.push(Line::new("allocated", format!("{has} of {all}")));
        lines
    }

    fn panels(&self) -> Vec<Panel> {
        let (has, all) = (self.allocated(), self.inner.caps.bytes());
        let mut lines = self.lines();
        if let Some(has) = has {
            let text = format!("{} of {}", bytes_in_words(has), bytes_in_words(all));
            lines.push(Line::bar("allocated", has as f64 / all as f64, text));
        }
        vec![Panel::new("inside", lines)]
    }
}
