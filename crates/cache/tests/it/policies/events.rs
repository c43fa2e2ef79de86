//! Random steps: some pages are hot, some come in runs.

use super::devices::Step;
use proptest::prelude::*;

/// Steps on so many pages.
pub fn steps(pages: u64) -> impl Strategy<Value = Vec<Step>> {
    let one = (0..pages, 0..4u32, any::<bool>())
        .prop_map(|(page, client, changed)| vec![Step::Use { page, client, changed }]);
    let hot = (0..pages.div_ceil(8), any::<bool>())
        .prop_map(|(page, changed)| vec![Step::Use { page, client: 0, changed }]);
    let run = (0..pages, 1..20u64).prop_map(move |(from, length)| {
        let page = |i| (from + i) % pages;
        (0..length).map(|i| Step::Use { page: page(i), client: 9, changed: false }).collect()
    });
    let other = prop_oneof![
        4 => (0..pages).prop_map(Step::Forget),
        1 => Just(Step::Flush),
        1 => Just(Step::Clean),
        4 => Just(Step::Tell),
    ];
    let step = prop_oneof![
        8 => one, 8 => hot, 2 => run, 2 => other.prop_map(|step| vec![step]),
    ];
    proptest::collection::vec(step, 1..600).prop_map(|steps| steps.concat())
}
