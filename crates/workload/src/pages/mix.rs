//! The pages that a transaction reads and changes: clustered trees, and the benchmarks' mixes over
//! them.
//!
//! 1. A page holds as many rows as fit the share of it that the benchmark's database has filled.
//!    Larger pages hold more rows, and there are fewer of them.
//! 2. Every access descends from the root, so inner pages compete for the pool like any other.

use super::linkbench::LinkBenchPages;
use super::tpcc::{TPCC_FILL_PERCENT, TpccPages};
use super::{Benchmark, PageNo};
use tantalum_rt::Stream;

/// One use of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The page.
    pub page: PageNo,
    /// Bytes of the redo record if it is changed; 0 if it is only read.
    pub redo: u32,
}

/// Bytes of an entry of an inner page: key, child, and the page's overhead for it.
const ENTRY_BYTES: f64 = 32.0;

/// Bytes of redo log in addition to the row: headers, and the record of the undo record.
pub(super) const REDO_OVERHEAD: u32 = 120;

/// A clustered tree of pages.
#[derive(Clone, Debug)]
pub struct Tree {
    /// First page and number of pages of each level, from the root on.
    levels: Vec<(u32, u32)>,
    partitions: u32,
    fanout: u32,
    rows: u64,
    rows_per_leaf: u64,
    row_bytes: u32,
}

impl Tree {
    /// A tree of this many rows, which fill this share of a page. Its pages are numbered from
    /// `next` on, and `next` is advanced.
    pub fn new(next: &mut u32, rows: u64, row_bytes: u32, page_bytes: u32, fill: f64) -> Tree {
        let room = f64::from(page_bytes) * fill;
        let rows_per_leaf = ((room / f64::from(row_bytes)) as u64).max(1);
        let fanout = (room / ENTRY_BYTES) as u32;
        let rows = rows.max(1);
        let mut counts = vec![u32::try_from(rows.div_ceil(rows_per_leaf)).unwrap_or(u32::MAX)];
        while let Some(&last) = counts.last().filter(|c| **c > 1) {
            counts.push(last.div_ceil(fanout));
        }
        let mut levels = Vec::new();
        for count in counts.into_iter().rev() {
            levels.push((*next, count));
            *next = next.saturating_add(count);
        }
        Tree { levels, partitions: 1, fanout, rows, rows_per_leaf, row_bytes }
    }

    /// The same in so many partitions of equal size, each with a file of its own. Which page lies
    /// in which partition follows from its number; rows that are side by side stay so.
    pub fn partitioned(self, partitions: u32) -> Tree {
        Tree { partitions, ..self }
    }

    /// Its first page, and its partitions.
    pub(super) fn files(&self) -> (PageNo, u32) {
        (PageNo(self.levels[0].0), self.partitions)
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Reads a row (row numbers wrap around).
    pub fn read(&self, row: u64, out: &mut Vec<Access>) {
        self.scan(row, 1, out);
    }

    /// Reads consecutive rows, with all leaves that they are in.
    pub fn scan(&self, row: u64, count: u64, out: &mut Vec<Access>) {
        let row = row % self.rows;
        let leaf = (row / self.rows_per_leaf) as u32;
        let last = (row + count.max(1) - 1).min(self.rows - 1) / self.rows_per_leaf;
        self.descend(leaf, out);
        let (first, _) = self.levels[self.levels.len() - 1];
        out.extend((leaf..=last as u32).map(|l| Access { page: PageNo(first + l), redo: 0 }));
    }

    /// Changes a row (or inserts it, or marks it as deleted).
    pub fn change(&self, row: u64, out: &mut Vec<Access>) {
        let leaf = (row % self.rows / self.rows_per_leaf) as u32;
        self.descend(leaf, out);
        let (first, _) = self.levels[self.levels.len() - 1];
        out.push(Access { page: PageNo(first + leaf), redo: self.row_bytes + REDO_OVERHEAD });
    }

    fn descend(&self, leaf: u32, out: &mut Vec<Access>) {
        let inner = self.levels.len() - 1;
        let at = out.len();
        let mut place = leaf;
        for (first, _) in self.levels[..inner].iter().rev() {
            place /= self.fanout;
            out.push(Access { page: PageNo(first + place), redo: 0 });
        }
        out[at..].reverse();
    }
}

/// Which file each page of a database is in: each table and each partition of one has its own.
#[derive(Clone, Debug)]
pub struct Files {
    /// The first page of each tree, in ascending order; the first file of its table, and the
    /// table's partitions.
    trees: Vec<(PageNo, u32, u32)>,
}

impl Files {
    /// The files of these tables, each with all its trees. The trees of all tables together are
    /// in ascending order of their pages.
    pub(super) fn of(tables: &[&[&Tree]]) -> Files {
        let mut file = 0;
        let mut trees = Vec::new();
        for table in tables {
            trees.extend(table.iter().map(|tree| {
                let (first, partitions) = tree.files();
                (first, file, partitions)
            }));
            file += table.iter().map(|tree| tree.files().1).max().unwrap_or(0);
        }
        debug_assert!(trees.is_sorted(), "trees follow each other");
        Files { trees }
    }

