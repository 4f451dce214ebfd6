//! The application's side: what a driver gets from a bridge, row by row.

mod common;

use std::alloc::Layout;
use std::cell::Cell;
use std::pin::pin;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use alloc_core::{AllocError, FromGlobalAlloc, HostAllocator, Notice, NoticeEvent, Scope};
use common::{Driver, assert_filled, fill, raw};
use testkit::{Child, Witness};
use vk_callbacks::{BareBridge, Command, Coverage, Notes, Owners};

/// Runs `test` with a driver over a bridge over a witness; nothing may be live afterwards.
fn bridged(test: impl FnOnce(Driver, &Witness, &dyn Fn() -> Notes)) {
    let witness = Witness::system();
    {
        let bridge = pin!(BareBridge::new(&witness));
        test(Driver(bridge.as_ref().raw()), &witness, &|| bridge.notes());
    }
    witness.assert_empty("at the end of the test");
}

/// As [`bridged`] for tests without any fault.
fn faultless(test: impl FnOnce(Driver, &Witness)) {
    bridged(|driver, witness, notes| {
        test(driver, witness);
        assert_eq!(notes().faults(), 0, "{:?}", notes());
    });
}

#[test]
fn v1_pfn_allocation_is_there() {
    faultless(|driver, _| assert!(driver.0.pfn_allocation.is_some()));
}

#[test]
fn v2_pfn_reallocation_is_there() {
    faultless(|driver, _| assert!(driver.0.pfn_reallocation.is_some()));
}

#[test]
fn v3_pfn_free_is_there() {
    faultless(|driver, _| assert!(driver.0.pfn_free.is_some()));
}

#[test]
fn v4_both_notifications_are_there() {
    faultless(|driver, _| assert!(driver.0.pfn_internal_allocation.is_some() && driver.0.pfn_internal_free.is_some()));
}

#[test]
fn v5_the_user_data_tells_bridges_apart() {
    let witnesses = [Witness::system(), Witness::system()];
    let first = pin!(BareBridge::new(&witnesses[0]));
    let second = pin!(BareBridge::new(&witnesses[1]));
    let (a, b) = (Driver(first.as_ref().raw()), Driver(second.as_ref().raw()));
    assert_ne!(a.0.p_user_data, b.0.p_user_data);
    let memory = a.alloc(10, 1, Scope::Object);
    assert_eq!(witnesses.each_ref().map(|w| w.total().live_blocks), [1, 0]);
    a.free(memory);
}

#[test]
fn v6_the_struct_is_only_a_copy() {
    faultless(|driver, _| {
        let copy = Box::new(driver);
        let memory = copy.alloc(100, 8, Scope::Device);
        drop(copy);
        driver.free(memory);
    });
}

#[test]
fn v7_size_zero_is_a_real_block_of_sixteen_bytes() {
    faultless(|driver, witness| {
        let blocks: Vec<_> = (0..9).map(|log| driver.alloc(0, 1 << log, Scope::Command)).collect();
        for (log, block) in blocks.iter().enumerate() {
            assert!(!block.is_null() && block.addr().is_multiple_of(1 << log));
        }
        let mut unique = blocks.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), blocks.len(), "a live pointer was given twice");
        assert_eq!((witness.zero_sized(), witness.total().live_blocks), (0, 9), "size 0 reached the backing");
        let small = driver.alloc(0, 8, Scope::Command);
        assert_eq!(witness.total().allocations, 10);
        assert_eq!(witness.total().live_bytes, 5 * 16 + 32 + 64 + 128 + 256 + 16);
        blocks.into_iter().chain([small]).for_each(|block| driver.free(block));
    });
}

#[test]
fn v7_alignments_one_to_a_megabyte_are_kept_and_take_no_more_than_they_must() {
    faultless(|driver, witness| {
        let top = if cfg!(miri) { 13 } else { 20 };
        for log in 0..=top {
            for size in [1, 4, 16, 100] {
                let block = driver.alloc(size, 1 << log, Scope::Object);
                assert!(block.addr().is_multiple_of(1 << log), "{size} {log}");
                assert_eq!(witness.total().live_bytes as usize, size + (1 << log).max(16));
                fill(block, size, 1);
                driver.free(block);
            }
        }
    });
}

