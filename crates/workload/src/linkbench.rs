//! LinkBench: the social-graph benchmark (Armstrong, Ponnekanti, Borthakur, Callaghan, SIGMOD 2013)
//! with the operation mix and the access distributions of its public release, and its MySQL schema
//! translated to SQLite.
//!
//! Differences: the out-degrees follow a bounded Pareto law instead of the release's table of
//! measured ones, the data follow from key and version (see [`crate::content`]), and list queries
//! ask for the newest links only.
//!
//! # Invariants
//!
//! 1. In every committed state `counttable` holds, for each node and link type, the
//!    number of its visible links; a missing row counts as 0.
//! 2. The data of every node and link follow from its key and its version.
//! 3. Each change of a row notes the old and the new state of the whole row in the digest. The rows
//!    in the tables add up to the digest in the ledger.

use crate::content::{self, Digest};
use crate::database::{
    Benchmark, Client, Findings, Loaded, Scratch, Step, StepError, in_batches, must, read,
    verify_digest, write,
};
use crate::sql::{Row, Sql, SqlError, Value};
use crate::zipf::Zipf;
use std::collections::BTreeMap;
use tantalum_rt::{Stream, mix64};

/// Link types of the public benchmark's default.
const LINK_TYPES: u64 = 2;
/// The first link type of the public benchmark.
const FIRST_LINK_TYPE: i64 = 123_456_789;
/// The type of every node of the public benchmark.
const NODE_TYPE: i64 = 2048;
/// The most links of a list query.
const LIST_LIMIT: i64 = 10_000;
/// The most links with which a node is loaded.
const MAX_DEGREE: u64 = 500;

const NODES: u64 = 1;
const LINKS: u64 = 2;
const COUNTS: u64 = 3;

/// The mix in ten-thousandths, with the names that reports use.
const MIX: [(u64, Operation, &str); 10] = [
    (5071, Operation::GetLinkList, "get link list"),
    (1293, Operation::GetNode, "get node"),
    (899, Operation::AddLink, "add link"),
    (801, Operation::UpdateLink, "update link"),
    (737, Operation::UpdateNode, "update node"),
    (489, Operation::CountLinks, "count links"),
    (299, Operation::DeleteLink, "delete link"),
    (257, Operation::AddNode, "add node"),
    (101, Operation::DeleteNode, "delete node"),
    (53, Operation::MultigetLink, "multiget link"),
];

/// An operation of the mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    GetLinkList,
    GetNode,
    AddLink,
    UpdateLink,
    UpdateNode,
    CountLinks,
    DeleteLink,
    AddNode,
    DeleteNode,
    MultigetLink,
}

impl Operation {
    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        let found = MIX.iter().find(|(_, operation, _)| *operation == self);
        found.map_or("", |(.., name)| name)
    }
}

/// The size of the graph.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkBenchScale {
    /// Nodes of the graph.
    ///
    /// *Source*: own choice.
    pub nodes: u64,
    /// Links of each node, on average (approximate, since the law is cut off).
    ///
    /// *Source*: own choice.
    pub links_per_node: f64,
    /// Median bytes of data in a node.
    ///
    /// *Source*: LinkBench, its public release.
    pub node_bytes: u64,
    /// Median bytes of data in a link.
    ///
    /// *Source*: LinkBench, its public release.
    pub link_bytes: u64,
}

impl Default for LinkBenchScale {
    fn default() -> LinkBenchScale {
        LinkBenchScale { nodes: 4_000, links_per_node: 4.0, node_bytes: 128, link_bytes: 8 }
    }
}

/// The benchmark at a given scale.
pub struct LinkBench {
    scale: LinkBenchScale,
    link_reads: Zipf,
    link_writes: Zipf,
    node_reads: Zipf,
    node_updates: Zipf,
}

#[derive(Clone, Copy)]
struct LinkKey {
    id1: i64,
    kind: i64,
    id2: i64,
}

