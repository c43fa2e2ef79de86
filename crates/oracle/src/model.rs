//! The check against brute force: for short histories on a tiny device, all states
//! that a crash may leave are enumerated, and the check must accept exactly those.

use crate::check::check;
use crate::content::{Id, Pieces};
use crate::history::{Action, Failure, History};
use proptest::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use tantalum_device::{Ack, Caps, GroupLimit, IoError, Payload};

const BLOCKS: u64 = 2;
const PIECES: u32 = 2;
/// Pieces of 8 bytes, two in a block.
const PLACES: usize = (BLOCKS * PIECES as u64) as usize;

type State = [Id; PLACES];

/// What happens next.
#[derive(Clone, Debug)]
enum Event {
    Submit(Action, u64, u64),
    /// The i-th of those in flight succeeds.
    Succeed(usize),
    /// The i-th of those in flight is given up.
    GiveUp(usize),
    Flush,
}

/// The model's own view of a command.
#[derive(Clone, Debug)]
struct Known {
    id: Id,
    action: Action,
    places: Vec<usize>,
    submitted: usize,
    completed: Option<usize>,
    must: bool,
    given_up: bool,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let action = prop_oneof![
        4 => Just(Action::Write),
        1 => Just(Action::Fua),
        2 => Just(Action::Group),
        2 => Just(Action::Discard),
        1 => Just(Action::ForcedDiscard),
    ];
    let submit = (action, 0..BLOCKS, 1..=BLOCKS)
        .prop_map(|(action, at, count)| Event::Submit(action, at, count.min(BLOCKS - at)));
    let event = prop_oneof![
        5 => submit,
        4 => (0usize..4).prop_map(Event::Succeed),
        1 => (0usize..4).prop_map(Event::GiveUp),
        1 => Just(Event::Flush),
    ];
    prop::collection::vec(event, 1..12)
}

fn capabilities() -> impl Strategy<Value = Caps> {
    let ack = prop_oneof![2 => Just(Ack::Volatile), 1 => Just(Ack::PowerSafe)];
    let flush = prop_oneof![4 => Just(true), 1 => Just(false)];
    (ack, flush, any::<bool>(), prop::sample::select(vec![8u32, 16, 32])).prop_map(
        |(ack, flush, ordered, atomic_unit)| Caps {
            block_size: 8 * PIECES,
            blocks: BLOCKS,
            ack,
            flush,
            ordered,
            atomic_unit,
            thin: false,
            atomic_group: Some(GroupLimit { extents: 2, bytes: 1024 }),
            payload: Payload::Bytes,
        },
    )
}

/// Plays the events into a history, and keeps the model's own view. At most five
/// commands are submitted.
fn play(caps: Caps, events: &[Event]) -> (History, Vec<Known>) {
    let mut history = History::new(caps);
    history.piece = 8;
    let mut known: Vec<Known> = Vec::new();
    for (now, event) in events.iter().enumerate() {
        let flying: Vec<usize> = (0..known.len())
            .filter(|i| known[*i].completed.is_none() && !known[*i].given_up)
            .collect();
        match event {
            Event::Submit(action, at, count) if known.len() < 5 => {
                let id = history.submit(*action, vec![(*at, *count)]);
                let first = (*at * u64::from(PIECES)) as usize;
                known.push(Known {
                    id,
                    action: *action,
                    places: (first..first + (*count * u64::from(PIECES)) as usize).collect(),
                    submitted: now,
                    completed: None,
                    must: false,
                    given_up: false,
                });
            }
            Event::Succeed(i) if !flying.is_empty() => {
                let k = &mut known[flying[i % flying.len()]];
                k.completed = Some(now);
                let forced =
                    matches!(k.action, Action::Fua | Action::Group | Action::ForcedDiscard);
                k.must = caps.ack.survives() || forced;
                history.succeed(k.id);
            }
            Event::GiveUp(i) if !flying.is_empty() => {
                let k = &mut known[flying[i % flying.len()]];
                k.given_up = true;
                history.fail(k.id, &Failure::Unknown);
            }
            Event::Flush => {
                let submitted = history.tick();
                history.flushed(submitted, &Ok::<(), IoError>(()));
                known.iter_mut().for_each(|k| k.must |= caps.flush && k.completed.is_some());
            }
            _ => {}
        }
    }
    (history, known)
}