#[test]
fn v7_an_alignment_that_is_no_power_of_two_is_null_and_noted() {
    bridged(|driver, witness, notes| {
        for (i, align) in [0, 3, 24, usize::MAX, (1 << 31) + 1].into_iter().enumerate() {
            assert!(driver.alloc(64, align, Scope::Object).is_null());
            assert_eq!(notes().bad_alignments, i as u64 + 1);
        }
        assert_eq!(witness.total().allocations, 0);
    });
}

#[test]
fn v7_a_size_that_no_machine_has_is_null_and_noted() {
    bridged(|driver, witness, notes| {
        for (i, size) in [usize::MAX, usize::MAX - 15, 1 << 63, 1 << 47].into_iter().enumerate() {
            for align in [1, 16, 64, 8192] {
                assert!(driver.alloc(size, align, Scope::Object).is_null());
            }
            assert_eq!(notes().too_large, 4 * (i as u64 + 1));
        }
        assert_eq!((witness.total().allocations, witness.refused()), (0, 0), "the backing was asked");
    });
}

/// Refuses everything while set; panics while the other is set; asserts the rules of a callee.
#[derive(Default)]
struct Moody {
    inner: Witness2,
    refuse: AtomicBool,
    panics: AtomicBool,
    poison: bool,
    exact: bool,
}

/// A witness with a default.
struct Witness2(Witness);

impl Default for Witness2 {
    fn default() -> Self {
        Self(Witness::system())
    }
}

impl Moody {
    fn mood(&self) -> Result<(), AllocError> {
        assert!(vk_callbacks::in_callback(), "entered from outside of a callback");
        assert!(!self.panics.load(SeqCst), "an allocator with a bug");
        if self.refuse.load(SeqCst) { Err(AllocError) } else { Ok(()) }
    }
}

// SAFETY: blocks are the witness's.
unsafe impl HostAllocator for Moody {
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.mood()?;
        let block = self.inner.0.allocate(layout, scope)?;
        if self.poison {
            // SAFETY: just given with this size.
            unsafe { block.as_ptr().write_bytes(0xa5, layout.size()) };
        }
        Ok(block)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // The block goes first, so that a panic leaks nothing that the test would miss.
        // SAFETY: forwarded.
        unsafe { self.inner.0.deallocate(block, layout, scope) };
        let _ = self.mood();
    }
    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.mood()?;
        // SAFETY: forwarded.
        unsafe { self.inner.0.grow(block, old, new, scope) }
    }
    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.mood()?;
        // SAFETY: forwarded.
        unsafe { self.inner.0.shrink(block, old, new, scope) }
    }
    fn notify(&self, notice: Notice) {
        let _ = self.mood();
        self.inner.0.notify(notice);
    }
    fn exact_alignment(&self) -> bool {
        self.exact
    }
}

fn moody(backing: Moody, test: impl FnOnce(Driver, &Moody, &dyn Fn() -> Notes)) {
    {
        let bridge = pin!(BareBridge::new(&backing));
        test(Driver(bridge.as_ref().raw()), &backing, &|| bridge.notes());
    }
    backing.inner.0.assert_empty("at the end of the test");
}

#[test]
fn v8_a_refusal_is_null() {
    moody(Moody::default(), |driver, backing, notes| {
        backing.refuse.store(true, SeqCst);
        assert!(driver.alloc(64, 8, Scope::Object).is_null());
        assert!(driver.alloc(64, 256, Scope::Object).is_null());
        assert_eq!((notes().backing_refusals, notes().faults()), (2, 0));
    });
}

/// The default hook would print the panics that these tests make on purpose.
fn quietly<R>(body: impl FnOnce() -> R) -> R {
    std::panic::set_hook(Box::new(|info| {
        let ours = info.payload_as_str().is_some_and(|text| text.starts_with("an allocator with a bug"));
        if !ours {
            eprintln!("{info}");
        }
    }));
    body()
}

#[test]
fn v8_a_panic_in_the_allocator_is_null_and_the_bridge_goes_on() {
    quietly(|| {
        moody(Moody::default(), |driver, backing, notes| {
            let kept = driver.alloc(64, 8, Scope::Object);
            let freed = driver.alloc(64, 8, Scope::Object);
            fill(kept, 64, 7);
            backing.panics.store(true, SeqCst);
            assert!(driver.alloc(64, 8, Scope::Object).is_null());
            assert!(driver.realloc(kept, 128, 8, Scope::Object).is_null());
            assert_filled(kept, 64, 7);
            driver.free(freed);
            driver.internal(true, 64, 0, raw(Scope::Object));
            assert_eq!((notes().panics, notes().faults()), (4, 4));
            assert!(!vk_callbacks::in_callback());
            backing.panics.store(false, SeqCst);
            let grown = driver.realloc(kept, 128, 8, Scope::Object);
            assert_filled(grown, 64, 7);
            driver.free(grown);
        });
    });
}

