//! Whatever a guard calls calls the guard back, on the same thread: the allocator behind, the functions of the options,
//! what is handed to lists.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;

use alloc_core::{AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, PointerStatus, Scope};
use debug_guard::{
    BackEnd, CommandMark, GlobalGuard, Guard, GuardError, GuardOptions, LeakMark, Mode, OnReport, Report, Sampling,
    Stacks,
};

type Called = dyn Fn();
type Under = Guard<Behind>;

thread_local! {
    /// What is called back, by this thread.
    static CALLED: RefCell<Option<Box<Called>>> = const { RefCell::new(None) };
    /// How often that was.
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

/// Calls back, unless it is just doing so.
fn call_back() {
    let called = CALLED.take();
    if let Some(called) = called {
        CALLS.set(CALLS.get() + 1);
        called();
        CALLED.set(Some(called));
    }
}

/// The system's allocator, which calls back in the middle of each request and of each free.
struct Behind;

// SAFETY: blocks are the system's.
unsafe impl HostAllocator for Behind {
    fn traits(&self) -> AllocatorTraits {
        FromGlobalAlloc::SYSTEM.traits()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        call_back();
        LIVE.set(LIVE.get() + layout.size() as i64);
        FromGlobalAlloc::SYSTEM.allocate(layout, scope)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        call_back();
        LIVE.set(LIVE.get() - layout.size() as i64);
        // SAFETY: this function's contract: the block is the system's.
        unsafe { FromGlobalAlloc::SYSTEM.deallocate(block, layout, scope) };
        call_back();
    }
}

fn bytes(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a layout")
}

fn allocate(guard: &Under, size: usize) -> NonNull<u8> {
    let block = guard.allocate(bytes(size), Scope::Object).expect("memory");
    // SAFETY: so many bytes of ours.
    unsafe { block.write_bytes(size as u8, size) };
    block
}

fn free(guard: &Under, block: NonNull<u8>, size: usize) {
    // SAFETY: so many bytes of ours.
    let content = unsafe { NonNull::slice_from_raw_parts(block, size).as_ref() };
    assert!(content.iter().all(|byte| *byte == size as u8), "{size} bytes are as they were written");
    // SAFETY: a live block of this guard.
    unsafe { guard.deallocate(block, bytes(size), Scope::Object) };
}

/// Some of all that can be asked of a guard, for blocks of `size` bytes.
fn use_it(guard: &Under, size: usize) {
    let block = allocate(guard, size);
    let large = allocate(guard, 5000);
    let recorded = guard.usable_size(block).is_some();
    assert_eq!(
        guard.validate_pointer(block, 0),
        if recorded { PointerStatus::Live } else { PointerStatus::Unknown },
        "{size}"
    );
    // SAFETY: a live block of this guard.
    let grown = unsafe { guard.resize(block, bytes(size), bytes(size + 40), Scope::Object) }.expect("memory");
    let mut listed = 0;
    guard.live(&mut |_| listed += 1);
    assert!(listed >= usize::from(recorded) && guard.stats().live_blocks >= 2);
    assert_eq!(guard.check_all(), 0);
    guard.leaks(LeakMark::default(), guard.mark(), &mut |_| ());
    // SAFETY: a live block of this guard.
    unsafe { guard.deallocate(grown, bytes(size + 40), Scope::Object) };
    free(guard, large, 5000);
}

/// Gives `f` a guard that can be called back; it and all it took must go at the end, without a report.
fn with_guard(options: GuardOptions, f: impl FnOnce(&'static Under)) {
    let live = LIVE.get();
    let guard: *mut Under = Box::into_raw(Box::new(Guard::new(Behind, options).expect("a guard")));
    // SAFETY: there until the end of this function, where nobody calls back any more.
    f(unsafe { &*guard });
    CALLED.take();
    // SAFETY: made above.
    let guard = unsafe { Box::from_raw(guard) };
    let stats = guard.stats();
    assert_eq!((stats.live_blocks, stats.reports, stats.lost), (0, 0, 0), "{stats}");
    guard.close().map(drop).expect("nothing is live");
    assert_eq!(LIVE.get(), live, "the guard gave back all that it took");
}

/// Under miri there are no pages.
const MODES: &[Mode] =
    if cfg!(miri) { &[Mode::Cookie] } else { &[Mode::Off, Mode::Sampled, Mode::Cookie, Mode::Fence, Mode::Strict] };

/// Those that write every block down.
fn recording() -> impl Iterator<Item = Mode> {
    MODES.iter().copied().filter(|mode| *mode >= Mode::Cookie)
}

fn each(test: impl Fn(GuardOptions)) {
    for mode in MODES {
        for stacks in [Stacks::Off, Stacks::Full] {
            let options = GuardOptions::new(*mode).stacks(stacks).sampling(Sampling::one_in(2).slots(4).first(2));
            test(options.quarantine(20, 4096).pages(1 << 12).on_report(OnReport::Log));
        }
    }
}

/// Blocks of all sizes that come and go, more of them than wait in quarantine.
fn churn(guard: &Under) {
    let mut blocks: Vec<(NonNull<u8>, usize)> = Vec::new();
    for round in 0..if cfg!(miri) { 30 } else { 400 } {
        let size = 1 + round * 37 % 300;
        blocks.push((allocate(guard, size), size));
        if round % 3 != 0 {
            let (block, size) = blocks.swap_remove(round * 7 % blocks.len());
            free(guard, block, size);
        }
    }
    blocks.into_iter().for_each(|(block, size)| free(guard, block, size));
}

#[test]
fn an_allocator_behind_that_reenters_at_every_request_and_free() {
    each(|options| {
        let calls = CALLS.get();
        with_guard(options, |guard| {
            let size = Cell::new(0);
            let within = move || {
                size.set(size.get() % 400 + 1);
                let block = allocate(guard, size.get());
                if size.get().is_multiple_of(16) {
                    use_it(guard, size.get());
                }
                free(guard, block, size.get());
            };
            CALLED.set(Some(Box::new(within)));
            churn(guard);
        });
        // Pages come from the system: there the guard needs little of the allocator behind.
        assert!(CALLS.get() > calls, "it was called back");
    });
}

thread_local! {
    static GUARD: Cell<Option<&'static Under>> = const { Cell::new(None) };
}

#[test]
fn a_command_function_that_reenters_is_not_asked_again_within() {
    fn command() -> Option<CommandMark> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, SeqCst);
        if let Some(guard) = GUARD.get() {
            let size = 1 + serial as usize % 90;
            free(guard, allocate(guard, size), size);
        }
        Some(CommandMark { name: "vkCreateDevice", serial, stack: 0 })
    }
    each(|options| {
        with_guard(options.command(command), |guard| {
            GUARD.set(Some(guard));
            churn(guard);
            GUARD.set(None);
        });
    });
}

