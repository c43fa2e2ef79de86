//! Requesters that append to a log: what a cut may cost, and how whole requests, split ones and
//! slow devices compare, in virtual time.

use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::presets::SAMPLED;
use tantalum_device::{Bus, Payload, PowerCycle, RamDevice, SampledModel};
use tantalum_log::{Log, LogDevice};
use tantalum_rt::{Nanos, Rt, Runtime};
use tantalum_workload::appends::{AppendJob, Judged, Requesters, StripedLog, Target};

fn model(name: &str) -> SampledModel {
    let (_, text) = SAMPLED.iter().find(|d| d.0 == name).expect("a preset");
    toml::from_str(text).expect("it is sound")
}

fn devices(rt: &Rt, models: &[SampledModel], bus: Option<u64>) -> Vec<RamDevice> {
    let bus = bus.map(|mb_s| Bus::new(mb_s).expect("a bus"));
    let one = |(i, model): (usize, &SampledModel)| {
        let device = model.build(rt, &format!("device {i}"), Payload::Bytes, bus.as_ref());
        device.expect("it can be built")
    };
    models.iter().enumerate().map(one).collect()
}

fn named(devices: &[RamDevice]) -> Vec<LogDevice<RamDevice>> {
    let name = |(i, d): (usize, &RamDevice)| LogDevice::new(format!("device {i}"), d.device());
    devices.iter().enumerate().map(name).collect()
}

async fn made(rt: &Rt, devices: &[RamDevice], job: &AppendJob, unit: u32) -> Log<RamDevice> {
    Log::create(rt, &named(devices), None, &job.create_options()).await.expect("created");
    Log::open(rt, named(devices), job.open_options(unit)).await.expect("opened")
}

/// What a run showed.
struct Ran {
    /// How long requests took, rising.
    took: Vec<Nanos>,
    bytes: u64,
    hedges: u64,
}

impl Ran {
    fn quantile(&self, thousandths: usize) -> Nanos {
        self.took[(self.took.len() - 1) * thousandths / 1000]
    }
}

fn run(models: &[SampledModel], bus: Option<u64>, job: AppendJob, seconds: u64) -> Ran {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let models = models.to_vec();
    let ran = runtime.block_on(async move {
        let devices = devices(&rt, &models, bus);
        let unit = models[0].block_bytes;
        let log = match job.stripe_bytes {
            0 => Some(made(&rt, &devices, &job, unit).await),
            _ => None,
        };
        let target = Rc::new(match log.clone() {
            Some(log) => Target::Log(log),
            None => Target::Striped(StripedLog::new(&rt, devices.clone(), job.stripe_bytes)),
        });
        let requesters = Requesters::new(&rt, job);
        let domain = rt.domain();
        let all: Rc<RefCell<Vec<Nanos>>> = Rc::default();
        let (seen, clock) = (all.clone(), rt.clone());
        let start = rt.now() + Nanos::from_secs(1);
        let bytes = |devices: &[RamDevice]| devices.iter().map(|d| d.bytes_written()).sum::<u64>();
        requesters.start(&domain, &target, unit, move |took| {
            if clock.now() >= start {
                seen.borrow_mut().push(took);
            }
        });
        rt.sleep(Nanos::from_secs(1)).await;
        let before = bytes(&devices);
        rt.sleep(Nanos::from_secs(seconds) - Nanos(1)).await;
        let (after, hedges) = (bytes(&devices), log.map_or(0, |l| l.stats().hedges));
        domain.kill();
        assert_eq!(requesters.failure(), None);
        let mut took = all.take();
        took.sort_unstable();
        Ran { took, bytes: after - before, hedges }
    });
    ran.expect("it ends")
}

#[test]
fn a_cut_costs_nothing_that_was_acknowledged_and_a_lost_log_is_told() {
    let mut runtime = Runtime::virtual_time(7);
    let rt = runtime.handle();
    let job = AppendJob { fill_mib: 1, ..AppendJob::default() };
    let done = runtime.block_on(async move {
        let models = [model("usb-a"), model("usb-a")];
        let devices = devices(&rt, &models, Some(60));
        let mut log = made(&rt, &devices, &job, 512).await;
        let requesters = Requesters::new(&rt, job.clone());
        requesters.fill(&log).await.unwrap();
        for _ in 0..3 {
            let domain = rt.domain();
            requesters.start(&domain, &Rc::new(Target::Log(log)), 512, |_| {});
            let before = requesters.acknowledged();
            rt.sleep(Nanos::from_millis(700)).await;
            devices.iter().for_each(PowerCycle::cut);
            domain.kill();
            assert!(requesters.acknowledged() > before + 100);
            for device in &devices {
                device.off().await;
                device.power_on().await.unwrap();
            }
            log = Log::open(&rt, named(&devices), job.open_options(512)).await.unwrap();
            assert_eq!(requesters.judge(&log).await.unwrap(), Judged::default());
        }
        // A log without their records.
        let others = self::devices(&rt, &models, None);
        let empty = made(&rt, &others, &job, 512).await;
        let judged = requesters.judge(&empty).await.unwrap();
        assert_eq!(judged, Judged { lost: u64::from(job.requesters), wrong: 0 });
    });
    done.unwrap();
}

#[test]
fn whole_requests_are_quicker_than_split_ones() {
    for name in ["usb-a", "usb-b", "usb-c"] {
        let two = [model(name), model(name)];
        let rate = |stripe_bytes, requesters| {
            let job = AppendJob {
                stripe_bytes,
                requesters,
                group_bytes: 4096,
                hedging: false,
                ..AppendJob::default()
            };
            run(&two, Some(60), job, 3).took.len() as f64
        };
        for requesters in [2, 32] {
            let (whole, split) = (rate(0, requesters), rate(2048, requesters));
            println!("{name}, {requesters}: whole / split {:.2}", whole / split);
            assert!(whole > split, "{name}, {requesters}");
        }
        let striped = [512, 16384, 65536, 262144].map(|stripe| rate(stripe, 32));
        let best = striped.into_iter().fold(0.0, f64::max);
        println!("{name}: the best stripe / whole {:.3}", best / rate(0, 32));
    }
}

#[test]
fn hiding_slow_writes_keeps_the_tail_short() {
    let three = [model("net-volume"), model("net-volume"), model("net-volume")];
    let of = |hedging| {
        let job = AppendJob { requesters: 8, hedging, ..AppendJob::default() };
        run(&three, None, job, 20)
    };
    let (with, without) = (of(true), of(false));
    let tail = |ran: &Ran| ran.quantile(999).0 as f64 / ran.quantile(500).0 as f64;
    let bytes = |ran: &Ran| ran.bytes as f64 / ran.took.len() as f64;
    println!(
        "three net-volumes: p99.9 / p50 {:.2}, without hedging {:.2}; {} hedges of {}; bytes {:.4}",
        tail(&with),
        tail(&without),
        with.hedges,
        with.took.len(),
        bytes(&with) / bytes(&without)
    );
    assert!(tail(&with) < tail(&without));
}
