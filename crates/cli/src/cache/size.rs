//! Sizes of simulated caches.

use crate::units::{bytes, percent_of_all};
use std::fmt;
use std::str::FromStr;
use tantalum_device::bytes_in_words;

/// How large a cache is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// So many pages.
    Pages(u64),
    /// So many bytes.
    Bytes(u64),
    /// A share of the pages that the trace touches, in per cent.
    Percent(f64),
}

impl Size {
    /// In frames.
    ///
    /// # Errors
    /// There are too many of them.
    pub fn frames(self, page_bytes: u32, touched: usize) -> Result<u32, String> {
        let frames = match self {
            Size::Pages(pages) => pages,
            Size::Bytes(bytes) => bytes / u64::from(page_bytes),
            Size::Percent(percent) => (touched as f64 * percent / 100.0) as u64,
        };
        u32::try_from(frames).map_err(|_| format!("a cache of {frames} pages is too large"))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Pages(pages) => write!(f, "{pages} pages"),
            Size::Bytes(bytes) => f.write_str(&bytes_in_words(*bytes)),
            Size::Percent(percent) => write!(f, "{percent} %"),
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        if text.contains('%') {
            return percent_of_all(text).map(Size::Percent);
        }
        if text.bytes().all(|b| b.is_ascii_digit()) {
            return text.parse().map(Size::Pages).map_err(|_| "expected a number of pages".into());
        }
        bytes(text).map(Size::Bytes).map_err(|_| {
            format!(
                "\"{text}\" is no size: pages as in 12000, bytes as in 100MiB, a share as in 10%"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_pages_bytes_or_shares() {
        let frames = |text: &str| text.parse::<Size>()?.frames(8192, 5000);
        assert_eq!(frames("12000"), Ok(12_000));
        assert_eq!(frames("1MiB"), Ok(128));
        assert_eq!(frames("12.5%"), Ok(625));
        for wrong in ["", "x", "1.5", "200%", "-1", "NaN%", "40000000000000000000", "5000000000"] {
            assert!(frames(wrong).is_err(), "{wrong}");
        }
    }
}
