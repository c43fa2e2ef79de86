use super::*;
use proptest::prelude::*;
use std::cell::RefCell;
use tantalum_rt::{First, Nanos, Runtime, first};

/// One step of a client. Sizes are in 1/256 of its share.
#[derive(Clone, Debug)]
enum Act {
    /// Takes memory, holds it for a time, and gives it back: size, time.
    Take(u64, u64),
    /// The same if the memory is free at once. The size may be more than the share.
    Try(u64, u64),
    /// Takes memory, but gives up waiting after a time.
    GiveUp(u64, u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..=256u64, 0..50u64).prop_map(|(part, time)| Act::Take(part, time)),
        3 => (0..4096u64, 0..50u64).prop_map(|(part, time)| Act::Try(part, time)),
        3 => (0..=256u64, 0..20u64).prop_map(|(part, time)| Act::GiveUp(part, time)),
    ]
}

/// A simple model of the budget: how much each account holds.
struct Model {
    limit: u64,
    share: u64,
    held: RefCell<Vec<u64>>,
}

impl Model {
    fn take(&self, who: usize, bytes: u64) {
        self.held.borrow_mut()[who] += bytes;
        let held = self.held.borrow();
        assert!(held.iter().sum::<u64>() <= self.limit, "{held:?} of {}", self.limit);
        let over = |held: u64| held.saturating_sub(self.share);
        let pool = self.limit - self.share * held.len() as u64;
        let left = pool - held.iter().map(|h| over(*h)).sum::<u64>();
        assert!(bytes == 0 || over(held[who]) <= left, "{held:?}: {left} are left for the others");
    }

    fn give_back(&self, who: usize, bytes: u64) {
        self.held.borrow_mut()[who] -= bytes;
    }
}

async fn client(rt: Rt, account: Rc<Account>, model: Rc<Model>, who: usize, acts: Vec<Act>) {
    for act in acts {
        let of = |part: u64| account.share() * part / 256;
        let got = match act {
            Act::Take(part, time) => Some((account.take(of(part)).await, time)),
            Act::Try(part, time) => account.try_take(of(part)).map(|grant| (grant, time)),
            Act::GiveUp(part, time) => {
                match first(account.take(of(part)), rt.sleep(Nanos(time))).await {
                    First::A(grant) => Some((grant, time)),
                    First::B(()) => None,
                }
            }
        };
        if let Some((grant, time)) = got {
            model.take(who, grant.bytes());
            rt.sleep(Nanos(time)).await;
            model.give_back(who, grant.bytes());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Some clients take what they can and keep it. All others still finish (a lost wake-up would
    /// stall the run), grants stay within the budget, and all memory comes back.
    #[test]
    fn grants_stay_within_the_budget_and_nobody_is_forgotten(
        seed in any::<u64>(),
        pool in 0..5_000u64,
        share in 1..1_000u64,
        hogs in prop::collection::vec(prop::collection::vec(0..4096u64, 1..20), 0..4),
        acts in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(act(), 0..20), 1..4), 1..6),
    ) {
        let mut runtime = Runtime::virtual_time(seed);
        let rt = runtime.handle();
        let clients = hogs.len() + acts.len();
        let (limit, shares) = (pool + share * clients as u64, share * clients as u64);
        let budget = Budget::new(&rt, limit, shares);
        let watched = budget.clone();
        let done = runtime.block_on(async move {
            let held = RefCell::new(vec![0; clients]);
            let model = Rc::new(Model { limit, share, held });
            let mut tasks = Vec::new();
            for (who, tracks) in acts.into_iter().enumerate() {
                let account = watched.open(share).expect("a share");
                for acts in tracks {
                    let task = client(rt.clone(), account.clone(), model.clone(), who, acts);
                    tasks.push(rt.spawn("a client", task));
                }
            }
            let mut kept = Vec::new();
            for (i, wants) in hogs.into_iter().enumerate() {
                let account = watched.open(share).expect("a share");
                for part in wants {
                    rt.sleep(Nanos(part % 7)).await;
                    if let Some(grant) = account.try_take(share * part / 256) {
                        model.take(clients - 1 - i, grant.bytes());
                        kept.push(grant);
                    }
                }
            }
            for task in tasks {
                task.await.expect("it ends");
            }
            assert_eq!(watched.memory().used, kept.iter().map(Grant::bytes).sum::<u64>());
        });
        prop_assert_eq!(done, Ok(()));
        let after = budget.memory();
        prop_assert_eq!((after.used, after.waiting), (0, 0));
        prop_assert_eq!((budget.pool.get(), budget.shares.get()), (pool, shares));
        prop_assert!(after.most <= limit);
    }
}

fn on_virtual_time<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rt) -> F) {
    let mut runtime = Runtime::virtual_time(1);
    let test = test(runtime.handle());
    runtime.block_on(test).expect("it runs");
}

