//! The check: reads every row once, and checks fixed columns, the consistency conditions of clause
//! 3.3.2, and the digest.

use super::population::{self, Fixed};
use super::{DISTRICTS, Tpcc, key, load, part};
use crate::content::{self, Digest};
use crate::database::{Findings, verify_digest};
use crate::sql::{Row, Sql, SqlError};
use std::collections::BTreeMap;

#[derive(Clone, Default)]
struct Warehouse {
    ytd: i64,
    districts: i64,
    paid: i64,
}

#[derive(Clone, Default)]
struct District {
    ytd: i64,
    next: i64,
    paid: i64,
    newest_order: i64,
    /// The least and the greatest number, and how many there are.
    new_orders: Option<(i64, i64, i64)>,
    /// The number of lines by the orders, and by the lines themselves.
    lines: (i64, i64),
}

#[derive(Clone, Default)]
struct Customer {
    balance: i64,
    paid: i64,
    delivered: i64,
    history: i64,
}

#[derive(Clone, Default)]
struct Order {
    customer: i64,
    expected: i64,
    carrier: bool,
    new: bool,
    lines: i64,
    delivered: i64,
    amount: i64,
}

/// The content of the tables, combined.
struct Books<'t> {
    tpcc: &'t Tpcc,
    digest: Digest,
    findings: Findings,
    warehouses: Vec<Warehouse>,
    districts: Vec<District>,
    customers: Vec<Customer>,
    /// By index of the district, and number.
    orders: BTreeMap<(usize, i64), Order>,
}

/// Reads and checks everything.
pub(super) fn verify(tpcc: &Tpcc, sql: &mut dyn Sql) -> Result<Findings, SqlError> {
    let districts = (tpcc.warehouses * DISTRICTS) as usize;
    let mut books = Books {
        tpcc,
        digest: Digest::default(),
        findings: Findings::default(),
        warehouses: vec![Warehouse::default(); tpcc.warehouses as usize],
        districts: vec![District::default(); districts],
        customers: vec![Customer::default(); districts * tpcc.customers as usize],
        orders: BTreeMap::new(),
    };
    books.items(sql)?;
    books.stock(sql)?;
    books.places(sql)?;
    books.customers(sql)?;
    books.history(sql)?;
    books.orders(sql)?;
    books.lines(sql)?;
    books.conditions();
    let Books { digest, mut findings, .. } = books;
    verify_digest(sql, digest, &mut findings)?;
    Ok(findings)
}

/// The fixed columns of a row as state: texts, then numbers.
fn state(row: &dyn Row, first: usize, texts: usize, numbers: usize) -> Vec<i64> {
    let split = first + texts;
    let texts = (first..split).map(|column| content::hash(row.bytes(column)));
    texts.chain((split..split + numbers).map(|column| row.int(column))).collect()
}

fn ints<const N: usize>(row: &dyn Row, first: usize) -> [i64; N] {
    std::array::from_fn(|i| row.int(first + i))
}

