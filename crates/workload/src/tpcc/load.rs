//! The population of the tables (clause 4.3.3).

use super::population::{self, Fixed, dice, letters};
use super::{DISTRICTS, Tpcc, key, part};
use crate::content::{self, Digest};
use crate::database::{Loaded, in_batches};
use crate::sql::{Sql, SqlError, Value};
use crate::zipf::scramble;

const WAREHOUSE: &str = "INSERT INTO warehouse VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const DISTRICT: &str = "INSERT INTO district VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
const CUSTOMER: &str = "INSERT INTO customer VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, \
                        ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)";
const ITEM: &str = "INSERT INTO item VALUES(?1, ?2, ?3, ?4, ?5)";
const STOCK: &str = "INSERT INTO stock VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, \
                     ?12, ?13, ?14, ?15, ?16, ?17)";
pub(super) const HISTORY: &str = "INSERT INTO history VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
pub(super) const NEW_ORDER: &str = "INSERT INTO new_order VALUES(?1, ?2, ?3)";
/// An order that is not delivered.
pub(super) const ORDER: &str = "INSERT INTO orders VALUES(?1, ?2, ?3, ?4, ?5, NULL, ?6, ?7)";
const DELIVERED_ORDER: &str = "INSERT INTO orders VALUES(?1, ?2, ?3, ?4, ?5, ?8, ?6, ?7)";
/// A line of an order that is not delivered.
pub(super) const ORDER_LINE: &str =
    "INSERT INTO order_line VALUES(?1, ?2, ?3, ?4, ?5, ?6, NULL, ?7, ?8, ?9)";
const DELIVERED_LINE: &str =
    "INSERT INTO order_line VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?10, ?7, ?8, ?9)";

/// What each customer has paid at first, in cents.
const PAID: i64 = 1_000;

/// Fills the tables.
pub(super) fn fill(tpcc: &Tpcc, sql: &mut dyn Sql) -> Result<Loaded, SqlError> {
    let mut loader = Loader { tpcc, digest: Digest::default(), bytes: 0 };
    in_batches(sql, tpcc.items, |sql, i| loader.item(sql, i + 1))?;
    in_batches(sql, tpcc.warehouses, |sql, w| loader.warehouse(sql, w + 1))?;
    in_batches(sql, tpcc.warehouses * tpcc.items, |sql, n| {
        loader.stock(sql, n / tpcc.items + 1, n % tpcc.items + 1)
    })?;
    let districts = tpcc.warehouses * DISTRICTS;
    let place = |district: u64| (district / DISTRICTS + 1, district % DISTRICTS + 1);
    in_batches(sql, districts, |sql, n| loader.district(sql, place(n)))?;
    in_batches(sql, districts * tpcc.customers, |sql, n| {
        loader.customer(sql, place(n / tpcc.customers), n % tpcc.customers + 1)
    })?;
    in_batches(sql, districts * tpcc.orders, |sql, n| {
        loader.order(sql, place(n / tpcc.orders), n % tpcc.orders + 1)
    })?;
    Ok(Loaded { bytes: loader.bytes, digest: loader.digest })
}

struct Loader<'t> {
    tpcc: &'t Tpcc,
    digest: Digest,
    bytes: u64,
}

