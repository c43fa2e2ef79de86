//! The five transactions (clauses 2.4 to 2.8).

use super::load::{self, Payment, bytes, line};
use super::{DISTRICTS, Tpcc, key, part, population};
use crate::content;
use crate::database::{Client, Scratch, Step, StepError, read, write};
use crate::sql::{Row, Sql, Value};
use tantalum_rt::Stream;

/// The longest C_DATA (clause 2.5.2.2).
const DATA_BYTES: usize = 500;
/// How many orders Stock-Level looks at (clause 2.8.2.2).
const RECENT: i64 = 20;

macro_rules! of_district {
    ($($column:literal),*) => {
        [$(concat!("SELECT s_quantity, s_ytd, s_order_cnt, s_remote_cnt, ", $column,
            ", s_data FROM stock WHERE s_w_id = ?1 AND s_i_id = ?2")),*]
    };
}

/// One statement for each district, since columns cannot be bound.
const STOCK: [&str; DISTRICTS as usize] = of_district!(
    "s_dist_01",
    "s_dist_02",
    "s_dist_03",
    "s_dist_04",
    "s_dist_05",
    "s_dist_06",
    "s_dist_07",
    "s_dist_08",
    "s_dist_09",
    "s_dist_10"
);

/// A line of a new order.
struct Line {
    item: u64,
    supply: u64,
    quantity: i64,
}

/// How a terminal names a customer.
enum Who {
    Number(u64),
    Name(String),
}