#[test]
fn v9_a_command_can_tell_whether_it_was_refused() {
    moody(Moody::default(), |driver, backing, _| {
        Command::new("vkCreateImage", Owners::default(), Coverage::Partial).run(|frame| {
            driver.free(driver.alloc(64, 8, Scope::Object));
            assert_eq!(frame.null_answers(), 0, "OUT_OF_HOST_MEMORY now would be the driver's own malloc");
            backing.refuse.store(true, SeqCst);
            assert!(driver.alloc(64, 8, Scope::Object).is_null());
            assert_eq!(frame.null_answers(), 1);
        });
    });
}

#[test]
fn v10_new_memory_is_as_the_backing_gave_it() {
    moody(Moody { poison: true, ..Moody::default() }, |driver, _, _| {
        for (size, align) in [(64, 8), (100, 64), (33, 8192)] {
            let block = driver.alloc(size, align, Scope::Object);
            // SAFETY: the backing wrote all bytes of the block.
            assert!((0..size).all(|i| unsafe { block.wrapping_add(i).read() } == 0xa5), "the bridge wrote into the payload");
            driver.free(block);
        }
    });
}

#[test]
fn v11_reallocating_a_foreign_pointer_is_null_and_touches_nothing() {
    bridged(|driver, witness, notes| {
        let mut foreign = [0x11_u64; 8];
        let pointer = (&raw mut foreign).cast::<u8>().wrapping_add(32);
        assert!(driver.realloc(pointer, 64, 8, Scope::Object).is_null());
        assert!(driver.realloc(pointer, 0, 8, Scope::Object).is_null());
        assert_eq!((notes().unknown_pointers, notes().faults()), (2, 2));
        assert_eq!(foreign, [0x11; 8]);
        assert_eq!(witness.total().allocations, 0);
    });
}

#[test]
fn v12_content_up_to_the_smaller_size_survives_every_alignment() {
    faultless(|driver, _| {
        for log in 0..=13 {
            let mut size = 64;
            let mut block = driver.alloc(size, 1 << log, Scope::Cache);
            fill(block, size, log);
            for new in [65, 4000, 300, 16, 5000, 1] {
                block = driver.realloc(block, new, 1 << log, Scope::Cache);
                assert!(block.addr().is_multiple_of(1 << log));
                assert_filled(block, size.min(new), log);
                size = new;
                fill(block, size, log);
            }
            driver.free(block);
        }
    });
}

#[test]
fn v13_reallocating_null_is_an_allocation() {
    faultless(|driver, witness| {
        let block = driver.realloc(ptr::null_mut(), 64, 128, Scope::Device);
        assert!(!block.is_null() && block.addr().is_multiple_of(128));
        assert_eq!(witness.scope(Scope::Device).allocations, 1);
        driver.free(block);
    });
}

#[test]
fn v13_reallocating_null_checks_its_arguments() {
    bridged(|driver, _, notes| {
        assert!(driver.realloc(ptr::null_mut(), 64, 3, Scope::Device).is_null());
        assert!(driver.realloc_raw(ptr::null_mut(), 64, 8, 5).is_null());
        assert_eq!((notes().bad_alignments, notes().bad_scopes), (1, 1));
    });
}

#[test]
fn v14_realloc_to_zero_frees() {
    faultless(|driver, witness| {
        let block = driver.alloc(64, 8, Scope::Object);
        assert!(driver.realloc(block, 0, 8, Scope::Object).is_null());
        assert_eq!(witness.total().live_blocks, 0);
        assert!(driver.realloc(ptr::null_mut(), 0, 8, Scope::Object).is_null(), "NULL and 0: nothing");
        assert_eq!(witness.total().allocations, 1);
    });
}

