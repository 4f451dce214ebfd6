extern crate std;

use core::alloc::Layout;
use core::num::NonZeroU64;
use core::ptr::NonNull;
use core::sync::atomic::AtomicPtr;
use std::alloc::System;
use std::thread;
use std::vec::Vec;

use alloc_core::{AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator};

use super::*;
use crate::check::records::BlockRequest;

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;
const ASKED: BlockRequest = BlockRequest { size: 64, align: 8, scope: 1 };

fn id(number: u32) -> Option<OwnerId> {
    OwnerId::from_number(number)
}

/// Without the feature `std` all threads have the number 0.
#[test]
fn v11_two_reallocations_around_one_address_are_told_apart_though_threads_are_not() {
    let engine = Engine::new(&SYSTEM, CheckOptions::default(), false);
    let owner = engine.add_owner(|| CallbackOwner::of_log(id(1), "VkBuffer", 0)).expect("there is memory");
    let call = &CallbackCall::unknown(owner);
    let live = |address| engine.blocks.with(&BlockRecord::at(at(address)), |block| block.state);
    use crate::check::records::BlockState::{Live, Moving};
    engine.answered(None, call, ASKED, at(1)).expect("there is memory");
    // The first one has let go of the block, and not returned yet: another thread is given it and begins to move it.
    let first = engine.moving(call, at(1), None).expect("live");
    engine.answered(None, call, ASKED, at(1)).expect("there is memory");
    let second = engine.moving(call, at(1), None).expect("live");
    let room = engine.blocks.promise().expect("there is memory");
    engine.moved(call, (at(1), at(2)), &first, 100, &room);
    assert_eq!((live(1), live(2)), (Some(Moving), Some(Live)));
    engine.not_moved(call, at(1), &second, true);
    assert_eq!((live(1), engine.blocks.count()), (Some(Live), 2));
    let findings = || engine.findings(alloc_core::Scoped::new(&SYSTEM, Scope::Object)).expect("there is memory").len();
    assert_eq!(findings(), 0);
    // The same with the failure of the first one is the application's mistake.
    let first = engine.moving(call, at(1), None).expect("live");
    engine.answered(None, call, ASKED, at(1)).expect("there is memory");
    let _second = engine.moving(call, at(1), None).expect("live");
    engine.not_moved(call, at(1), &first, true);
    assert_eq!((live(1), findings()), (Some(Moving), 1));
}

/// Addresses have different counts: a block that moves must not leave its count behind.
#[test]
fn an_owner_may_hold_blocks_exactly_as_long_as_one_lives_wherever_it_moves() {
    let engine = Engine::new(&SYSTEM, CheckOptions::default(), false);
    let owner = engine.add_owner(|| CallbackOwner::of_log(id(1), "VkBuffer", 0)).expect("there is memory");
    let call = &CallbackCall::unknown(owner);
    let at = |number: u64| at(number * 4096);
    for number in 1..64 {
        assert!(!engine.may_hold_blocks(1), "before {number}");
        engine.answered(None, call, ASKED, at(number)).expect("there is memory");
        for to in number + 1..number + 9 {
            let old = at(to - 1);
            let block = engine.moving(call, old, None).expect("live");
            assert!(engine.may_hold_blocks(1), "moving {number} to {to}");
            let room = engine.blocks.promise().expect("there is memory");
            engine.moved(call, (old, at(to)), &block, 100, &room);
            assert!(engine.may_hold_blocks(1), "moved {number} to {to}");
        }
        let _ = engine.released(call, at(number + 8));
    }
    assert!(!engine.may_hold_blocks(1));
}

#[test]
fn owners_are_found_by_their_number_the_newest_first() {
    let engine = Engine::new(&SYSTEM, CheckOptions::default(), false);
    let own = |number| CallbackOwner::of_log(id(number), "VkBuffer", 0);
    thread::scope(|scope| {
        for worker in 0..4 {
            let (engine, own) = (&engine, &own);
            scope.spawn(move || {
                for number in 0..30 {
                    engine.add_owner(|| own(number * 4 + worker)).expect("there is memory");
                }
            });
        }
    });
    assert!((0..120).all(|number| { engine.numbered(number).is_some_and(|owner| owner.number() == number) }));
    assert!(engine.numbered(120).is_none() && engine.kind_of(id(4000)).is_empty());
    let mut all: Vec<_> = engine.owners().map(CallbackOwner::number).collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..120));
    engine.add_owner(|| CallbackOwner::of_log(id(7), "VkImage", 0)).expect("there is memory");
    assert_eq!((engine.kind_of(id(7)), engine.owners().count()), ("VkImage", 121));
}

