//! YCSB workload A (Cooper et al., SoCC 2010): half reads of a whole record, half
//! updates of one field; scrambled zipfian access with constant 0.99; records of
//! ten fields with 100 bytes each. The share of updates may be another: 5 % are
//! workload B, none workload C.
//!
//! # Invariants
//!
//! 1. Every record is there exactly once, and there are no others.
//! 2. The contents of a field follow from the record's key, the field's number and the version of
//!    the record that wrote it. That version is stored in the contents.
//! 3. The highest version among its fields is the record's version.

use crate::content::{self, Digest};
use crate::database::{
    Benchmark, Client, Findings, Loaded, Step, StepError, in_batches, read, verify_digest, write,
};
use crate::sql::{Row, Sql, SqlError, Value};
use crate::zipf::Zipf;
use tantalum_rt::mix64;

const FIELDS: usize = 10;
const ZIPFIAN_CONSTANT: f64 = 0.99;

/// The size of the table, and the mix.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct YcsbScale {
    /// Records of the table.
    ///
    /// *Source*: own choice.
    pub records: u64,
    /// Bytes in each of the ten fields of a record.
    ///
    /// *Source*: Cooper et al. (SoCC 2010).
    pub field_bytes: u64,
    /// Operations that update a field, in whole per cent. The others read a record. 50 is workload
    /// A, 5 is B, 0 is C.
    ///
    /// *Source*: Cooper et al. (SoCC 2010): workloads A, B and C; other shares: own choice.
    pub update_percent: u64,
}

impl Default for YcsbScale {
    fn default() -> YcsbScale {
        YcsbScale { records: 3_000, field_bytes: 100, update_percent: 50 }
    }
}

/// The benchmark at a given scale.
pub struct Ycsb {
    records: u64,
    field_bytes: usize,
    /// Of so many operations, the second number, so many read.
    reads: (u64, u64),
    popular: Zipf,
}

/// The number of the record's table in the digest. Its fields are tables 0 to 9.
const RECORD: u64 = FIELDS as u64;

/// Reads the version of the record and one of its fields, which has its own version.
const OLD: [&str; FIELDS] = [
    "SELECT version, field0 FROM usertable WHERE ycsb_key = ?1",
    "SELECT version, field1 FROM usertable WHERE ycsb_key = ?1",
    "SELECT version, field2 FROM usertable WHERE ycsb_key = ?1",
    "SELECT version, field3 FROM usertable WHERE ycsb_key = ?1",
    "SELECT version, field4 FROM usertable WHERE ycsb_key = ?1",
    "SELECT version, field5 FROM usertable WHERE ycsb_key = ?1",
    "SELECT version, field6 FROM usertable WHERE ycsb_key = ?1",
    "SELECT version, field7 FROM usertable WHERE ycsb_key = ?1",
    "SELECT version, field8 FROM usertable WHERE ycsb_key = ?1",
    "SELECT version, field9 FROM usertable WHERE ycsb_key = ?1",
];

/// One statement for each field, since columns cannot be bound.
const UPDATES: [&str; FIELDS] = [
    "UPDATE usertable SET version = ?2, field0 = ?3 WHERE ycsb_key = ?1",
    "UPDATE usertable SET version = ?2, field1 = ?3 WHERE ycsb_key = ?1",
    "UPDATE usertable SET version = ?2, field2 = ?3 WHERE ycsb_key = ?1",
    "UPDATE usertable SET version = ?2, field3 = ?3 WHERE ycsb_key = ?1",
    "UPDATE usertable SET version = ?2, field4 = ?3 WHERE ycsb_key = ?1",
    "UPDATE usertable SET version = ?2, field5 = ?3 WHERE ycsb_key = ?1",
    "UPDATE usertable SET version = ?2, field6 = ?3 WHERE ycsb_key = ?1",
    "UPDATE usertable SET version = ?2, field7 = ?3 WHERE ycsb_key = ?1",
    "UPDATE usertable SET version = ?2, field8 = ?3 WHERE ycsb_key = ?1",
    "UPDATE usertable SET version = ?2, field9 = ?3 WHERE ycsb_key = ?1",
];

