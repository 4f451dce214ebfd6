//! After an access was stopped, told, and let through: the next block is guarded like any other.

use std::alloc::{Layout, System};
use std::ptr::NonNull;

use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};
use debug_guard::{BackEnd, BackEnds, Guard, GuardOptions, Mode, OnReport, Placement};
use testkit::Child;

type Guarded = Guard<FromGlobalAlloc<System>>;

fn guard(options: GuardOptions) -> Guarded {
    Guard::new(FromGlobalAlloc::SYSTEM, options.on_report(OnReport::Call(|_| ()))).expect("a guard")
}

fn offered() -> impl Iterator<Item = BackEnd> {
    BackEnd::ALL.iter().copied().filter(|&back_end| back_end != BackEnd::Cookies && BackEnds::probe().offers(back_end))
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 16).expect("a layout")
}

fn take(guard: &Guarded, size: usize) -> NonNull<u8> {
    guard.allocate(layout(size), Scope::Object).expect("a block")
}

fn give(guard: &Guarded, block: NonNull<u8>, size: usize) {
    // SAFETY: taken by the caller with this layout.
    unsafe { guard.deallocate(block, layout(size), Scope::Object) };
}

/// Writes beyond a block, which the guard stops, tells, and lets through.
fn poke(block: NonNull<u8>, at: usize) {
    // SAFETY: not a byte of the program's; the guard has a page land there.
    let byte = unsafe { block.add(at) };
    // SAFETY: the guard has a page at this byte, which no code of the program owns.
    unsafe { byte.write_volatile(0xAB) };
}

#[test]
fn what_was_written_to_a_landed_page_is_in_no_zeroed_block() {
    Child::alone("what_was_written_to_a_landed_page_is_in_no_zeroed_block", || {
        for back_end in offered() {
            let guard = guard(GuardOptions::new(Mode::Strict).pages(64).back_end(back_end));
            let block = take(&guard, 4096);
            (0..64).for_each(|at| poke(block, 4096 + at));
            assert_eq!(guard.stats().reports, 1, "{back_end}: told once, and let through");
            give(&guard, block, 4096);
            let run = 5 * 4096;
            for _ in 0..400 {
                let zeroed = guard.allocate_zeroed(layout(run), Scope::Object).expect("a run");
                // SAFETY: a live block of that many bytes.
                let bytes = unsafe { core::slice::from_raw_parts(zeroed.as_ptr(), run) };
                assert!(bytes.iter().all(|&byte| byte == 0), "{back_end}");
                give(&guard, zeroed, run);
            }
            assert_eq!(guard.stats().unguarded, 0, "{back_end}: all of them were runs of pages");
        }
    });
}

#[test]
fn the_page_behind_a_cell_stops_its_next_block_too() {
    Child::alone("the_page_behind_a_cell_stops_its_next_block_too", || {
        for back_end in offered() {
            let options = GuardOptions::new(Mode::Fence).quarantine(1, 1 << 20).placement(Placement::Right);
            let guard = guard(options.back_end(back_end));
            let (mut first, mut uses) = (None, 0);
            for _ in 0..500 {
                let block = take(&guard, 64);
                if *first.get_or_insert(block) == block {
                    uses += 1;
                    poke(block, 64);
                    assert_eq!(guard.stats().reports, uses, "{back_end}: use {uses} of the cell");
                }
                give(&guard, block, 64);
            }
            assert!(uses > 2, "{back_end}: the cell came {uses} times");
        }
    });
}

#[test]
fn blocks_of_all_sizes_count_towards_one_limit() {
    let guard = guard(GuardOptions::new(Mode::Strict).max_guarded_bytes(1 << 20));
    if BackEnds::probe().best() == BackEnd::Cookies {
        return testkit::skip("mprotect", "blocks_of_all_sizes_count_towards_one_limit", "no pages to lend");
    }
    let small = take(&guard, 64);
    assert_eq!(guard.stats().unguarded, 0);
    let large = take(&guard, 8 << 20);
    assert_eq!(guard.stats().unguarded, 1, "eight megabytes of a limit of one");
    give(&guard, large, 8 << 20);
    give(&guard, small, 64);
    assert_eq!(guard.stats().live_blocks, 0);
}
