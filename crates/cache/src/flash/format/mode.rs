//! When a dirty page reaches the slow store, as a byte.

/// When a dirty page reaches the slow store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Write-back: when it leaves flash. A cache that is lost takes dirty pages along.
    #[default]
    Back,
    /// Write-through: when it leaves RAM, right after flash has it. The slow store is complete
    /// without the cache.
    Through,
}

impl Mode {
    pub(crate) fn code(self) -> u8 {
        match self {
            Mode::Back => 0,
            Mode::Through => 1,
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<Mode> {
        match code {
            0 => Some(Mode::Back),
            1 => Some(Mode::Through),
            _ => None,
        }
    }
}
