extern crate std;

use core::ptr::NonNull;
use std::alloc::System;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicPtr};
use std::thread;

use alloc_core::{AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, Scope, held_state_locks};

use super::*;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Number {
    key: u64,
    value: u64,
    gone: bool,
}

impl TableEntry for Number {
    fn key(&self) -> u64 {
        self.key
    }
    fn same(&self, other: &Self) -> bool {
        self.key == other.key
    }
    fn gone(&self) -> bool {
        self.gone
    }
}

const fn number(key: u64, value: u64) -> Number {
    Number { key, value, gone: false }
}

/// Memory that can be refused, and that nobody may ask with a lock held.
struct Counting {
    refuses: AtomicBool,
    /// How many blocks it has at most.
    room: AtomicUsize,
    live: AtomicUsize,
}

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

// SAFETY: every block is the system's.
unsafe impl HostAllocator for Counting {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        assert_eq!(held_state_locks(), 0);
        if self.refuses.load(SeqCst) || self.live.load(SeqCst) >= self.room.load(SeqCst) {
            return Err(AllocError);
        }
        self.live.fetch_add(1, SeqCst);
        SYSTEM.allocate(layout, scope)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        assert_eq!(held_state_locks(), 0);
        self.live.fetch_sub(1, SeqCst);
        // SAFETY: `SYSTEM` allocated the block, with this layout, and it is live.
        unsafe { SYSTEM.deallocate(block, layout, scope) }
    }
}

fn counting() -> Counting {
    Counting { refuses: AtomicBool::new(false), room: AtomicUsize::new(usize::MAX), live: AtomicUsize::new(0) }
}

#[test]
fn agrees_with_a_map_over_many_changes() {
    let memory = counting();
    for keeps_gone in [false, true] {
        let table = ShardedTable::<_>::new(&memory, keeps_gone, usize::MAX);
        let mut map = BTreeMap::new();
        let mut seed = 1_u64;
        for step in 0..if cfg!(miri) { 300 } else { 20_000 } {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (seed >> 33) % 500 * 16;
            if seed >> 63 == 0 {
                table.put(number(key, step), |there| *there = number(key, step)).expect("there is memory");
                map.insert(key, step);
            } else {
                let taken = table.with(&number(key, 0), |there| {
                    let before = *there;
                    there.gone = true;
                    before
                });
                let taken = taken.filter(|before| !before.gone).map(|before| before.value);
                assert_eq!(taken, map.remove(&key), "step {step}");
            }
        }
        assert_eq!(table.count(), map.len());
        let mut cursor = Cursor::default();
        let mut all = BTreeMap::new();
        while let Some(next) = table.next(&mut cursor, |entry| !entry.gone) {
            all.insert(next.key, next.value);
        }
        assert_eq!(all, map);
    }
    assert_eq!(memory.live.load(SeqCst), 0);
}

#[test]
fn gone_entries_are_kept_or_forgotten_as_it_was_told() {
    for keeps_gone in [false, true] {
        let table = ShardedTable::<_>::new(&SYSTEM, keeps_gone, usize::MAX);
        for key in 1..=1000 {
            table.put(Number { gone: true, ..number(key, key) }, |_| {}).expect("there is memory");
        }
        let known = (1..=1000).filter(|key| table.with(&number(*key, 0), |_| ()).is_some()).count();
        assert_eq!(known == 1000, keeps_gone, "{known}");
    }
}

const SHARDS: usize = 16;

#[test]
fn what_was_promised_has_room_when_memory_is_refused() {
    let memory = counting();
    let table = ShardedTable::<_>::new(&memory, false, usize::MAX);
    memory.refuses.store(true, SeqCst);
    assert!(table.promise().is_err() && table.put(number(1, 1), |_| {}).is_err());
    memory.refuses.store(false, SeqCst);
    let room = table.promise().expect("there is memory");
    memory.refuses.store(true, SeqCst);
    let mut put = 0;
    while table.put(number(put + 1, 0), |_| {}).is_ok() {
        put += 1;
    }
    // One shard is full, but for what was promised.
    assert!(put > 0);
    room.put(number(put + 1, 7), |_| {});
    assert_eq!(table.with(&number(put + 1, 0), |there| there.value), Some(7));
    drop(room);
    // What is there is found still, and a key that is there is put over itself.
    table.put(number(1, 9), |there| there.value = 9).expect("no memory is needed");
    assert_eq!(table.with(&number(1, 0), |there| there.value), Some(9));
}

#[test]
fn every_shard_has_no_more_entries_than_it_may() {
    let memory = counting();
    let table = ShardedTable::<_>::new(&memory, false, 56);
    let put = (1..10_000).filter(|key| table.put(number(*key, 0), |_| {}).is_ok()).count();
    assert_eq!((put, table.count()), (SHARDS * 56, put));
    // A full one is not rebuilt for nothing, and with gone entries it is.
    memory.refuses.store(true, SeqCst);
    table.make_ready();
    memory.refuses.store(false, SeqCst);
    let blocks = memory.live.load(SeqCst);
    let gone = table.next(&mut Cursor::default(), |entry| mem::replace(&mut entry.gone, true));
    assert!(gone.is_none() && table.count() == 0);
    assert!((10_000..10_100).all(|key| table.put(number(key, 0), |_| {}).is_ok()));
    assert_eq!((table.count(), memory.live.load(SeqCst)), (100, blocks));
}

