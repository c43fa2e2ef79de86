//! A lost device of a volume's log is replaced while the volume is used.

use super::rig::{BLOCK, Shape, backing, of_log, with, work};
use std::rc::Rc;
use tantalum_device::{
    Block, BlockDevice, Blocks, CommandKind, Data, Durability, Faults, IoError, PowerCycle,
    RamDevice,
};
use tantalum_log::{DeviceHealth, LogError, LogStats, LogVolume, OpenError, ReplaceError, Role};
use tantalum_oracle::Oracle;
use tantalum_rt::{Join, Nanos, Rt};

type Device = Faults<RamDevice>;

/// Much stays in the log.
fn shape(array: usize) -> Shape {
    let linger = Nanos::from_secs(1);
    Shape { copies: 2, linger, memory: 1 << 20, ..Shape::volatile(array) }
}

/// A volume with two copies, whose devices may be lost.
struct Scene {
    rt: Rt,
    volume: LogVolume<Device, RamDevice>,
    /// Those that take part, or did.
    log: Vec<Device>,
    oracle: Rc<Oracle>,
    made: u64,
}

impl Scene {
    async fn new(rt: &Rt, array: usize) -> Scene {
        let shape = shape(array);
        let log: Vec<Device> = (0..array).map(|i| device(rt, &format!("log {i}"))).collect();
        let named = log.iter().enumerate().map(|(i, d)| (format!("log {i}"), d.clone())).collect();
        let backing = backing(rt, "backing", &shape);
        let volume = LogVolume::new(rt, named, None, backing, shape.options()).unwrap();
        volume.format(&shape.create()).await.unwrap();
        volume.power_on().await.unwrap();
        let oracle = Rc::new(Oracle::new(&volume.caps()));
        Scene { rt: rt.clone(), volume, log, oracle, made: 0 }
    }

    /// Commands of all kinds, side by side.
    fn work(&mut self, commands: u64) -> Vec<Join<()>> {
        (0..3)
            .map(|_| {
                self.made += 1;
                let host = self.oracle.host(self.volume.device());
                let dice = self.rt.stream(&format!("worker {}", self.made));
                self.rt.spawn("a worker", work(self.rt.clone(), host, dice, commands))
            })
            .collect()
    }

    /// A device of the log fails, and is lost to it.
    async fn lose(&self, at: usize) {
        for kind in [CommandKind::Read, CommandKind::Write, CommandKind::Fua, CommandKind::Flush] {
            self.log[at].fail_often(kind, 1, 1);
        }
        let (rt, host) = (self.rt.clone(), self.oracle.host(self.volume.device()));
        let writes = self.rt.spawn("writes", async move {
            for _ in 0..10 {
                host.write(Blocks { start: Block(63), count: 1 }, Durability::Normal)
                    .await
                    .unwrap();
                rt.sleep(Nanos::from_millis(1)).await;
            }
        });
        writes.await.unwrap();
        assert_eq!(self.health(at), DeviceHealth::Failed);
    }

    fn health(&self, at: usize) -> DeviceHealth {
        self.volume.log_stats().unwrap().devices[at].health
    }

    fn is_degraded(&self) -> bool {
        self.volume.log_stats().unwrap().degraded
    }

    /// A new device in the place of a lost one.
    async fn replace(&mut self, at: usize) -> Result<(), ReplaceError> {
        self.made += 1;
        let name = format!("new {}", self.made);
        self.log[at] = device(&self.rt, &name);
        let stats = self.volume.replace(at, name.clone(), self.log[at].clone(), false).await?;
        assert_eq!((stats.degraded, &stats.devices[at].name), (false, &name));
        Ok(())
    }

    /// The power goes and comes back, and everything is there.
    async fn cut(&self) {
        self.volume.cut();
        self.volume.off().await;
        self.start().await;
    }

    async fn start(&self) {
        if let Err(e) = self.volume.power_on().await {
            panic!("{e}: {:?}", self.volume.start_failure());
        }
        let found = self.oracle.check(&self.volume.device()).await.unwrap();
        assert!(found.is_empty(), "{}", found[0]);
    }
}

fn device(rt: &Rt, name: &str) -> Device {
    Faults::new(rt, of_log(rt, name, &shape(2)), name)
}

#[test]
fn one_device_after_the_other_is_lost_and_replaced_while_the_volume_is_written_to() {
    for array in [2, 3] {
        with(array as u64, async move |rt| {
            let mut scene = Scene::new(&rt, array).await;
            for round in 0..6 {
                let workers = scene.work(60);
                let at = round % array;
                scene.lose(at).await;
                assert!(scene.is_degraded());
                scene.replace(at).await.unwrap();
                let at_work = workers.iter().filter(|w| !w.is_finished()).count();
                assert!(at_work > 0, "{round}: nothing was written meanwhile");
                for worker in workers {
                    worker.await.unwrap();
                }
                assert!(!scene.is_degraded());
                if round % 2 == 1 {
                    scene.cut().await;
                }
            }
            // The last one that was replaced has everything alone, of two.
            let other = (5 % array + 1) % array;
            for worker in scene.work(40) {
                worker.await.unwrap();
            }
            scene.lose(other).await;
            scene.cut().await;
            assert!(scene.is_degraded());
        });
    }
}

/// How long it takes to replace a device while the volume is written to.
fn usual() -> Nanos {
    with(1, async |rt| {
        let mut scene = Scene::new(&rt, 2).await;
        let workers = scene.work(60);
        scene.lose(0).await;
        let began = rt.now();
        scene.replace(0).await.unwrap();
        let took = rt.now() - began;
        for worker in workers {
            worker.await.unwrap();
        }
        took
    })
}

