//! Stacks that a program makes itself, as a coroutine's: the thread's block names them, and the thread is no fiber.

use core::arch::asm;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::SeqCst;

use crate::call_sites::thread_stack;

static TOP: AtomicUsize = AtomicUsize::new(0);

extern "C" fn note_top() {
    let from = thread_stack::read_registers();
    let bounds = thread_stack::with(|local| local.bounds(from.stack));
    TOP.store(bounds.top, SeqCst);
}

/// Calls [`note_top`] on the stack from `low` to `high`, which the thread's block names meanwhile. Returns the end that
/// it saw.
fn top_on(low: usize, high: usize) -> usize {
    // SAFETY: a stack that nothing else is on; its registers and the three words of the block are as before afterwards.
    unsafe {
        asm!(
            "mov r12, gs:[0x8]",
            "mov r13, gs:[0x10]",
            "mov r14, gs:[0x1478]",
            "mov r15, rsp",
            "mov gs:[0x8], rdx",
            "mov gs:[0x10], rcx",
            "mov gs:[0x1478], rcx",
            "lea rsp, [rdx - 64]",
            "call rax",
            "mov rsp, r15",
            "mov gs:[0x8], r12",
            "mov gs:[0x10], r13",
            "mov gs:[0x1478], r14",
            inout("rax") note_top as *const () => _,
            inout("rcx") low => _,
            inout("rdx") high => _,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("C"),
        );
    }
    TOP.load(SeqCst)
}

#[test]
fn a_stack_that_goes_is_not_taken_for_the_threads_own() {
    const BYTES: usize = 1 << 20;
    let memory = std::vec![0_u128; BYTES / 16];
    let low = memory.as_ptr().expose_provenance();
    note_top();
    let thread = TOP.load(SeqCst);
    assert_eq!(top_on(low, low + BYTES), low + BYTES);
    // A smaller one in the same place: what is above may be unmapped.
    assert_eq!(top_on(low, low + BYTES / 2), low + BYTES / 2);
    note_top();
    assert_eq!(TOP.load(SeqCst), thread);
}