#[test]
fn v15_another_alignment_is_noted_and_the_original_kept() {
    bridged(|driver, witness, notes| {
        let block = driver.alloc(64, 64, Scope::Object);
        fill(block, 64, 5);
        let grown = driver.realloc(block, 500, 8, Scope::Object);
        assert!(grown.addr().is_multiple_of(64), "the alignment it was made with");
        assert_eq!(witness.total().live_bytes, 500 + 64);
        assert_filled(grown, 64, 5);
        assert_eq!((notes().alignment_changes, notes().faults()), (1, 1));
        let again = driver.realloc_raw(grown, 600, 64, raw(Scope::Device));
        assert_eq!((notes().scope_changes, notes().faults()), (1, 2));
        assert_eq!(witness.scope(Scope::Object).live_blocks, 1, "the scope it was made with");
        driver.free(again);
    });
}

#[test]
fn v16_a_failed_realloc_leaves_the_block() {
    moody(Moody::default(), |driver, backing, notes| {
        for align in [8, 64, 8192] {
            let block = driver.alloc(100, align, Scope::Object);
            fill(block, 100, 2);
            backing.refuse.store(true, SeqCst);
            assert!(driver.realloc(block, 1000, align, Scope::Object).is_null());
            assert!(driver.realloc(block, 10, align, Scope::Object).is_null());
            assert!(driver.realloc(block, usize::MAX, align, Scope::Object).is_null());
            assert_filled(block, 100, 2);
            backing.refuse.store(false, SeqCst);
            let grown = driver.realloc(block, 1000, align, Scope::Object);
            assert_filled(grown, 100, 2);
            driver.free(grown);
        }
        assert_eq!((notes().backing_refusals, notes().too_large, notes().faults()), (6, 3, 3));
    });
}

#[test]
fn v17_realloc_may_stand_for_free_and_finds_alignment_and_size_by_itself() {
    faultless(|driver, _| {
        for (size, align) in [(0, 1), (1, 4), (100, 64), (100, 4096), (7, 8192)] {
            // The arguments beside size 0 need not fit the block: there is nothing left to align.
            let block = driver.alloc(size, align, Scope::Cache);
            assert!(driver.realloc_raw(block, 0, 0, -1).is_null());
        }
    });
}

#[test]
fn v18_free_of_null_is_nothing() {
    faultless(|driver, witness| {
        driver.free(ptr::null_mut());
        assert_eq!(witness.total().frees, 0);
    });
}

/// Keeps what it is given back, so that a stale pointer can be looked at without undefined behaviour.
struct Keeps(Witness, std::sync::Mutex<Vec<(usize, Layout, Scope)>>);

// SAFETY: blocks are the witness's; none is given twice.
unsafe impl HostAllocator for Keeps {
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.0.allocate(layout, scope)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        self.1.lock().expect("no panic inside").push((block.as_ptr().expose_provenance(), layout, scope));
    }
}

impl Keeps {
    fn kept(&self) -> usize {
        self.1.lock().expect("no panic inside").len()
    }
}

impl Drop for Keeps {
    fn drop(&mut self) {
        for (at, layout, scope) in self.1.get_mut().expect("no panic inside").drain(..) {
            let block = NonNull::new(ptr::with_exposed_provenance_mut(at)).expect("a block");
            // SAFETY: given back by the bridge, and kept since.
            unsafe { self.0.deallocate(block, layout, scope) };
        }
    }
}

#[test]
fn v19_a_double_free_is_noted_and_nothing_is_freed_twice() {
    let backing = Keeps(Witness::system(), std::sync::Mutex::default());
    let bridge = pin!(BareBridge::new(&backing));
    let driver = Driver(bridge.as_ref().raw());
    for align in [8, 256] {
        let block = driver.alloc(64, align, Scope::Object);
        driver.free(block);
        let kept = backing.kept();
        driver.free(block);
        assert!(driver.realloc(block, 128, align, Scope::Object).is_null());
        assert_eq!(backing.kept(), kept, "given back twice");
    }
    let moved = driver.alloc(64, 8, Scope::Object);
    let grown = driver.realloc(moved, 4096, 8, Scope::Object);
    driver.free(moved);
    driver.free(grown);
    assert_eq!((bridge.notes().freed_pointers, bridge.notes().faults()), (5, 5), "{:?}", bridge.notes());
}

