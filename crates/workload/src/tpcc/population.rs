//! The rules by which rows are populated (clause 4.3) and numbers are drawn (clause 2.1.6).
//!
//! 1. Everything here follows from its key alone, so that a check can compute it again.

use crate::content;
use tantalum_rt::{Stream, mix64};

/// The columns of a loaded row that never change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fixed {
    /// Columns of text, in the order of the table.
    pub texts: Vec<String>,
    /// Columns of numbers, in the order of the table.
    pub numbers: Vec<i64>,
}

impl Fixed {
    /// The state for the digest.
    pub fn state(&self) -> Vec<i64> {
        let texts = self.texts.iter().map(|t| content::hash(t.as_bytes()));
        texts.chain(self.numbers.iter().copied()).collect()
    }

    /// Bytes of its columns.
    pub fn bytes(&self) -> u64 {
        let texts: usize = self.texts.iter().map(String::len).sum();
        (texts + 8 * self.numbers.len()) as u64
    }
}

/// NURand (clause 2.1.6): random numbers with an uneven distribution.
#[derive(Clone, Copy, Debug)]
pub(super) struct NuRand {
    /// A power of two, less one.
    a: u64,
    c: u64,
    low: u64,
    high: u64,
}

impl NuRand {
    /// Numbers from `low` to `high`. `a` and `c` are the standard's for `size` numbers. They shrink
    /// with the number of numbers.
    fn new(a: u64, c: u64, size: u64, low: u64, high: u64) -> NuRand {
        let wanted = ((high - low + 1) * (a + 1) / size).max(1);
        let power = 1 << wanted.ilog2();
        NuRand { a: power - 1, c: c * power / (a + 1), low, high }
    }

    /// Items: NURand(8191, 1, 100000).
    pub fn items(items: u64) -> NuRand {
        NuRand::new(8191, 5987, 100_000, 1, items)
    }

    /// Customers of a district: NURand(1023, 1, 3000).
    pub fn customers(customers: u64) -> NuRand {
        NuRand::new(1023, 259, 3000, 1, customers)
    }

    /// Numbers of last names: NURand(255, 0, 999), for transactions.
    pub fn names(names: u64) -> NuRand {
        NuRand::new(255, 223, 1000, 0, names - 1)
    }

    /// The same for the population. The two C differ by 65 to 119, but not by 96 or 112 (clause
    /// 2.1.6.1).
    fn loaded_names(names: u64) -> NuRand {
        NuRand::new(255, 157, 1000, 0, names - 1)
    }

    /// Draws a number.
    pub fn draw(&self, dice: &mut Stream) -> u64 {
        let range = self.high - self.low + 1;
        let both = dice.below(self.a + 1) | dice.range(self.low, self.high + 1);
        (both + self.c) % range + self.low
    }
}

/// The random stream of a row of a table.
pub(super) fn dice(table: u64, key: u64) -> Stream {
    Stream::new(mix64(mix64(table) ^ key), "tpcc population")
}

/// A random text of letters and digits (clause 4.3.2.2).
pub(super) fn letters(dice: &mut Stream, low: u64, high: u64) -> String {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    characters(dice, low, high, LETTERS)
}

fn digits(dice: &mut Stream, count: u64) -> String {
    characters(dice, count, count, b"0123456789")
}

fn characters(dice: &mut Stream, low: u64, high: u64, of: &[u8]) -> String {
    let length = dice.range(low, high + 1);
    (0..length).map(|_| char::from(of[dice.below(of.len() as u64) as usize])).collect()
}

/// A zip code (clause 4.3.2.7).
fn zip(dice: &mut Stream) -> String {
    digits(dice, 4) + "11111"
}