    /// The number of the page's file.
    pub fn of_page(&self, page: PageNo) -> u32 {
        let tree = self.trees.partition_point(|(first, ..)| *first <= page);
        let (first, file, partitions) = self.trees[tree.max(1) - 1];
        file + (page.0 - first.0) % partitions
    }
}

/// A benchmark's mix over its trees.
pub enum Mix {
    /// See [`Benchmark::LinkBench`].
    LinkBench(LinkBenchPages),
    /// See [`Benchmark::Tpcc`].
    Tpcc(TpccPages),
}

impl Mix {
    /// The benchmark over a database of about this many MiB.
    pub fn new(benchmark: Benchmark, database_mib: u64, page_bytes: u32) -> Mix {
        Mix::filled(benchmark, database_mib, page_bytes, TPCC_FILL_PERCENT / 100.0)
    }

    /// The same; rows fill this share of a page of TPC-C, so that the same rows need more pages if
    /// it is small.
    pub fn filled(benchmark: Benchmark, database_mib: u64, page_bytes: u32, fill: f64) -> Mix {
        match benchmark {
            Benchmark::LinkBench => Mix::LinkBench(LinkBenchPages::new(database_mib, page_bytes)),
            Benchmark::Tpcc => Mix::Tpcc(TpccPages::new(database_mib, page_bytes, fill)),
        }
    }

    /// The same with another share of operations that change something, in per cent. Only LinkBench
    /// uses it.
    pub fn updating(mut self, percent: Option<f64>) -> Mix {
        if let Mix::LinkBench(pages) = &mut self {
            pages.update_percent = percent;
        }
        self
    }

    /// Pages of the database.
    pub fn pages(&self) -> u32 {
        match self {
            Mix::LinkBench(m) => m.pages(),
            Mix::Tpcc(m) => m.pages(),
        }
    }

    /// The files of its tables.
    pub fn files(&self) -> Files {
        match self {
            Mix::LinkBench(m) => m.files(),
            Mix::Tpcc(m) => m.files(),
        }
    }

    /// Appends the accesses of the next transaction. Returns its kind's name in reports.
    pub fn next(&mut self, dice: &mut Stream, out: &mut Vec<Access>) -> &'static str {
        match self {
            Mix::LinkBench(m) => m.next(dice, out),
            Mix::Tpcc(m) => m.next(dice, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_a_page_for_every_row_and_goes_down_from_its_root() {
        let mut next = 10;
        let tree = Tree::new(&mut next, 100_000, 200, 4096, 0.7);
        // 14 rows in a leaf, 89 entries in an inner page.
        let sizes: Vec<u32> = tree.levels.iter().map(|l| l.1).collect();
        assert_eq!(sizes, [1, 81, 7143]);
        assert_eq!(next, 10 + 1 + 81 + 7143);
        let mut out = Vec::new();
        tree.read(99_999, &mut out);
        let pages: Vec<u32> = out.iter().map(|a| a.page.0).collect();
        assert_eq!(pages, [10, 10 + 1 + 80, next - 1]);
        out.clear();
        tree.change(14, &mut out);
        assert_eq!(out[2], Access { page: PageNo(10 + 1 + 81 + 1), redo: 320 });
        out.clear();
        tree.scan(13, 16, &mut out);
        assert_eq!(out.len(), 2 + 3);
        // A page of four times the size gives a quarter of the leaves.
        let mut next = 0;
        assert!(Tree::new(&mut next, 100_000, 200, 16384, 0.7).levels[2].1.abs_diff(7143 / 4) < 40);
    }

    /// The share of transactions that change something, and pages used and changed by each.
    fn shape(benchmark: Benchmark, page_bytes: u32) -> [f64; 3] {
        // (Three warehouses.)
        let mut mix = Mix::new(benchmark, 290, page_bytes);
        let bytes = u64::from(mix.pages()) * u64::from(page_bytes);
        assert!((275..305).contains(&(bytes >> 20)), "{} MiB", bytes >> 20);
        let mut dice = Stream::new(1, "mix");
        let (mut writers, mut used, mut changed) = (0, 0, 0);
        let mut out = Vec::new();
        const TRANSACTIONS: u32 = 20_000;
        for _ in 0..TRANSACTIONS {
            out.clear();
            mix.next(&mut dice, &mut out);
            assert!(!out.is_empty() && out.iter().all(|a| a.page.0 < mix.pages()));
            let changes = out.iter().filter(|a| a.redo > 0).count();
            writers += u32::from(changes > 0);
            changed += changes;
            used += out.len();
        }
        let each = |n: f64| n / f64::from(TRANSACTIONS);
        [each(writers.into()), each(used as f64), each(changed as f64)]
    }

    #[test]
    fn the_mixes_have_the_published_shares() {
        // 9.0 + 8.0 + 7.4 + 3.0 + 2.6 + 1.0 per cent write.
        let [writers, used, changed] = shape(Benchmark::LinkBench, 4096);
        assert!((writers - 0.31).abs() < 0.01, "{writers}");
        assert!((3.0..9.0).contains(&used) && (0.5..1.2).contains(&changed), "{used} {changed}");
        // All but order status and stock level write.
        let [writers, used, changed] = shape(Benchmark::Tpcc, 4096);
        assert!((writers - 0.92).abs() < 0.01, "{writers}");
        // A new order changes 2 + 2 + 10 × 2 rows, a payment 4, a delivery 10 × 4.
        assert!((11.0..15.0).contains(&changed), "{changed}");
        assert!((60.0..160.0).contains(&used), "{used}");
    }
}