#[test]
fn v19_m40_the_cookie_catches_a_free_through_another_allocator() {
    let witnesses = [Witness::system(), Witness::system()];
    let first = pin!(BareBridge::new(&witnesses[0]));
    let second = pin!(BareBridge::new(&witnesses[1]));
    let (a, b) = (Driver(first.as_ref().raw()), Driver(second.as_ref().raw()));
    let block = a.alloc(64, 8, Scope::Object);
    b.free(block);
    assert!(b.realloc(block, 100, 8, Scope::Object).is_null());
    assert_eq!((second.notes().unknown_pointers, first.notes().faults()), (2, 0));
    assert_eq!(witnesses[0].total().live_blocks, 1, "still live, still its owner's");
    a.free(block);
    assert_eq!(first.notes().faults(), 0);
}

#[test]
fn m40_mixing_malloc_and_the_bridge_is_caught_at_run_time() {
    bridged(|driver, _, notes| {
        let mut of_malloc = vec![0_u8; 64];
        driver.free(of_malloc.as_mut_ptr().wrapping_add(32));
        driver.free(of_malloc.as_mut_ptr().wrapping_add(33));
        assert_eq!(notes().unknown_pointers, 2);
        assert_eq!(of_malloc, [0; 64]);
        // A header copied in front of another address does not pass: the cookie knows its address.
        let block = driver.alloc(16, 8, Scope::Object);
        let mut copy = [0_u64; 4];
        // SAFETY: the block has 16 bytes in front.
        unsafe { ptr::copy_nonoverlapping(block.wrapping_sub(16), copy.as_mut_ptr().cast(), 16) };
        driver.free((&raw mut copy).cast::<u8>().wrapping_add(16));
        assert_eq!(notes().unknown_pointers, 3);
        driver.free(block);
    });
}

#[test]
fn m40_an_underrun_is_found_when_the_block_is_freed() {
    let backing = Keeps(Witness::system(), std::sync::Mutex::default());
    let bridge = pin!(BareBridge::new(&backing));
    let driver = Driver(bridge.as_ref().raw());
    let block = driver.alloc(16, 8, Scope::Object);
    // SAFETY: the byte in front is the bridge's own and writable.
    let before = unsafe { block.wrapping_sub(1).read() };
    // SAFETY: as above.
    unsafe { block.wrapping_sub(1).write(before ^ 0x40) };
    driver.free(block);
    assert_eq!((bridge.notes().unknown_pointers, backing.kept()), (1, 0));
    // SAFETY: as above.
    unsafe { block.wrapping_sub(1).write(before) };
    driver.free(block);
    assert_eq!(backing.kept(), 1);
}

#[test]
fn v20_only_executable_memory_is_notified() {
    bridged(|driver, witness, notes| {
        driver.internal(true, 4096, 1, raw(Scope::Object));
        driver.internal(true, 4096, 0, 5);
        driver.internal(false, 4096, 0, -1);
        assert_eq!((notes().bad_notifications, notes().faults()), (3, 3));
        assert!(witness.notices().is_empty());
        driver.internal(true, 4096, 0, raw(Scope::Device));
        driver.internal(false, 4096, 0, raw(Scope::Device));
        let told = notes().internal(Scope::Device);
        assert_eq!((told.allocations, told.allocated_bytes, told.frees, told.freed_bytes), (1, 4096, 1, 4096), "in balance");
        assert_eq!(notes().internal(Scope::Object), Default::default());
    });
}

#[test]
fn v21_notifications_are_passed_on_and_change_nothing() {
    faultless(|driver, witness| {
        driver.internal(true, 100, 0, raw(Scope::Object));
        let notices = witness.notices();
        assert!(matches!(notices[..], [Notice { event: NoticeEvent::Allocated, bytes: 100, scope: Scope::Object, .. }]));
        assert_eq!(witness.total().live_bytes, 0);
    });
}

#[test]
fn v24_a_block_may_be_freed_and_reallocated_on_another_thread() {
    struct Sent(*mut u8);
    // SAFETY: the tests hand each block to one thread.
    unsafe impl Send for Sent {}
    faultless(|driver, _| {
        let blocks: Vec<_> = (0..20)
            .map(|i| {
                let block = driver.alloc(100, 1 << (i % 9), Scope::Object);
                fill(block, 100, i);
                Sent(block)
            })
            .collect();
        std::thread::scope(|scope| {
            for (i, block) in blocks.into_iter().enumerate() {
                scope.spawn(move || {
                    let Sent(block) = { block };
                    let grown = driver.realloc(block, 200, 1 << (i % 9), Scope::Object);
                    assert_filled(grown, 100, i as u8);
                    driver.free(grown);
                    driver.free(driver.alloc(10, 1, Scope::Command));
                });
            }
        });
    });
}

