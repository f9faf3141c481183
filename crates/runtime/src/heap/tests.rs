//! Allocation on a node that is alone: where policies put memory, and that freed memory is used again.

use std::sync::{Mutex, MutexGuard};

use multigrain_memory::{Area, GuardChoice, Memory};
use multigrain_protocol::{Kind, Turns};
use multigrain_transport::Mesh;

use super::*;
use crate::config::Config;
use crate::job::Runtime;
use crate::receiver::slots;

/// Memory lies at fixed addresses: one node at a time.
static ALONE: Mutex<()> = Mutex::new(());

const CONSISTENCIES: [Consistency; 4] = Consistency::ALL;

fn node(consistency: Consistency) -> (MutexGuard<'static, ()>, Runtime) {
    let alone = lock(&ALONE);
    let mut memory = multigrain_memory::Config::new(64 << 20, GuardChoice::Mprotect);
    memory.policy.consistency = consistency;
    let memory = Memory::new(&memory).unwrap();
    (alone, Runtime::assemble(&Config::single(), 1, memory, Mesh::single(), None).unwrap())
}

/// The record of the area an allocation lies in, which every minipage agrees with.
fn record(node: &Runtime, address: usize) -> AreaRecord {
    let minipage = node.driver.memory().translate(address).unwrap();
    let record = record_at(&node.driver, address).unwrap();
    assert_eq!(node.driver.tables().consistency_of(minipage), record.consistency);
    record
}

fn area(node: &Runtime, address: usize) -> Area {
    record(node, address).area
}

#[test]
fn allocations_of_unlike_consistency_never_share_an_area() {
    let (_alone, node) = node(Consistency::Sequential);
    let arrays = |policy| node.malloc_array_with(10, 64, policy).unwrap();
    let makers: [(&str, &dyn Fn(Policy) -> usize); 5] = [
        ("small", &|policy| node.malloc_with(64, policy).unwrap()),
        ("pages", &|policy| node.malloc_with(9000, policy).unwrap()),
        ("grain", &|policy| node.malloc_with(64, policy.grain(64)).unwrap()),
        ("block", &|policy| node.malloc_with(1 << 20, policy).unwrap()),
        ("array", &arrays),
    ];
    for (what, make) in makers {
        // Twice, the second time from what was given back.
        for round in 0..2 {
            let made = CONSISTENCIES.map(|each| make(Policy::new().consistency(each)));
            for (address, consistency) in made.into_iter().zip(CONSISTENCIES) {
                assert_eq!(record(&node, address).consistency, consistency, "{what} {round}");
            }
            let mut areas = made.map(|address| area(&node, address).id).to_vec();
            areas.sort_unstable();
            areas.dedup();
            assert_eq!(areas.len(), CONSISTENCIES.len(), "{what} {round}");
            made.iter().for_each(|&address| node.free(address).unwrap());
        }
    }
}

#[test]
fn what_asks_for_nothing_is_as_the_job_has_it() {
    for consistency in CONSISTENCIES {
        let (_alone, node) = node(consistency);
        let made = [
            node.malloc(64),
            node.malloc(9000),
            node.malloc(1 << 20),
            node.malloc_grain(9000, 4096),
            node.malloc_array(10, 64),
            node.malloc_with(64, Policy::new().grain(64)),
        ];
        for address in made {
            assert_eq!(record(&node, address.unwrap()).consistency, consistency);
        }
        let other = Policy::new().consistency(Consistency::Sequential);
        let asked = node.malloc_with(64, other).unwrap();
        assert_eq!(record(&node, asked).consistency, Consistency::Sequential);
    }
}

#[test]
fn an_allocation_of_more_than_a_page_is_cut_into_pages_unless_its_grain_says_otherwise() {
    for consistency in CONSISTENCIES {
        let (_alone, node) = node(consistency);
        for bytes in [PAGE_BYTES, PAGE_BYTES + 1, 9000, 64 << 10, (64 << 10) + 1] {
            let address = node.malloc(bytes).unwrap();
            assert_eq!(area(&node, address).shape, Shape::Pages { pages: 1 }, "{bytes}");
            node.free(address).unwrap();
        }
        let whole = node.malloc_grain(9000, 9000).unwrap();
        assert_eq!(area(&node, whole).shape, Shape::Pages { pages: 3 });
    }
}