/// Whether the new device had joined when the power was cut.
fn cut_after(seed: u64, after: Nanos) -> bool {
    with(seed, async move |rt| {
        let mut scene = Scene::new(&rt, 2).await;
        let workers = scene.work(60);
        scene.lose(0).await;
        let old = scene.log[0].clone();
        scene.log[0] = device(&rt, "new");
        let (volume, new) = (scene.volume.clone(), scene.log[0].clone());
        let replaced =
            rt.spawn(
                "replace",
                async move { volume.replace(0, "new".to_string(), new, false).await },
            );
        rt.sleep(after).await;
        scene.volume.cut();
        let ended = replaced.await.unwrap();
        assert!(matches!(ended, Ok(_) | Err(ReplaceError::Cut)), "{ended:?}");
        for worker in workers {
            let _ = worker.await;
        }
        scene.volume.off().await;
        assert!(!scene.log[0].device().is_alive(), "it has power");
        // The lost one is of no use any more, and nobody asks for it.
        old.cut();
        scene.start().await;
        let joined = !scene.is_degraded();
        assert!(joined || ended.is_err(), "it was said to have joined");
        if !joined {
            scene.replace(0).await.unwrap();
        }
        for worker in scene.work(20) {
            worker.await.unwrap();
        }
        scene.lose(1).await;
        scene.cut().await;
        scene.replace(1).await.unwrap();
        scene.cut().await;
        joined
    })
}

#[test]
fn a_cut_at_any_moment_of_a_replacement_loses_nothing() {
    let usual = usual();
    let joined = (0..60).filter(|i| cut_after(100 + i, Nanos(usual.0 * (i + 1) / 50))).count();
    assert!((5..50).contains(&joined), "{joined} of 60");
}

#[test]
fn what_cannot_be_replaced_leaves_everything_as_it_was() {
    with(7, async |rt| {
        let mut scene = Scene::new(&rt, 2).await;
        for worker in scene.work(20) {
            worker.await.unwrap();
        }
        let new = device(&rt, "new");
        let replace = async |scene: &Scene, at, new: &Device, force| {
            scene.volume.replace(at, "new".to_string(), new.clone(), force).await
        };
        let refused = |ended: Result<LogStats, ReplaceError>, why: &str| {
            let Err(ReplaceError::Log(error @ LogError::Replace(_))) = ended else {
                panic!("{why}")
            };
            assert!(error.to_string().contains(why), "{error}");
        };
        refused(replace(&scene, 0, &new, false).await, "only a device that is lost");
        refused(replace(&scene, 2, &new, false).await, "no such device");
        // Its devices have power still.
        for worker in scene.work(5) {
            worker.await.unwrap();
        }
        scene.cut().await;
        scene.lose(0).await;
        new.power_on().await.unwrap();
        let bytes = [1; BLOCK as usize];
        new.device().write(Block(3), Data::Bytes(&bytes), Durability::Fua).await.unwrap();
        refused(replace(&scene, 0, &new, false).await, "something else");
        let small = Faults::new(&rt, super::rig::ram(&rt, "small", 200, shape(2).log_ack), "small");
        let ended = replace(&scene, 0, &small, false).await;
        assert!(
            matches!(ended, Err(ReplaceError::Log(LogError::Replace(OpenError::TooSmall { .. })))),
            "{ended:?}"
        );
        scene.cut().await;
        assert!(scene.is_degraded());
        let stats = replace(&scene, 0, &new, true).await.unwrap();
        assert!(!stats.degraded);
        scene.log[0] = new;
        scene.cut().await;
        assert!(!scene.is_degraded());
        scene.volume.cut();
        let late = device(&rt, "late");
        assert_eq!(replace(&scene, 0, &late, false).await, Err(ReplaceError::Off));
        let power = late.device().write(Block(0), Data::Bytes(&bytes), Durability::Fua).await;
        assert_ne!(power, Err(IoError::PowerLost), "it was not touched");
    });
}

/// Once the volume did not start again before its process did.
#[test]
fn an_archive_that_was_replaced_under_its_own_name_is_of_the_array() {
    with(8, async |rt| {
        let shape = shape(2);
        let names = ["log 0", "log 1", "archive"];
        let log = names.map(|name| device(&rt, name)).to_vec();
        let named = |i: usize| (names[i].to_string(), log[i].clone());
        let mut options = shape.options();
        let role = |i| if i < 2 { Role::Array } else { Role::Archive };
        options.log.expects.roles = (0..3).map(|i| (names[i].to_string(), role(i))).collect();
        let (array, backing) = (vec![named(0), named(1)], backing(&rt, "backing", &shape));
        let volume = LogVolume::new(&rt, array, Some(named(2)), backing, options).unwrap();
        volume.format(&shape.create()).await.unwrap();
        volume.power_on().await.unwrap();
        let oracle = Rc::new(Oracle::new(&volume.caps()));
        let mut scene = Scene { rt: rt.clone(), volume, log, oracle, made: 0 };
        scene.lose(2).await;
        let new = device(&rt, "new");
        let stats = scene.volume.replace(2, "archive".to_string(), new, false).await.unwrap();
        assert_eq!(stats.devices[2].role, Role::Array);
        for worker in scene.work(20) {
            worker.await.unwrap();
        }
        scene.cut().await;
        assert_eq!(scene.health(2), DeviceHealth::Present);
    });
}
