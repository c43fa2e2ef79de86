//! TPC-C (revision 5.11): order entry of a wholesale supplier. All nine tables with their
//! columns, the population of clause 4.3, the transactions of clause 2 in the mix
//! 45/43/4/4/4, without keying and think times.
//!
//! A database of the standard's cardinalities takes about 100 MB for each warehouse. Here items,
//! customers and orders can be fewer. NURand's constants and the number of last names shrink in the
//! same ratio. (The skew then gets milder: the most drawn tenth of a district's customers gets 62 %
//! of the draws among 3,000, and 41 % among 100.)
//!
//! Differences: money is in cents and rates are in ten-thousandths, as integers. Dates are numbers
//! of operations. Values that a terminal would only display are read and not used. A client is one
//! terminal, bound to its warehouse.
//!
//! # Invariants
//!
//! 1. In every committed state the consistency conditions of clause 3.3.2 hold, 1 to 10 and 12 (11
//!    is about the loaded database only).
//! 2. The columns of a loaded row that never change (names, addresses, prices) follow from its key.
//! 3. Each change of a row notes the old and the new state of the changed columns in the digest.
//!    The rows in the tables add up to the digest in the ledger.

mod load;
mod population;
mod schema;
mod transactions;
mod verify;

use crate::database::{Benchmark, Client, Findings, Loaded, Step, StepError};
use crate::sql::{Sql, SqlError};
use population::NuRand;
use tantalum_rt::mix64;

/// Districts of each warehouse.
pub const DISTRICTS: u64 = 10;
/// The number of last names of three syllables.
const NAMES: u64 = 1000;

/// The size of the database.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TpccScale {
    /// Warehouses. With one warehouse nothing is remote.
    ///
    /// *Source*: TPC-C, revision 5.11, clause 4.2.
    pub warehouses: u64,
    /// Items, each with stock in each warehouse. The standard has 100,000.
    ///
    /// *Source*: TPC-C, revision 5.11, clause 4.3; fewer: own choice.
    pub items: u64,
    /// Customers in each of a warehouse's ten districts. The standard has 3,000.
    ///
    /// *Source*: TPC-C, revision 5.11, clause 4.3; fewer: own choice.
    pub customers_per_district: u64,
    /// Orders that each district is loaded with; three tenths of them are not delivered yet. Left
    /// out: one for each customer, as in the standard.
    ///
    /// *Source*: TPC-C, revision 5.11, clause 4.3; others: own choice.
    pub orders_per_district: Option<u64>,
}

impl Default for TpccScale {
    /// Two warehouses of a hundredth of the standard's size: about two megabytes.
    fn default() -> TpccScale {
        TpccScale {
            warehouses: 2,
            items: 1_000,
            customers_per_district: 30,
            orders_per_district: None,
        }
    }
}

impl TpccScale {
    /// Orders that each district is loaded with.
    pub fn orders(&self) -> u64 {
        self.orders_per_district.unwrap_or(self.customers_per_district)
    }

    /// Approximate bytes of row contents in the loaded database, by the standard's nominal lengths
    /// of rows (clause 4.2.2).
    pub fn bytes(&self) -> u64 {
        let (customers, orders) = (self.customers_per_district, self.orders());
        let district = 95 + customers * (655 + 46) + orders * (24 + 10 * 54) + orders * 3 / 10 * 8;
        self.items * 82 + self.warehouses * (89 + self.items * 306 + DISTRICTS * district)
    }

    /// Checks that all keys are within their bounds.
    ///
    /// # Errors
    /// A line with the key and its bounds.
    pub fn check(&self) -> Result<(), String> {
        let bounds = [
            ("warehouses", self.warehouses, 1, 1_000),
            ("items", self.items, 20, 100_000),
            ("customers_per_district", self.customers_per_district, 3, 3_000),
            ("orders_per_district", self.orders(), 3, 3_000),
        ];
        match bounds.into_iter().find(|(_, n, low, high)| !(low..=high).contains(&n)) {
            Some((key, n, low, high)) => Err(format!("{key} = {n}: must be {low} to {high}")),
            None => Ok(()),
        }
    }
}

/// The benchmark at a given scale.
pub struct Tpcc {
    warehouses: u64,
    items: u64,
    customers: u64,
    orders: u64,
    /// Distinct last names.
    names: u64,
    item_ids: NuRand,
    customer_ids: NuRand,
    name_numbers: NuRand,
}

/// The tables of the digest. Columns that change together form one.
mod part {
    pub const WAREHOUSE: u64 = 1;
    pub const WAREHOUSE_YTD: u64 = 2;
    pub const DISTRICT: u64 = 3;
    pub const DISTRICT_YTD: u64 = 4;
    pub const DISTRICT_NEXT: u64 = 5;
    pub const CUSTOMER: u64 = 6;
    pub const CUSTOMER_ACCOUNT: u64 = 7;
    pub const CUSTOMER_DATA: u64 = 8;
    pub const HISTORY: u64 = 9;
    pub const NEW_ORDER: u64 = 10;
    pub const ORDER: u64 = 11;
    pub const ORDER_CARRIER: u64 = 12;
    pub const ORDER_LINE: u64 = 13;
    pub const ORDER_LINE_DELIVERY: u64 = 14;
    pub const ITEM: u64 = 15;
    pub const STOCK: u64 = 16;
    pub const STOCK_LEVEL: u64 = 17;
}

/// A key of several numbers as one number, for the digest.
fn key<const N: usize>(numbers: [u64; N]) -> u64 {
    numbers.into_iter().fold(N as u64, |h, n| mix64(h ^ n))
}

impl Tpcc {
    /// The benchmark at this scale. Values out of their bounds are moved to the nearest bound.
    pub fn new(scale: &TpccScale) -> Tpcc {
        let items = scale.items.clamp(20, 100_000);
        let customers = scale.customers_per_district.clamp(3, 3_000);
        let names = (customers / 3).clamp(1, NAMES);
        Tpcc {
            warehouses: scale.warehouses.clamp(1, 1_000),
            items,
            customers,
            orders: scale.orders().clamp(3, 3_000),
            names,
            item_ids: NuRand::items(items),
            customer_ids: NuRand::customers(customers),
            name_numbers: NuRand::names(names),
        }
    }
}

impl Benchmark for Tpcc {
    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn schema(&self) -> &'static [&'static str] {
        &schema::TABLES
    }

    fn fill(&self, sql: &mut dyn Sql) -> Result<Loaded, SqlError> {
        load::fill(self, sql)
    }

    fn operate(&self, sql: &mut dyn Sql, client: &mut Client) -> Result<Step, StepError> {
        // The minimum shares of clause 5.2.3. New-Order has the rest.
        match client.stream.below(100) {
            0..43 => self.payment(sql, client),
            43..47 => self.order_status(sql, client),
            47..51 => self.delivery(sql, client),
            51..55 => self.stock_level(sql, client),
            _ => self.new_order(sql, client),
        }
    }

    fn verify(&self, sql: &mut dyn Sql) -> Result<Findings, SqlError> {
        verify::verify(self, sql)
    }
}