#[test]
fn a_release_consistent_page_is_full_before_the_next_one_begins() {
    let (_alone, node) = node(Consistency::LazyRelease);
    let first = node.malloc(60).unwrap();
    assert_eq!(first % PAGE_BYTES, 0);
    for nth in 1..64 {
        assert_eq!(node.malloc(64).unwrap(), first + 64 * nth);
    }
    assert_eq!(node.malloc(57).unwrap(), first + PAGE_BYTES);
    assert_eq!(area(&node, first).shape, Shape::Pages { pages: 1 });
    // Freed alone, though its page is in use.
    node.free(first + 64).unwrap();
    assert!(matches!(node.free(first + 64), Err(Error::NotPermitted(_))));
    assert_eq!(node.malloc(64).unwrap(), first + 64);
}

#[test]
fn a_release_consistent_block_of_pages_is_cut_and_comes_back_whole() {
    let (_alone, node) = node(Consistency::EagerRelease);
    let [one, two] = [9000, 12_000].map(|bytes| node.malloc(bytes).unwrap());
    assert_eq!((area(&node, one).id, two), (area(&node, two).id, one + 3 * PAGE_BYTES));
    let minipages = |address: usize| node.driver.memory().translate_range(address, 9000).count();
    assert_eq!((minipages(one), minipages(two)), (3, 3));
    for address in [one + 1, one + PAGE_BYTES, two + 2 * PAGE_BYTES] {
        assert!(matches!(node.free(address), Err(Error::NotShared(_))));
    }
    node.free(one).unwrap();
    assert_eq!(node.malloc(8193).unwrap(), one);
    node.free(two).unwrap();
    assert_eq!(node.calloc(9000).unwrap(), two);
}

#[test]
fn elements_of_several_pages_begin_pages() {
    let (_alone, node) = node(Consistency::LazyRelease);
    let array = node.malloc_array(5, 6000).unwrap();
    for index in 0..5 {
        assert_eq!(node.element(array, index).unwrap(), array + index * 2 * PAGE_BYTES);
    }
    let small = node.malloc_array(100, 72).unwrap();
    let mut all = [0; 100];
    node.elements(small, &mut all).unwrap();
    assert_eq!((all[55], all[56]), (small + 55 * 72, small + PAGE_BYTES));
    for array in [array, small] {
        node.free(array).unwrap();
        assert!(matches!(node.free(array), Err(Error::NotPermitted(_))));
        assert!(matches!(node.element(array, 0), Err(Error::NotShared(_))));
    }
    // The lowest room there is, whatever was there.
    assert_eq!(node.malloc_array(100, 72).unwrap(), array);
}

#[test]
fn a_grain_is_heeded_by_every_consistency() {
    for consistency in CONSISTENCIES {
        let (_alone, node) = node(consistency);
        let shape = |bytes, grain| {
            let address = node.malloc_with(bytes, Policy::new().grain(grain)).unwrap();
            area(&node, address).shape
        };
        assert_eq!(shape(64, 64).views(), 64);
        assert_eq!(shape(64, usize::MAX).views(), 64);
        assert_eq!(shape(100, 1).views(), 36);
        assert_eq!(shape(9000, 9000), Shape::Pages { pages: 3 });
        assert_eq!(shape(9000, 5000), Shape::Pages { pages: 2 });
        assert_eq!(shape(1 << 20, 8192), Shape::Pages { pages: 2 });
        assert_eq!(shape(1 << 19, usize::MAX), Shape::Pages { pages: 128 });
        let none = Policy::new().grain(0);
        assert!(matches!(node.malloc_with(64, none), Err(Error::Invalid(_))));
        assert!(matches!(node.malloc_array_with(8, 64, none), Err(Error::Invalid(_))));
    }
}

