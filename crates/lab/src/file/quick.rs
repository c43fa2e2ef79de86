//! Which keys of an experiment `--quick` makes smaller.
//!
//! 1. A key that was set from outside keeps its value, unless a row's parameters have the key, too:
//!    then the value is the file's.

use crate::file::scene::Scene;
use std::collections::BTreeMap;

/// Whether the rows of an experiment are to be small, and which keys were set from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quick {
    is_on: bool,
    set: Vec<String>,
}

impl Quick {
    /// Not quick; these keys were set.
    pub(crate) fn with_set<'a>(keys: impl Iterator<Item = &'a String>) -> Quick {
        Quick { is_on: false, set: keys.cloned().collect() }
    }

    /// From now on rows are to be small.
    pub(crate) fn switch_on(&mut self) {
        self.is_on = true;
    }

    /// Whether the value at this key becomes smaller, in a row with these parameters (invariant 1).
    pub(crate) fn lowers(&self, params: &BTreeMap<String, toml::Value>, key: &str) -> bool {
        let is_set = self.set.iter().any(|set| covers(set, key));
        let is_of_row = params.keys().any(|param| covers(param, key));
        self.is_on && (is_of_row || !is_set)
    }

    /// Makes the scene of a row with these parameters small.
    pub(crate) fn shrink(&self, scene: &mut Scene, params: &BTreeMap<String, toml::Value>) {
        let lowers = |key: &str| self.lowers(params, key);
        for (key, value, most) in [
            ("run.warm_up_ms", &mut scene.run.warm_up_ms, 1000),
            ("linkbench.nodes", &mut scene.linkbench.nodes, 500),
            ("ycsb.records", &mut scene.ycsb.records, 400),
            ("tpcc.warehouses", &mut scene.tpcc.warehouses, 2),
            ("tpcc.items", &mut scene.tpcc.items, 200),
            ("tpcc.customers_per_district", &mut scene.tpcc.customers_per_district, 9),
        ] {
            if lowers(key) {
                *value = (*value).min(most);
            }
        }
        if lowers("tpcc.orders_per_district") {
            let orders = &mut scene.tpcc.orders_per_district;
            *orders = orders.map(|n| n.min(9));
        }
        if lowers("run.run_ms") {
            scene.run.run_ms = scene.run.run_ms.map(|ms| ms.min(1000));
        }
        if let Some(how) = scene.precondition.as_mut().filter(|_| lowers("precondition.passes_max"))
        {
            how.passes_max = how.passes_max.min(0.1);
        }
    }
}

/// Whether a dotted key is this other one, or a table that has it.
pub(crate) fn covers(above: &str, key: &str) -> bool {
    key.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_set_stays_unless_the_row_has_it() {
        let none = BTreeMap::new();
        let row = BTreeMap::from([("ycsb.records".to_string(), 5.into())]);
        let set = ["ycsb".to_string(), "tpcc.items".to_string()];
        let mut quick = Quick::with_set(set.iter());
        assert!(!quick.lowers(&none, "linkbench.nodes"));
        quick.switch_on();
        for (key, lowers) in [
            ("ycsb.records", false),
            ("tpcc.items", false),
            ("tpcc.warehouses", true),
            ("tpcc.items_more", true),
            ("linkbench.nodes", true),
        ] {
            assert_eq!(quick.lowers(&none, key), lowers, "{key}");
        }
        assert!(quick.lowers(&row, "ycsb.records"));
    }
}