/// The answer is about the moment after the command function ran: it may have freed the block.
#[test]
fn a_command_function_that_reenters_vet_changes_its_answer() {
    thread_local! {
        static DOOMED: Cell<Option<NonNull<u8>>> = const { Cell::new(None) };
    }
    fn command() -> Option<CommandMark> {
        if let (Some(guard), Some(block)) = (GUARD.get(), DOOMED.take()) {
            free(guard, block, 24);
        }
        None
    }
    for mode in recording() {
        let options = GuardOptions::new(mode).command(command).on_report(OnReport::Call(|_| ()));
        let guard: &'static Under = Box::leak(Box::new(Guard::new(Behind, options).expect("a guard")));
        let block = allocate(guard, 24);
        assert_eq!(guard.validate_pointer(block, 0), PointerStatus::Live);
        GUARD.set(Some(guard));
        DOOMED.set(Some(block));
        assert_eq!(guard.validate_pointer(block, 0), PointerStatus::Invalid, "{mode}");
        assert_eq!((guard.stats().live_blocks, guard.stats().reports), (0, 1), "{mode}");
        GUARD.set(None);
    }
}

/// Reports from a free, a request and a look at all blocks: each finds the guard in order.
#[test]
fn a_report_function_that_reenters_finds_the_guard_in_order() {
    thread_local! {
        static REPORTS: Cell<u64> = const { Cell::new(0) };
    }
    fn report(_: &Report<'_>) {
        REPORTS.set(REPORTS.get() + 1);
        let guard = GUARD.get().expect("set");
        churn(guard);
        use_it(guard, 77);
    }
    for mode in recording() {
        let options = GuardOptions::new(mode).stacks(Stacks::Off).quarantine(20, 4096).pages(1 << 12);
        let guard: &'static Under =
            Box::leak(Box::new(Guard::new(Behind, options.on_report(OnReport::Call(report))).expect("a guard")));
        GUARD.set(Some(guard));
        let before = REPORTS.get();
        let (block, other) = (allocate(guard, 24), allocate(guard, 30));
        // SAFETY: broken on purpose: a live block, freed with another layout.
        unsafe { guard.deallocate(block, bytes(32), Scope::Object) };
        assert_eq!((REPORTS.get() - before, guard.stats().live_blocks), (1, 1), "{mode}: from a free");
        // SAFETY: broken on purpose: behind the block, and the guard's own.
        unsafe { other.as_ptr().wrapping_add(30).write(0) };
        assert_eq!(guard.check_all(), 1, "{mode}");
        assert_eq!((REPORTS.get() - before, guard.stats().live_blocks), (2, 1), "{mode}: from a look");
        free(guard, other, 30);
        assert_eq!((guard.stats().live_blocks, guard.stats().reports, guard.stats().lost), (0, 2, 0), "{mode}");
        GUARD.set(None);
    }
}