impl LinkKey {
    /// The three numbers as one, for the contents.
    fn word(self) -> u64 {
        mix64(self.list() ^ self.id2 as u64)
    }

    /// The link's list as one number, for the count.
    fn list(self) -> u64 {
        mix64(mix64(self.id1 as u64) ^ self.kind as u64)
    }

    fn values(&self) -> [Value<'static>; 3] {
        [Value::Int(self.kind), Value::Int(self.id1), Value::Int(self.id2)]
    }
}

/// The state that can change.
#[derive(Clone, Copy)]
struct NodeState {
    version: i64,
    time: i64,
}

impl NodeState {
    fn digest(self) -> [i64; 3] {
        [NODE_TYPE, self.version, self.time]
    }
}

/// The state that can change.
#[derive(Clone, Copy)]
struct LinkState {
    visible: bool,
    version: i64,
    time: i64,
}

impl LinkState {
    fn digest(self) -> [i64; 3] {
        [self.visible.into(), self.version, self.time]
    }
}

impl LinkBench {
    /// The benchmark at this scale (a graph has at least one node).
    pub fn new(scale: LinkBenchScale) -> LinkBench {
        let scale = LinkBenchScale { nodes: scale.nodes.max(1), ..scale };
        let zipf = |shape| Zipf::new(scale.nodes, shape);
        LinkBench {
            link_reads: zipf(0.8),
            link_writes: zipf(0.741),
            node_reads: zipf(0.625),
            node_updates: zipf(0.606),
            scale,
        }
    }

    /// An operation of the mix.
    pub(crate) fn draw(stream: &mut Stream) -> Operation {
        let mut draw = stream.below(MIX.iter().map(|m| m.0).sum());
        let operation = MIX.iter().find(|(share, ..)| {
            let hit = draw < *share;
            draw = draw.saturating_sub(*share);
            hit
        });
        operation.map_or(Operation::GetLinkList, |m| m.1)
    }

    /// A node that is read, counted from 0.
    pub(crate) fn node_to_read(&self, stream: &mut Stream) -> u64 {
        (self.hot(&self.node_reads, stream, NODES) - 1) as u64
    }

    /// A node that is updated, counted from 0.
    pub(crate) fn node_to_update(&self, stream: &mut Stream) -> u64 {
        (self.hot(&self.node_updates, stream, NODES) - 1) as u64
    }

    /// A list of links that is read: its node counted from 0, and the number of the list at that
    /// node.
    pub(crate) fn list_to_read(&self, stream: &mut Stream) -> (u64, u64) {
        let id = self.hot(&self.link_reads, stream, LINKS);
        ((id - 1) as u64, stream.below(LINK_TYPES))
    }

    /// The same for a list in which a link is changed.
    pub(crate) fn list_to_change(&self, stream: &mut Stream) -> (u64, u64) {
        let id = self.hot(&self.link_writes, stream, LINKS);
        ((id - 1) as u64, stream.below(LINK_TYPES))
    }

    /// How many links that list is loaded with.
    pub(crate) fn links_in(&self, (id, kind): (u64, u64)) -> u64 {
        self.degree(id as i64 + 1, FIRST_LINK_TYPE + kind as i64)
    }

    fn node_len(&self, id: i64, version: i64) -> usize {
        log_normal(mix64(mix64(id as u64) ^ version as u64), self.scale.node_bytes)
    }

    fn link_len(&self, key: LinkKey, version: i64) -> usize {
        log_normal(mix64(key.word() ^ version as u64), self.scale.link_bytes).min(255)
    }

    /// How many links of this type the node is loaded with.
    fn degree(&self, id: i64, kind: i64) -> u64 {
        let h = mix64(mix64(id as u64 ^ 0x11) ^ kind as u64);
        let u = ((h >> 11) + 1) as f64 / (1u64 << 53) as f64;
        // Pareto with exponent 1/0.6: the mean is 2.5 times the smallest value.
        let mean = self.scale.links_per_node / LINK_TYPES as f64;
        let x = mean * 0.4 * libm::pow(u, -0.6);
        let whole = libm::floor(x);
        let more = mix64(h) >> 11 < ((x - whole) * (1u64 << 53) as f64) as u64;
        (whole as u64 + u64::from(more)).min(MAX_DEGREE)
    }