const INSERT: &str =
    "INSERT INTO usertable VALUES(?1, 0, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
const READ: &str = "SELECT ycsb_key, version, field0, field1, field2, field3, field4, field5, \
                    field6, field7, field8, field9 FROM usertable WHERE ycsb_key = ?1";
const READ_ALL: &str = "SELECT ycsb_key, version, field0, field1, field2, field3, field4, field5, \
                        field6, field7, field8, field9 FROM usertable";

impl Ycsb {
    /// The benchmark at this scale. It has at least one record, and fields have room for key and
    /// version.
    pub fn new(scale: YcsbScale) -> Ycsb {
        let records = scale.records.max(1);
        let field_bytes = scale.field_bytes.max(content::HEADER as u64) as usize;
        // In lowest terms, so that a mix has one sequence of random numbers, however it is written.
        let reads = 100 - scale.update_percent.min(100);
        let divisor =
            (1..=100).rev().find(|n| reads.is_multiple_of(*n) && 100_u64.is_multiple_of(*n));
        let reads = (reads / divisor.unwrap_or(1), 100 / divisor.unwrap_or(1));
        Ycsb { records, field_bytes, reads, popular: Zipf::new(records, ZIPFIAN_CONSTANT) }
    }

    fn popular(&self, client: &mut Client) -> u64 {
        self.popular.sample_scrambled(&mut client.stream, 0)
    }

    /// Checks a record and adds it to the digest. Returns its number.
    fn check(&self, row: &dyn Row, digest: &mut Digest) -> Result<u64, String> {
        let text = String::from_utf8_lossy(row.bytes(0)).into_owned();
        let version = row.int(1) as u64;
        let Some(record) = self.record_of(&text) else {
            return Err(format!("there is a record {text:?} that nobody inserted"));
        };
        digest.add(RECORD, record, &[version as i64]);
        let mut newest = 0;
        for field in 0..FIELDS {
            let data = row.bytes(2 + field);
            let Some(written) = written(data) else {
                return Err(format!("{text} field {field} is cut short"));
            };
            digest.add(field as u64, record, &[written as i64]);
            newest = newest.max(written);
            content::check(field as u64, record, written, self.field_bytes, data)
                .map_err(|e| format!("{text} version {version} field {field} {e}"))?;
        }
        if newest != version {
            return Err(format!("{text} is of version {version}, its newest field of {newest}"));
        }
        Ok(record)
    }

    /// The number of the record with this key.
    fn record_of(&self, text: &str) -> Option<u64> {
        let record: u64 = text.strip_prefix("user")?.get(16..)?.parse().ok()?;
        (record < self.records && key(record) == text).then_some(record)
    }

    fn read_record(&self, sql: &mut dyn Sql, client: &mut Client) -> Result<Step, StepError> {
        let record = self.popular(client);
        let text = key(record);
        read(sql, client, "read", |sql| {
            let mut bad = Ok(());
            let rows = sql.query(READ, &[Value::Text(&text)], &mut |row| {
                bad = self.check(row, &mut Digest::default()).map(drop);
            })?;
            bad.map_err(StepError::Damaged)?;
            if rows == 1 { Ok(()) } else { Err(StepError::Damaged(format!("{text} is missing"))) }
        })
    }