/// Two streets, city, state, zip code.
fn address(dice: &mut Stream, texts: &mut Vec<String>) {
    for _ in 0..3 {
        texts.push(letters(dice, 10, 20));
    }
    texts.push(characters(dice, 2, 2, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
    texts.push(zip(dice));
}

/// A text of 26 to 50 characters, one in ten with ORIGINAL somewhere in it.
fn item_data(dice: &mut Stream) -> String {
    const MARK: &str = "ORIGINAL";
    let mut text = letters(dice, 26, 50);
    if dice.chance(1, 10) {
        let at = dice.below((text.len() - MARK.len() + 1) as u64) as usize;
        text.replace_range(at..at + MARK.len(), MARK);
    }
    text
}

/// The last name of this number, 0 to 999 (clause 4.3.2.3).
pub(super) fn last_name(number: u64) -> String {
    const SYLLABLES: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    [number / 100, number / 10, number].map(|n| SYLLABLES[(n % 10) as usize]).concat()
}

/// The name of this number among `names` names, which are spread over all last names.
pub(super) fn name_of(number: u64, names: u64) -> String {
    last_name(number * (super::NAMES / names))
}

/// A warehouse or district: name, address; tax.
pub(super) fn place(table: u64, key: u64) -> Fixed {
    let dice = &mut dice(table, key);
    let mut texts = vec![letters(dice, 6, 10)];
    address(dice, &mut texts);
    Fixed { texts, numbers: vec![dice.below(2001) as i64] }
}

/// A customer: first, middle and last name, address, phone, credit; since, credit limit, discount.
/// `number` is the customer's number in the district, from 1.
pub(super) fn customer(key: u64, number: u64, names: u64) -> Fixed {
    let dice = &mut dice(super::part::CUSTOMER, key);
    let name = if number <= names { number - 1 } else { NuRand::loaded_names(names).draw(dice) };
    let mut texts = vec![letters(dice, 8, 16), "OE".into(), name_of(name, names)];
    address(dice, &mut texts);
    texts.push(digits(dice, 16));
    texts.push(if dice.chance(1, 10) { "BC" } else { "GC" }.into());
    Fixed { texts, numbers: vec![0, 5_000_000, dice.below(5001) as i64] }
}

/// The first C_DATA of a customer.
pub(super) fn customer_data(key: u64) -> String {
    letters(&mut dice(super::part::CUSTOMER_DATA, key), 300, 500)
}

/// An item: name, data; image, price in cents.
pub(super) fn item(key: u64) -> Fixed {
    let dice = &mut dice(super::part::ITEM, key);
    let texts = vec![letters(dice, 14, 24), item_data(dice)];
    Fixed { texts, numbers: vec![dice.range(1, 10_001) as i64, dice.range(100, 10_001) as i64] }
}

/// Stock: a text for each of the ten districts, data.
pub(super) fn stock(key: u64) -> Fixed {
    let dice = &mut dice(super::part::STOCK, key);
    let mut texts: Vec<String> = (0..super::DISTRICTS).map(|_| letters(dice, 24, 24)).collect();
    texts.push(item_data(dice));
    Fixed { texts, numbers: Vec::new() }
}

/// The first quantity of stock.
pub(super) fn quantity(key: u64) -> i64 {
    dice(super::part::STOCK_LEVEL, key).range(10, 101) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_syllables() {
        // The example of clause 4.3.2.3.
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
        assert_eq!((name_of(9, 10), name_of(999, 1000)), (last_name(900), last_name(999)));
    }

    #[test]
    fn at_full_size_the_constants_are_the_standards() {
        let of = |n: NuRand| (n.a, n.low, n.high);
        assert_eq!(of(NuRand::items(100_000)), (8191, 1, 100_000));
        assert_eq!(of(NuRand::customers(3000)), (1023, 1, 3000));
        assert_eq!(of(NuRand::names(1000)), (255, 0, 999));
        let difference = NuRand::names(1000).c - NuRand::loaded_names(1000).c;
        assert!((65..=119).contains(&difference) && ![96, 112].contains(&difference));
    }

    #[test]
    fn nurand_stays_in_its_range_and_is_skewed_at_any_size() {
        // The share of draws that fall on the most drawn tenth of the numbers.
        let share = |n: NuRand| {
            let mut dice = Stream::new(1, "test");
            let mut seen = vec![0u32; (n.high - n.low + 1) as usize];
            for _ in 0..200_000 {
                let drawn = n.draw(&mut dice);
                assert!((n.low..=n.high).contains(&drawn));
                seen[(drawn - n.low) as usize] += 1;
            }
            seen.sort_unstable_by_key(|s| std::cmp::Reverse(*s));
            f64::from(seen[..seen.len() / 10].iter().sum::<u32>()) / 200_000.0
        };
        // A uniform draw gives 0.1. With fewer numbers the skew is smaller.
        let (full, small) = (share(NuRand::customers(3000)), share(NuRand::customers(100)));
        assert!((0.55..0.7).contains(&full) && (0.35..0.5).contains(&small), "{full} {small}");
        for n in [3, 4, 5, 10, 31] {
            share(NuRand::customers(n));
            share(NuRand::names(n));
        }
    }

    #[test]
    fn texts_have_the_lengths_of_the_standard() {
        for key in 0..200 {
            let c = customer(key, 1 + key % 30, 10);
            let lengths: Vec<usize> = c.texts.iter().map(String::len).collect();
            assert!((8..=16).contains(&lengths[0]) && lengths[1] == 2, "{c:?}");
            assert!(lengths[3..6].iter().all(|l| (10..=20).contains(l)), "{c:?}");
            assert_eq!(lengths[6..], [2, 9, 16, 2], "{c:?}");
            assert!((300..=500).contains(&customer_data(key).len()));
            let s = stock(key);
            assert!(s.texts.len() == 11 && s.texts[..10].iter().all(|t| t.len() == 24));
            assert!((26..=50).contains(&s.texts[10].len()));
            assert!((10..=100).contains(&quantity(key)));
            assert_eq!(c, customer(key, 1 + key % 30, 10));
        }
        let marked = (0..2000).filter(|k| item(*k).texts[1].contains("ORIGINAL")).count();
        assert!((140..260).contains(&marked), "{marked}");
        let bad = (0..2000).filter(|k| customer(*k, 1, 1).texts[9] == "BC").count();
        assert!((140..260).contains(&bad), "{bad}");
    }
}
