//! A key-value store of one's own, its power cut at every moment. The store is a log on a RAM
//! device: each put writes a block, and a start reads the log up to the first hole.
use std::{cell::RefCell, collections::BTreeMap, rc::Rc};
use tantalum_device::*;
use tantalum_explore::*;
use tantalum_rt::{Nanos, Rt};

const BLOCKS: usize = 512;
type Puts = Vec<(u64, u64)>;

/// A log of puts.
#[derive(Clone)]
pub struct Store {
    log: RamDevice,
    puts: Rc<RefCell<Puts>>,
    /// Whether a start wipes what is behind the hole. It has to.
    wipes: bool,
}
impl Store {
    async fn put(&self, key: u64, value: u64) -> Result<(), IoError> {
        let at = Block(self.puts.borrow().len() as u64);
        self.puts.borrow_mut().push((key, value));
        self.log.device().write(at, Data::Stamps(&[key << 32 | value]), Durability::Normal).await
    }
    async fn open(&self) -> Result<(), IoError> {
        self.log.power_on().await?;
        let (device, mut log) = (self.log.device(), [0; BLOCKS]);
        device.read(Block(0), DataMut::Stamps(&mut log)).await?;
        let puts = log.iter().take_while(|record| **record != 0);
        *self.puts.borrow_mut() = puts.map(|record| (record >> 32, record & 0xffff_ffff)).collect();
        let end = self.puts.borrow().len() as u64;
        if self.wipes {
            device.discard(Blocks { start: Block(end), count: BLOCKS as u64 - end }).await?;
        }
        device.flush().await
    }
}
impl Subject for Store {
    type Judge = History;
    fn judge(&self) -> History {
        History::default()
    }
    fn cut(&self) {
        PowerCycle::cut(&self.log);
    }
    async fn start(&self) -> Result<(), String> {
        self.open().await.map_err(|error| error.to_string())
    }
    fn cut_copy(&self, rt: &Rt) -> Option<Store> {
        Some(Store { log: self.log.cut_copy(rt), puts: Rc::default(), wipes: self.wipes })
    }
}

/// The promise: a start finds all puts up to some moment, that of the last flush or a later one.
#[derive(Clone, Default)]
pub struct History(Rc<RefCell<Promised>>);

#[derive(Clone, Default)]
struct Promised {
    puts: Puts,
    /// The first so many were flushed.
    flushed: usize,
}
impl Judge for History {
    type Subject = Store;
    type Session = Store;
    fn fork(&self) -> History {
        History(Rc::new(self.0.as_ref().clone()))
    }
    fn session(&self, store: &Store) -> Store {
        store.clone()
    }
    async fn send(&self, store: &Store, command: Command) -> Result<(), Failure> {
        let all = self.0.borrow().puts.len();
        let ended = match command {
            Command::Write(key, value) => {
                self.0.borrow_mut().puts.push((key, value));
                store.put(key, value).await
            }
            Command::Flush => {
                store.log.device().flush().await.map(|()| self.0.borrow_mut().flushed = all)
            }
            _ => Ok(()),
        };
        ended.map_err(|error| Failure::of_command(&format!("{command:?}"), &error))
    }
    async fn check(&self, store: &Store) -> Result<(), Failure> {
        let (mut promised, found) = (self.0.borrow_mut(), store.puts.borrow());
        let Promised { puts, flushed } = &mut *promised;
        let pairs = |puts: &[(u64, u64)]| puts.iter().copied().collect::<BTreeMap<_, _>>();
        let upto = (*flushed..=puts.len()).rev().find(|n| pairs(&puts[..*n]) == pairs(&found));
        *flushed = upto.ok_or_else(|| Failure::Promise(format!("was never so: {found:?}")))?;
        puts.truncate(*flushed);
        Ok(())
    }
}

/// Cuts one of its runs at every moment; gives the number of cuts.
pub fn explore(store: Built<Store>, seed: u64) -> Result<u64, Found> {
    let what = Ingredients { hosts: 1, commands: 60, range: 8, ..Ingredients::default() };
    let (scenario, mut tally) = (what.scenario(store, seed).unwrap(), Tally::default());
    let points: Vec<_> = scenario.points(50)?.into_iter().enumerate().collect();
    scenario.explore(&points, Nesting::default(), &mut tally, &|| ())?;
    Ok(tally.all_cuts())
}
pub(crate) fn blank(rt: &Rt, wipes: bool) -> Result<Store, String> {
    let log = RamBlueprint::volatile(BLOCKS as u64).build(rt)?;
    Ok(Store { log, puts: Rc::default(), wipes })
}

fn main() {
    let (step, build) = (Nanos(50_000), |rt: &Rt| blank(rt, true));
    let cuts = explore(Built { rust: "store", blocks: 64, step, build }, 1).unwrap();
    println!("{cuts} cuts: the store keeps its promise");
}
