//! Notifications, threads, commands, and what stands behind: V20 and on.

use std::alloc::Layout;
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use alloc_core::{AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, Notice, NoticeEvent, Scope};
use testkit::{Child, RecordingAllocator};
use vk_callbacks::bridge::BareBridge;
use vk_callbacks::{Recorder, TraceEvent, TraceReader};

use super::support::bridged;
use crate::common::{Driver, fill, raw};

#[test]
fn v20_v21_notices_of_executable_memory_alone_are_passed_on_and_change_nothing() {
    bridged(|driver, witness, notes| {
        driver.internal(true, 4096, 1, raw(Scope::Object));
        driver.internal(true, 4096, 0, 5);
        driver.internal(false, 4096, 0, -1);
        assert_eq!((notes().bad_notifications, notes().faults()), (3, 3));
        assert!(witness.notices().is_empty());
        driver.internal(true, 100, 0, raw(Scope::Device));
        driver.internal(false, 100, 0, raw(Scope::Device));
        let notices = witness.notices();
        let passed_on = |notice: &Notice| (notice.event, notice.bytes, notice.scope);
        assert!(
            notices
                .iter()
                .map(passed_on)
                .eq([(NoticeEvent::Allocated, 100, Scope::Device), (NoticeEvent::Freed, 100, Scope::Device)])
        );
        assert_eq!((witness.total().live_bytes, notes().faults()), (0, 3));
    });
}

#[test]
#[cfg(not(miri))]
fn v27_an_allocator_may_end_the_process() {
    const NAME: &str = "circumstances::v27_an_allocator_may_end_the_process";
    struct Aborts;
    // SAFETY: gives nothing out.
    unsafe impl HostAllocator for Aborts {
        fn traits(&self) -> AllocatorTraits {
            AllocatorTraits::new()
        }
        fn allocate(&self, _: Layout, _: Scope) -> Result<NonNull<u8>, AllocError> {
            std::process::exit(42)
        }
        unsafe fn deallocate(&self, _: NonNull<u8>, _: Layout, _: Scope) {}
    }
    if Child::is_child(NAME) {
        let bridge = pin!(BareBridge::new(Aborts));
        Driver(bridge.as_ref().raw()).alloc(8, 8, Scope::Object);
        unreachable!("the callback returned");
    }
    Child::this_test(NAME).run().assert_code(42);
}

/// A backing with a byte behind each block that must not change, verified at the free.
///
/// ```text
/// | the bridge's header | payload | canary |
///  ^ block                         ^ layout.size() behind it
/// ```
struct Canary {
    inner: RecordingAllocator,
    blocks: AtomicUsize,
    overruns: AtomicUsize,
}

impl Canary {
    const BYTE: u8 = 0xc5;

    fn new() -> Self {
        Self { inner: RecordingAllocator::system(), blocks: AtomicUsize::new(0), overruns: AtomicUsize::new(0) }
    }

    fn with(layout: Layout) -> Layout {
        Layout::from_size_align(layout.size() + 1, layout.align()).expect("small")
    }
}

// SAFETY: blocks are the witness's, with a byte more.
unsafe impl HostAllocator for Canary {
    fn traits(&self) -> AllocatorTraits {
        let mut traits = self.inner.traits();
        traits.exact_alignment = true;
        traits
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let block = self.inner.allocate(Self::with(layout), scope)?;
        // SAFETY: the byte behind the requested ones.
        unsafe { block.as_ptr().wrapping_add(layout.size()).write(Self::BYTE) };
        self.blocks.fetch_add(1, SeqCst);
        Ok(block)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: the byte behind the requested ones.
        let byte = unsafe { block.as_ptr().wrapping_add(layout.size()).read() };
        self.overruns.fetch_add(usize::from(byte != Self::BYTE), SeqCst);
        // SAFETY: this function's contract: the block was allocated with one byte more.
        unsafe { self.inner.deallocate(block, Self::with(layout), scope) }
    }
}

/// Guard and record at once: `recorder -> bridge -> guard`, and a driver that writes one byte too many.
#[test]
fn m41_a_guard_below_the_bridge_sees_one_byte_too_many_and_a_recorder_above_the_same_calls() {
    let (guard, log) = (Canary::new(), FromGlobalAlloc::SYSTEM);
    let bridge = pin!(BareBridge::new(&guard));
    let recorder = Recorder::new(&log).expect("memory");
    // SAFETY: the bridge outlives the recorder, and nothing is called after it.
    let driver = Driver(*unsafe { recorder.tap(1, bridge.as_ref().raw()) }.expect("memory").raw());
    let mut rounds = 0;
    for log in 0..=13 {
        for size in [1, 33, 100] {
            let align = 1_usize << log;
            for too_many in [0, 1] {
                let block = driver.alloc(size, align, Scope::Object);
                fill(block, size + too_many, log);
                let before = guard.overruns.load(SeqCst);
                driver.free(block);
                assert_eq!(guard.overruns.load(SeqCst) - before, too_many, "{size} bytes at {align}");
                // A reallocation moves the block, so the old one is looked at, and the new one is as well guarded.
                let block = driver.alloc(size, align, Scope::Object);
                fill(block, size + too_many, log);
                let block = driver.realloc(block, size + 50, align, Scope::Object);
                assert_eq!(guard.overruns.load(SeqCst) - before, 2 * too_many, "{size} bytes at {align}, reallocated");
                fill(block, size + 50 + too_many, log);
                driver.free(block);
                assert_eq!(guard.overruns.load(SeqCst) - before, 3 * too_many, "{size} + 50 bytes at {align}");
                rounds += 1;
            }
        }
    }
    let mut text = String::new();
    recorder.write("a model", &mut text).expect("memory");
    let events: Vec<_> = TraceReader::new(&text).expect("own header").map(|line| line.expect("own line").1).collect();
    let count = |is: fn(&TraceEvent<'_>) -> bool| events.iter().filter(|event| is(event)).count();
    let calls = [
        count(|event| matches!(event, TraceEvent::Allocate { .. })),
        count(|event| matches!(event, TraceEvent::Reallocate { .. })),
        count(|event| matches!(event, TraceEvent::Free { .. })),
    ];
    assert_eq!(calls, [2 * rounds, rounds, 2 * rounds]);
    assert_eq!(guard.blocks.load(SeqCst), calls[0] + calls[1], "the guard gave a block for each");
    recorder.close().expect("nothing is live");
    guard.inner.assert_empty("at the end of the test");
}
