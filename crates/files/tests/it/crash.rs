//! Power cuts at any time, also during a mount, on devices that keep at a cut only what they
//! promised. The numbers are those of the invariants.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_device::{Ack, Caps, Payload, PowerCycle, RamDevice, RamOptions};
use tantalum_files::{File, Files, FilesError, FormatOptions, MountOptions, Promise};
use tantalum_rt::{Nanos, Rt, Runtime, Stream};

const CHUNK: u64 = 8192;

/// What may have happened to a file since its last certain state.
#[derive(Clone, Default)]
struct FileModel {
    now: Vec<u8>,
    /// The content that is certain.
    base: Vec<u8>,
    /// The writes since then, with zeros for truncated parts.
    since: Vec<(usize, Vec<u8>)>,
    /// The sizes it has had since.
    sizes: Vec<usize>,
}

impl FileModel {
    fn write(&mut self, at: usize, data: &[u8]) {
        if self.now.len() < at + data.len() {
            self.now.resize(at + data.len(), 0);
        }
        self.now[at..at + data.len()].copy_from_slice(data);
        self.since.push((at, data.to_vec()));
        self.sizes.push(self.now.len());
    }

    fn truncate(&mut self, size: usize) {
        if size < self.now.len() {
            self.since.push((size, vec![0; self.now.len() - size]));
        }
        self.now.resize(size, 0);
        self.sizes.push(size);
    }

    fn settle(&mut self) {
        self.base = self.now.clone();
        self.since.clear();
        self.sizes = vec![self.now.len()];
    }

    /// Why no crash can leave this content, if none can.
    fn refute(&self, found: &[u8]) -> Option<String> {
        let fits = |&s: &usize| {
            found.len() == s || found.len() as u64 == (s as u64).next_multiple_of(CHUNK)
        };
        if !self.sizes.iter().any(fits) {
            return Some(format!("size {} after {:?}", found.len(), self.sizes));
        }
        let mut unexplained: Vec<usize> = (0..found.len())
            .filter(|&i| found[i] != self.base.get(i).copied().unwrap_or(0))
            .collect();
        for (at, data) in &self.since {
            unexplained.retain(|&i| i < *at || data.get(i - at) != Some(&found[i]));
        }
        let i = *unexplained.first()?;
        let (many, is, was) = (unexplained.len(), found[i], self.base.get(i));
        Some(format!("{many} bytes from nowhere, the first at {i}: {is}, was {was:?}"))
    }
}

type Names = BTreeMap<String, usize>;

/// The model of one client, whose names no other client uses.
#[derive(Clone, Default)]
struct Model {
    names: Names,
    /// The directories that a crash may leave: the last certain one and all later ones.
    versions: Vec<Names>,
    files: Vec<FileModel>,
}

impl Model {
    fn change(&mut self, names: Names) {
        self.names = names;
        self.versions.push(self.names.clone());
    }

    fn settle_names(&mut self) {
        self.versions = vec![self.names.clone()];
    }

    fn settle_all(&mut self) {
        self.settle_names();
        self.files.iter_mut().for_each(FileModel::settle);
    }

    /// Makes the state after a crash the certain state.
    fn adopt(&mut self, found: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
        let mut why = String::from("no version of the directory has these names");
        for names in self.versions.iter().rev() {
            if !names.keys().eq(found.keys()) {
                continue;
            }
            let refuted = names.iter().find_map(|(name, id)| {
                self.files[*id].refute(&found[name]).map(|why| format!("{name}: {why}"))
            });
            match refuted {
                Some(w) => why = w,
                None => {
                    self.files = found.values().map(|_| FileModel::default()).collect();
                    self.names = found.keys().cloned().zip(0..).collect();
                    for (file, bytes) in self.files.iter_mut().zip(found.values()) {
                        file.now = bytes.clone();
                    }
                    self.settle_all();
                    return Ok(());
                }
            }
        }
        let versions: Vec<_> = self.versions.iter().map(|v| v.keys().collect::<Vec<_>>()).collect();
        Err(format!("{why}; found {:?}, expected one of {versions:?}", found.keys()))
    }
}

struct Client {
    files: Files<RamDevice>,
    model: Rc<RefCell<Model>>,
    survives: bool,
    prefix: char,
}

