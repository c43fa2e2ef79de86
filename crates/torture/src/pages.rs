//! Finds the index of MariaDB that a page belongs to, and whether damage that the server reports is
//! in such an index.
//!
//! 1. A page is looked up in the tablespace that its number names. Its own header must confirm its
//!    number, its tablespace, and that it is a page of an index.
//! 2. Pages explain damage only if each complaint is about an index that one of them belongs to. A
//!    complaint about a whole table is explained if other complaints name the index.

use crate::redo::PageId;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of a page, as `scripts/database` sets it.
const PAGE: usize = 16384;
/// Offsets in the header of a page: its number, its type, its tablespace, its index.
const NUMBER: usize = 4;
const TYPE: usize = 24;
const SPACE: usize = 34;
const INDEX: usize = 66;
/// The type of a page of a B-tree.
const OF_INDEX: u16 = 17855;

/// An index, by its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The table, as `CHECK TABLE` names it: `database.table`.
    pub table: String,
    /// The index.
    pub name: String,
}

impl std::fmt::Display for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.name, self.table)
    }
}

/// The number of the index that a page belongs to, read from the disk below this data directory.
/// `None` if it belongs to none, or that is not known.
pub fn index_of(data: &Path, page: PageId) -> Option<u64> {
    let mut files = Vec::new();
    tablespaces(data, 0, &mut files);
    files.iter().find_map(|file| {
        let first = read(file, 0)?;
        (u32_at(&first, SPACE) == page.space).then_some(())?;
        index_in(&read(file, page.number)?, page)
    })
}

/// The number of the index in the header of a page.
fn index_in(bytes: &[u8], page: PageId) -> Option<u64> {
    let kind = u16::from_be_bytes(*bytes.get(TYPE..)?.first_chunk()?);
    let index = u64::from_be_bytes(*bytes.get(INDEX..)?.first_chunk()?);
    let is = PageId { space: u32_at(bytes, SPACE), number: u32_at(bytes, NUMBER) };
    (is == page && kind == OF_INDEX).then_some(index)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_be_bytes(*b))
}

#[allow(clippy::disallowed_methods, reason = "the edge: what a server has on disk")]
fn read(file: &Path, number: u32) -> Option<Vec<u8>> {
    let mut bytes = vec![0; PAGE];
    let file = File::open(file).ok()?;
    file.read_exact_at(&mut bytes, u64::from(number) * PAGE as u64).ok()?;
    Some(bytes)
}

/// The files of tablespaces: the system's, and those of tables in the directories of databases.
#[allow(clippy::disallowed_methods, reason = "the edge: what a server has on disk")]
fn tablespaces(under: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(under) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if depth == 0 && path.is_dir() {
            tablespaces(&path, 1, found);
        } else if path.extension().is_some_and(|e| e == "ibd")
            || (depth == 0 && name.to_string_lossy().starts_with("ibdata"))
        {
            found.push(path);
        }
    }
}

/// Whether all of this damage, as `CHECK TABLE` reports it, is in these indexes.
pub fn explained(damage: &[String], by: &[Index]) -> bool {
    let mut named = false;
    let all = damage.iter().all(|what| {
        let Some((table, text)) = what.split_once(": ") else { return false };
        let mut of_table = by.iter().filter(|index| index.table == table).peekable();
        if of_table.peek().is_some() && text.starts_with("error: Corrupt") {
            return true;
        }
        let found = index_named(text).is_some_and(|name| of_table.any(|i| i.name == name));
        named |= found;
        found
    });
    all && named
}

/// The index that a complaint names: the word after the last "index".
fn index_named(text: &str) -> Option<&str> {
    let at = text.rfind("ndex ")?;
    let word = text[at + 5..].split_whitespace().next()?;
    let name = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(table: &str, name: &str) -> Index {
        Index { table: table.to_string(), name: name.to_string() }
    }

    fn damage(all: &[&str]) -> Vec<String> {
        all.iter().map(|what| what.to_string()).collect()
    }

    const COUNT: &str =
        "torture.account: Warning: InnoDB: Index 'account_note' contains 7 entries, should be 6.";
    const MARKED: &str =
        "torture.account: Warning: InnoDB: Index account_note is marked as corrupted";
    const TREE: &str =
        "torture.account: Warning: InnoDB: The B-tree of index account_note is corrupted.";
    const CORRUPT: &str = "torture.account: error: Corrupt";
    const OTHER: &str =
        "torture.account: Warning: InnoDB: Index 'PRIMARY' contains 7 entries, should be 6.";
    const ELSEWHERE: &str = "torture.entry: error: Corrupt";

    /// 2.
    #[test]
    fn only_damage_of_the_index_of_the_page_is_explained() {
        let note = [index("torture.account", "account_note")];
        for yes in [&[COUNT][..], &[COUNT, CORRUPT], &[CORRUPT, MARKED], &[TREE]] {
            assert!(explained(&damage(yes), &note), "{yes:?}");
        }
        for no in [
            &[][..],
            &[CORRUPT],
            &[OTHER],
            &[COUNT, OTHER],
            &[COUNT, ELSEWHERE],
            &["torture.account: Warning: InnoDB: Unpurged clustered index record in table x"],
            &["the tables cannot be read: gone"],
        ] {
            assert!(!explained(&damage(no), &note), "{no:?}");
        }
        assert!(!explained(&damage(&[COUNT]), &[]), "the page is of no index");
        assert!(!explained(&damage(&[COUNT]), &[index("torture.entry", "account_note")]));
        assert!(!explained(&damage(&[COUNT]), &[index("torture.account", "PRIMARY")]));
        let both = [index("torture.account", "PRIMARY"), note[0].clone()];
        assert!(explained(&damage(&[COUNT, OTHER, CORRUPT]), &both));
    }

    /// 1.
    #[test]
    fn a_page_is_what_its_head_says() {
        let id = PageId { space: 7, number: 3 };
        let mut page = vec![0; PAGE];
        page[NUMBER..NUMBER + 4].copy_from_slice(&3u32.to_be_bytes());
        page[SPACE..SPACE + 4].copy_from_slice(&7u32.to_be_bytes());
        page[TYPE..TYPE + 2].copy_from_slice(&OF_INDEX.to_be_bytes());
        page[INDEX..INDEX + 8].copy_from_slice(&42u64.to_be_bytes());
        assert_eq!(index_in(&page, id), Some(42));
        assert_eq!(index_in(&page, PageId { number: 4, ..id }), None);
        assert_eq!(index_in(&page, PageId { space: 8, ..id }), None);
        assert_eq!(index_in(&page[..70], id), None);
        // A page of an undo log.
        page[TYPE..TYPE + 2].copy_from_slice(&2u16.to_be_bytes());
        assert_eq!(index_in(&page, id), None);
    }
}
