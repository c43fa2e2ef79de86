//! What holds for every policy with any options, under random use.

use super::devices::{Scene, Step};
use super::events::steps;
use proptest::prelude::*;
use tantalum_cache::policy::{Admit, Config, ConfigError, Kind, Mode};

const PAGE: u32 = 65_536;

fn options() -> impl Strategy<Value = Config> {
    let kind = proptest::sample::select(Kind::ALL.to_vec());
    let mode = prop_oneof![Just(Mode::Back), Just(Mode::Through)];
    let admit =
        prop_oneof![3 => Just(Admit::Mixed), 1 => Just(Admit::Clean), 1 => Just(Admit::Dirty)];
    let scan = prop_oneof![Just(None), (1..8u32).prop_map(Some)];
    (kind, mode, admit, scan, 0..60u32, 1..9u32, 0..=100u8).prop_map(
        |(kind, mode, admit, scan, more, batch, dirty_percent)| {
            let batch = if kind == Kind::Gsc { batch + 1 } else { batch };
            let config =
                Config { batch, mode, admit, dirty_percent, scan, ..Config::new(kind, 0, PAGE) };
            Config { frames: config.frames_min() + more, ..config }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn no_version_is_lost_and_none_is_stale(config in options(), steps in steps(150), room in 1..12usize) {
        let mut scene = Scene::new(&config, room);
        steps.iter().for_each(|&step| scene.step(step));
        scene.end();
    }
}

#[test]
fn each_policy_hits_what_fits() {
    for kind in Kind::ALL.into_iter().filter(|&k| k != Kind::None) {
        let mut scene = Scene::new(&Config::new(kind, 256, PAGE), 1);
        for round in 0..4 {
            scene.fetches.clear();
            for page in 0..100 {
                scene.step(Step::Use { page, client: 0, changed: round == 1 && page % 3 == 0 });
            }
        }
        assert_eq!(scene.fetches, [true; 100], "{kind}");
        scene.end();
    }
}

#[test]
fn what_makes_no_cache_is_an_error() {
    let of = |kind, frames, change: fn(&mut Config)| {
        let mut config = Config::new(kind, frames, 8192);
        change(&mut config);
        config.build().err()
    };
    let least = |kind, frames, least| Some(ConfigError::Frames { kind, frames, least });
    assert_eq!(of(Kind::Gsc, 127, |_| {}), least(Kind::Gsc, 127, 128));
    assert_eq!(of(Kind::Gsc, 128, |_| {}), None);
    assert_eq!(of(Kind::BcacheLru, 127, |_| {}), least(Kind::BcacheLru, 127, 128));
    assert_eq!(of(Kind::Lru, 0, |_| {}), least(Kind::Lru, 0, 2));
    assert_eq!(
        of(Kind::Gsc, 9, |c| c.batch = 0).unwrap().to_string(),
        "batches of 0 pages: expected 2 to 1024 with gsc"
    );
    assert_eq!(
        of(Kind::Gsc, 9, |c| c.batch = 1).unwrap().to_string(),
        "batches of 1 page: expected 2 to 1024 with gsc"
    );
    assert_eq!(of(Kind::Lru, 9, |c| c.page_bytes = 1000), Some(ConfigError::PageBytes(1000)));
    assert_eq!(of(Kind::Lc, 9, |c| c.dirty_percent = 101), Some(ConfigError::DirtyPercent(101)));
    assert_eq!(of(Kind::Clock, u32::MAX, |_| {}), Some(ConfigError::TooManyFrames(u32::MAX)));
    assert!("fifo".parse::<Kind>().unwrap_err().contains("bcache-lru"));
}
