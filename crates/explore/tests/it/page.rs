//! What docs/crash.md shows of an exploration of one's own, line for line.

use super::example::kv::{Store, blank};
use tantalum_explore::{Built, Found, Ingredients, Nesting, Tally, reduce};
use tantalum_rt::{Nanos, Rt};

/// Why nothing was explored.
struct Wrong(String);

impl From<String> for Wrong {
    fn from(why: String) -> Wrong {
        Wrong(why)
    }
}

impl From<Found> for Wrong {
    fn from(found: Found) -> Wrong {
        Wrong(format!("{found:?}"))
    }
}

fn shown(blueprint: Built<Store>, seed: u64) -> Result<(), Wrong> {
    let scenario = Ingredients::default().scenario(blueprint, seed)?;
    let points: Vec<_> = scenario.points(50)?.into_iter().enumerate().collect();
    let found = scenario.explore(&points, Nesting::default(), &mut Tally::default(), &|| ());
    if let Err(found) = found {
        println!("{}", reduce(&scenario, &found, 5_000).to_test());
    }
    Ok(())
}

#[test]
fn an_exploration_of_ones_own_is_as_the_page_says() {
    let (step, build) = (Nanos(50_000), |rt: &Rt| blank(rt, true));
    let explored = shown(Built { rust: "store", blocks: 64, step, build }, 1);
    explored.map_err(|wrong| wrong.0).expect("it can be explored");
}
