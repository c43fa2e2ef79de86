//! Threads on one directory in all orders that loom tells apart, and with a death before each store:
//! a page that is there is found, whole, and with the newest version; nobody waits for the dead.

use super::sys::death;
use super::{Batch, Directory, Liveness, Owner, Region, Shape, Since, Version};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;

/// Owner 2 is dead once this says so.
struct Living(AtomicU64);

impl Liveness for Living {
    fn is_alive(&self, owner: Owner) -> bool {
        owner.0.get() != self.0.load(Ordering::Acquire)
    }
}

fn attach(region: &Region, living: &Arc<Living>, owner: u64) -> Directory {
    let owner = Owner::new(owner).unwrap();
    Directory::attach(region.clone(), owner, living.clone()).unwrap()
}

fn version(page: u64, lsn: u64) -> Version {
    Version { page, lsn, checksum: (page * 1000 + lsn) as u32, dirty: true }
}

fn write(directory: &Directory, versions: &[Version]) {
    let batch = directory.reserve().unwrap();
    for version in versions {
        directory.stage(&batch, *version).unwrap();
    }
    directory.close(&batch).unwrap();
    directory.publish(&batch).unwrap();
}

/// A directory with two pages of one chain, and the batch of owner 2.
struct Scene {
    region: Region,
    living: Arc<Living>,
    first: Directory,
    second: Directory,
    batch: Batch,
    pages: [u64; 2],
}

fn scene() -> Scene {
    let shape = Shape { frames: 4, batch: 2 };
    let region = Region::owned(shape.bytes_needed().unwrap());
    let living = Arc::new(Living(AtomicU64::new(0)));
    let owner = Owner::new(1).unwrap();
    let first = Directory::format(region.clone(), shape, 0, owner, living.clone()).unwrap();
    let second = attach(&region, &living, 2);
    let chain = first.chain_of(1);
    let other = (2..).find(|page| first.chain_of(*page) == chain).unwrap();
    let pages = [1, other];
    write(&first, &[version(pages[0], 1), version(pages[1], 1)]);
    let batch = second.reserve().unwrap();
    Scene { region, living, first, second, batch, pages }
}

/// Looks a page up that is there all the time.
fn found(directory: &Directory, page: u64) -> u64 {
    let entry = directory.lookup(page).expect("the page is there");
    assert!(entry.page == page && entry.checksum == version(page, entry.lsn).checksum, "{entry:?}");
    entry.lsn
}

fn model(bound: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.max_branches = 20_000;
    builder.check(test);
}

/// Page number `which` of the chain is replaced, while both are looked up.
fn a_page_is_found_while(which: usize) {
    model(3, move || {
        let Scene { first, second, batch, pages, .. } = scene();
        let writer = thread::spawn(move || {
            second.stage(&batch, version(pages[which], 2)).unwrap();
        });
        let seen = found(&first, pages[which]);
        assert_eq!(found(&first, pages[1 - which]), 1);
        assert!(seen <= found(&first, pages[which]));
        writer.join().unwrap();
        assert_eq!(found(&first, pages[which]), 2);
        first.audit().unwrap();
    });
}

#[test]
fn the_last_page_of_a_chain_is_found_while_it_is_replaced() {
    a_page_is_found_while(0);
}

#[test]
fn the_first_page_of_a_chain_is_found_while_it_is_replaced() {
    a_page_is_found_while(1);
}

#[test]
fn a_frame_that_is_used_again_is_never_taken_for_what_it_was() {
    model(2, || {
        let Scene { first, second, batch, pages, .. } = scene();
        let replacer = thread::spawn(move || {
            second.stage(&batch, version(pages[1], 2)).unwrap();
            second.close(&batch).unwrap();
            second.publish(&batch).unwrap();
            let front = second.take_front().unwrap();
            second.mark_clean(&second.peek(pages[0]).unwrap());
            second.release(&front).unwrap();
            write(&second, &[version(7, 3)]);
        });
        if let Some(entry) = first.lookup(pages[0]) {
            assert_eq!((entry.page, entry.lsn), (pages[0], 1));
            assert_eq!(entry.checksum, version(pages[0], 1).checksum);
            // Page 7 comes after the release.
            let reused = first.peek(7).is_some();
            assert!(!reused || first.check(&entry) == Since::Reused);
        }
        found(&first, pages[1]);
        replacer.join().unwrap();
        first.audit().unwrap();
    });
}

#[test]
fn of_two_that_replace_a_page_the_newer_one_stays() {
    model(2, || {
        let Scene { region, living, first, second, batch, pages } = scene();
        let thread_of_second = attach(&region, &living, 2);
        let writer = thread::spawn(move || {
            second.stage(&batch, version(pages[0], 3)).unwrap();
        });
        let other = thread_of_second.stage(&batch, version(pages[0], 2));
        writer.join().unwrap();
        assert_eq!(found(&first, pages[0]), 3);
        assert!(other.is_err() || other.unwrap().older.is_some());
        first.audit().unwrap();
    });
}

/// Owner 2 stages, and dies before store number `stores`, while owner 1 looks up, stages the other
/// page, and at last gives up the batch.
fn a_death(stores: u64) {
    model(2, move || {
        let Scene { living, first, second, batch, pages, .. } = scene();
        let writer = thread::spawn(move || {
            let work = || second.stage(&batch, version(pages[0], 2)).unwrap();
            let lived = death::after(stores, work).is_some();
            living.0.store(2, Ordering::Release);
            lived
        });
        let before = found(&first, pages[0]);
        // The lock may be held by the one who dies.
        assert_eq!(first.forget(pages[1]).map(|entry| entry.lsn), Some(1));
        let after = found(&first, pages[0]);
        assert!(before <= after && first.peek(pages[1]).is_none());
        let lived = writer.join().unwrap();
        let last = found(&first, pages[0]);
        assert!(after <= last && (!lived || last == 2));
        let batch = first.adopt().unwrap();
        first.abandon(&batch).unwrap();
        assert_eq!(found(&first, pages[0]), 1);
        first.audit().unwrap();
    });
}

#[test]
fn nobody_waits_for_the_dead() {
    // Staging a page that is there has 16 stores: the last two outlive it.
    (0..18).for_each(a_death);
}