/// The atomic units of a command: each a list of places.
fn units(caps: &Caps, k: &Known) -> Vec<Vec<usize>> {
    let per_unit = match k.action {
        Action::Group => k.places.len(),
        Action::Discard | Action::ForcedDiscard => 1,
        Action::Write | Action::Fua => caps.atomic_unit as usize / 8,
    };
    k.places.chunks(per_unit).map(<[usize]>::to_vec).collect()
}

/// All the states that a crash may leave.
fn legal(caps: &Caps, known: &[Known]) -> BTreeSet<State> {
    let mut all = BTreeSet::new();
    if caps.ordered {
        let at_least = known.iter().rposition(|k| k.must).map_or(0, |i| i + 1);
        for k in at_least..=known.len() {
            ordered(caps, known, k, 0, [0; PLACES], &mut all);
        }
    } else {
        let mut kept = vec![BTreeSet::new(); known.len()];
        unordered(caps, known, 0, &mut kept, &mut all);
    }
    all
}

/// The first `k` commands, and any units of the next and of those given up.
fn ordered(
    caps: &Caps,
    known: &[Known],
    k: usize,
    i: usize,
    state: State,
    all: &mut BTreeSet<State>,
) {
    if i > k || i == known.len() {
        all.insert(state);
        return;
    }
    let units = units(caps, &known[i]);
    let whole = (1usize << units.len()) - 1;
    for choice in 0..=whole {
        let may = match () {
            () if known[i].given_up => true,
            () if i < k => choice == whole,
            () => true,
        };
        if !may {
            continue;
        }
        let mut next = state;
        let chosen = units.iter().enumerate().filter(|(u, _)| choice >> u & 1 == 1);
        for p in chosen.flat_map(|(_, places)| places) {
            next[*p] = if known[i].action.is_discard() { 0 } else { known[i].id };
        }
        ordered(caps, known, k, i + 1, next, all);
    }
}

/// Any units of any commands; at each place one that is not before another.
fn unordered(
    caps: &Caps,
    known: &[Known],
    i: usize,
    kept: &mut Vec<BTreeSet<usize>>,
    all: &mut BTreeSet<State>,
) {
    if i < known.len() {
        let units = units(caps, &known[i]);
        let whole = (1usize << units.len()) - 1;
        for choice in 0..=whole {
            if known[i].must && choice != whole {
                continue;
            }
            let chosen = units.iter().enumerate().filter(|(u, _)| choice >> u & 1 == 1);
            kept[i] = chosen.flat_map(|(_, places)| places.clone()).collect();
            unordered(caps, known, i + 1, kept, all);
        }
        return;
    }
    let mut states = vec![[0; PLACES]];
    for p in 0..PLACES {
        let here: Vec<&Known> =
            known.iter().zip(kept.iter()).filter(|(_, k)| k.contains(&p)).map(|k| k.0).collect();
        let before = |a: &Known, b: &Known| a.completed.is_some_and(|c| c < b.submitted);
        let last = here.iter().filter(|a| !here.iter().any(|b| before(a, b)));
        let mut values: Vec<Id> =
            last.map(|a| if a.action.is_discard() { 0 } else { a.id }).collect();
        if values.is_empty() {
            values.push(0);
        }
        let mut more = Vec::new();
        for s in &states {
            for v in &values {
                let mut s = *s;
                s[p] = *v;
                more.push(s);
            }
        }
        states = more;
    }
    all.extend(states);
}

fn seen(state: &State) -> FxHashMap<u64, Pieces> {
    let blocks = state.chunks(PIECES as usize).enumerate();
    blocks.map(|(b, each)| (b as u64, Pieces::Each(each.into()))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn the_check_accepts_what_is_legal_and_nothing_else(
        caps in capabilities(),
        events in events(),
    ) {
        let (mut history, known) = play(caps, &events);
        let legal = legal(&caps, &known);
        let values = known.len() as u64 + 1;
        for n in 0..values.pow(PLACES as u32) {
            let mut state = [0; PLACES];
            for (p, v) in state.iter_mut().enumerate() {
                *v = n / values.pow(p as u32) % values;
            }
            history.violations.clear();
            check(&mut history, &seen(&state));
            let accepted = history.violations.is_empty();
            prop_assert_eq!(
                accepted,
                legal.contains(&state),
                "{:?} of {:#?}: {:?}",
                state,
                known,
                history.violations
            );
        }
    }
}