impl Client {
    /// One random step. In the model it is possible before it begins, and certain when it must
    /// survive.
    async fn step(&self, dice: &mut Stream) -> Result<(), FilesError> {
        let name = format!("{}{}", self.prefix, dice.below(4));
        let id = self.model.borrow().names.get(&name).copied();
        let Some(id) = id else {
            let mut names = self.model.borrow().names.clone();
            {
                let mut m = self.model.borrow_mut();
                let file = FileModel { sizes: vec![0], ..FileModel::default() };
                m.files.push(file);
                names.insert(name.clone(), m.files.len() - 1);
                m.change(names);
            }
            let promise = promise(dice);
            self.files.create(name.as_bytes(), promise).await?;
            return self.done(promise, None);
        };
        let file = self.files.open(name.as_bytes())?;
        match dice.below(20) {
            0..10 => self.write(&file, id, dice).await?,
            10 | 11 => {
                let size = match dice.below(3) {
                    0 => 0,
                    1 => dice.below(file.size() + 1),
                    _ => (file.size() + dice.below(3 * CHUNK)).min(6 * CHUNK),
                };
                self.model.borrow_mut().files[id].truncate(size as usize);
                file.truncate(size).await?;
            }
            12 | 13 => {
                file.sync().await?;
                return self.done(Promise::Durable, Some(id));
            }
            14 => {
                let mut names = self.model.borrow().names.clone();
                names.remove(&name);
                self.model.borrow_mut().change(names);
                let promise = promise(dice);
                self.files.delete(name.as_bytes(), promise).await?;
                return self.done(promise, None);
            }
            15 => {
                let to = format!("{}{}", self.prefix, dice.below(4));
                let mut names = self.model.borrow().names.clone();
                names.remove(&name);
                names.insert(to.clone(), id);
                self.model.borrow_mut().change(names);
                let promise = promise(dice);
                self.files.rename(name.as_bytes(), to.as_bytes(), promise).await?;
                return self.done(promise, None);
            }
            _ => {
                let mut to = vec![0xa5; 1 + dice.below(3 * CHUNK) as usize];
                let at = dice.below(file.size() + 1);
                let n = file.read(at, &mut to).await?;
                let m = self.model.borrow();
                let now = &m.files[id].now;
                assert_eq!(n, to.len().min(now.len() - at as usize), "short read of {name}");
                assert!(to[..n] == now[at as usize..][..n], "wrong data in {name} at {at}");
            }
        }
        self.done(Promise::Completed, None)
    }

    async fn write(
        &self,
        file: &File<RamDevice>,
        id: usize,
        dice: &mut Stream,
    ) -> Result<(), FilesError> {
        let (mut at, length) = match dice.below(4) {
            // Whole aligned pages, appends of any length, and any other writes.
            0 => (dice.below(12) * 4096, 4096 * (1 + dice.below(4))),
            1 | 2 => (file.size(), 1 + dice.below(3000)),
            _ => (dice.below(5 * CHUNK), 1 + dice.below(9000)),
        };
        at = at.min(8 * CHUNK);
        let mut data = vec![0; length as usize];
        dice.fill(&mut data);
        self.model.borrow_mut().files[id].write(at as usize, &data);
        file.write(at, &data).await
    }

    fn done(&self, promise: Promise, synced: Option<usize>) -> Result<(), FilesError> {
        let mut m = self.model.borrow_mut();
        if self.survives {
            m.settle_all();
        }
        if promise == Promise::Durable {
            m.settle_names();
        }
        if let Some(id) = synced {
            m.files[id].settle();
        }
        Ok(())
    }
}

fn promise(dice: &mut Stream) -> Promise {
    if dice.chance(1, 4) { Promise::Durable } else { Promise::Completed }
}

fn caps(ack: Ack, ordered: bool, block_size: u32, atomic_unit: u32) -> Caps {
    let blocks = (2 << 20) / u64::from(block_size);
    Caps {
        block_size,
        blocks,
        ack,
        flush: true,
        ordered,
        atomic_unit,
        thin: false,
        atomic_group: None,
        payload: Payload::Bytes,
    }
}

