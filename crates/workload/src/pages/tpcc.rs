//! TPC-C's pages: the standard mix (TPC-C 5.11, clause 5.2.3) and its skew (NURand, clause
//! 2.1.6) over the trees of its tables.
//!
//! There are no row locks: at the published scale of a thousand warehouses clients seldom meet, and
//! with a few warehouses they would meet all the time. The item table, which all warehouses share,
//! is scaled down with them for the same reason.

use super::mix::{Access, Tree};
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
/// Warehouses of the published run.
const PUBLISHED_WAREHOUSES: u64 = 1000;
/// Bytes of a warehouse with all its rows, at a fill of 70 %.
const WAREHOUSE_MIB: u64 = 126;

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
    /// As many warehouses as fill about this many MiB, at least one.
    pub fn new(database_mib: u64, page_bytes: u32) -> TpccPages {
        let warehouses = ((database_mib + WAREHOUSE_MIB / 2) / WAREHOUSE_MIB).max(1);
        let districts = warehouses * DISTRICTS;
        let mut pages = 0;
        // Row sizes of clause 1.2, with the headers of a row.
        let mut tree = |rows, bytes| Tree::new(&mut pages, rows, bytes, page_bytes);
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
        for line in 0..dice.range(5, 16) {
            let item = nurand(dice, 8191, ITEMS);
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
        // On average three customers share a name, and their rows are apart.
        let name = nurand(dice, 255, 1000);
        self.customer_names.scan(district * CUSTOMERS + name * 3, 3, out);
        let same = [0, 1, 2].map(|i| district * CUSTOMERS + mix64(name * 3 + i) % CUSTOMERS);
        for row in same {
            self.customer.read(row, out);
        }
        same[1]
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
        let order = self.placed[d as usize].saturating_sub(20);
        self.order_line.scan(self.order_row(d, order) * LINES, 20 * LINES, out);
        for _ in 0..20 * LINES {
            let item = nurand(dice, 8191, ITEMS);
            self.stock.read(d / DISTRICTS * ITEMS + item, out);
        }
    }
}

fn customer(dice: &mut Stream) -> u64 {
    nurand(dice, 1023, CUSTOMERS)
}

/// NURand(a, 0, n - 1) with C = 0.
fn nurand(dice: &mut Stream, a: u64, n: u64) -> u64 {
    (dice.below(a + 1) | dice.below(n)) % n
}