    fn update(&self, sql: &mut dyn Sql, client: &mut Client) -> Result<Step, StepError> {
        let record = self.popular(client);
        let field = client.stream.below(FIELDS as u64);
        let text = key(record);
        write(sql, client, "update", |sql, client| {
            let mut found = None;
            sql.query(OLD[field as usize], &[Value::Text(&text)], &mut |row| {
                found = Some((row.int(0), written(row.bytes(1))));
            })?;
            let (old, replaced) =
                found.ok_or_else(|| StepError::Damaged(format!("{text} is missing")))?;
            let replaced = replaced
                .ok_or_else(|| StepError::Damaged(format!("{text} field {field} is cut short")))?;
            let version = (old as u64).wrapping_add(1);
            let change = &mut client.scratch.change;
            change.remove(RECORD, record, &[old]);
            change.add(RECORD, record, &[version as i64]);
            change.remove(field, record, &[replaced as i64]);
            change.add(field, record, &[version as i64]);
            content::fill(field, record, version, self.field_bytes, &mut client.scratch.buffer);
            let data = Value::Blob(&client.scratch.buffer);
            let values = [Value::Text(&text), Value::Int(version as i64), data];
            sql.execute(UPDATES[field as usize], &values)?;
            Ok(Some(self.field_bytes as u64))
        })
    }
}

/// The version in the contents of a field.
fn written(data: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(data.get(8..16)?.try_into().ok()?))
}

/// The key of a record. It is hashed, so that neighbours in popularity or in the order of insertion
/// are not neighbours in the table.
fn key(record: u64) -> String {
    format!("user{:016x}{record}", mix64(record ^ 0x7963_7362))
}

impl Benchmark for Ycsb {
    fn name(&self) -> &'static str {
        "ycsb-a"
    }

    fn schema(&self) -> &'static [&'static str] {
        &["CREATE TABLE usertable(ycsb_key TEXT PRIMARY KEY, version INTEGER NOT NULL, \
           field0 BLOB, field1 BLOB, field2 BLOB, field3 BLOB, field4 BLOB, \
           field5 BLOB, field6 BLOB, field7 BLOB, field8 BLOB, field9 BLOB)"]
    }

    fn fill(&self, sql: &mut dyn Sql) -> Result<Loaded, SqlError> {
        let mut digest = Digest::default();
        let mut fields = vec![Vec::new(); FIELDS];
        in_batches(sql, self.records, |sql, record| {
            for (field, out) in fields.iter_mut().enumerate() {
                content::fill(field as u64, record, 0, self.field_bytes, out);
                digest.add(field as u64, record, &[0]);
            }
            digest.add(RECORD, record, &[0]);
            let text = key(record);
            let mut values = vec![Value::Text(&text)];
            values.extend(fields.iter().map(|f| Value::Blob(f)));
            sql.execute(INSERT, &values)?;
            Ok(())
        })?;
        Ok(Loaded { bytes: self.records * FIELDS as u64 * self.field_bytes as u64, digest })
    }

    fn operate(&self, sql: &mut dyn Sql, client: &mut Client) -> Result<Step, StepError> {
        if client.stream.chance(self.reads.0, self.reads.1) {
            self.read_record(sql, client)
        } else {
            self.update(sql, client)
        }
    }

    fn verify(&self, sql: &mut dyn Sql) -> Result<Findings, SqlError> {
        let mut findings = Findings::default();
        let mut seen = vec![false; self.records as usize];
        let mut digest = Digest::default();
        sql.query(READ_ALL, &[], &mut |row| match self.check(row, &mut digest) {
            Ok(record) if seen[record as usize] => {
                findings.add(|| format!("{} is there twice", key(record)));
            }
            Ok(record) => seen[record as usize] = true,
            Err(e) => findings.add(|| e),
        })?;
        for (record, _) in seen.iter().enumerate().filter(|(_, seen)| !**seen) {
            findings.add(|| format!("{} is missing", key(record as u64)));
        }
        verify_digest(sql, digest, &mut findings)?;
        Ok(findings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_a_share_in_lowest_terms() {
        for (update_percent, reads) in [
            (50, (1, 2)),
            (5, (19, 20)),
            (0, (1, 1)),
            (100, (0, 1)),
            (30, (7, 10)),
            (37, (63, 100)),
        ] {
            let scale = YcsbScale { update_percent, ..YcsbScale::default() };
            assert_eq!(Ycsb::new(scale).reads, reads);
        }
    }
}