#[test]
fn v25_the_thread_knows_that_it_is_inside_a_callback() {
    // `Moody` asserts it on every entry.
    moody(Moody::default(), |driver, _, notes| {
        assert!(!vk_callbacks::in_callback());
        let block = driver.alloc(8, 8, Scope::Command);
        let block = driver.realloc(block, 80, 8, Scope::Command);
        driver.free(block);
        driver.internal(true, 8, 0, 0);
        assert!(!vk_callbacks::in_callback());
        assert_eq!(notes().faults(), 0);
    });
}

#[test]
fn v25_a_command_entered_inside_a_callback_says_so() {
    struct Calls(Cell<bool>);
    // SAFETY: the test has one thread.
    unsafe impl Sync for Calls {}
    // SAFETY: gives nothing out.
    unsafe impl HostAllocator for Calls {
        fn allocate(&self, _: Layout, _: Scope) -> Result<NonNull<u8>, AllocError> {
            let inside = Command::new("vkDeviceWaitIdle", Owners::default(), Coverage::Complete).run(|frame| frame.info());
            self.0.set(inside.entered_in_callback && inside.depth == 2);
            Err(AllocError)
        }
        unsafe fn deallocate(&self, _: NonNull<u8>, _: Layout, _: Scope) {}
    }
    let backing = Calls(Cell::new(false));
    let bridge = pin!(BareBridge::new(&backing));
    let driver = Driver(bridge.as_ref().raw());
    Command::new("vkCreateDevice", Owners::default(), Coverage::Complete).run(|frame| {
        assert!(driver.alloc(8, 8, Scope::Command).is_null());
        assert!(!frame.info().entered_in_callback);
    });
    assert!(backing.0.get());
}

#[test]
#[cfg(not(miri))]
fn v27_an_allocator_may_end_the_process() {
    const NAME: &str = "v27_an_allocator_may_end_the_process";
    struct Aborts;
    // SAFETY: gives nothing out.
    unsafe impl HostAllocator for Aborts {
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

#[test]
fn v35_a_scope_out_of_range_is_null_and_noted() {
    bridged(|driver, witness, notes| {
        for scope in [5, -1, i32::MAX, i32::MIN] {
            assert!(driver.alloc_raw(64, 8, scope).is_null());
        }
        assert_eq!((notes().bad_scopes, witness.total().allocations), (4, 0));
    });
}

#[test]
fn m41_a_guarding_backing_gets_payloads_that_end_where_the_block_ends() {
    let backing = Moody { exact: true, ..Moody::default() };
    moody(backing, |driver, backing, _| {
        for log in 0..=13 {
            for size in [1, 33, 100] {
                let align = 1_usize << log;
                let before = backing.inner.0.total().live_bytes;
                let block = driver.alloc(size, align, Scope::Object);
                let taken = (backing.inner.0.total().live_bytes - before) as usize;
                // What is taken is header or alignment in front, and the payload: nothing behind.
                assert_eq!(taken, size + align.max(16));
                assert!(block.addr().is_multiple_of(align));
                // A backing that was asked for `align` itself gave a base so aligned; the payload is one step behind.
                fill(block, size, log);
                let block = driver.realloc(block, size * 3, align, Scope::Object);
                assert_filled(block, size, log);
                driver.free(block);
            }
        }
    });
}

#[test]
fn m38_one_abstraction_carries_debugging_and_callbacks() {
    // A debugging decorator under a bridge; over it a driver's chain: one trait all the way.
    moody(Moody { poison: true, ..Moody::default() }, |driver, backing, notes| {
        // SAFETY: the bridge outlives the allocator.
        let host = unsafe { vk_callbacks::CallbackAllocator::from_raw(&driver.0) }.expect("whole");
        static OWN: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
        let chain = vk_callbacks::Chain::new(&OWN).instance(Some(&host));
        let block = chain.allocate(Layout::new::<[u8; 40]>(), Scope::Instance).expect("memory");
        // SAFETY: the decorator wrote all of it.
        assert_eq!(unsafe { block.as_ptr().read() }, 0xa5, "the decorator below was not reached");
        assert_eq!(backing.inner.0.scope(Scope::Instance).live_bytes, 40 + 16);
        drop(block);
        assert_eq!(notes().faults(), 0);
    });
}
