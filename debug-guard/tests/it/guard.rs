//! The guard as a whole: which mode a block gets, what is counted, told, listed and given back.

mod policy;
mod unwinding;

use std::alloc::{Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Mutex;

use alloc_core::{Context, ContextOptions, FromGlobalAlloc, HostAllocator, PointerStatus, Scope, TryVec, with_front};
use debug_guard::{
    BackEnd, BackEnds, DetectedAt, FailingAllocator, Fault, Guard, GuardOptions, LeakMark, Mode, OnReport, Placement,
    Report, ReportKind, Rule, Sampling, Stacks,
};

type Under = Guard<FromGlobalAlloc<System>>;

fn guard(options: GuardOptions) -> Under {
    Guard::new(FromGlobalAlloc::SYSTEM, options).expect("a guard")
}

fn bytes(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a layout")
}

fn take(guard: &Under, size: usize) -> NonNull<u8> {
    guard.allocate(bytes(size), Scope::Object).expect("memory")
}

/// Whatever it is that comes back.
fn give(guard: &Under, block: NonNull<u8>, size: usize) {
    // SAFETY: broken on purpose in places: the guard must notice.
    unsafe { guard.deallocate(block, bytes(size), Scope::Object) };
}

const MODES: [Mode; 3] = [Mode::Cookie, Mode::Fence, Mode::Strict];

/// What was reported, in order. One at a time: tests that look at it hold [`ALONE`].
static TOLD: Mutex<Vec<(ReportKind, String)>> = Mutex::new(Vec::new());
static ALONE: Mutex<()> = Mutex::new(());

fn told(report: &Report<'_>) {
    TOLD.lock().expect("not poisoned").push((report.kind, report.to_string()));
}

/// What `f` makes a guard of each mode report.
fn reports(
    mode: Mode,
    change: impl Fn(GuardOptions) -> GuardOptions,
    f: impl FnOnce(&Under),
) -> Vec<(ReportKind, String)> {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    TOLD.lock().expect("not poisoned").clear();
    let guard = guard(change(GuardOptions::new(mode).on_report(OnReport::Call(told))));
    f(&guard);
    let told = std::mem::take(&mut *TOLD.lock().expect("not poisoned"));
    assert_eq!(guard.stats().reports, told.len() as u64);
    told
}

fn kinds(told: &[(ReportKind, String)]) -> Vec<ReportKind> {
    told.iter().map(|(kind, _)| *kind).collect()
}

#[test]
fn all_that_a_free_finds_of_its_own_block_is_the_frees() {
    fn told_when(report: &Report<'_>) {
        TOLD.lock().expect("not poisoned").push((report.kind, report.detected_at.name().to_string()));
    }
    for mode in MODES {
        let told = reports(
            mode,
            |options| options.on_report(OnReport::Call(told_when)),
            |guard| {
                let block = take(guard, 61);
                // SAFETY: the end of the block.
                let behind = unsafe { block.add(61) };
                // SAFETY: broken on purpose: in the block's own page or tail.
                unsafe { behind.write(1) };
                give(guard, block, 60);
            },
        );
        let at_the_free = |kind| (kind, DetectedAt::Free.name().to_string());
        let all = [ReportKind::SizeMismatch, ReportKind::Overflow].map(at_the_free);
        assert_eq!(told, all, "{mode}");
    }
}

#[test]
fn what_was_done_is_counted_and_all_goes_back() {
    for mode in MODES {
        let host = FailingAllocator::new(FromGlobalAlloc::SYSTEM, Fault::Never);
        let guard = Guard::new(host, GuardOptions::new(mode)).expect("a guard");
        let blocks: Vec<NonNull<u8>> =
            (1..=100).map(|size| guard.allocate(bytes(size), Scope::Object).expect("memory")).collect();
        let stats = guard.stats();
        assert_eq!((stats.live_blocks, stats.live_bytes, stats.bytes), (100, 5050, 5050), "{mode}");
        let fenced = mode != Mode::Cookie && stats.back_end != BackEnd::Cookies;
        assert_eq!((stats.guarded, stats.cookies), if fenced { (100, 0) } else { (0, 100) }, "{mode}");
        assert_eq!((stats.unguarded, stats.off, stats.reports), (0, 0, 0), "{mode}");
        let busy = guard.close().expect_err("blocks are live");
        assert_eq!(busy.error.live_blocks, 100);
        let guard = busy.value;
        for (block, size) in blocks.into_iter().zip(1..) {
            // SAFETY: a live block of this guard.
            unsafe { guard.deallocate(block, bytes(size), Scope::Object) };
        }
        assert_eq!((guard.stats().live_blocks, guard.stats().live_bytes), (0, 0), "{mode}");
        let host = guard.close().expect("nothing is live");
        assert_eq!(host.live_bytes(), 0, "{mode}: the guard gave back all that it took");
        assert!(host.requests() > 0);
    }
}

#[test]
fn leaks_between_two_marks_are_summed_up_by_call_site() {
    #[inline(never)]
    fn few(guard: &Under) -> NonNull<u8> {
        std::hint::black_box(take(guard, 1000))
    }
    #[inline(never)]
    fn many(guard: &Under) -> NonNull<u8> {
        std::hint::black_box(take(guard, 8))
    }
    for mode in MODES {
        let guard = guard(GuardOptions::new(mode).stacks(Stacks::Full));
        let older = take(&guard, 5);
        let from = guard.mark();
        let blocks: Vec<NonNull<u8>> = (0..10).map(|_| many(&guard)).collect();
        let large = few(&guard);
        give(&guard, take(&guard, 77), 77);
        let to = guard.mark();
        let younger = take(&guard, 6);

        let mut seen = Vec::new();
        let sum = guard.leaks(from, to, &mut |leak| seen.push((leak.blocks, leak.bytes)));
        assert_eq!(seen, [(1, 1000), (10, 80)], "{mode}");
        assert_eq!((sum.stacks, sum.blocks, sum.bytes), (2, 11, 1080), "{mode}");
        assert_eq!(guard.leaks(LeakMark::default(), from, &mut |_| ()).blocks, 1);
        assert_eq!(guard.leaks(to, guard.mark(), &mut |_| ()).bytes, 6);
        let mut live = 0;
        guard.live(&mut |_| live += 1);
        assert_eq!(live, 13, "{mode}");

        blocks.into_iter().for_each(|block| give(&guard, block, 8));
        give(&guard, large, 1000);
        assert_eq!(guard.leaks(from, to, &mut |_| ()).blocks, 0);
        give(&guard, older, 5);
        give(&guard, younger, 6);
        guard.close().expect("nothing is live");
    }
}

#[test]
fn every_so_many_operations_all_is_looked_at() {
    for mode in MODES {
        let seen = reports(
            mode,
            |options| options.check_every(10).placement(Placement::Left),
            |guard| {
                let block = take(guard, 16);
                // Behind a block there is never this byte; another would be there by chance in one run of some hundred.
                // SAFETY: broken on purpose; the bytes behind the block are the guard's own.
                unsafe { block.as_ptr().wrapping_add(16).write(0) };
                for _ in 0..8 {
                    give(guard, take(guard, 8), 8);
                }
                assert_eq!(guard.stats().reports, 0, "{mode}");
                give(guard, take(guard, 8), 8);
                assert_eq!(guard.stats().reports, 1, "{mode}: the tenth allocation looked");
                assert_eq!(guard.check_all(), 0, "{mode}: what was told is told once");
                give(guard, block, 16);
            },
        );
        assert_eq!(kinds(&seen)[0], ReportKind::Overflow, "{mode}");
    }
}

#[test]
fn a_guard_may_be_moved_and_dropped_with_blocks_live() {
    for mode in MODES {
        let here = guard(GuardOptions::new(mode));
        let block = take(&here, 24);
        let there = Box::new(here);
        // SAFETY: 24 bytes of ours.
        unsafe { block.write_bytes(3, 24) };
        let other = take(&there, 24);
        give(&there, block, 24);
        drop(there);
        // SAFETY: 24 bytes of ours still.
        unsafe { other.write_bytes(4, 24) };
    }
}

/// What a C bridge asks before it reads the header in front of a pointer.
#[test]
fn a_pointer_from_c_is_believed_where_its_header_was_taken() {
    for mode in MODES {
        let through_c = |guard: &Under| {
            let block = with_front(16, || take(guard, 56));
            // SAFETY: within the block.
            (block, unsafe { block.add(16) })
        };
        let seen = reports(
            mode,
            |options| options,
            |guard| {
                let (block, pointer) = through_c(guard);
                assert_eq!(guard.validate_pointer(pointer, 16), PointerStatus::Live, "{mode}");
                assert_eq!(guard.stats().reports, 0, "{mode}: what is right is not told");
                assert_eq!(
                    // SAFETY: within the block.
                    guard.validate_pointer(unsafe { pointer.add(8) }, 16),
                    PointerStatus::Invalid,
                    "{mode}"
                );
                with_front(16, || give(guard, block, 56));
                assert_eq!(guard.validate_pointer(pointer, 16), PointerStatus::Invalid, "{mode}");
            },
        );
        assert_eq!(kinds(&seen), [ReportKind::InteriorFree, ReportKind::DoubleFree], "{mode}");

        let seen = reports(
            mode,
            |options| options,
            |guard| {
                let block = take(guard, 56);
                assert_eq!(
                    guard.validate_pointer(block, 16),
                    PointerStatus::Invalid,
                    "{mode}: there is no header before a block of Rust's"
                );
                give(guard, block, 56);
            },
        );
        assert_eq!(seen.len(), 1, "{mode} {seen:?}");

        let other = guard(GuardOptions::new(mode).name("the owner"));
        let (block, pointer) = through_c(&other);
        let seen = reports(
            mode,
            |options| options,
            |guard| assert_eq!(guard.validate_pointer(pointer, 16), PointerStatus::Invalid, "{mode}"),
        );
        assert_eq!(kinds(&seen), [ReportKind::WrongGuard], "{mode}");
        assert!(seen[0].1.contains("the owner"), "{mode} {}", seen[0].1);
        with_front(16, || give(&other, block, 56));
    }
}

/// Records of pages come in ever larger blocks: where the next one is refused, addresses rest less long.
#[test]
fn a_guard_without_room_for_further_records_uses_its_pages_again() {
    let host = FailingAllocator::new(FromGlobalAlloc::SYSTEM, Fault::Never);
    let guard = Guard::new(&host, GuardOptions::new(Mode::Strict)).expect("a guard");
    host.arm(Fault::SizeAbove((256 << 10) - 1));
    for round in 0..8000 {
        let block = guard.allocate(bytes(40), Scope::Object);
        let block = block.unwrap_or_else(|_| panic!("round {round}"));
        // SAFETY: a live block of this guard.
        unsafe { guard.deallocate(block, bytes(40), Scope::Object) };
    }
    assert_eq!((guard.stats().live_blocks, guard.stats().reports), (0, 0));
}

/// Its site could not be written down, and with it what stands in front: the alignment says that.
#[test]
fn a_bridges_block_is_believed_without_its_site() {
    for mode in MODES {
        let host = FailingAllocator::new(FromGlobalAlloc::SYSTEM, Fault::Never);
        let guard = Guard::new(&host, GuardOptions::new(mode).on_report(OnReport::Log)).expect("a guard");
        // What call sites grow by is refused; each new number of bytes in front is another site.
        host.arm(Fault::SizeAbove((128 << 10) - 1));
        for front in 1..20_000 {
            if let Ok(block) = with_front(front, || guard.allocate(bytes(8), Scope::Object)) {
                // SAFETY: a live block of this guard.
                with_front(front, || unsafe { guard.deallocate(block, bytes(8), Scope::Object) });
            }
            if guard.stats().lost_sites > 0 {
                break;
            }
        }
        let lost = guard.stats().lost_sites;
        for align in [16_usize, 64, 256] {
            let layout = Layout::from_size_align(align + 100, align).expect("a layout");
            let block = with_front(align, || guard.allocate(layout, Scope::Cache)).expect("memory");
            assert_eq!(
                // SAFETY: within the block.
                guard.validate_pointer(unsafe { block.add(align) }, 16),
                PointerStatus::Live,
                "{mode} {align}"
            );
            // SAFETY: a live block of this guard.
            with_front(align, || unsafe { guard.deallocate(block, layout, Scope::Cache) });
        }
        assert!(guard.stats().lost_sites >= lost + 3, "{mode}: something was not written down");
        assert_eq!((guard.stats().reports, guard.stats().live_blocks), (0, 0), "{mode}");
    }
}