impl Books<'_> {
    /// A number of a row as an index from 0, if it is within 1 to `most`.
    fn within(number: i64, most: u64) -> Option<usize> {
        (1..=most).contains(&(number as u64)).then(|| number as usize - 1)
    }

    fn district(&self, [w, d]: [i64; 2]) -> Option<usize> {
        let (w, d) = (Self::within(w, self.tpcc.warehouses)?, Self::within(d, DISTRICTS)?);
        Some(w * DISTRICTS as usize + d)
    }

    fn customer(&self, [w, d, c]: [i64; 3]) -> Option<usize> {
        let (district, c) = (self.district([w, d])?, Self::within(c, self.tpcc.customers)?);
        Some(district * self.tpcc.customers as usize + c)
    }

    fn foreign(&mut self, what: &str, numbers: &[i64]) {
        self.findings.add(|| format!("{what} {numbers:?} is of something that is not there"));
    }

    /// Checks the fixed columns of a row.
    fn fixed(&mut self, part: u64, at: u64, found: &[i64], expected: &Fixed, what: String) {
        self.digest.add(part, at, found);
        if found != expected.state() {
            self.findings.add(|| format!("{what} is not what it was loaded with"));
        }
    }

    /// Checks that all rows of a table are there.
    fn count(&mut self, table: &str, found: u64, expected: u64) {
        if found != expected {
            self.findings.add(|| format!("{table} has {found} rows instead of {expected}"));
        }
    }

    fn items(&mut self, sql: &mut dyn Sql) -> Result<(), SqlError> {
        let get = "SELECT i_id, i_name, i_data, i_im_id, i_price FROM item";
        let rows = sql.query(get, &[], &mut |row| {
            let i = row.int(0) as u64;
            let expected = population::item(i);
            self.fixed(part::ITEM, i, &state(row, 1, 2, 2), &expected, format!("item {i}"));
        })?;
        self.count("item", rows, self.tpcc.items);
        Ok(())
    }

    fn stock(&mut self, sql: &mut dyn Sql) -> Result<(), SqlError> {
        let get = "SELECT s_w_id, s_i_id, s_dist_01, s_dist_02, s_dist_03, s_dist_04, \
                   s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10, s_data, \
                   s_quantity, s_ytd, s_order_cnt, s_remote_cnt FROM stock";
        let rows = sql.query(get, &[], &mut |row| {
            let [w, i] = ints(row, 0);
            let at = key([w as u64, i as u64]);
            let expected = population::stock(at);
            let what = format!("the stock of item {i} in warehouse {w}");
            self.fixed(part::STOCK, at, &state(row, 2, 11, 0), &expected, what);
            self.digest.add(part::STOCK_LEVEL, at, &ints::<4>(row, 13));
        })?;
        self.count("stock", rows, self.tpcc.items * self.tpcc.warehouses);
        Ok(())
    }

    /// Reads warehouses and districts.
    fn places(&mut self, sql: &mut dyn Sql) -> Result<(), SqlError> {
        let get = "SELECT w_id, w_name, w_street_1, w_street_2, w_city, w_state, w_zip, w_tax, \
                   w_ytd FROM warehouse";
        let rows = sql.query(get, &[], &mut |row| {
            let (w, ytd) = (row.int(0), row.int(8));
            let expected = population::place(part::WAREHOUSE, w as u64);
            let found = state(row, 1, 6, 1);
            self.fixed(part::WAREHOUSE, w as u64, &found, &expected, format!("warehouse {w}"));
            self.digest.add(part::WAREHOUSE_YTD, w as u64, &[ytd]);
            match Self::within(w, self.tpcc.warehouses) {
                Some(at) => self.warehouses[at].ytd = ytd,
                None => self.foreign("warehouse", &[w]),
            }
        })?;
        self.count("warehouse", rows, self.tpcc.warehouses);
        let get = "SELECT d_w_id, d_id, d_name, d_street_1, d_street_2, d_city, d_state, d_zip, \
                   d_tax, d_ytd, d_next_o_id FROM district";
        let rows = sql.query(get, &[], &mut |row| {
            let [w, d] = ints(row, 0);
            let [ytd, next] = ints(row, 9);
            let at = key([w as u64, d as u64]);
            let expected = population::place(part::DISTRICT, at);
            let found = state(row, 2, 6, 1);
            self.fixed(part::DISTRICT, at, &found, &expected, format!("district {w}/{d}"));
            self.digest.add(part::DISTRICT_YTD, at, &[ytd]);
            self.digest.add(part::DISTRICT_NEXT, at, &[next]);
            let Some(place) = self.district([w, d]) else {
                return self.foreign("district", &[w, d]);
            };
            (self.districts[place].ytd, self.districts[place].next) = (ytd, next);
            let warehouse = &mut self.warehouses[place / DISTRICTS as usize];
            warehouse.districts = warehouse.districts.wrapping_add(ytd);
        })?;
        self.count("district", rows, self.tpcc.warehouses * DISTRICTS);
        Ok(())
    }

    fn customers(&mut self, sql: &mut dyn Sql) -> Result<(), SqlError> {
        let get = "SELECT c_w_id, c_d_id, c_id, c_first, c_middle, c_last, c_street_1, \
                   c_street_2, c_city, c_state, c_zip, c_phone, c_credit, c_since, c_credit_lim, \
                   c_discount, c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_data \
                   FROM customer";
        let rows = sql.query(get, &[], &mut |row| {
            let numbers @ [w, d, c] = ints(row, 0);
            let at = key(numbers.map(|n| n as u64));
            let expected = population::customer(at, c as u64, self.tpcc.names);
            let found = state(row, 3, 10, 3);
            self.fixed(part::CUSTOMER, at, &found, &expected, format!("customer {w}/{d}/{c}"));
            let account @ [balance, paid, ..] = ints::<4>(row, 16);
            self.digest.add(part::CUSTOMER_ACCOUNT, at, &account);
            self.digest.add(part::CUSTOMER_DATA, at, &[content::hash(row.bytes(20))]);
            match self.customer(numbers) {
                Some(place) => {
                    let customer = &mut self.customers[place];
                    (customer.balance, customer.paid) = (balance, paid);
                }
                None => self.foreign("customer", &numbers),
            }
        })?;
        let expected = self.tpcc.warehouses * DISTRICTS * self.tpcc.customers;
        self.count("customer", rows, expected);
        Ok(())
    }

    fn history(&mut self, sql: &mut dyn Sql) -> Result<(), SqlError> {
        let get = "SELECT h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_date, h_amount, h_data \
                   FROM history";
        sql.query(get, &[], &mut |row| {
            let numbers @ [cw, cd, c, w, d, _, amount] = ints(row, 0);
            self.digest.add(part::HISTORY, 0, &load::history(numbers, row.bytes(7)));
            let places = self.customer([cw, cd, c]).zip(self.district([w, d]));
            let Some((customer, district)) = places else {
                return self.foreign("a payment", &numbers);
            };
            let warehouse = &mut self.warehouses[district / DISTRICTS as usize].paid;
            let district = &mut self.districts[district].paid;
            for sum in [warehouse, district, &mut self.customers[customer].history] {
                *sum = sum.wrapping_add(amount);
            }
        })?;
        Ok(())
    }

    /// Reads orders and new orders.
    fn orders(&mut self, sql: &mut dyn Sql) -> Result<(), SqlError> {
        let get = "SELECT o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local, \
                   o_carrier_id IS NOT NULL, o_carrier_id FROM orders";
        sql.query(get, &[], &mut |row| {
            let [w, d, o, customer] = ints(row, 0);
            let at = key([w, d, o].map(|n| n as u64));
            let expected = row.int(5);
            self.digest.add(part::ORDER, at, &[customer, row.int(4), expected, row.int(6)]);
            let carrier = row.int(7) == 1;
            if carrier {
                self.digest.add(part::ORDER_CARRIER, at, &[row.int(8)]);
            }
            let Some(place) = self.customer([w, d, customer]).and(self.district([w, d])) else {
                return self.foreign("order", &[w, d, o, customer]);
            };
            let district = &mut self.districts[place];
            district.newest_order = district.newest_order.max(o);
            district.lines.0 = district.lines.0.wrapping_add(expected);
            let order = Order { customer, expected, carrier, ..Order::default() };
            self.orders.insert((place, o), order);
        })?;
        let get = "SELECT no_w_id, no_d_id, no_o_id FROM new_order";
        sql.query(get, &[], &mut |row| {
            let numbers @ [w, d, o] = ints(row, 0);
            self.digest.add(part::NEW_ORDER, key(numbers.map(|n| n as u64)), &[]);
            let place = self.district([w, d]);
            let order = place.and_then(|p| self.orders.get_mut(&(p, o)));
            let Some((place, order)) = place.zip(order) else {
                return self.foreign("new order", &numbers);
            };
            order.new = true;
            let all = self.districts[place].new_orders.get_or_insert((o, o, 0));
            *all = (all.0.min(o), all.1.max(o), all.2 + 1);
        })?;
        Ok(())
    }

    fn lines(&mut self, sql: &mut dyn Sql) -> Result<(), SqlError> {
        let get = "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, \
                   ol_quantity, ol_amount, ol_dist_info, ol_delivery_d IS NOT NULL, \
                   ol_delivery_d FROM order_line";
        sql.query(get, &[], &mut |row| {
            let numbers @ [w, d, o, _] = ints(row, 0);
            let at = key(numbers.map(|n| n as u64));
            let [item, supply, quantity, amount] = ints(row, 4);
            let info = content::hash(row.bytes(8));
            self.digest.add(part::ORDER_LINE, at, &[item, supply, quantity, amount, info]);
            let delivered = row.int(9) == 1;
            if delivered {
                self.digest.add(part::ORDER_LINE_DELIVERY, at, &[row.int(10)]);
            }
            let place = self.district([w, d]);
            let order = place.and_then(|p| self.orders.get_mut(&(p, o)));
            let Some((place, order)) = place.zip(order) else {
                return self.foreign("order line", &numbers);
            };
            self.districts[place].lines.1 += 1;
            order.lines += 1;
            order.delivered += i64::from(delivered);
            order.amount = order.amount.wrapping_add(amount);
        })?;
        Ok(())
    }

    /// Checks the conditions of clause 3.3.2, by their numbers there.
    fn conditions(&mut self) {
        let Books { findings, warehouses, districts, customers, orders, tpcc, .. } = self;
        // Compares the two sides of a condition.
        let mut equal = |number: u32, of: &dyn Fn() -> String, a: i64, b: i64| {
            if a != b {
                findings.add(|| format!("condition {number} is broken for {}: {a}, {b}", of()));
            }
        };
        for (w, warehouse) in warehouses.iter().enumerate() {
            let of = || format!("warehouse {}", w + 1);
            equal(1, &of, warehouse.ytd, warehouse.districts);
            equal(8, &of, warehouse.ytd, warehouse.paid);
        }
        let name = |place: usize| {
            let place = place as u64;
            format!("{}/{}", place / DISTRICTS + 1, place % DISTRICTS + 1)
        };
        for (place, district) in districts.iter().enumerate() {
            let of = || format!("district {}", name(place));
            equal(2, &of, district.next.wrapping_sub(1), district.newest_order);
            if let Some((least, most, count)) = district.new_orders {
                equal(2, &of, most, district.newest_order);
                equal(3, &of, most.wrapping_sub(least).wrapping_add(1), count);
            }
            equal(4, &of, district.lines.0, district.lines.1);
            equal(9, &of, district.ytd, district.paid);
        }
        for (&(place, o), order) in orders.iter() {
            let of = || format!("order {}/{o}", name(place));
            equal(5, &of, order.carrier.into(), (!order.new).into());
            equal(6, &of, order.expected, order.lines);
            equal(7, &of, order.delivered, if order.carrier { order.lines } else { 0 });
            // An order of an unknown customer was reported before.
            if let Some(c) = Self::within(order.customer, tpcc.customers).filter(|_| order.carrier)
            {
                let customer = &mut customers[place * tpcc.customers as usize + c];
                customer.delivered = customer.delivered.wrapping_add(order.amount);
            }
        }
        for (place, customer) in customers.iter().enumerate() {
            let (district, c) = (place as u64 / tpcc.customers, place as u64 % tpcc.customers + 1);
            let of = || format!("customer {}/{c}", name(district as usize));
            let Customer { balance, paid, delivered, history } = *customer;
            equal(10, &of, balance, delivered.wrapping_sub(history));
            equal(12, &of, balance.wrapping_add(paid), delivered);
        }
    }
}