#[test]
fn whoever_is_handed_a_list_and_reenters_is_served() {
    for mode in recording() {
        let options = GuardOptions::new(mode).stacks(Stacks::Full).quarantine(20, 4096).pages(1 << 12);
        with_guard(options.on_report(OnReport::Log), |guard| {
            let blocks: Vec<_> = (1..40).map(|size| (allocate(guard, size), size)).collect();
            let (mut live, mut stacks) = (0, 0);
            guard.live(&mut |_| {
                live += 1;
                use_it(guard, 50);
            });
            let sum = guard.leaks(LeakMark::default(), guard.mark(), &mut |_| {
                stacks += 1;
                use_it(guard, 50);
                assert_eq!(
                    guard.leaks(LeakMark::default(), guard.mark(), &mut |_| ()).blocks,
                    0,
                    "a list within a list is empty"
                );
            });
            assert!(live >= 39 && sum.blocks == 39 && stacks == sum.stacks, "{mode}: {live} {sum:?}");
            blocks.into_iter().for_each(|(block, size)| free(guard, block, size));
        });
    }
}

/// The place in the pool of sampled blocks that a request has is given back, whatever ends it.
#[test]
fn an_allocator_behind_that_unwinds_keeps_no_place_of_the_pool() {
    let options = GuardOptions::new(Mode::Sampled).sampling(Sampling::one_in(1).slots(1)).on_report(OnReport::Log);
    with_guard(options, |guard| {
        if guard.stats().back_end == BackEnd::Cookies {
            return testkit::skip(
                "mprotect",
                "an_allocator_behind_that_unwinds_keeps_no_place_of_the_pool",
                "no back end",
            );
        }
        // The first request takes memory for its call site.
        CALLED.set(Some(Box::new(|| std::panic::resume_unwind(Box::new("on purpose")))));
        catch_unwind(AssertUnwindSafe(|| allocate(guard, 24))).expect_err("the allocator behind unwound");
        CALLED.take();
        let block = allocate(guard, 24);
        assert_eq!(guard.stats().live_guarded, 1, "the only place is free");
        free(guard, block, 24);
    });
}

/// The allocator behind a global guard, which asks that guard for memory when it is first asked itself.
struct AsksTheGuard {
    asks: AtomicBool,
}

static GLOBAL_LIVE: AtomicU64 = AtomicU64::new(0);

static GLOBAL: GlobalGuard<AsksTheGuard> = {
    let options = GuardOptions::new(Mode::Cookie).name("of a program").stacks(Stacks::Off);
    // SAFETY: a static.
    unsafe { GlobalGuard::new(AsksTheGuard { asks: AtomicBool::new(true) }, options) }
};

// SAFETY: blocks are the system's.
unsafe impl GlobalAlloc for AsksTheGuard {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.asks.swap(false, SeqCst) {
            let own = Layout::new::<[u64; 4]>();
            // SAFETY: not of size 0.
            let block = unsafe { GLOBAL.alloc(own) };
            assert!(!block.is_null());
            // SAFETY: given just now.
            unsafe { GLOBAL.dealloc(block, own) };
        }
        GLOBAL_LIVE.fetch_add(layout.size() as u64, SeqCst);
        // SAFETY: this function's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        GLOBAL_LIVE.fetch_sub(layout.size() as u64, SeqCst);
        // SAFETY: this function's contract: the block is the system's.
        unsafe { System.dealloc(block, layout) };
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "threads have no numbers there")]
#[cfg_attr(miri, ignore = "threads have no numbers there")]
fn an_allocator_behind_a_global_guard_that_reenters_while_it_is_set_up_has_it_refused() {
    let (done, ended) = channel();
    // Of its own, so that what waits for itself does not keep this test from failing.
    std::thread::spawn(move || {
        let layout = Layout::new::<[u64; 8]>();
        // SAFETY: not of size 0.
        let block = unsafe { GLOBAL.alloc(layout) };
        assert!(!block.is_null());
        // SAFETY: given just now.
        unsafe { GLOBAL.dealloc(block, layout) };
        done.send(GLOBAL.guard().err()).expect("somebody waits");
    });
    let seen = ended
        .recv_timeout(Duration::from_secs(if cfg!(miri) { 600 } else { 60 }))
        .expect("the guard does not wait for itself");
    assert_eq!(seen, Some(GuardError::CalledBack));
    assert_eq!(GLOBAL_LIVE.load(SeqCst), 0, "nothing is kept for a guard that is none");
}