/// 2: an account gets its share even if all others hold what they can for ever.
#[test]
fn nobody_waits_for_another_account() {
    on_virtual_time(|rt| async move {
        let budget = Budget::new(&rt, 64 * 100 + 1000, 64 * 100);
        let mut hogs = Vec::new();
        for _ in 0..63 {
            let hog = budget.open(100).expect("a share");
            let mut held = vec![hog.take(100).await];
            while let Some(more) = hog.try_take(1) {
                held.push(more);
            }
            hogs.push(held);
        }
        let good = budget.open(100).expect("a share");
        assert!(budget.open(1).is_none());
        let all = good.try_take(100).expect("its share is there");
        // 3: each account left the others as much of the pool as it took.
        assert_eq!(hogs[0].len() as u64 - 1, 500);
        drop((all, hogs, good));
        assert_eq!(budget.memory().used, 0);
        assert!(budget.memory().most <= budget.memory().limit);
    });
}

/// 4: a small request does not overtake a large one, and a request that gives up delays no other.
#[test]
fn memory_goes_out_in_the_order_of_asking() {
    on_virtual_time(|rt| async move {
        let budget = Budget::new(&rt, 100, 100);
        let account = budget.open(100).expect("a share");
        let held = account.take(60).await;
        let order = Rc::new(RefCell::new(Vec::new()));
        let ask = |bytes: u64| {
            let (account, order) = (account.clone(), order.clone());
            rt.spawn("who asks", async move {
                let _grant = account.take(bytes).await;
                order.borrow_mut().push(bytes);
            })
        };
        let (large, small) = (ask(90), ask(10));
        rt.yield_now().await;
        assert_eq!(budget.memory().waiting, 2);
        assert!(account.try_take(1).is_none(), "somebody asked before");
        assert!(!account.is_at_ease());
        let gave_up = first(account.take(100), rt.sleep(Nanos(5))).await;
        assert!(matches!(gave_up, First::B(())));
        drop(gave_up);
        drop(held);
        large.await.expect("it has its turn");
        small.await.expect("it has its turn");
        assert_eq!(*order.borrow(), [90, 10]);
        assert_eq!((budget.memory().used, budget.memory().waiting), (0, 0));
    });
}

/// 5
#[test]
fn what_is_joined_goes_back_once() {
    on_virtual_time(|rt| async move {
        let budget = Budget::new(&rt, 300, 100);
        let account = budget.open(100).expect("a share");
        let mut one = account.take(80).await;
        one.join(account.take(60).await);
        assert_eq!((one.bytes(), budget.pool.get()), (140, 160));
        drop(one);
        assert_eq!(budget.memory(), MemoryUse { limit: 300, used: 0, most: 140, waiting: 0 });
    });
}

/// 6
#[test]
fn what_the_system_does_not_have_is_an_error() {
    assert_eq!(zeroed(isize::MAX as usize), Err(NoMemory));
    assert_eq!(zeroed(usize::MAX), Err(NoMemory));
    assert_eq!(zeroed(0), Ok(Vec::new()));
    let mut bytes = zeroed(3).expect("three bytes");
    bytes[1] = 7;
    assert_eq!(lengthen(&mut bytes, isize::MAX as usize), Err(NoMemory));
    assert_eq!(lengthen(&mut bytes, 5), Ok(()));
    assert_eq!(bytes, [0, 7, 0, 0, 0]);
}