    /// The second node of a link that exists with about this probability: the
    /// loaded ones go to the node's successors, one by one.
    fn second(&self, stream: &mut Stream, id1: i64, kind: i64, exists_percent: u64) -> i64 {
        let loaded = self.degree(id1, kind);
        let range = (loaded * 100).div_ceil(exists_percent).max(1);
        id1 + stream.below(range) as i64
    }

    fn hot(&self, zipf: &Zipf, stream: &mut Stream, salt: u64) -> i64 {
        1 + zipf.sample_scrambled(stream, salt) as i64
    }

    fn any_link(&self, stream: &mut Stream, zipf: &Zipf, exists_percent: u64) -> LinkKey {
        let id1 = self.hot(zipf, stream, LINKS);
        let kind = FIRST_LINK_TYPE + stream.below(LINK_TYPES) as i64;
        LinkKey { id1, kind, id2: self.second(stream, id1, kind, exists_percent) }
    }

    fn check_node(&self, row: &dyn Row) -> Result<(), String> {
        let (id, version) = (row.int(0), row.int(1));
        let len = self.node_len(id, version);
        content::check(NODES, id as u64, version as u64, len, row.bytes(2))
            .map_err(|e| format!("node {id} version {version} {e}"))
    }

    fn check_link(&self, key: LinkKey, version: i64, data: &[u8]) -> Result<(), String> {
        let LinkKey { id1, kind, id2 } = key;
        let len = self.link_len(key, version);
        content::check(LINKS, key.word(), version as u64, len, data)
            .map_err(|e| format!("link {id1} -{kind}-> {id2} version {version} {e}"))
    }

    fn put_node(
        &self,
        sql: &mut dyn Sql,
        (id, state): (i64, NodeState),
        statement: &'static str,
        Scratch { buffer, change }: &mut Scratch,
    ) -> Result<u64, SqlError> {
        let NodeState { version, time } = state;
        let len = self.node_len(id, version);
        content::fill(NODES, id as u64, version as u64, len, buffer);
        change.add(NODES, id as u64, &state.digest());
        let (id, version, time) = (Value::Int(id), Value::Int(version), Value::Int(time));
        let values = [id, Value::Int(NODE_TYPE), version, time, Value::Blob(buffer)];
        sql.execute(statement, &values)?;
        Ok(len as u64)
    }

    fn put_link(
        &self,
        sql: &mut dyn Sql,
        key: LinkKey,
        state: LinkState,
        statement: &'static str,
        Scratch { buffer, change }: &mut Scratch,
    ) -> Result<u64, SqlError> {
        let LinkState { visible, version, time } = state;
        let len = self.link_len(key, version);
        content::fill(LINKS, key.word(), version as u64, len, buffer);
        change.add(LINKS, key.word(), &state.digest());
        let [kind, id1, id2] = key.values();
        let (visible, version) = (Value::Int(visible.into()), Value::Int(version));
        let values = [kind, id1, id2, visible, version, Value::Int(time), Value::Blob(buffer)];
        sql.execute(statement, &values)?;
        Ok(len as u64)
    }

    /// Adds a link, or makes it visible again, or updates it.
    fn upsert_link(
        &self,
        sql: &mut dyn Sql,
        client: &mut Client,
        key: LinkKey,
    ) -> Result<u64, SqlError> {
        let (found, time) = (find_link(sql, key)?, client.time());
        let version = found.map_or(0, |old| old.version.wrapping_add(1));
        let statement = if found.is_some() { UPDATE_LINK } else { INSERT_LINK };
        if let Some(old) = found {
            client.scratch.change.remove(LINKS, key.word(), &old.digest());
        }
        let state = LinkState { visible: true, version, time };
        let bytes = self.put_link(sql, key, state, statement, &mut client.scratch)?;
        if !found.is_some_and(|old| old.visible) {
            count(sql, key, (1, time), &mut client.scratch.change)?;
        }
        Ok(bytes)
    }

