//! TPC-C's pages: the standard mix (TPC-C 5.11, clause 5.2.3) and its skew (NURand, clause
//! 2.1.6) over the trees of its tables.
//!
//! There are no row locks: at the published scale of a thousand warehouses clients seldom meet, and
//! with a few warehouses they would meet all the time. The item table, which all warehouses share,
//! is scaled down with them for the same reason.

use super::mix::{Access, Files, Tree};
use tantalum_rt::{Stream, mix64};

/// Districts of a warehouse.
const DISTRICTS: u64 = 10;
/// Customers of a district.
const CUSTOMERS: u64 = 3000;
/// Items, and rows of stock of a warehouse.
const ITEMS: u64 = 100_000;
/// Orders of a district that there is room for. New ones replace the oldest.
const ORDERS: u64 = 3900;
/// Orders that wait for delivery in a district.
const WAITING: u64 = 900;
/// Lines of an order: the average, and the most that have rows of their own.
const LINES: u64 = 10;
/// The latest orders of a district that a stock level looks at.
const LATEST: u64 = 20;
/// Warehouses of the published run.
const PUBLISHED_WAREHOUSES: u64 = 1000;
/// The share of a page that rows fill, in per cent: the published database has 100 GB for a thousand
/// warehouses.
pub const TPCC_FILL_PERCENT: f64 = 88.0;
/// Bytes of a warehouse with all its rows, at this fill.
const WAREHOUSE_MIB: u64 = 100;

/// See the module.
pub struct TpccPages {
    warehouses: u64,
    warehouse: Tree,
    district: Tree,
    customer: Tree,
    customer_names: Tree,
    history: Tree,
    new_order: Tree,
    order: Tree,
    order_line: Tree,
    item: Tree,
    stock: Tree,
    /// Orders ever placed, and delivered, of each district.
    placed: Vec<u64>,
    delivered: Vec<u64>,
    payments: u64,
    pages: u32,
}

impl TpccPages {
    /// As many warehouses as fill about this many MiB at the usual fill, at least one; rows fill
    /// this share of a page.
    pub fn new(database_mib: u64, page_bytes: u32, fill: f64) -> TpccPages {
        let warehouses = ((database_mib + WAREHOUSE_MIB / 2) / WAREHOUSE_MIB).max(1);
        let districts = warehouses * DISTRICTS;
        let mut pages = 0;
        // Row sizes of clause 1.2, with the headers of a row.
        let mut tree = |rows, bytes| Tree::new(&mut pages, rows, bytes, page_bytes, fill);
        TpccPages {
            warehouses,
            warehouse: tree(warehouses, 105),
            district: tree(districts, 111),
            customer: tree(districts * CUSTOMERS, 671),
            customer_names: tree(districts * CUSTOMERS, 56),
            history: tree(districts * ORDERS, 62),
            new_order: tree(districts * ORDERS, 24),
            order: tree(districts * ORDERS, 40),
            order_line: tree(districts * ORDERS * LINES, 70),
            item: tree((ITEMS * warehouses / PUBLISHED_WAREHOUSES).max(100), 98),
            stock: tree(warehouses * ITEMS, 322),
            placed: vec![3000; districts as usize],
            delivered: vec![3000 - WAITING; districts as usize],
            payments: 0,
            pages,
        }
    }

    /// Pages of the database.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// The files of its tables.
    pub fn files(&self) -> Files {
        Files::of(&[
            &[&self.warehouse],
            &[&self.district],
            &[&self.customer, &self.customer_names],
            &[&self.history],
            &[&self.new_order],
            &[&self.order],
            &[&self.order_line],
            &[&self.item],
            &[&self.stock],
        ])
    }

