use super::*;
use proptest::prelude::*;
use tantalum_device::{Caps, CommandKind, Payload, RamDevice, RamOptions, Stats};
use tantalum_rt::{Runtime, first, join_all};

/// The small model: a list, searched from its beginning to its end.
#[derive(Default)]
struct Model {
    waiting: Vec<Request>,
    reached: [u64; 2],
    batch: (bool, u32),
    starved: u32,
}

impl Model {
    fn ahead(&self, writes: bool) -> Option<Request> {
        let from = self.reached[usize::from(writes)];
        let ahead = self.waiting.iter().filter(|r| r.writes == writes && r.at >= from);
        ahead.copied().min_by_key(|r| (r.at, r.id))
    }

    fn next(&mut self, settings: &Elevator, now: Nanos) -> Option<u64> {
        let oldest =
            |writes| self.waiting.iter().filter(|r| r.writes == writes).min_by_key(|r| r.id);
        let goes_on = self.batch.1 > 0 && self.batch.1 < settings.batch;
        let mut chosen = match self.ahead(self.batch.0) {
            Some(request) if goes_on => request,
            _ => {
                let (reads, writes) = (oldest(false).copied(), oldest(true).copied());
                let read =
                    reads.filter(|_| writes.is_none() || self.starved < settings.writes_starved);
                let oldest = read.or(writes)?;
                self.starved = match (read, writes) {
                    (Some(_), Some(_)) => self.starved + 1,
                    _ => 0,
                };
                self.batch = (oldest.writes, 0);
                match self.ahead(oldest.writes) {
                    Some(ahead) if oldest.expires > now => ahead,
                    _ => oldest,
                }
            }
        };
        self.batch.1 += 1;
        let older = |r: &Request| {
            let all = self.waiting.iter().filter(|o| o.id < r.id && o.conflicts(r));
            all.copied().min_by_key(|o| o.id)
        };
        while let Some(request) = older(&chosen) {
            chosen = request;
        }
        self.waiting.retain(|r| r.id != chosen.id);
        self.reached[usize::from(chosen.writes)] = chosen.end();
        Some(chosen.id)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add { at: u64, count: u64, writes: bool },
    Next,
    GiveUp(usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..64u64, 1..5u64, any::<bool>())
            .prop_map(|(at, count, writes)| Step::Add { at, count, writes }),
        3 => Just(Step::Next),
        1 => any::<prop::sample::Index>().prop_map(|i| Step::GiveUp(i.index(64))),
        1 => (0..40u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..200)
}

fn settings() -> impl Strategy<Value = Elevator> {
    (1..5u32, 1..4u32, 0..60u64, 0..60u64).prop_map(|(batch, starved, read, write)| Elevator {
        depth: None,
        read_expire_ms: read,
        write_expire_ms: write,
        batch,
        writes_starved: starved,
    })
}

proptest! {
    /// Invariants 2 to 5: the queue does what the list does, and sends each command once.
    #[test]
    fn the_queue_sends_what_the_small_model_sends(all in steps(), settings in settings()) {
        let (mut queue, mut model, mut now) = (Queue::default(), Model::default(), Nanos::ZERO);
        let mut sent = Vec::new();
        for step in all.into_iter().chain(std::iter::repeat_n(Step::Next, 200)) {
            match step {
                Step::Add { at, count, writes } => {
                    let ms = if writes { settings.write_expire_ms } else { settings.read_expire_ms };
                    let expires = now + Nanos::from_millis(ms);
                    let id = queue.add(at, count, writes, expires);
                    model.waiting.push(Request { id, at, count, writes, expires });
                }
                Step::Next => {
                    let waiting = model.waiting.clone();
                    let id = queue.next(&settings, now);
                    prop_assert_eq!(id, model.next(&settings, now));
                    let Some(id) = id else { continue };
                    prop_assert!(!sent.contains(&id));
                    sent.push(id);
                    let of = waiting.iter().find(|r| r.id == id).unwrap();
                    prop_assert!(!waiting.iter().any(|r| r.id < id && r.conflicts(of)));
                }
                Step::GiveUp(n) => {
                    let Some(r) = model.waiting.get(n).copied() else { continue };
                    prop_assert!(queue.remove(r.id, r.writes));
                    prop_assert!(!queue.remove(r.id, r.writes));
                    model.waiting.remove(n);
                }
                Step::Pass(ms) => now += Nanos::from_millis(ms),
            }
        }
        prop_assert!(queue.is_empty() && model.waiting.is_empty());
    }

    /// Nothing starves: behind an expired command at most one batch of its own direction for each
    /// that is older, with the batches of the other direction between them, goes first.
    #[test]
    fn an_expired_command_goes_soon(
        seed in 0..1000u64,
        settings in settings(),
        writes in any::<bool>(),
        older in 0..6u64,
    ) {
        let mut queue = Queue::default();
        let mut dice = tantalum_rt::Stream::new(seed, "commands");
        for i in 0..older {
            queue.add(900 - 7 * i, 1, writes, Nanos::ZERO);
        }
        // It lies behind all that comes later.
        let last = queue.add(0, 1, writes, Nanos::ZERO);
        let batches = (older + 1) * (u64::from(settings.writes_starved) + 1) + 1;
        let most = batches * u64::from(settings.batch);
        for n in 0.. {
            prop_assert!(n <= most, "{n} went before it");
            if queue.next(&settings, Nanos(1)) == Some(last) {
                break;
            }
            for _ in 0..2 {
                queue.add(1 + dice.below(1 << 20), 1, dice.below(2) == 0, Nanos::MAX);
            }
        }
    }
}

fn ram(rt: &Rt) -> Stats<RamDevice> {
    let mut options = RamOptions::new(Caps::power_safe(256, Payload::Stamps));
    options.command = Nanos::from_millis(1);
    Stats::new(rt, RamDevice::new(rt, options))
}

#[test]
fn so_many_commands_as_the_depth_says_are_at_the_device() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let main = async move {
        let device = ram(&rt);
        let settings = Elevator { depth: Some(3), ..Elevator::default() };
        let host = Elevated::new(&rt, device.clone(), Sorting::Always(settings));
        let write = |at: u64| {
            let (host, device) = (host.clone(), device.clone());
            async move {
                host.write(Block(at), Data::Stamps(&[at]), Durability::Normal).await.unwrap();
                // (The next one is sent before this one continues.)
                assert!(device.under_way() <= 3);
            }
        };
        let all = join_all((0..12).map(|i| write(i * 17 % 256)).collect());
        let part_way = async {
            rt.sleep(Nanos(500_000)).await;
            assert_eq!(device.under_way(), 3);
            std::future::pending::<()>().await;
        };
        first(all, part_way).await;
        assert_eq!(device.snapshot().of(CommandKind::Write).commands, 12);
        rt.now()
    };
    // Four rounds of three commands.
    assert_eq!(runtime.block_on(main).unwrap(), Nanos::from_millis(4));
}

/// A host that gives up, while it waits or when its turn has just come, leaves no place behind.
#[test]
fn a_command_that_is_given_up_leaves_its_place() {
    for after_us in (0..6000).step_by(250) {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let main = async move {
            let device = ram(&rt);
            let settings = Elevator { depth: Some(1), ..Elevator::default() };
            let host = Elevated::new(&rt, device.clone(), Sorting::Always(settings));
            let write = |at: u64| {
                let host = host.clone();
                async move {
                    host.write(Block(at), Data::Stamps(&[1]), Durability::Normal).await.unwrap();
                }
            };
            let all = join_all((0..4).map(&write).collect());
            first(rt.sleep(Nanos(after_us * 1000)), all).await;
            rt.sleep(Nanos::from_millis(2)).await;
            let before = rt.now();
            write(9).await;
            assert_eq!(rt.now() - before, Nanos::from_millis(1), "after {after_us} us");
            let line = host.line.as_deref().unwrap();
            assert_eq!(line.at_device.get(), 0);
            assert!(line.queue.borrow().is_empty() && line.turns.borrow().is_empty());
        };
        runtime.block_on(main).unwrap();
    }
}