    fn get_node(&self, sql: &mut dyn Sql, client: &mut Client) -> Result<Step, StepError> {
        let id = self.hot(&self.node_reads, &mut client.stream, NODES);
        read(sql, client, "get node", |sql| {
            let mut bad = Ok(());
            let get = "SELECT id, version, data, type, time FROM nodetable WHERE id = ?1";
            sql.query(get, &[Value::Int(id)], &mut |row| bad = self.check_node(row))?;
            bad.map_err(StepError::Damaged)
        })
    }

    fn get_link_list(&self, sql: &mut dyn Sql, client: &mut Client) -> Result<Step, StepError> {
        let id1 = self.hot(&self.link_reads, &mut client.stream, LINKS);
        let kind = FIRST_LINK_TYPE + client.stream.below(LINK_TYPES) as i64;
        read(sql, client, "get link list", |sql| {
            let mut bad = Ok(());
            let get = "SELECT id2, version, data, time FROM linktable \
                       WHERE id1 = ?1 AND link_type = ?2 AND visibility = 1 \
                       ORDER BY time DESC LIMIT ?3";
            let values = [Value::Int(id1), Value::Int(kind), Value::Int(LIST_LIMIT)];
            sql.query(get, &values, &mut |row| {
                let key = LinkKey { id1, kind, id2: row.int(0) };
                if let Err(e) = self.check_link(key, row.int(1), row.bytes(2)) {
                    bad = Err(e);
                }
            })?;
            bad.map_err(StepError::Damaged)
        })
    }

    fn multiget_link(&self, sql: &mut dyn Sql, client: &mut Client) -> Result<Step, StepError> {
        // Geometric with p = 0.382: 2.6 links on average.
        let mut wanted = 1;
        while wanted < 128 && !client.stream.chance(382, 1000) {
            wanted += 1;
        }
        let first = self.any_link(&mut client.stream, &self.link_reads, 50);
        let seconds: Vec<i64> = (0..wanted)
            .map(|_| self.second(&mut client.stream, first.id1, first.kind, 50))
            .collect();
        read(sql, client, "multiget link", |sql| {
            for &id2 in &seconds {
                let key = LinkKey { id2, ..first };
                let mut bad = Ok(());
                let get = "SELECT version, data FROM linktable \
                           WHERE link_type = ?1 AND id1 = ?2 AND id2 = ?3";
                sql.query(get, &key.values(), &mut |row| {
                    bad = self.check_link(key, row.int(0), row.bytes(1));
                })?;
                bad.map_err(StepError::Damaged)?;
            }
            Ok(())
        })
    }

    fn count_links(&self, sql: &mut dyn Sql, client: &mut Client) -> Result<Step, StepError> {
        let key = self.any_link(&mut client.stream, &self.link_reads, 50);
        read(sql, client, "count links", |sql| {
            let get = "SELECT count FROM counttable WHERE id = ?1 AND link_type = ?2";
            sql.query(get, &[Value::Int(key.id1), Value::Int(key.kind)], &mut |_| ())?;
            Ok(())
        })
    }

    fn update_node(&self, sql: &mut dyn Sql, client: &mut Client) -> Result<Step, StepError> {
        let id = self.hot(&self.node_updates, &mut client.stream, NODES);
        write(sql, client, "update node", |sql, client| {
            let Some(old) = node_state(sql, FIND_NODE, id)? else { return Ok(None) };
            client.scratch.change.remove(NODES, id as u64, &old.digest());
            let state = NodeState { version: old.version.wrapping_add(1), time: client.time() };
            Ok(Some(self.put_node(sql, (id, state), UPDATE_NODE, &mut client.scratch)?))
        })
    }