/// Memory that moves a block, once, when it is asked for more.
struct MovingMemory {
    engine: AtomicPtr<()>,
    from: AtomicU64,
    to: AtomicU64,
}

fn at(address: u64) -> NonZeroU64 {
    NonZeroU64::new(address).expect("not 0")
}

// SAFETY: every block is the system's.
unsafe impl HostAllocator for MovingMemory {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let engine = self.engine.swap(ptr::null_mut(), Ordering::SeqCst);
        // SAFETY: null, or the engine of the test, which waits for this memory.
        if let Some(engine) = unsafe { engine.cast::<Engine<'_, '_>>().as_ref() } {
            let call = &CallbackCall::unknown(engine.numbered(1).expect("added"));
            let [from, to] = [&self.from, &self.to].map(|address| at(address.load(Ordering::SeqCst)));
            let moving = engine.moving(call, from, None).expect("live");
            let room = engine.blocks.promise().expect("there is memory");
            engine.moved(call, (from, to), &moving, 64, &room);
        }
        SYSTEM.allocate(layout, scope)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: `SYSTEM` allocated the block, with this layout, and it is live.
        unsafe { SYSTEM.deallocate(block, layout, scope) }
    }
}

#[test]
fn v41_a_block_that_moves_while_leftovers_are_looked_for_is_left_all_the_same() {
    const BLOCKS: u64 = 100;
    let memory =
        MovingMemory { engine: AtomicPtr::new(ptr::null_mut()), from: AtomicU64::new(0), to: AtomicU64::new(0) };
    let engine = Engine::new(&memory, CheckOptions::default(), false);
    let owner = engine.add_owner(|| CallbackOwner::of_log(id(1), "VkBuffer", 0)).expect("there is memory");
    let call = &CallbackCall::unknown(owner);
    for number in 1..=BLOCKS {
        engine.answered(None, call, ASKED, at(number * 4096)).expect("there is memory");
    }
    let mut order = Vec::new();
    let mut cursor = Cursor::default();
    while let Some(block) = engine.blocks.next(&mut cursor, |_| true) {
        order.push(block.address);
    }
    // The first in the order of the search is free: there the last one goes when the search has passed.
    let (first, last) = (order[0], order[order.len() - 1]);
    let _ = engine.released(call, first);
    memory.from.store(last.get(), Ordering::SeqCst);
    memory.to.store(first.get(), Ordering::SeqCst);
    memory.engine.store(ptr::from_ref(&engine).cast_mut().cast(), Ordering::SeqCst);
    let kind = FindingKind::LiveAfterDestroy;
    engine.report_leftovers(kind, ReportedAs::Destroy, "vkDestroyBuffer", None, |_| true);
    assert!(memory.engine.load(Ordering::SeqCst).is_null(), "it moved");
    let own = alloc_core::Scoped::new(&SYSTEM, Scope::Object);
    let findings = engine.findings(own).expect("there is memory");
    assert_eq!((findings.len(), findings[0].count), (1, BLOCKS - 1));
}

/// Rows of frees use existing room, which those of requests must leave them.
#[test]
fn findings_about_requests_leave_room_for_those_about_frees() {
    for first in 0..200 {
        let engine = Engine::new(&SYSTEM, CheckOptions::default(), false);
        let engine = engine.with_reserved_rows().expect("there is memory");
        for number in 1..=40 {
            engine.make_ready();
            for kind in [FindingKind::SizeZero, FindingKind::NullFree] {
                engine.report(CheckFinding { owner: id(first * 40 + number), ..CheckFinding::one(kind) });
            }
        }
        assert_eq!(engine.lost(), 0, "owners from {}", first * 40 + 1);
    }
}