#[test]
fn a_window_outlives_its_thread_and_ends_when_that_waits_for_something_else() {
    let (_alone, node) = node(Consistency::Sequential);
    let driver = &node.driver;
    let minipage = driver.memory().translate(node.malloc(64).unwrap()).unwrap();
    let windows = driver.engine().windows();
    let turns = Turns { count: 1, longest_us: u32::MAX };
    let short_lived = || {
        let (thread, slot) = driver.my_slot().unwrap();
        assert!(windows.begin((thread, minipage), (0, true, Kind::Write), (turns, true), false));
        driver.end(thread, slot);
        assert_eq!(windows.end_on(minipage).len(), 1, "others of the node may go on with it");
        assert!(windows.begin((thread, minipage), (0, true, Kind::Write), (turns, true), false));
        driver.my_slot().unwrap();
        assert_eq!(windows.end_on(minipage), [], "it calls: its windows are over");
        slots::leave();
    };
    std::thread::scope(|scope| scope.spawn(short_lived).join().unwrap());
}

#[test]
fn an_array_where_another_allocation_was_knows_its_elements() {
    for consistency in CONSISTENCIES {
        let (_alone, node) = node(consistency);
        for (count, bytes) in [(1, 8), (1, 64), (3, 8), (1, 4096)] {
            let block = node.malloc_grain(8, 4096).unwrap();
            node.free(block).unwrap();
            let array = node.malloc_array(count, bytes).unwrap();
            assert_eq!(node.element(array, 0).unwrap(), array, "{consistency}, {count} x {bytes}");
            node.free(array).unwrap();
            let block = node.malloc_grain(8, 4096).unwrap();
            assert!(matches!(node.element(block, 0), Err(Error::NotShared(_))), "no array");
            node.free(block).unwrap();
        }
    }
}

#[test]
fn what_is_given_back_is_used_again_by_anything_and_is_zero() {
    let (_alone, node) = node(Consistency::Sequential);
    // 64 MiB over all, most of which each of these needs.
    for (count, bytes) in [(1 << 15, 1024), (6000, 6000), (700, 50_000), (1, 40 << 20)] {
        let array = node.malloc_array(count, bytes).unwrap();
        for element in std::collections::BTreeSet::from([0, count / 2, count - 1]) {
            let place = node.element(array, element).unwrap();
            let place = core::ptr::with_exposed_provenance_mut::<u64>(place);
            // SAFETY: an element of the array, which this node has.
            #[expect(unsafe_code, reason = "shared memory is read by pointer")]
            let was = unsafe { place.replace(u64::MAX) };
            assert_eq!(was, 0, "{count} of {bytes}");
        }
        assert!(node.stats().shared_bytes > 30 << 20);
        node.free(array).unwrap();
        assert_eq!(node.stats().shared_bytes, 0);
        assert!(!node.is_shared(array));
    }
    let large = node.calloc(40 << 20).unwrap();
    node.free(large).unwrap();
    let small: Vec<_> = (0..10_000).map(|_| node.malloc(2000).unwrap()).collect();
    let areas = node.driver.memory().areas();
    small.iter().for_each(|&address| node.free(address).unwrap());
    assert!(areas > 3 && node.driver.memory().areas() == 0, "{areas}");
    node.free(node.calloc(60 << 20).unwrap()).unwrap();
}

#[test]
fn a_minipage_is_of_1_gib_at_most() {
    let (_alone, node) = node(Consistency::Sequential);
    for made in [
        node.malloc_grain(2 << 30, 2 << 30),
        node.malloc_array(1, 2 << 30),
        node.malloc_with(3 << 30, Policy::new().grain(usize::MAX)),
    ] {
        let Err(Error::Limit(line)) = made else { panic!("{made:?}") };
        assert!(line.contains("at most 1 GiB"), "{line}");
    }
    assert!(matches!(node.malloc_grain(1 << 30, 1 << 30), Err(Error::NoMemory(_))));
}