    fn add_node(&self, sql: &mut dyn Sql, client: &mut Client) -> Result<Step, StepError> {
        write(sql, client, "add node", |sql, client| {
            let id = must(sql, "SELECT coalesce(max(id), 0) + 1 FROM nodetable", &[])?;
            let state = NodeState { version: 0, time: client.time() };
            Ok(Some(self.put_node(sql, (id, state), INSERT_NODE, &mut client.scratch)?))
        })
    }

    fn delete_node(&self, sql: &mut dyn Sql, client: &mut Client) -> Result<Step, StepError> {
        let id = 1 + client.stream.below(self.scale.nodes) as i64;
        write(sql, client, "delete node", |sql, client| {
            let Some(old) = node_state(sql, DELETE_NODE, id)? else { return Ok(None) };
            client.scratch.change.remove(NODES, id as u64, &old.digest());
            Ok(Some(0))
        })
    }

    fn delete_link(&self, sql: &mut dyn Sql, client: &mut Client) -> Result<Step, StepError> {
        let key = self.any_link(&mut client.stream, &self.link_writes, 90);
        write(sql, client, "delete link", |sql, client| {
            let Some(old) = find_link(sql, key)?.filter(|old| old.visible) else {
                return Ok(None);
            };
            sql.execute(
                "UPDATE linktable SET visibility = 0 \
                 WHERE link_type = ?1 AND id1 = ?2 AND id2 = ?3",
                &key.values(),
            )?;
            let time = client.time();
            let change = &mut client.scratch.change;
            change.remove(LINKS, key.word(), &old.digest());
            change.add(LINKS, key.word(), &LinkState { visible: false, ..old }.digest());
            count(sql, key, (-1, time), change)?;
            Ok(Some(0))
        })
    }

