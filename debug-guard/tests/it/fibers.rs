//! Stacks that a program makes itself: nobody but the program knows where they end, and what lies above them may go.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::alloc::{Layout, System};
use std::arch::asm;
use std::ptr::{NonNull, without_provenance_mut};
use std::sync::OnceLock;

use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};
use debug_guard::{BackEnd, BackEnds, Guard, GuardOptions, Mode, OnReport, Stacks};
use testkit::Child;

type Guarded = Guard<FromGlobalAlloc<System>>;

static GUARD: OnceLock<Guarded> = OnceLock::new();
const STACK: usize = 1 << 20;
const SMALL: usize = 128 << 10;

fn guard(options: GuardOptions) -> &'static Guarded {
    let made = Guard::new(
        FromGlobalAlloc::SYSTEM,
        options.stacks(Stacks::Fast).on_report(OnReport::Call(|r| eprintln!("{r}"))),
    );
    GUARD.get_or_init(|| made.expect("a guard"))
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 16).expect("a layout")
}

fn give(guard: &Guarded, block: NonNull<u8>, size: usize) {
    // SAFETY: taken by the caller with this layout.
    unsafe { guard.deallocate(block, layout(size), Scope::Object) };
}

/// What a fiber does: blocks, taken and given.
extern "C" fn work() {
    let guard = GUARD.get().expect("made before");
    for _ in 0..3 {
        let block = guard.allocate(layout(64), Scope::Object).expect("a block");
        give(guard, block, 64);
    }
}

/// Runs [`work`] on the stack that ends at `top`, with `register` in the frame pointer's register: code that keeps no
/// frame pointers has anything in it.
fn on(top: usize, register: usize) {
    // SAFETY: a stack that nobody else is on; both registers are as before afterwards, and what a call may change is
    // told.
    unsafe {
        asm!(
            "mov r12, rsp",
            "mov r13, rbp",
            "mov rsp, rdi",
            "mov rbp, rsi",
            "call rdx",
            "mov rsp, r12",
            "mov rbp, r13",
            inout("rdi") top => _,
            inout("rsi") register => _,
            inout("rdx") work as *const () => _,
            out("r12") _,
            out("r13") _,
            clobber_abi("C"),
        );
    }
}

/// New memory, at `place` if that is not 0.
fn map(place: usize, bytes: usize) -> Option<usize> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let fixed = if place == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE };
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    // SAFETY: nothing that is there is replaced.
    let base = unsafe { libc::mmap(without_provenance_mut(place), bytes, rights, kind, -1, 0) };
    (base != libc::MAP_FAILED).then(|| base.expose_provenance())
}

fn unmap(base: usize, bytes: usize) {
    assert_eq!(
        // SAFETY: mapped by the test, used by nobody any more.
        unsafe { libc::munmap(without_provenance_mut(base), bytes) },
        0
    );
}

/// A fiber below a buffer, of both of which the kernel makes one mapping; then the buffer goes, and the register points
/// there still.
fn a_buffer_goes() {
    let guard = GUARD.get().expect("made before");
    let stack = map(0, 2 * STACK).expect("there is room");
    let buffer = stack + STACK;
    on(buffer, buffer + 4096);
    unmap(buffer, STACK);
    on(buffer, buffer + 4096);
    on(buffer - 4096, buffer + STACK - 16);
    assert_eq!(guard.stats().reports, 0, "no mistake of the program's");
    unmap(stack, STACK);
}

#[test]
fn a_fiber_runs_on_when_what_was_above_its_stack_is_gone() {
    Child::alone("a_fiber_runs_on_when_what_was_above_its_stack_is_gone", || {
        guard(GuardOptions::new(Mode::Cookie));
        work();
        // The process's first thread may be another than this one.
        a_buffer_goes();
        std::thread::spawn(a_buffer_goes).join().expect("as well");
    });
}

#[test]
fn fenced_memory_above_a_fiber_is_not_reported_when_a_walk_meets_it() {
    const TEST: &str = "fenced_memory_above_a_fiber_is_not_reported_when_a_walk_meets_it";
    Child::alone(TEST, || {
        if !BackEnds::probe().offers(BackEnd::GuardMarkers) {
            return testkit::skip("guard-markers", TEST, "the kernel has no guard markers");
        }
        let guard = guard(GuardOptions::new(Mode::Strict).pages(256).back_end(BackEnd::GuardMarkers));
        // The closed page above a block lies in one mapping with it here, so that the kernel's list says that a walk
        // may read on.
        let stack = guard.allocate(layout(SMALL), Scope::Object).expect("a block");
        let closed = stack.addr().get() + SMALL;
        on(closed, closed);
        assert_eq!(guard.stats().reports, 0, "the guard's own reading is no mistake of the program's");
        // SAFETY: the end of the block.
        let behind = unsafe { stack.add(SMALL) };
        // SAFETY: not a byte of the program's; the guard has a page land there.
        let _ = unsafe { behind.read_volatile() };
        assert_eq!(guard.stats().reports, 1, "the program's is one");
    });
}