    /// Appends the accesses of the next transaction. Returns its name in reports.
    pub fn next(&mut self, dice: &mut Stream, out: &mut Vec<Access>) -> &'static str {
        let (name, transaction): (_, fn(&mut Self, &mut Stream, &mut Vec<Access>)) =
            match dice.below(100) {
                0..45 => ("new order", Self::new_order),
                45..88 => ("payment", Self::payment),
                88..92 => ("order status", Self::order_status),
                92..96 => ("delivery", Self::delivery),
                _ => ("stock level", Self::stock_level),
            };
        transaction(self, dice, out);
        name
    }

    fn district(&self, dice: &mut Stream) -> u64 {
        dice.below(self.warehouses * DISTRICTS)
    }

    /// A random warehouse in `percent` of 100 cases, else the home warehouse.
    fn maybe_remote(&self, dice: &mut Stream, home: u64, percent: u64) -> u64 {
        if dice.chance(percent, 100) { dice.below(self.warehouses) } else { home }
    }

    fn order_row(&self, district: u64, order: u64) -> u64 {
        district * ORDERS + order % ORDERS
    }

    fn new_order(&mut self, dice: &mut Stream, out: &mut Vec<Access>) {
        let d = self.district(dice);
        let w = d / DISTRICTS;
        self.warehouse.read(w, out);
        self.district.change(d, out);
        self.customer.read(d * CUSTOMERS + customer(dice), out);
        let order = self.placed[d as usize];
        self.placed[d as usize] += 1;
        let row = self.order_row(d, order);
        self.order.change(row, out);
        self.new_order.change(row, out);
        for line in 0..lines_of(d, order) {
            let item = item_of(d, order, line);
            self.item.read(item * self.item.rows() / ITEMS, out);
            let from = self.maybe_remote(dice, w, 1);
            self.stock.change(from * ITEMS + item, out);
            self.order_line.change(row * LINES + line.min(LINES - 1), out);
        }
    }

    /// Finds a customer, in 60 of 100 cases by last name. Returns the customer's row.
    fn find_customer(&self, dice: &mut Stream, district: u64, out: &mut Vec<Access>) -> u64 {
        if !dice.chance(60, 100) {
            let row = district * CUSTOMERS + customer(dice);
            self.customer.read(row, out);
            return row;
        }
        // On average three customers share a name. The index has their first names, too, so only
        // the row of the one in the middle is read; it may be anywhere in the district.
        let name = nurand(dice, 255, 1000);
        self.customer_names.scan(district * CUSTOMERS + name * 3, 3, out);
        let row = district * CUSTOMERS + mix64(name) % CUSTOMERS;
        self.customer.read(row, out);
        row
    }

    fn payment(&mut self, dice: &mut Stream, out: &mut Vec<Access>) {
        let d = self.district(dice);
        self.warehouse.change(d / DISTRICTS, out);
        self.district.change(d, out);
        let of = self.maybe_remote(dice, d / DISTRICTS, 15) * DISTRICTS + d % DISTRICTS;
        let row = self.find_customer(dice, of, out);
        self.customer.change(row, out);
        self.history.change(self.payments, out);
        self.payments += 1;
    }

    fn order_status(&mut self, dice: &mut Stream, out: &mut Vec<Access>) {
        let d = self.district(dice);
        let _ = self.find_customer(dice, d, out);
        // The last order of a customer is one of the last 3000 of the district.
        let order = self.placed[d as usize] - 1 - dice.below(3000);
        let row = self.order_row(d, order);
        self.order.read(row, out);
        self.order_line.scan(row * LINES, LINES, out);
    }

    fn delivery(&mut self, dice: &mut Stream, out: &mut Vec<Access>) {
        let w = dice.below(self.warehouses);
        for d in w * DISTRICTS..(w + 1) * DISTRICTS {
            let order = self.delivered[d as usize];
            if order == self.placed[d as usize] {
                continue;
            }
            self.delivered[d as usize] += 1;
            let row = self.order_row(d, order);
            self.new_order.change(row, out);
            self.order.change(row, out);
            self.order_line.scan(row * LINES, LINES, out);
            self.order_line.change(row * LINES, out);
            self.customer.change(d * CUSTOMERS + mix64(order) % CUSTOMERS, out);
        }
    }

    fn stock_level(&mut self, dice: &mut Stream, out: &mut Vec<Access>) {
        let d = self.district(dice);
        self.district.read(d, out);
        let placed = self.placed[d as usize];
        let first = placed.saturating_sub(LATEST);
        self.order_line.scan(self.order_row(d, first) * LINES, LATEST * LINES, out);
        // The stock of the items of these orders: rows that were changed not long ago.
        for order in first..placed {
            for line in 0..lines_of(d, order) {
                let item = item_of(d, order, line);
                self.stock.read(d / DISTRICTS * ITEMS + item, out);
            }
        }
    }
}

fn customer(dice: &mut Stream) -> u64 {
    nurand(dice, 1023, CUSTOMERS)
}

/// The number of lines of an order: 5 to 15.
fn lines_of(district: u64, order: u64) -> u64 {
    5 + mix64(mix64(district) ^ order) % 11
}

/// The item of a line of an order: NURand(8191, 0, ITEMS - 1) of dice that follow from the line, so
/// that who reads the line later finds the same item.
fn item_of(district: u64, order: u64, line: u64) -> u64 {
    let dice = mix64(mix64(mix64(district) ^ order) ^ (line + 1));
    ((dice % 8192) | (mix64(dice) % ITEMS)) % ITEMS
}

/// NURand(a, 0, n - 1) with C = 0.
fn nurand(dice: &mut Stream, a: u64, n: u64) -> u64 {
    (dice.below(a + 1) | dice.below(n)) % n
}
