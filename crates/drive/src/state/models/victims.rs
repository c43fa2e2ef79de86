//! The choice of a victim against looking at all units.

use crate::Collector;
use crate::state::victims::{Candidate, Victims};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tantalum_nand::Unit;

const SECTORS: u32 = 200;
const UNITS: u32 = 40;
const FIRST: u32 = 1000;

#[derive(Clone, Debug)]
enum Step {
    Fill(u32, u32),
    Lose(u32, u32),
    Take(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let valid = || prop_oneof![3 => 0..SECTORS, 1 => Just(SECTORS)];
    prop_oneof![
        3 => (0..UNITS, valid()).prop_map(|(u, v)| Step::Fill(u, v)),
        4 => (0..UNITS, 1..40u32).prop_map(|(u, n)| Step::Lose(u, n)),
        2 => valid().prop_map(Step::Take),
    ]
}

/// Benefit over cost, as it is written.
fn score(c: Candidate, now: u32) -> f64 {
    let u = f64::from(c.valid) / f64::from(SECTORS);
    (1.0 - u) * f64::from(now - c.filled + 1) / (2.0 * u)
}

fn check(collector: Collector, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut victims = Victims::new(collector, Unit(FIRST), UNITS, SECTORS);
    let mut full: BTreeMap<u32, Candidate> = BTreeMap::new();
    let mut now = 0;
    for step in steps {
        match step {
            Step::Fill(unit, valid) => {
                if full.contains_key(&unit) {
                    continue;
                }
                now += 1;
                let c = Candidate { valid, filled: now };
                full.insert(unit, c);
                victims.add(Unit(FIRST + unit), c);
            }
            Step::Lose(unit, count) => {
                let Some(c) = full.get_mut(&unit) else { continue };
                let before = *c;
                c.valid = c.valid.saturating_sub(count);
                victims.changed(Unit(FIRST + unit), before, *c);
            }
            Step::Take(below) => {
                let taken = victims.best(below, now, |unit| full[&(unit.0 - FIRST)].valid);
                let width = Victims::width(SECTORS);
                let emptiest = victims.emptiest(|unit| full[&(unit.0 - FIRST)].valid);
                let least = full.values().map(|c| c.valid).min();
                match emptiest.map(|unit| full[&(unit.0 - FIRST)].valid) {
                    Some(valid) => prop_assert!(valid < SECTORS && valid <= least.unwrap() + width),
                    None => prop_assert!(least.is_none_or(|v| v == SECTORS)),
                }
                let Some(unit) = taken else {
                    // Nothing that is worth it by more than a bucket's width.
                    prop_assert!(least.is_none_or(|v| v + width >= below || v >= below));
                    continue;
                };
                let c = full.remove(&(unit.0 - FIRST)).unwrap();
                victims.remove(unit, c);
                prop_assert!(c.valid < below);
                match collector {
                    Collector::Greedy => prop_assert!(c.valid <= least.unwrap() + width),
                    Collector::CostBenefit => {
                        // Every other one would be worse if it were a bucket's width fuller.
                        for other in full.values().filter(|o| o.valid + width < below) {
                            let fuller = Candidate { valid: other.valid + width, ..*other };
                            let (best, that) = (score(c, now), score(fuller, now));
                            prop_assert!(best >= that - 1e-9, "{c:?} {other:?} {now}");
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn greedy_takes_the_fewest(steps in prop::collection::vec(step(), 1..200)) {
        check(Collector::Greedy, steps)?;
    }

    #[test]
    fn cost_benefit_takes_the_best(steps in prop::collection::vec(step(), 1..200)) {
        check(Collector::CostBenefit, steps)?;
    }
}