#[test]
fn a_full_shard_has_room_again_for_each_entry_that_was_removed() {
    let memory = counting();
    let table = ShardedTable::<Number, 1>::new(&memory, false, 28);
    for key in 0..28 {
        table.put(number(key, 0), |_| {}).expect("there is room");
    }
    for round in 0..3_u64 {
        for refused in 0..3 {
            assert!(table.put(number(100 + refused, 0), |_| {}).is_err());
        }
        table.with(&number(round, 0), |entry| entry.gone = true);
        table.put(number(200 + round, 0), |_| {}).expect("one was removed");
    }
    assert_eq!(table.count(), 28);
}

#[test]
fn threads_find_what_they_put() {
    const ROUNDS: u64 = if cfg!(miri) { 30 } else { 2000 };
    let table = ShardedTable::<_>::new(&SYSTEM, false, usize::MAX);
    thread::scope(|scope| {
        for worker in 0..4_u64 {
            let table = &table;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let key = (round << 3 | worker) << 4;
                    table.put(number(key, round), |_| panic!("keys are a thread's own")).expect("there is memory");
                    let found = table.with(&number(key, 0), |there| {
                        there.gone = round % 2 == 0;
                        there.value
                    });
                    assert_eq!(found, Some(round));
                }
            });
        }
    });
    assert_eq!(table.count() as u64, 4 * ROUNDS / 2);
}

#[test]
fn every_promise_is_over_when_it_goes_and_one_that_was_refused_leaves_nothing() {
    let table = ShardedTable::<Number>::new(&SYSTEM, false, 56);
    for round in 0..100 {
        assert!(table.promise().is_ok(), "round {round}");
    }
    // Memory for half of the shards: the promise of each of those is taken back.
    let memory = counting();
    let table = ShardedTable::<_>::new(&memory, false, 56);
    memory.room.store(SHARDS / 2, SeqCst);
    assert!((0..100).all(|_| table.promise().is_err()) && memory.live.load(SeqCst) == SHARDS / 2);
    // Far apart: under some secrets numbers in a row leave shards out.
    let keys = (1..2_000_u64).map(|key| key.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let put = keys.filter(|key| table.put(number(*key, 0), |_| {}).is_ok()).count();
    assert_eq!(put, SHARDS / 2 * FIRST_ENTRIES, "all room of each");
}

#[test]
fn a_shard_that_grew_while_memory_was_taken_is_not_laid_out_again_too_small() {
    /// Fills the table while it waits for memory.
    struct Filling {
        table: AtomicPtr<ShardedTable<'static, Number>>,
        due: AtomicBool,
        /// So many entries.
        count: u64,
    }
    // SAFETY: every block is the system's.
    unsafe impl HostAllocator for Filling {
        fn traits(&self) -> AllocatorTraits {
            AllocatorTraits::new()
        }
        fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
            let block = SYSTEM.allocate(layout, scope)?;
            // SAFETY: null or the table, which waits for this memory.
            if let Some(table) = unsafe { self.table.load(SeqCst).as_ref() }
                && self.due.swap(false, SeqCst)
            {
                (1..=self.count).for_each(|key| table.put(number(key, key), |_| {}).expect("there is memory"));
            }
            Ok(block)
        }
        unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
            // SAFETY: `SYSTEM` allocated the block, with this layout, and it is live.
            unsafe { SYSTEM.deallocate(block, layout, scope) }
        }
    }
    // For some of these numbers the shard is just about to grow again when the memory for the first growth comes.
    for count in (600..900).step_by(if cfg!(miri) { 100 } else { 1 }) {
        let memory = Filling { table: AtomicPtr::new(core::ptr::null_mut()), due: AtomicBool::new(true), count };
        let table = ShardedTable::<_>::new(&memory, false, usize::MAX);
        // It stays here, and nobody looks once it is gone.
        memory.table.store(core::ptr::from_ref(&table).cast_mut().cast(), SeqCst);
        table.put(number(5000, 5000), |_| {}).expect("there is memory");
        assert!(!memory.due.load(SeqCst));
        assert_eq!(table.count() as u64, count + 1);
        assert!((1..=count).chain([5000]).all(|key| table.with(&number(key, 0), |there| there.value) == Some(key)));
    }
}

#[test]
fn a_shard_that_another_thread_has_made_room_in_meanwhile_is_not_refused() {
    let table = ShardedTable::<_, 1>::new(&SYSTEM, false, usize::MAX);
    for key in 1..200 {
        table.put(number(key, key), |_| {}).expect("there is memory");
        // As the slower of two threads that found no room.
        table.make_room(&table.shards[0]).expect("there is memory");
    }
    assert_eq!(table.count(), 199);
}