    fn put_some_link(
        &self,
        sql: &mut dyn Sql,
        client: &mut Client,
        (operation, exists_percent): (&'static str, u64),
    ) -> Result<Step, StepError> {
        let key = self.any_link(&mut client.stream, &self.link_writes, exists_percent);
        write(sql, client, operation, |sql, client| Ok(Some(self.upsert_link(sql, client, key)?)))
    }

    fn verify_counts(
        &self,
        sql: &mut dyn Sql,
        digest: &mut Digest,
        findings: &mut Findings,
    ) -> Result<(), SqlError> {
        let mut visible = BTreeMap::<(i64, i64), i64>::new();
        let links = "SELECT link_type, id1, id2, visibility, version, data, time FROM linktable";
        sql.query(links, &[], &mut |row| {
            let key = LinkKey { kind: row.int(0), id1: row.int(1), id2: row.int(2) };
            // Not as `LinkState`: a visibility other than 0 and 1 must change the digest.
            digest.add(LINKS, key.word(), &[row.int(3), row.int(4), row.int(6)]);
            if row.int(3) == 1 {
                *visible.entry((key.id1, key.kind)).or_default() += 1;
            }
            if let Err(e) = self.check_link(key, row.int(4), row.bytes(5)) {
                findings.add(|| e);
            }
        })?;
        let counts = "SELECT id, link_type, count, version, time FROM counttable";
        sql.query(counts, &[], &mut |row| {
            let (id, kind, count) = (row.int(0), row.int(1), row.int(2));
            let list = LinkKey { id1: id, kind, id2: 0 }.list();
            digest.add(COUNTS, list, &[count, row.int(3), row.int(4)]);
            let links = visible.remove(&(id, kind)).unwrap_or(0);
            if links != count {
                findings.add(|| {
                    format!("node {id} has {links} links of type {kind}, but counts {count}")
                });
            }
        })?;
        for ((id, kind), links) in visible {
            findings.add(|| format!("node {id} has {links} links of type {kind}, but no count"));
        }
        Ok(())
    }
}

const INSERT_NODE: &str =
    "INSERT INTO nodetable(id, type, version, time, data) VALUES(?1, ?2, ?3, ?4, ?5)";
const FIND_NODE: &str = "SELECT version, time FROM nodetable WHERE id = ?1";
const DELETE_NODE: &str = "DELETE FROM nodetable WHERE id = ?1 RETURNING version, time";
const UPDATE_NODE: &str =
    "UPDATE nodetable SET type = ?2, version = ?3, time = ?4, data = ?5 WHERE id = ?1";
const INSERT_LINK: &str = "INSERT INTO linktable(link_type, id1, id2, visibility, version, time, data) \
     VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const UPDATE_LINK: &str = "UPDATE linktable SET visibility = ?4, version = ?5, time = ?6, data = ?7 \
     WHERE link_type = ?1 AND id1 = ?2 AND id2 = ?3";
const ADD_TO_COUNT: &str = "INSERT INTO counttable(id, link_type, count, time, version) VALUES(?1, ?2, ?3, ?4, 0) \
     ON CONFLICT(id, link_type) DO UPDATE \
     SET count = count + excluded.count, time = excluded.time, version = version + 1";

/// The state of a node that `statement` returns (which may delete the node); `None` if there is no
/// such row.
fn node_state(
    sql: &mut dyn Sql,
    statement: &'static str,
    id: i64,
) -> Result<Option<NodeState>, SqlError> {
    let mut found = None;
    sql.query(statement, &[Value::Int(id)], &mut |row| {
        found = Some(NodeState { version: row.int(0), time: row.int(1) });
    })?;
    Ok(found)
}

/// The state of a link; `None` if there is no such row.
fn find_link(sql: &mut dyn Sql, key: LinkKey) -> Result<Option<LinkState>, SqlError> {
    let mut found = None;
    let get = "SELECT visibility, version, time FROM linktable \
               WHERE link_type = ?1 AND id1 = ?2 AND id2 = ?3";
    sql.query(get, &key.values(), &mut |row| {
        found = Some(LinkState { visible: row.int(0) == 1, version: row.int(1), time: row.int(2) });
    })?;
    Ok(found)
}

/// Adds to the number of links in the link's list.
fn count(
    sql: &mut dyn Sql,
    key: LinkKey,
    (by, time): (i64, i64),
    change: &mut Digest,
) -> Result<(), SqlError> {
    let list = [Value::Int(key.id1), Value::Int(key.kind)];
    // RETURNING would save this statement, but has no old time. The page that it reads is written
    // next anyway.
    let get = "SELECT count, version, time FROM counttable WHERE id = ?1 AND link_type = ?2";
    let mut old = None;
    sql.query(get, &list, &mut |row| old = Some([row.int(0), row.int(1), row.int(2)]))?;
    if let Some(old) = old {
        change.remove(COUNTS, key.list(), &old);
    }
    let new = old.map_or([by, 0, time], |[count, version, _]| {
        [count.wrapping_add(by), version.wrapping_add(1), time]
    });
    change.add(COUNTS, key.list(), &new);
    sql.execute(ADD_TO_COUNT, &[list[0], list[1], Value::Int(by), Value::Int(time)])?;
    Ok(())
}

/// A length that follows from the hash: log-normal with sigma 1 around the median, and at most
/// eight times the median.
fn log_normal(hash: u64, median: u64) -> usize {
    let unit = |h: u64| ((h >> 11) + 1) as f64 / (1u64 << 53) as f64;
    let (u, v) = (unit(mix64(hash)), unit(mix64(hash ^ 1)));
    let normal = libm::sqrt(-2.0 * libm::log(u)) * libm::cos(2.0 * std::f64::consts::PI * v);
    let len = libm::floor(median as f64 * libm::exp(normal)) as u64;
    len.clamp(1, (median * 8).max(1)) as usize
}

impl Benchmark for LinkBench {
    fn name(&self) -> &'static str {
        "linkbench"
    }