#[test]
fn an_allocation_of_another_size_keeps_its_consistency_and_grain() {
    let (_alone, node) = node(Consistency::Sequential);
    let lazy = Policy::new().consistency(Consistency::LazyRelease);
    let block = node.malloc_with(300_000, lazy.grain(8192)).unwrap();
    let larger = node.realloc(block, 700_000).unwrap();
    assert_ne!(larger, block);
    let record = record(&node, larger);
    assert_eq!(record.consistency, Consistency::LazyRelease);
    assert_eq!(record.area.shape, Shape::Pages { pages: 2 });
    assert_eq!(node.realloc(larger, 600_000).unwrap(), larger);
    assert!(matches!(node.free(block), Err(Error::NotPermitted(_))));
}

#[test]
fn what_a_thread_keeps_is_allocated_once_counted_and_freed_once() {
    let (_alone, node) = node(Consistency::Sequential);
    let sizes = [64, 64, 1000, 100 << 10];
    let kept: Vec<_> = sizes.iter().map(|&bytes| node.malloc(bytes).unwrap()).collect();
    let all = node.stats();
    let twice = |address: usize| {
        let freed = node.free(address);
        assert!(matches!(freed, Err(Error::NotPermitted(_))), "{freed:?}");
    };
    for round in 0..3 {
        for (&address, bytes) in kept.iter().zip(sizes) {
            let before = node.stats().shared_bytes;
            node.free(address).unwrap();
            assert!(before - node.stats().shared_bytes >= bytes as u64, "{round}");
            twice(address);
            std::thread::scope(|scope| scope.spawn(|| twice(address)).join().unwrap());
            assert_eq!(node.malloc(bytes).unwrap(), address, "{round}: its own again");
        }
        let now = node.stats();
        assert_eq!((now.shared_bytes, now.minipages), (all.shared_bytes, all.minipages));
    }
    kept.iter().for_each(|&address| node.free(address).unwrap());
    assert_eq!(node.stats().shared_bytes, 0);
}

#[test]
fn threads_that_allocate_and_free_at_once_never_have_the_same_and_leave_nothing() {
    const ROUNDS: usize = 200;
    let (_alone, node) = node(Consistency::Sequential);
    let (give, take) = std::sync::mpsc::channel::<(usize, u64)>();
    let take = Mutex::new(take);
    let place = |address: usize| core::ptr::with_exposed_provenance_mut::<u64>(address);
    #[expect(unsafe_code, reason = "shared memory is written by pointer")]
    // SAFETY: an allocation of this thread's.
    let put = |address: usize, value: u64| unsafe { place(address).write_volatile(value) };
    #[expect(unsafe_code, reason = "shared memory is read by pointer")]
    // SAFETY: as above.
    let get = |address: usize| unsafe { place(address).read_volatile() };
    let work = |thread: u64, give: std::sync::mpsc::Sender<(usize, u64)>| {
        for round in 0..ROUNDS as u64 {
            let sizes = [48, 64, 2000, 70_000, 48, 300, 100 << 10];
            let mine = sizes.map(|bytes| node.malloc(bytes).unwrap());
            let value = |nth: usize| thread << 32 | round << 8 | nth as u64;
            (0..mine.len()).for_each(|nth| put(mine[nth], value(nth)));
            if round % 3 == 0 {
                std::thread::yield_now();
            }
            for (nth, &address) in mine.iter().enumerate() {
                assert_eq!(get(address), value(nth));
                // Every other one is another thread's to free.
                if (nth as u64 + round).is_multiple_of(2) {
                    node.free(address).unwrap();
                } else {
                    give.send((address, value(nth))).unwrap();
                }
            }
            while let Ok((address, value)) = lock(&take).try_recv() {
                assert_eq!(get(address), value);
                node.free(address).unwrap();
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            let give = give.clone();
            scope.spawn(move || work(thread, give));
        }
    });
    lock(&take).try_iter().for_each(|(address, _)| node.free(address).unwrap());
    assert_eq!(node.stats().shared_bytes, 0);
    // What is kept is found where there is no room else.
    node.free(node.calloc(60 << 20).unwrap()).unwrap();
}
