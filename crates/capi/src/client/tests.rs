//! Calls fail with a reason when the drive's thread fails.

use super::*;
use crate::TANTALUM_EINVAL;
use crate::abi::tantalum_recovery;
use crate::command::{Ram, carry_out};
use tantalum_device::{Ack, IoError, Payload, RamDevice, RamOptions};
use tantalum_drive::Drive;

/// A RAM drive with a defect.
#[derive(Clone)]
struct Broken {
    ram: Ram,
    /// A cut panics.
    panics: bool,
    /// A cut never ends.
    stays: bool,
}

impl PowerCycle for Broken {
    type Device = RamDevice;

    fn device(&self) -> RamDevice {
        self.ram.device()
    }

    fn cut(&self) {
        assert!(!self.panics, "a planted panic");
        self.ram.cut();
    }

    async fn off(&self) {
        if self.stays {
            std::future::pending().await
        }
    }

    async fn power_on(&self) -> Result<(), IoError> {
        self.ram.power_on().await
    }
}

impl Chassis for Broken {
    fn drive(&self) -> Option<&Drive> {
        None
    }

    fn is_off(&self) -> bool {
        self.ram.is_off()
    }

    async fn settled(&self) {
        self.ram.settled().await;
    }

    fn last_recovery(&self) -> tantalum_recovery {
        self.ram.last_recovery()
    }

    fn cuts(&self) -> u64 {
        0
    }
}

fn ram(rt: &Rt) -> Ram {
    let caps = Caps {
        block_size: 512,
        blocks: 8,
        thin: false,
        ack: Ack::Volatile,
        flush: true,
        ordered: false,
        atomic_unit: 512,
        atomic_group: None,
        payload: Payload::Bytes,
    };
    let mut options = RamOptions::new(caps);
    options.start = Nanos(5000);
    Ram::new(rt, RamDevice::new(rt, options))
}

/// Whoever settles a drive that another one starts, or starts it too, waits for that start.
#[test]
fn a_start_that_is_under_way_is_waited_for() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let told = runtime.block_on(async move {
        let drive = Stats::new(&rt, ram(&rt));
        drive.power_on().await.unwrap();
        drive.cut();
        let ask = |command| {
            let asked = carry_out(rt.clone(), drive.clone(), command);
            rt.spawn("a caller", async move {
                match asked.await.unwrap_or_else(|_| panic!("it fails")) {
                    Done::Started(recovery) => recovery.ready_ns,
                    _ => panic!("it is no start"),
                }
            })
        };
        let start = || Command::Start { salvage: false };
        let asked = [ask(start()), ask(Command::Settle), ask(start())];
        let mut told = Vec::new();
        for one in asked {
            told.push(one.await.unwrap());
        }
        told.push(rt.now().0);
        told
    });
    assert_eq!(told.unwrap(), [5000; 4]);
}

fn broken(panics: bool, stays: bool) -> Client {
    Client::open(1, move |rt| Ok(Broken { ram: ram(rt), panics, stays })).expect("it opens")
}

/// Checks that every further call fails with the reason, and none waits for ever.
fn is_dead(client: &Client, why: &str) {
    let failures = [
        client.order(Command::Flush).err(),
        client.submit(0, || Command::Flush, None).err(),
        client.wait(vec![1]).err(),
        client.now().err(),
        client.count().err(),
    ];
    for failure in failures {
        let failure = failure.expect("the drive is dead");
        assert_eq!(failure.code, TANTALUM_EINTERNAL);
        assert!(failure.message.contains(why), "{}", failure.message);
    }
}

#[test]
fn a_panic_while_opening_is_a_failure() {
    let open = Client::open(1, |_: &Rt| -> Result<Ram, Failure> { panic!("a planted panic") });
    let failure = open.err().expect("it does not open");
    assert_eq!(failure.code, TANTALUM_EINTERNAL);
    assert!(failure.message.contains("a planted panic"), "{}", failure.message);
}

#[test]
fn a_panic_of_the_drive_fails_the_call_and_all_later_ones() {
    let client = broken(true, false);
    let ticket = client.submit(0, || Command::Flush, None).expect("it is taken");
    let failure = client.order(Command::Cut).expect_err("it panics");
    assert_eq!(failure.code, TANTALUM_EINTERNAL);
    assert!(client.wait(vec![ticket]).is_err());
    is_dead(&client, "a planted panic");
    client.close();
    is_dead(&client, "a planted panic");
}

#[test]
fn a_run_that_stalls_fails_the_calls_that_wait_and_names_them() {
    let client = broken(false, true);
    let failure = client.order(Command::Cut).expect_err("it never ends");
    assert_eq!(failure.code, TANTALUM_EINTERNAL);
    assert!(failure.message.contains("\"a power cut\""), "{}", failure.message);
    is_dead(&client, "stalled");
}

#[test]
fn a_closed_drive_refuses_everything() {
    let client = Client::open(1, |rt| Ok(ram(rt))).expect("it opens");
    client.close();
    assert_eq!(client.order(Command::Flush).expect_err("closed").code, TANTALUM_EINVAL);
    assert_eq!(client.now().expect_err("closed").code, TANTALUM_EINVAL);
    client.close();
}