/// Passes the first row of a query to `each`. If there is no row, `what` is reported as missing.
fn one(
    sql: &mut dyn Sql,
    statement: &'static str,
    values: &[Value<'_>],
    what: impl Fn() -> String,
    mut each: impl FnMut(&dyn Row),
) -> Result<(), StepError> {
    let mut first = true;
    let rows = sql.query(statement, values, &mut |row| {
        if std::mem::take(&mut first) {
            each(row);
        }
    })?;
    if rows == 0 { Err(StepError::Damaged(format!("{} is missing", what()))) } else { Ok(()) }
}

/// Changes one row. Any other number of rows is damage.
fn change(
    sql: &mut dyn Sql,
    statement: &'static str,
    values: &[Value<'_>],
    what: impl Fn() -> String,
) -> Result<(), StepError> {
    match sql.execute(statement, values)? {
        1 => Ok(()),
        rows => Err(StepError::Damaged(format!("{}: {rows} rows instead of one", what()))),
    }
}

/// Reads in one transaction, so that all reads see the same state.
fn snapshot(
    sql: &mut dyn Sql,
    body: impl FnOnce(&mut dyn Sql) -> Result<(), StepError>,
) -> Result<(), StepError> {
    sql.execute("BEGIN", &[])?;
    let done = body(sql).and_then(|()| Ok(sql.execute("COMMIT", &[]).map(drop)?));
    if done.is_err() {
        // The first error counts.
        let _ = sql.execute("ROLLBACK", &[]);
    }
    done
}

fn ints<const N: usize>(numbers: [u64; N]) -> [Value<'static>; N] {
    numbers.map(|n| Value::Int(n as i64))
}

fn text(row: &dyn Row, column: usize) -> String {
    String::from_utf8_lossy(row.bytes(column)).into_owned()
}

impl Tpcc {
    /// The warehouse of a client's terminal.
    fn home(&self, client: &Client) -> u64 {
        u64::from(client.id()) % self.warehouses + 1
    }

    fn district(&self, dice: &mut Stream) -> u64 {
        dice.range(1, DISTRICTS + 1)
    }

    /// Any other warehouse, of which there must be one.
    fn another(&self, dice: &mut Stream, home: u64) -> u64 {
        let other = dice.range(1, self.warehouses);
        other + u64::from(other >= home)
    }

    fn who(&self, dice: &mut Stream) -> Who {
        if dice.chance(60, 100) {
            Who::Name(population::name_of(self.name_numbers.draw(dice), self.names))
        } else {
            Who::Number(self.customer_ids.draw(dice))
        }
    }

    /// The customer's number. Of several with the same name it is the middle one.
    fn find(&self, sql: &mut dyn Sql, [w, d]: [u64; 2], who: &Who) -> Result<u64, StepError> {
        let name = match who {
            Who::Number(number) => return Ok(*number),
            Who::Name(name) => name,
        };
        let mut found = Vec::new();
        let get = "SELECT c_id FROM customer WHERE c_w_id = ?1 AND c_d_id = ?2 AND c_last = ?3 \
                   ORDER BY c_first";
        let [w_, d_] = ints([w, d]);
        sql.query(get, &[w_, d_, Value::Text(name)], &mut |row| found.push(row.int(0) as u64))?;
        let middle = found.len().div_ceil(2).checked_sub(1).and_then(|i| found.get(i));
        let missing = || StepError::Damaged(format!("customers {name} of {w}/{d} are missing"));
        middle.copied().ok_or_else(missing)
    }

    pub(super) fn new_order(
        &self,
        sql: &mut dyn Sql,
        client: &mut Client,
    ) -> Result<Step, StepError> {
        let w = self.home(client);
        let dice = &mut client.stream;
        let (d, c) = (self.district(dice), self.customer_ids.draw(dice));
        let count = dice.range(5, 16);
        let mut lines: Vec<Line> = (0..count)
            .map(|_| {
                let item = self.item_ids.draw(dice);
                let remote = dice.chance(1, 100) && self.warehouses > 1;
                let supply = if remote { self.another(dice, w) } else { w };
                Line { item, supply, quantity: dice.range(1, 11) as i64 }
            })
            .collect();
        // One in a hundred orders names an unknown item, and is rolled back.
        if dice.chance(1, 100)
            && let Some(last) = lines.last_mut()
        {
            last.item = self.items + 1;
        }
        write(sql, client, "new order", |sql, client| self.enter(sql, client, [w, d, c], &lines))
    }

    fn enter(
        &self,
        sql: &mut dyn Sql,
        client: &mut Client,
        [w, d, c]: [u64; 3],
        lines: &[Line],
    ) -> Result<Option<u64>, StepError> {
        let date = client.time();
        let scratch = &mut client.scratch;
        let ([w_, d_, c_], district) = (ints([w, d, c]), || format!("district {w}/{d}"));
        let tax = "SELECT w_tax FROM warehouse WHERE w_id = ?1";
        one(sql, tax, &[w_], || format!("warehouse {w}"), |_| ())?;
        let mut o = 0;
        let next = "SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = ?1 AND d_id = ?2";
        one(sql, next, &[w_, d_], district, |row| o = row.int(0))?;
        let number = o.wrapping_add(1);
        scratch.change.remove(part::DISTRICT_NEXT, key([w, d]), &[o]);
        scratch.change.add(part::DISTRICT_NEXT, key([w, d]), &[number]);
        let take = "UPDATE district SET d_next_o_id = ?3 WHERE d_w_id = ?1 AND d_id = ?2";
        change(sql, take, &[w_, d_, Value::Int(number)], district)?;
        let buyer = "SELECT c_discount, c_last, c_credit FROM customer \
                     WHERE c_w_id = ?1 AND c_d_id = ?2 AND c_id = ?3";
        one(sql, buyer, &[w_, d_, c_], || format!("customer {w}/{d}/{c}"), |_| ())?;

        let at = key([w, d, o as u64]);
        let local = lines.iter().all(|l| l.supply == w);
        let order = [c as i64, date, lines.len() as i64, local.into()];
        scratch.change.add(part::ORDER, at, &order);
        scratch.change.add(part::NEW_ORDER, at, &[]);
        let [c_, date, count, local] = order.map(Value::Int);
        let o_ = Value::Int(o);
        sql.execute(load::ORDER, &[w_, d_, o_, c_, date, count, local])?;
        sql.execute(load::NEW_ORDER, &[w_, d_, o_])?;
        // The district's number, the order with its carrier, the new order.
        let mut written = 8 + 8 * 8 + 3 * 8;
        for (number, line) in (1..).zip(lines) {
            match self.enter_line(sql, scratch, ([w, d, o as u64], number), line)? {
                Some(bytes) => written += bytes,
                None => return Ok(None),
            }
        }
        Ok(Some(written))
    }

    /// Takes a line's item from its stock; gives the bytes, or `None` if there is no such
    /// item.
    fn enter_line(
        &self,
        sql: &mut dyn Sql,
        scratch: &mut Scratch,
        ([w, d, o], number): ([u64; 3], u64),
        &Line { item, supply, quantity }: &Line,
    ) -> Result<Option<u64>, StepError> {
        let (mut found, mut price) = (false, 0);
        let get = "SELECT i_price, i_name, i_data FROM item WHERE i_id = ?1";
        let [item_, supply_] = ints([item, supply]);
        sql.query(get, &[item_], &mut |row| (found, price) = (true, row.int(0)))?;
        if !found && item > self.items {
            return Ok(None);
        }
        let stock = || format!("the stock of item {item} in warehouse {supply}");
        if !found {
            return Err(StepError::Damaged(format!("item {item} is missing")));
        }
        let (mut level, mut info) = ([0; 4], String::new());
        let get = STOCK[(d - 1) as usize % STOCK.len()];
        one(sql, get, &[supply_, item_], stock, |row| {
            level = [0, 1, 2, 3].map(|column| row.int(column));
            info = text(row, 4);
        })?;
        let [left, ytd, orders, remote] = level;
        // At least ten are left, or the stock is refilled (clause 2.4.2.2).
        let left =
            left.wrapping_sub(quantity).wrapping_add(if left >= quantity + 10 { 0 } else { 91 });
        let remote = remote.wrapping_add((supply != w).into());
        let now = [left, ytd.wrapping_add(quantity), orders.wrapping_add(1), remote];
        scratch.change.remove(part::STOCK_LEVEL, key([supply, item]), &level);
        scratch.change.add(part::STOCK_LEVEL, key([supply, item]), &now);
        let [left, ytd, orders, remote] = now.map(Value::Int);
        let set = "UPDATE stock SET s_quantity = ?3, s_ytd = ?4, s_order_cnt = ?5, \
                   s_remote_cnt = ?6 WHERE s_w_id = ?1 AND s_i_id = ?2";
        change(sql, set, &[supply_, item_, left, ytd, orders, remote], stock)?;
        let amount = quantity.wrapping_mul(price);
        let state = line(item as i64, supply as i64, quantity, amount, &info);
        scratch.change.add(part::ORDER_LINE, key([w, d, o, number]), &state);
        let [w_, d_, o_, number] = ints([w, d, o, number]);
        let [quantity, amount] = [quantity, amount].map(Value::Int);
        let info = Value::Text(&info);
        let values = [w_, d_, o_, number, item_, supply_, quantity, amount, info];
        sql.execute(load::ORDER_LINE, &values)?;
        // The stock's four numbers, and the line with its date of delivery.
        Ok(Some(4 * 8 + bytes(&values) + 8))
    }

    pub(super) fn payment(
        &self,
        sql: &mut dyn Sql,
        client: &mut Client,
    ) -> Result<Step, StepError> {
        let w = self.home(client);
        let dice = &mut client.stream;
        let d = self.district(dice);
        let mut place = [w, d];
        if dice.chance(15, 100) && self.warehouses > 1 {
            place = [self.another(dice, w), self.district(dice)];
        }
        let who = self.who(dice);
        let amount = dice.range(100, 500_001) as i64;
        write(sql, client, "payment", |sql, client| {
            let c = self.find(sql, place, &who)?;
            let customer = [place[0], place[1], c];
            let date = client.time();
            let payment = Payment { customer, place: [w, d], date, amount };
            Ok(Some(self.pay(sql, &mut client.scratch, &payment)?))
        })
    }

    fn pay(
        &self,
        sql: &mut dyn Sql,
        scratch: &mut Scratch,
        payment: &Payment,
    ) -> Result<u64, StepError> {
        let Payment { customer: [cw, cd, c], place: [w, d], amount, .. } = *payment;
        let [w_, d_] = ints([w, d]);
        let change_of = &mut scratch.change;
        let mut ytd = 0;
        let mut names = String::new();
        let get = "SELECT w_ytd, w_name, w_street_1, w_street_2, w_city, w_state, w_zip \
                   FROM warehouse WHERE w_id = ?1";
        let warehouse = || format!("warehouse {w}");
        one(sql, get, &[w_], warehouse, |row| (ytd, names) = (row.int(0), text(row, 1)))?;
        change_of.remove(part::WAREHOUSE_YTD, w, &[ytd]);
        ytd = ytd.wrapping_add(amount);
        change_of.add(part::WAREHOUSE_YTD, w, &[ytd]);
        let set = "UPDATE warehouse SET w_ytd = ?2 WHERE w_id = ?1";
        change(sql, set, &[w_, Value::Int(ytd)], warehouse)?;

        let get = "SELECT d_ytd, d_name, d_street_1, d_street_2, d_city, d_state, d_zip \
                   FROM district WHERE d_w_id = ?1 AND d_id = ?2";
        let district = || format!("district {w}/{d}");
        one(sql, get, &[w_, d_], district, |row| {
            ytd = row.int(0);
            names = format!("{names}    {}", text(row, 1));
        })?;
        change_of.remove(part::DISTRICT_YTD, key([w, d]), &[ytd]);
        ytd = ytd.wrapping_add(amount);
        change_of.add(part::DISTRICT_YTD, key([w, d]), &[ytd]);
        let set = "UPDATE district SET d_ytd = ?3 WHERE d_w_id = ?1 AND d_id = ?2";
        change(sql, set, &[w_, d_, Value::Int(ytd)], district)?;

        let by = [-amount, amount, 1, 0];
        let mut written = 2 * 8 + self.book(sql, scratch, [cw, cd, c], by)?;
        let at = key([cw, cd, c]);
        let customer = || format!("customer {cw}/{cd}/{c}");
        let customer_ = ints([cw, cd, c]);
        let (mut bad, mut data) = (false, String::new());
        let get = "SELECT c_credit, CASE c_credit WHEN 'BC' THEN c_data END FROM customer \
                   WHERE c_w_id = ?1 AND c_d_id = ?2 AND c_id = ?3";
        one(sql, get, &customer_, customer, |row| {
            bad = row.bytes(0) == b"BC";
            data = text(row, 1);
        })?;
        if bad {
            let hash = |data: &str| [content::hash(data.as_bytes())];
            scratch.change.remove(part::CUSTOMER_DATA, at, &hash(&data));
            let mut new = format!("{c} {cd} {cw} {d} {w} {amount}|{data}");
            // All characters have one byte, but damaged text may have others.
            new.truncate(new.floor_char_boundary(DATA_BYTES));
            scratch.change.add(part::CUSTOMER_DATA, at, &hash(&new));
            let set = "UPDATE customer SET c_data = ?4 \
                       WHERE c_w_id = ?1 AND c_d_id = ?2 AND c_id = ?3";
            let [a, b, c] = customer_;
            change(sql, set, &[a, b, c, Value::Text(&new)], customer)?;
            written += new.len() as u64;
        }
        Ok(written + payment.put(sql, &names, &mut scratch.change)?)
    }

    /// Adds to a customer's balance, payments, number of payments and number of deliveries. Returns
    /// the bytes.
    fn book(
        &self,
        sql: &mut dyn Sql,
        scratch: &mut Scratch,
        [w, d, c]: [u64; 3],
        by: [i64; 4],
    ) -> Result<u64, StepError> {
        let customer = || format!("customer {w}/{d}/{c}");
        let mut old = [0; 4];
        let get = "SELECT c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_first, \
                   c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, \
                   c_since, c_credit_lim, c_discount \
                   FROM customer WHERE c_w_id = ?1 AND c_d_id = ?2 AND c_id = ?3";
        let [w_, d_, c_] = ints([w, d, c]);
        one(sql, get, &[w_, d_, c_], customer, |row| old = [0, 1, 2, 3].map(|i| row.int(i)))?;
        let mut new = old;
        new.iter_mut().zip(by).for_each(|(n, by)| *n = n.wrapping_add(by));
        scratch.change.remove(part::CUSTOMER_ACCOUNT, key([w, d, c]), &old);
        scratch.change.add(part::CUSTOMER_ACCOUNT, key([w, d, c]), &new);
        let [balance, paid, payments, deliveries] = new.map(Value::Int);
        let set = "UPDATE customer SET c_balance = ?4, c_ytd_payment = ?5, c_payment_cnt = ?6, \
                   c_delivery_cnt = ?7 WHERE c_w_id = ?1 AND c_d_id = ?2 AND c_id = ?3";
        change(sql, set, &[w_, d_, c_, balance, paid, payments, deliveries], customer)?;
        Ok(4 * 8)
    }

    pub(super) fn order_status(
        &self,
        sql: &mut dyn Sql,
        client: &mut Client,
    ) -> Result<Step, StepError> {
        let w = self.home(client);
        let d = self.district(&mut client.stream);
        let who = self.who(&mut client.stream);
        read(sql, client, "order status", |sql| {
            snapshot(sql, |sql| {
                let c = self.find(sql, [w, d], &who)?;
                let [w_, d_, c_] = ints([w, d, c]);
                let get = "SELECT c_balance, c_first, c_middle, c_last FROM customer \
                           WHERE c_w_id = ?1 AND c_d_id = ?2 AND c_id = ?3";
                one(sql, get, &[w_, d_, c_], || format!("customer {w}/{d}/{c}"), |_| ())?;
                let mut last = None;
                let get = "SELECT o_id, o_ol_cnt, o_entry_d, o_carrier_id FROM orders \
                           WHERE o_w_id = ?1 AND o_d_id = ?2 AND o_c_id = ?3 \
                           ORDER BY o_id DESC LIMIT 1";
                let each = &mut |row: &dyn Row| last = Some((row.int(0), row.int(1)));
                sql.query(get, &[w_, d_, c_], each)?;
                // With fewer orders than customers some customers have none.
                let Some((o, expected)) = last else { return Ok(()) };
                let get = "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d \
                           FROM order_line WHERE ol_w_id = ?1 AND ol_d_id = ?2 AND ol_o_id = ?3";
                let lines = sql.query(get, &[w_, d_, Value::Int(o)], &mut |_| ())?;
                full(&format!("order {w}/{d}/{o}"), lines, expected)
            })
        })
    }

    pub(super) fn delivery(
        &self,
        sql: &mut dyn Sql,
        client: &mut Client,
    ) -> Result<Step, StepError> {
        let w = self.home(client);
        let carrier = client.stream.range(1, 11) as i64;
        write(sql, client, "delivery", |sql, client| {
            let mut written = None;
            let date = client.time();
            for d in 1..=DISTRICTS {
                let bytes = self.deliver(sql, &mut client.scratch, [w, d], carrier, date)?;
                if let Some(bytes) = bytes {
                    *written.get_or_insert(0) += bytes;
                }
            }
            Ok(written)
        })
    }

    /// Delivers a district's oldest new order, if there is one. Returns the bytes.
    fn deliver(
        &self,
        sql: &mut dyn Sql,
        scratch: &mut Scratch,
        [w, d]: [u64; 2],
        carrier: i64,
        date: i64,
    ) -> Result<Option<u64>, StepError> {
        let [w_, d_] = ints([w, d]);
        let mut oldest = None;
        let get = "SELECT no_o_id FROM new_order WHERE no_w_id = ?1 AND no_d_id = ?2 \
                   ORDER BY no_o_id LIMIT 1";
        sql.query(get, &[w_, d_], &mut |row| oldest = Some(row.int(0)))?;
        let Some(o) = oldest else { return Ok(None) };
        let order = || format!("order {w}/{d}/{o}");
        let (o_, at) = (Value::Int(o), key([w, d, o as u64]));
        let remove = "DELETE FROM new_order WHERE no_w_id = ?1 AND no_d_id = ?2 AND no_o_id = ?3";
        change(sql, remove, &[w_, d_, o_], order)?;
        scratch.change.remove(part::NEW_ORDER, at, &[]);
        let (mut c, mut count) = (0, 0);
        let get = "SELECT o_c_id, o_ol_cnt FROM orders \
                   WHERE o_w_id = ?1 AND o_d_id = ?2 AND o_id = ?3";
        one(sql, get, &[w_, d_, o_], order, |row| (c, count) = (row.int(0), row.int(1)))?;
        let set = "UPDATE orders SET o_carrier_id = ?4 \
                   WHERE o_w_id = ?1 AND o_d_id = ?2 AND o_id = ?3";
        change(sql, set, &[w_, d_, o_, Value::Int(carrier)], order)?;
        scratch.change.add(part::ORDER_CARRIER, at, &[carrier]);
        let set = "UPDATE order_line SET ol_delivery_d = ?4 \
                   WHERE ol_w_id = ?1 AND ol_d_id = ?2 AND ol_o_id = ?3";
        let lines = sql.execute(set, &[w_, d_, o_, Value::Int(date)])?;
        full(&order(), lines, count)?;
        for number in 1..=lines {
            let line = key([w, d, o as u64, number]);
            scratch.change.add(part::ORDER_LINE_DELIVERY, line, &[date]);
        }
        let mut total = 0;
        let get = "SELECT sum(ol_amount) FROM order_line \
                   WHERE ol_w_id = ?1 AND ol_d_id = ?2 AND ol_o_id = ?3";
        one(sql, get, &[w_, d_, o_], order, |row| total = row.int(0))?;
        let written = self.book(sql, scratch, [w, d, c as u64], [total, 0, 0, 1])?;
        Ok(Some(written + 8 + 8 * lines))
    }

    pub(super) fn stock_level(
        &self,
        sql: &mut dyn Sql,
        client: &mut Client,
    ) -> Result<Step, StepError> {
        let w = self.home(client);
        // Each terminal has its own district (clause 2.8.1.1).
        let d = u64::from(client.id()) / self.warehouses % DISTRICTS + 1;
        let threshold = client.stream.range(10, 21) as i64;
        read(sql, client, "stock level", |sql| {
            snapshot(sql, |sql| {
                let [w_, d_] = ints([w, d]);
                let mut next = 0;
                let get = "SELECT d_next_o_id FROM district WHERE d_w_id = ?1 AND d_id = ?2";
                one(
                    sql,
                    get,
                    &[w_, d_],
                    || format!("district {w}/{d}"),
                    |row| {
                        next = row.int(0);
                    },
                )?;
                let get = "SELECT count(DISTINCT s_i_id) FROM order_line CROSS JOIN stock \
                           ON s_w_id = ?1 AND s_i_id = ol_i_id WHERE ol_w_id = ?1 \
                           AND ol_d_id = ?2 AND ol_o_id >= ?3 AND ol_o_id < ?4 \
                           AND s_quantity < ?5";
                let [from, to] = [next.wrapping_sub(RECENT), next].map(Value::Int);
                let values = [w_, d_, from, to, Value::Int(threshold)];
                one(sql, get, &values, || "a count".into(), |_| ())
            })
        })
    }
}

/// Checks that an order has its number of lines.
fn full(order: &str, lines: u64, expected: i64) -> Result<(), StepError> {
    if u64::try_from(expected) == Ok(lines) {
        return Ok(());
    }
    Err(StepError::Damaged(format!("{order} has {lines} lines instead of {expected}")))
}
