//! Rounds of load, outage and judgement.

use super::client::Complaints;
use super::device::Exported;
use super::drives::promises;
use super::lies::{Liar, Lie};
use super::load::Load;
use super::server::{Outage, Server};
use std::fmt;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;
use tantalum_oracle::{Oracle, Violation};
use tantalum_rt::Stream;
use tokio::task::LocalSet;

/// The parameters of a run.
pub struct Plan {
    pub design: &'static str,
    pub time_scale: u32,
    pub seed: u64,
    pub rounds: u32,
    /// The range of the number of finished commands at the outage.
    pub commands: (u64, u64),
    pub lie: Lie,
    /// The run ends with the round that finds such a violation.
    pub wanted: fn(&Violation) -> bool,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { design, time_scale, seed, .. } = self;
        write!(
            f,
            "{design}, time scale {time_scale}; TANTALUM_NBD_SEED={seed} repeats the commands"
        )
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// The requested seed, or a new one.
pub fn seed() -> u64 {
    number("TANTALUM_NBD_SEED").unwrap_or_else(|| {
        let mut bytes = [0; 4];
        let file = std::fs::File::open("/dev/urandom");
        let read = file.and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
        read.expect("random bytes");
        u32::from_ne_bytes(bytes).into()
    })
}

/// Outages of each design.
pub fn rounds() -> u32 {
    number("TANTALUM_NBD_ROUNDS").map_or(3, |n| n as u32)
}

/// Runs it; returns what the oracle found.
pub fn run(plan: &Plan) -> Vec<Violation> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    LocalSet::new().block_on(&runtime.expect("a runtime"), rounds_of(plan))
}

/// Prints a line at once: if the test hangs, this is the only information.
fn say(text: fmt::Arguments<'_>) {
    // Not `eprintln!`, whose output libtest captures.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

async fn rounds_of(plan: &Plan) -> Vec<Violation> {
    say(format_args!("{plan}"));
    let caps = promises(plan.design);
    let oracle = Oracle::new(&caps);
    let complaints = Complaints::default();
    let mut dice = Stream::new(plan.seed, plan.design);
    let mut server = Server::new(plan.design, plan.time_scale, &format!("{:?}", plan.lie));
    let (mut writes, mut found) = (0, Vec::new());
    for round in 0..plan.rounds {
        let outage = Outage::of(round, &mut dice);
        let nobody = |e: std::io::Error| -> Rc<Exported> {
            panic!("{plan}: round {round}, {outage:?}: nobody serves: {e}")
        };
        let connect =
            |nbd: &Path| Exported::connect(nbd, &caps, &complaints).unwrap_or_else(nobody);
        let export = connect(&server.nbd);
        let liar = Liar::new(export.clone(), plan.lie);
        let host = oracle.host(liar.clone());
        let commands = Stream::new(plan.seed, &format!("{} {round}", plan.design));
        let load = Load::start(&host, commands, &complaints);
        load.until(dice.range(plan.commands.0, plan.commands.1)).await;
        export.begin_outage();
        server.outage(outage);
        writes += load.end().await;
        server.back(outage, &mut dice);

        let export = connect(&server.nbd);
        liar.restart(&export).await.expect("the power is back");
        let seen = oracle.check(&*export).await;
        let told = complaints.borrow().clone();
        assert!(told.is_empty(), "{plan}: round {round}, {outage:?}: {told:#?}");
        found.extend(seen.expect("the power is back"));
        if found.iter().any(plan.wanted) {
            say(format_args!("{plan}: round {round}, {outage:?}: {} violations", found.len()));
            return found;
        }
    }
    let outages = server.outages;
    server.end();
    say(format_args!("{plan}: {outages} outages and {writes} writes, {} violations", found.len()));
    found
}
