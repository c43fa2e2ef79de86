//! How an engine protects pages from being torn by a power cut.
//!
//! 1. In files the value is `true`, `false`, `"log"` or `"atomic"`.

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// How pages are written (`innodb_doublewrite`, `full_page_writes`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageWrites {
    /// To their places only (`false`): a page that is larger than the drive's atomic unit can tear.
    InPlace,
    /// To the double-write area first (`true`): a torn page is repaired from there.
    #[default]
    Double,
    /// To their places only (`"log"`). The log has the whole page with its first change since it was
    /// last written, and a torn page is repaired from there: PostgreSQL's `full_page_writes`, which
    /// has it with the first change since a checkpoint.
    Logged,
    /// To their places only, as atomic groups of the drive (`"atomic"`): no page can tear, and
    /// completed writes are durable. See Ouyang, Nellans, Wipfel, Flynn, Panda, "Beyond Block I/O"
    /// (HPCA 2011), section 5.
    Atomic,
}

impl PageWrites {
    /// Whether a page survives every cut whole or is repaired, on a drive with this atomic unit.
    pub fn is_safe(self, page_bytes: u32, atomic_unit: u32) -> bool {
        self != PageWrites::InPlace || page_bytes <= atomic_unit
    }
}

impl fmt::Display for PageWrites {
    /// As in files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageWrites::InPlace => write!(f, "false"),
            PageWrites::Double => write!(f, "true"),
            PageWrites::Logged => write!(f, "{LOGGED:?}"),
            PageWrites::Atomic => write!(f, "{ATOMIC:?}"),
        }
    }
}

const ATOMIC: &str = "atomic";
const LOGGED: &str = "log";

impl Serialize for PageWrites {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            PageWrites::InPlace => to.serialize_bool(false),
            PageWrites::Double => to.serialize_bool(true),
            PageWrites::Logged => to.serialize_str(LOGGED),
            PageWrites::Atomic => to.serialize_str(ATOMIC),
        }
    }
}

impl<'de> Deserialize<'de> for PageWrites {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<PageWrites, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

impl Visitor<'_> for Reader {
    type Value = PageWrites;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false, \"log\" or \"atomic\"")
    }

    fn visit_bool<E: Error>(self, on: bool) -> Result<PageWrites, E> {
        Ok(if on { PageWrites::Double } else { PageWrites::InPlace })
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<PageWrites, E> {
        match word {
            ATOMIC => Ok(PageWrites::Atomic),
            LOGGED => Ok(PageWrites::Logged),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(word), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_and_written_as_a_switch_or_a_word() {
        for (text, value) in [
            ("true", PageWrites::Double),
            ("false", PageWrites::InPlace),
            ("\"log\"", PageWrites::Logged),
            ("\"atomic\"", PageWrites::Atomic),
        ] {
            assert_eq!(serde_json::from_str::<PageWrites>(text).unwrap(), value);
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
            assert_eq!(value.to_string(), text);
        }
        for text in ["\"on\"", "1", "null"] {
            let error = serde_json::from_str::<PageWrites>(text).unwrap_err().to_string();
            assert!(error.contains("true, false, \"log\" or \"atomic\""), "{error}");
        }
    }
}