    fn schema(&self) -> &'static [&'static str] {
        &[
            "CREATE TABLE nodetable(id INTEGER PRIMARY KEY, type INTEGER NOT NULL, \
             version INTEGER NOT NULL, time INTEGER NOT NULL, data BLOB NOT NULL)",
            "CREATE TABLE linktable(id1 INTEGER NOT NULL, id2 INTEGER NOT NULL, \
             link_type INTEGER NOT NULL, visibility INTEGER NOT NULL, data BLOB NOT NULL, \
             time INTEGER NOT NULL, version INTEGER NOT NULL, \
             PRIMARY KEY(link_type, id1, id2)) WITHOUT ROWID",
            "CREATE INDEX id1_type ON linktable\
             (id1, link_type, visibility, time, id2, version, data)",
            "CREATE TABLE counttable(id INTEGER NOT NULL, link_type INTEGER NOT NULL, \
             count INTEGER NOT NULL, time INTEGER NOT NULL, version INTEGER NOT NULL, \
             PRIMARY KEY(id, link_type)) WITHOUT ROWID",
        ]
    }

    fn fill(&self, sql: &mut dyn Sql) -> Result<Loaded, SqlError> {
        let mut bytes = 0;
        let mut scratch = Scratch::default();
        let node = NodeState { version: 0, time: 0 };
        let link = LinkState { visible: true, version: 0, time: 0 };
        in_batches(sql, self.scale.nodes, |sql, i| {
            bytes += self.put_node(sql, (i as i64 + 1, node), INSERT_NODE, &mut scratch)?;
            Ok(())
        })?;
        for kind in (0..LINK_TYPES).map(|k| FIRST_LINK_TYPE + k as i64) {
            in_batches(sql, self.scale.nodes, |sql, i| {
                let id1 = i as i64 + 1;
                let degree = self.degree(id1, kind) as i64;
                for id2 in id1..id1 + degree {
                    let key = LinkKey { id1, kind, id2 };
                    bytes += self.put_link(sql, key, link, INSERT_LINK, &mut scratch)?;
                }
                if degree > 0 {
                    count(sql, LinkKey { id1, kind, id2: id1 }, (degree, 0), &mut scratch.change)?;
                }
                Ok(())
            })?;
        }
        Ok(Loaded { bytes, digest: scratch.change })
    }

    fn operate(&self, sql: &mut dyn Sql, client: &mut Client) -> Result<Step, StepError> {
        // Probabilities that a link exists: as in the public benchmark.
        match LinkBench::draw(&mut client.stream) {
            Operation::GetLinkList => self.get_link_list(sql, client),
            Operation::GetNode => self.get_node(sql, client),
            Operation::AddLink => self.put_some_link(sql, client, ("add link", 5)),
            Operation::UpdateLink => self.put_some_link(sql, client, ("update link", 90)),
            Operation::UpdateNode => self.update_node(sql, client),
            Operation::CountLinks => self.count_links(sql, client),
            Operation::DeleteLink => self.delete_link(sql, client),
            Operation::AddNode => self.add_node(sql, client),
            Operation::DeleteNode => self.delete_node(sql, client),
            Operation::MultigetLink => self.multiget_link(sql, client),
        }
    }

    fn verify(&self, sql: &mut dyn Sql) -> Result<Findings, SqlError> {
        let mut findings = Findings::default();
        let mut digest = Digest::default();
        let nodes = "SELECT id, version, data, type, time FROM nodetable";
        sql.query(nodes, &[], &mut |row| {
            digest.add(NODES, row.int(0) as u64, &[row.int(3), row.int(1), row.int(4)]);
            if let Err(e) = self.check_node(row) {
                findings.add(|| e);
            }
        })?;
        self.verify_counts(sql, &mut digest, &mut findings)?;
        verify_digest(sql, digest, &mut findings)?;
        Ok(findings)
    }
}
