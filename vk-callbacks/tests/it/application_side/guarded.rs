//! What a bridge reports to a guarding allocator, and when it validates pointers.

use std::alloc::Layout;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::ptr::{self, NonNull};
use std::sync::Mutex;

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, PointerStatus, Scope, with_requester};
use testkit::RecordingAllocator;
use vk_callbacks::bridge::BareBridge;

use super::support::quietly;
use crate::common::Driver;

/// A guard that knows its blocks, and their parts that the bridge's caller may see. Panics at a contradiction.
struct Guard {
    inner: RecordingAllocator,
    /// By the address that C sees: the block's layout and what is in front.
    seen: Mutex<BTreeMap<usize, (Layout, usize)>>,
    knows: bool,
    panics: Cell<bool>,
}

// SAFETY: the cell is written before the threads of a test begin, and these tests have none.
unsafe impl Sync for Guard {}

impl Guard {
    fn new(knows: bool) -> Self {
        Self { inner: RecordingAllocator::system(), seen: Mutex::default(), knows, panics: Cell::new(false) }
    }

    fn front() -> usize {
        with_requester(|origin| origin.map(|origin| (origin.context, origin.front))).map_or(0, |(context, front)| {
            assert_eq!(context, None, "this bridge stands over no context");
            front
        })
    }

    fn add(&self, block: NonNull<u8>, layout: Layout) {
        self.seen.lock().expect("no panic inside").insert(block.addr().get() + Self::front(), (layout, Self::front()));
    }

    fn remove(&self, block: NonNull<u8>, layout: Layout) {
        let gone = self.seen.lock().expect("no panic inside").remove(&(block.addr().get() + Self::front()));
        assert_eq!(gone, Some((layout, Self::front())));
    }
}

// SAFETY: blocks are the witness's.
unsafe impl HostAllocator for Guard {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new().with_requester()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let block = self.inner.allocate(layout, scope)?;
        self.add(block, layout);
        Ok(block)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        self.remove(block, layout);
        // SAFETY: this function's contract: the block is the witness's.
        unsafe { self.inner.deallocate(block, layout, scope) }
    }
    fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
        assert!(!self.panics.get(), "an allocator with a bug");
        assert_eq!(front, 16, "what the bridge would read");
        match self.seen.lock().expect("no panic inside").contains_key(&pointer.addr().get()) {
            _ if !self.knows => PointerStatus::Unknown,
            true => PointerStatus::Live,
            false => PointerStatus::Invalid,
        }
    }
}

#[test]
fn a_guard_is_told_what_stands_in_front_of_every_block() {
    let guard = Guard::new(true);
    let bridge = pin!(BareBridge::new(&guard));
    let driver = Driver(bridge.as_ref().raw());
    for log in 0..=13 {
        let align = 1_usize << log;
        for size in [1, 33, 100] {
            let block = driver.alloc(size, align, Scope::Object);
            let expected = (Layout::from_size_align(size + align.max(16), align).expect("a layout"), align.max(16));
            assert_eq!(
                guard.seen.lock().expect("no panic").get(&block.addr()),
                Some(&expected),
                "{size} bytes at {align}"
            );
            let block = driver.realloc(block, size + 50, align, Scope::Object);
            assert_eq!(
                guard.seen.lock().expect("no panic").get(&block.addr()).map(|(_, front)| *front),
                Some(align.max(16))
            );
            driver.free(block);
        }
    }
    assert_eq!(bridge.counters().faults(), 0);
    guard.inner.assert_empty("at the end of the test");
}

/// A header at these addresses would be read from pages that are never mapped: had the bridge looked, the process would
/// be gone.
#[test]
fn v11_what_a_guard_refuses_is_not_looked_at() {
    let guard = Guard::new(true);
    let bridge = pin!(BareBridge::new(&guard));
    let driver = Driver(bridge.as_ref().raw());
    for stray in [1, 16, 4096] {
        driver.free(ptr::without_provenance_mut(stray));
        assert!(driver.realloc(ptr::without_provenance_mut(stray), 8, 8, Scope::Object).is_null());
        assert!(driver.realloc(ptr::without_provenance_mut(stray), 0, 8, Scope::Object).is_null());
    }
    let notes = bridge.counters();
    assert_eq!((notes.guard_refusals, notes.faults()), (9, 9));
    // Nothing was allocated for it, and the bridge works as before.
    let block = driver.realloc(ptr::null_mut(), 40, 8, Scope::Object);
    driver.free(ptr::null_mut());
    assert!(driver.realloc(block, 0, 8, Scope::Object).is_null());
    assert_eq!(bridge.counters().faults(), 9);
    guard.inner.assert_empty("at the end of the test");
}

#[test]
fn v19_a_second_free_is_the_guards_to_report() {
    let guard = Guard::new(true);
    let bridge = pin!(BareBridge::new(&guard));
    let driver = Driver(bridge.as_ref().raw());
    let block = driver.alloc(40, 8, Scope::Object);
    driver.free(block);
    driver.free(block);
    let notes = bridge.counters();
    assert_eq!((notes.guard_refusals, notes.freed_pointers), (1, 0));
}

#[test]
fn where_a_guard_knows_nothing_the_header_decides() {
    let guard = Guard::new(false);
    let bridge = pin!(BareBridge::new(&guard));
    let driver = Driver(bridge.as_ref().raw());
    let block = driver.alloc(40, 8, Scope::Object);
    let mut foreign = [0_u64; 4];
    driver.free((&raw mut foreign).cast::<u8>().wrapping_add(16));
    let notes = bridge.counters();
    assert_eq!((notes.guard_refusals, notes.unknown_pointers), (0, 1));
    driver.free(block);
    guard.inner.assert_empty("at the end of the test");
}

#[test]
#[cfg(feature = "std")]
fn a_guard_that_panics_while_it_reports_unwinds_into_no_driver() {
    quietly(|| {
        let guard = Guard::new(true);
        let bridge = pin!(BareBridge::new(&guard));
        let driver = Driver(bridge.as_ref().raw());
        let block = driver.alloc(40, 8, Scope::Object);
        guard.panics.set(true);
        driver.free(block);
        assert!(driver.realloc(block, 80, 8, Scope::Object).is_null());
        assert_eq!((bridge.counters().panics, bridge.counters().faults()), (2, 2));
        guard.panics.set(false);
        driver.free(block);
        guard.inner.assert_empty("at the end of the test");
    });
}