impl Loader<'_> {
    /// Inserts a row of key, fixed columns, and further values.
    fn put(
        &mut self,
        sql: &mut dyn Sql,
        statement: &'static str,
        keys: &[u64],
        fixed: &Fixed,
        more: &[Value<'_>],
    ) -> Result<(), SqlError> {
        let mut values: Vec<Value<'_>> = keys.iter().map(|k| Value::Int(*k as i64)).collect();
        values.extend(fixed.texts.iter().map(|t| Value::Text(t)));
        values.extend(fixed.numbers.iter().map(|n| Value::Int(*n)));
        values.extend(more);
        self.bytes += fixed.bytes() + bytes(more) + 8 * keys.len() as u64;
        sql.execute(statement, &values)?;
        Ok(())
    }

    fn item(&mut self, sql: &mut dyn Sql, i: u64) -> Result<(), SqlError> {
        let fixed = population::item(i);
        self.digest.add(part::ITEM, i, &fixed.state());
        self.put(sql, ITEM, &[i], &fixed, &[])
    }

    fn warehouse(&mut self, sql: &mut dyn Sql, w: u64) -> Result<(), SqlError> {
        let fixed = population::place(part::WAREHOUSE, w);
        let ytd = (DISTRICTS * self.tpcc.customers) as i64 * PAID;
        self.digest.add(part::WAREHOUSE, w, &fixed.state());
        self.digest.add(part::WAREHOUSE_YTD, w, &[ytd]);
        self.put(sql, WAREHOUSE, &[w], &fixed, &[Value::Int(ytd)])
    }

    fn stock(&mut self, sql: &mut dyn Sql, w: u64, i: u64) -> Result<(), SqlError> {
        let at = key([w, i]);
        let fixed = population::stock(at);
        let level = [population::quantity(at), 0, 0, 0];
        self.digest.add(part::STOCK, at, &fixed.state());
        self.digest.add(part::STOCK_LEVEL, at, &level);
        self.put(sql, STOCK, &[w, i], &fixed, &level.map(Value::Int))
    }

    fn district(&mut self, sql: &mut dyn Sql, (w, d): (u64, u64)) -> Result<(), SqlError> {
        let at = key([w, d]);
        let fixed = population::place(part::DISTRICT, at);
        let ytd = self.tpcc.customers as i64 * PAID;
        let next = self.tpcc.orders as i64 + 1;
        self.digest.add(part::DISTRICT, at, &fixed.state());
        self.digest.add(part::DISTRICT_YTD, at, &[ytd]);
        self.digest.add(part::DISTRICT_NEXT, at, &[next]);
        self.put(sql, DISTRICT, &[w, d], &fixed, &[Value::Int(ytd), Value::Int(next)])
    }

    /// Inserts a customer, and the customer's one payment.
    fn customer(&mut self, sql: &mut dyn Sql, (w, d): (u64, u64), c: u64) -> Result<(), SqlError> {
        let at = key([w, d, c]);
        let fixed = population::customer(at, c, self.tpcc.names);
        let data = population::customer_data(at);
        let account = [-PAID, PAID, 1, 0];
        self.digest.add(part::CUSTOMER, at, &fixed.state());
        self.digest.add(part::CUSTOMER_ACCOUNT, at, &account);
        self.digest.add(part::CUSTOMER_DATA, at, &[content::hash(data.as_bytes())]);
        let [balance, paid, payments, deliveries] = account.map(Value::Int);
        let more = [balance, paid, payments, deliveries, Value::Text(&data)];
        self.put(sql, CUSTOMER, &[w, d, c], &fixed, &more)?;
        let text = letters(&mut dice(part::HISTORY, at), 12, 24);
        let payment = Payment { customer: [w, d, c], place: [w, d], date: 0, amount: PAID };
        self.bytes += payment.put(sql, &text, &mut self.digest)?;
        Ok(())
    }

    /// Inserts an order with its lines. The newest three tenths are new orders.
    fn order(&mut self, sql: &mut dyn Sql, (w, d): (u64, u64), o: u64) -> Result<(), SqlError> {
        let dice = &mut dice(part::ORDER, key([w, d, o]));
        let orders = self.tpcc.orders;
        let delivered = o <= orders - orders * 3 / 10;
        let at = key([w, d, o]);
        let c = scramble(o - 1, self.tpcc.customers, key([w, d])) + 1;
        let lines = dice.range(5, 16);
        let order = [c as i64, 0, lines as i64, 1];
        let [w_, d_, o_] = [w, d, o].map(|n| Value::Int(n as i64));
        let [c_, date, count, local] = order.map(Value::Int);
        self.digest.add(part::ORDER, at, &order);
        if delivered {
            let carrier = dice.range(1, 11) as i64;
            self.digest.add(part::ORDER_CARRIER, at, &[carrier]);
            let values = [w_, d_, o_, c_, date, count, local, Value::Int(carrier)];
            sql.execute(DELIVERED_ORDER, &values)?;
        } else {
            sql.execute(ORDER, &[w_, d_, o_, c_, date, count, local])?;
            self.digest.add(part::NEW_ORDER, at, &[]);
            sql.execute(NEW_ORDER, &[w_, d_, o_])?;
            self.bytes += 3 * 8;
        }
        self.bytes += 8 * 8;
        for number in 1..=lines {
            let at = key([w, d, o, number]);
            let item = dice.range(1, self.tpcc.items + 1) as i64;
            let amount = if delivered { 0 } else { dice.range(1, 1_000_000) as i64 };
            let text = letters(dice, 24, 24);
            self.digest.add(part::ORDER_LINE, at, &line(item, w as i64, 5, amount, &text));
            let number = Value::Int(number as i64);
            let [item, quantity, amount] = [item, 5, amount].map(Value::Int);
            let mut values =
                vec![w_, d_, o_, number, item, w_, quantity, amount, Value::Text(&text)];
            if delivered {
                self.digest.add(part::ORDER_LINE_DELIVERY, at, &[0]);
                values.push(date);
            }
            self.bytes += 8 * 9 + text.len() as u64;
            sql.execute(if delivered { DELIVERED_LINE } else { ORDER_LINE }, &values)?;
        }
        Ok(())
    }
}

/// The state of an order line for the digest, without its delivery.
pub(super) fn line(item: i64, supply: i64, quantity: i64, amount: i64, text: &str) -> [i64; 5] {
    [item, supply, quantity, amount, content::hash(text.as_bytes())]
}

/// A row of History.
pub(super) struct Payment {
    /// Warehouse, district and number of the customer.
    pub customer: [u64; 3],
    /// Warehouse and district that were paid.
    pub place: [u64; 2],
    pub date: i64,
    pub amount: i64,
}

impl Payment {
    /// Inserts the row. Returns its bytes.
    pub fn put(&self, sql: &mut dyn Sql, text: &str, change: &mut Digest) -> Result<u64, SqlError> {
        let [a, b, c] = self.customer.map(|n| n as i64);
        let [w, d] = self.place.map(|n| n as i64);
        let numbers = [a, b, c, w, d, self.date, self.amount];
        change.add(part::HISTORY, 0, &history(numbers, text.as_bytes()));
        let mut values = numbers.map(Value::Int).to_vec();
        values.push(Value::Text(text));
        sql.execute(HISTORY, &values)?;
        Ok(bytes(&values))
    }
}

/// The state of a row of History for the digest. It is the whole row, since the row has no key.
pub(super) fn history(numbers: [i64; 7], text: &[u8]) -> [i64; 8] {
    let [a, b, c, w, d, date, amount] = numbers;
    [a, b, c, w, d, date, amount, content::hash(text)]
}

/// Bytes of columns: eight for each number.
pub(super) fn bytes(values: &[Value<'_>]) -> u64 {
    let each = values.iter().map(|v| match v {
        Value::Int(_) => 8,
        Value::Text(text) => text.len() as u64,
        Value::Blob(blob) => blob.len() as u64,
    });
    each.sum()
}
