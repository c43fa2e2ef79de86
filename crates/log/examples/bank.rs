//! A bank that keeps its accounts in memory and its transfers in a flash log, on two USB drives in
//! virtual time. The power is cut while transfers are under way; every transfer that was
//! acknowledged is there afterwards, and no money is made or lost.
//!
//! `cargo run -p tantalum-log --example bank`

use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::{Ack, Caps, Payload, PowerCycle, RamDevice, RamOptions};
use tantalum_log::{CreateOptions, Log, LogDevice, LogError, OpenOptions};
use tantalum_rt::{Nanos, Rt, Runtime};

const ACCOUNTS: u64 = 16;
const EACH: i64 = 1000;

/// One transfer, as a record.
fn record(from: u64, to: u64, amount: i64) -> Vec<u8> {
    let words = [from.to_le_bytes(), to.to_le_bytes(), amount.to_le_bytes()];
    words.concat()
}

fn apply(accounts: &mut [i64], record: &[u8]) {
    let word = |i: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&record[8 * i..8 * i + 8]);
        u64::from_le_bytes(word)
    };
    let amount = word(2) as i64;
    accounts[word(0) as usize] -= amount;
    accounts[word(1) as usize] += amount;
}

/// Transfers money until the power goes; counts what was acknowledged.
async fn teller(rt: Rt, log: Log<RamDevice>, name: String, done: Rc<RefCell<Vec<Vec<u8>>>>) {
    let mut dice = rt.stream(&name);
    loop {
        let (from, to) = (dice.below(ACCOUNTS), dice.below(ACCOUNTS));
        let transfer = record(from, to, dice.below(100) as i64);
        match log.commit(&transfer).await {
            Ok(_) => done.borrow_mut().push(transfer),
            Err(LogError::Failed(_)) => return,
            Err(e) => panic!("{e}"),
        }
    }
}

async fn run(rt: Rt) -> Result<(), Box<dyn std::error::Error>> {
    let caps =
        Caps { ack: Ack::Volatile, ordered: false, ..Caps::power_safe(4096, Payload::Bytes) };
    let drive = |name: &str| {
        let options = RamOptions {
            command: Nanos::from_micros(500),
            jitter: Nanos::from_millis(1),
            stream: name.to_string(),
            ..RamOptions::new(caps)
        };
        RamDevice::new(&rt, options)
    };
    let drives = [drive("usb 0"), drive("usb 1")];
    let named = || {
        let all = drives.iter().enumerate();
        all.map(|(i, d)| LogDevice::new(format!("usb {i}"), d.device())).collect::<Vec<_>>()
    };
    Log::create(&rt, &named(), None, &CreateOptions::default()).await?;

    let log = Log::open(&rt, named(), OpenOptions::default()).await?;
    let done = Rc::new(RefCell::new(Vec::new()));
    for i in 0..8 {
        let name = format!("teller {i}");
        rt.spawn(name.clone(), teller(rt.clone(), log.clone(), name, done.clone()));
    }
    rt.sleep(Nanos::from_millis(200)).await;
    let stats = log.stats();
    println!("{} transfers in {} groups", done.borrow().len(), stats.groups);
    drives.iter().for_each(|d| d.cut());
    println!("the power is cut");
    rt.sleep(Nanos::from_millis(10)).await;
    drop(log);

    for drive in &drives {
        drive.power_on().await?;
    }
    let log = Log::open(&rt, named(), OpenOptions::default()).await?;
    let (mut accounts, mut found) = (vec![EACH; ACCOUNTS as usize], Vec::new());
    let mut records = log.read(log.first())?;
    while let Some(record) = records.next().await? {
        apply(&mut accounts, &record.bytes);
        found.push(record.bytes);
    }
    println!("{} transfers were found", found.len());
    assert_eq!(accounts.iter().sum::<i64>(), EACH * ACCOUNTS as i64, "no money is made or lost");
    for transfer in done.borrow().iter() {
        let at = found.iter().position(|f| f == transfer).ok_or("an acknowledged one is lost")?;
        found.swap_remove(at);
    }
    println!("all that were acknowledged are among them; {} more were under way", found.len());
    // The accounts could be written to their place now; then the log is not needed any more.
    log.checkpoint(log.end(), 1).await?;
    Ok(())
}

fn main() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let done = runtime.block_on(async move { run(rt).await.map_err(|e| e.to_string()) });
    if let Err(e) = done.map_err(|e| e.to_string()).and_then(|r| r) {
        eprintln!("{e}");
        std::process::exit(1);
    }
}