/// Mounts, and sometimes cuts the power meanwhile.
async fn mount(
    rt: &Rt,
    device: &RamDevice,
    dice: &mut Stream,
    cuts: &Cell<u32>,
) -> Files<RamDevice> {
    loop {
        let link = device.device();
        let domain = rt.domain();
        let options = MountOptions::default();
        let rt2 = rt.clone();
        let join = domain.spawn("mount", async move { Files::mount(&rt2, link, &options).await });
        if dice.chance(1, 2) {
            rt.sleep(Nanos::from_micros(dice.below(900))).await;
            if !join.is_finished() {
                cuts.set(cuts.get() + 1);
                device.cut();
                domain.kill();
                device.power_on().await.unwrap();
                continue;
            }
        }
        return join.await.unwrap().unwrap();
    }
}

/// Several power cycles of one device; returns the number of cuts during mounts.
fn lives(seed: u64, caps: Caps, lives: u32) -> Result<u32, String> {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let run = async move {
        let mut options = RamOptions::new(caps);
        options.command = Nanos::from_micros(50);
        options.jitter = Nanos::from_micros(100);
        options.flush = Nanos::from_micros(80);
        let device = RamDevice::new(&rt, options);
        let mut dice = rt.stream("the test");
        let format =
            FormatOptions { chunk: CHUNK as u32, directory_bytes: 1024, journal_blocks: 12 };
        Files::format(&rt, &device.device(), &format).await.unwrap();
        let cuts = Cell::new(0);
        let models: Vec<_> = (0..3).map(|_| Rc::new(RefCell::new(Model::default()))).collect();
        for life in 0..lives {
            let files = mount(&rt, &device, &mut dice, &cuts).await;
            for (model, prefix) in models.iter().zip(['a', 'b', 'c']) {
                let mut found = BTreeMap::new();
                for entry in files.list() {
                    let name = String::from_utf8(entry.name.clone()).unwrap();
                    if name.starts_with(prefix) {
                        let mut bytes = vec![0; entry.size as usize];
                        files.open(&entry.name).unwrap().read(0, &mut bytes).await.unwrap();
                        found.insert(name, bytes);
                    }
                }
                if life == 0 {
                    model.borrow_mut().settle_all();
                }
                model.borrow_mut().adopt(&found).map_err(|e| format!("life {life}: {e}"))?;
            }
            let domain = rt.domain();
            let steps = Rc::new(Cell::new(0));
            for (model, prefix) in models.iter().zip(['a', 'b', 'c']) {
                let survives = caps.ack.survives();
                let client =
                    Client { files: files.clone(), model: model.clone(), survives, prefix };
                let mut dice = rt.stream(&format!("client {prefix} {life}"));
                let steps = steps.clone();
                domain.spawn("a client", async move {
                    loop {
                        match client.step(&mut dice).await {
                            Ok(()) => steps.set(steps.get() + 1),
                            Err(FilesError::NoSpace(_)) => panic!("there is room for all"),
                            Err(_) => return,
                        }
                    }
                });
            }
            rt.sleep(Nanos::from_micros(dice.below(30_000))).await;
            device.cut();
            domain.kill();
            device.power_on().await.unwrap();
        }
        Ok(cuts.get())
    };
    runtime.block_on(run).unwrap()
}

fn hold(caps: Caps, seeds: u64) {
    let mut mounting = 0;
    for seed in 0..seeds {
        match lives(seed, caps, 8) {
            Ok(cuts) => mounting += cuts,
            Err(why) => panic!("seed {seed} on {caps:?}: {why}"),
        }
    }
    assert!(mounting > seeds as u32, "only {mounting} cuts while mounting");
}

#[test]
fn i2_to_i6_volatile_unordered_tearing() {
    hold(caps(Ack::Volatile, false, 4096, 512), 150);
}

#[test]
fn i2_to_i6_volatile_unordered_whole_blocks() {
    hold(caps(Ack::Volatile, false, 4096, 4096), 100);
}

#[test]
fn i2_to_i6_volatile_unordered_small_blocks() {
    hold(caps(Ack::Volatile, false, 512, 512), 60);
}

#[test]
fn i2_to_i6_volatile_ordered() {
    hold(caps(Ack::Volatile, true, 4096, 512), 100);
}

#[test]
fn i1_power_safe_ordered() {
    hold(caps(Ack::PowerSafe, true, 4096, 16384), 100);
}

#[test]
fn i1_on_media_unordered_tearing() {
    hold(caps(Ack::OnMedia, false, 4096, 512), 100);
}
