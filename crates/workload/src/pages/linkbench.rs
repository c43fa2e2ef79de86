//! LinkBench's pages: the operation mix and the access distributions of
//! [`crate::linkbench`] over the trees of its MySQL schema.

use super::mix::{Access, Files, Tree};
use crate::linkbench::{LinkBench, LinkBenchScale, Operation};
use tantalum_rt::Stream;

/// Bytes of rows with InnoDB's headers. The data are log-normal around 128 and 8 bytes.
const NODE_ROW: u32 = 250;
const LINK_ROW: u32 = 85;
const COUNT_ROW: u32 = 50;

/// The share of a page that rows fill: what random inserts into a B-tree leave.
const FILL: f64 = 0.7;

/// Loaded links of a node, and the lists that they are in.
const LINKS: f64 = 4.4;
const LISTS: f64 = 1.6;

/// Partitions of the table of links in LinkBench's schema for MySQL. Its index lies in the same
/// files.
const PARTITIONS: u32 = 16;

/// The factor by which tables can grow at their end.
const HEADROOM: f64 = 1.05;

/// See the module.
pub struct LinkBenchPages {
    graph: LinkBench,
    nodes: u64,
    /// Nodes added so far.
    added: u64,
    /// The share of operations that change something, in per cent; `None`: that of the mix.
    pub(super) update_percent: Option<f64>,
    node_table: Tree,
    link_table: Tree,
    link_index: Tree,
    count_table: Tree,
    pages: u32,
}

impl LinkBenchPages {
    /// A graph that fills about this many MiB.
    pub fn new(database_mib: u64, page_bytes: u32) -> LinkBenchPages {
        // A node with its links and counts, at a fill of 70 %. Inner pages are 2 % more.
        let each = f64::from(NODE_ROW) * HEADROOM
            + 2.0 * LINKS * f64::from(LINK_ROW)
            + LISTS * f64::from(COUNT_ROW);
        let nodes = ((database_mib << 20) as f64 * 0.7 * 0.98 / each) as u64;
        let scale = LinkBenchScale { nodes, links_per_node: LINKS, ..LinkBenchScale::default() };
        let many = |n: f64| (nodes as f64 * n) as u64;
        let mut pages = 0;
        let mut tree = |rows, bytes| Tree::new(&mut pages, rows, bytes, page_bytes, FILL);
        LinkBenchPages {
            graph: LinkBench::new(scale),
            nodes,
            added: 0,
            update_percent: None,
            node_table: tree(many(HEADROOM), NODE_ROW),
            link_table: tree(many(LINKS), LINK_ROW).partitioned(PARTITIONS),
            link_index: tree(many(LINKS), LINK_ROW).partitioned(PARTITIONS),
            count_table: tree(many(LISTS), COUNT_ROW),
            pages,
        }
    }

    /// Pages of the database.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// The files of its tables.
    pub fn files(&self) -> Files {
        let links = [&self.link_table, &self.link_index];
        Files::of(&[&[&self.node_table], &links, &[&self.count_table]])
    }

    /// The first row of a list in the table (by type, then node).
    fn in_table(&self, (id, kind): (u64, u64)) -> u64 {
        ((kind * self.nodes + id) as f64 * LINKS / 2.0) as u64
    }

    /// The first row of a list in the index (by node, then type).
    fn in_index(&self, (id, kind): (u64, u64)) -> u64 {
        ((id * 2 + kind) as f64 * LINKS / 2.0) as u64
    }

    /// The row of a list's count.
    fn in_counts(&self, (id, kind): (u64, u64)) -> u64 {
        ((id * 2 + kind) as f64 * LISTS / 2.0) as u64
    }

    /// Appends the accesses of the next operation. Returns its name in reports.
    pub fn next(&mut self, dice: &mut Stream, out: &mut Vec<Access>) -> &'static str {
        let operation = match self.update_percent {
            None => LinkBench::draw(dice),
            Some(share) => {
                let changes = (dice.below(1_000_000) as f64) < share * 1e4;
                // Each kind has a share of at least 30 % in the mix, so this ends soon.
                loop {
                    let drawn = LinkBench::draw(dice);
                    if is_change(drawn) == changes {
                        break drawn;
                    }
                }
            }
        };
        match operation {
            Operation::GetNode => self.node_table.read(self.graph.node_to_read(dice), out),
            Operation::UpdateNode => self.node_table.change(self.graph.node_to_update(dice), out),
            Operation::AddNode => {
                // Ids go up. At the end of the headroom they start again at its beginning.
                let room = self.node_table.rows() - self.nodes;
                self.node_table.change(self.nodes + self.added % room.max(1), out);
                self.added += 1;
            }
            Operation::DeleteNode => self.node_table.change(dice.below(self.nodes), out),
            Operation::GetLinkList => {
                let list = self.graph.list_to_read(dice);
                let links = self.graph.links_in(list);
                self.link_index.scan(self.in_index(list), links, out);
            }
            Operation::CountLinks => {
                let list = self.graph.list_to_read(dice);
                self.count_table.read(self.in_counts(list), out);
            }
            Operation::MultigetLink => {
                // The links of one list are side by side.
                let list = self.graph.list_to_read(dice);
                self.link_table.scan(self.in_table(list), self.graph.links_in(list).min(3), out);
            }
            Operation::AddLink | Operation::UpdateLink | Operation::DeleteLink => {
                let list = self.graph.list_to_change(dice);
                let which = dice.below(self.graph.links_in(list).max(1));
                self.link_table.change(self.in_table(list) + which, out);
                // The index holds the time: the old entry is removed, and a new one is added beside
                // it.
                self.link_index.change(self.in_index(list) + which, out);
                if operation != Operation::UpdateLink {
                    self.count_table.change(self.in_counts(list), out);
                }
            }
        }
        operation.name()
    }
}

fn is_change(operation: Operation) -> bool {
    match operation {
        Operation::GetNode
        | Operation::GetLinkList
        | Operation::CountLinks
        | Operation::MultigetLink => false,
        Operation::UpdateNode
        | Operation::AddNode
        | Operation::DeleteNode
        | Operation::AddLink
        | Operation::UpdateLink
        | Operation::DeleteLink => true,
    }
}
