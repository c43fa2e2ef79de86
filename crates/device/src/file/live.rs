//! A file as a live process shows it.

use super::File;
use crate::{
    AfterCut, Caps, CutOutcome, Field, IoError, Line, LiveBox, Panel, PowerCycle, PowerState,
    Shown, StartError, Unit, bytes_in_words,
};

impl File {
    /// Syncs that were begun since the power came.
    fn syncs(&self) -> u64 {
        self.inner.life.borrow().as_ref().map_or(0, |life| life.begun.get())
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
        *self.inner.caps()
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

    fn shown(&self) -> Shown {
        let inner = &self.inner;
        let direct = !inner.settings.buffered;
        let Caps { block_size: block, atomic_unit: unit, .. } = *inner.caps();
        let (under_way, syncs) = (inner.under_way.get() as u64, self.syncs());
        // `None`: the host does not say.
        let has = inner.owner.storage().ok().map(|storage| storage.allocated);
        let fields = vec![
            Field::new("block_bytes", Unit::Bytes, block, "the block of the file"),
            Field::new("atomic_bytes", Unit::Bytes, unit, "what is written whole or not at all"),
            Field::new("direct", Unit::Flag, direct, "past the host's page cache"),
            Field::new(
                "operations",
                Unit::Count,
                under_way,
                "operations that the host carries out",
            )
            .gauge("host_operations"),
            Field::new("syncs", Unit::Count, syncs, "syncs of the file since the power came")
                .gauge("file_syncs"),
            Field::new(
                "allocated_bytes",
                Unit::Bytes,
                has,
                "room that the host's file system has given the file",
            )
            .gauge("file_allocated_bytes"),
        ];
        let how = if direct { "direct I/O" } else { "page cache" };
        let all = inner.caps().bytes();
        let room = has.map_or("unknown".to_string(), bytes_in_words);
        let room = format!("{room} of {}", bytes_in_words(all));
        let mut lines = vec![
            Line::new("file", format!("{how}, blocks of {block} bytes, {unit} of them atomic")),
            Line::new("host", format!("{under_way} operations, {syncs} syncs")),
        ];
        let mut bars = lines.clone();
        bars.push(match has {
            Some(has) => Line::bar("allocated", has as f64 / all as f64, room.clone()),
            None => Line::new("allocated", room.clone()).dim(),
        });
        lines.push(Line::new("allocated", room));
        Shown { fields, lines, panels: vec![Panel::new("inside", bars)] }
    }
}
