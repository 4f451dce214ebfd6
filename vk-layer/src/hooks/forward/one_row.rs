//! Windows on x86-64: the parameters are one row, of which the first four are in registers, a float in another one than
//! an integer or a pointer. Which it is, no function can say that stands for all commands. So this one saves both
//! registers of each place beside what is on the stack, and loads both again.

use std::arch::{global_asm, naked_asm};

use super::{Arguments, FLOATS, WORDS, run};
use crate::chain::VoidFunction;

// The caller has room for four words in front of what it passes on the stack.
global_asm!(
    ".globl steward_layer_forward",
    ".seh_proc steward_layer_forward",
    "steward_layer_forward:",
    "mov [rsp + 8], rcx",
    "mov [rsp + 16], rdx",
    "mov [rsp + 24], r8",
    "mov [rsp + 32], r9",
    "sub rsp, 72",
    ".seh_stackalloc 72",
    ".seh_endprologue",
    "movsd [rsp + 32], xmm0",
    "movsd [rsp + 40], xmm1",
    "movsd [rsp + 48], xmm2",
    "movsd [rsp + 56], xmm3",
    "mov ecx, eax",
    "lea rdx, [rsp + 80]",
    "lea r8, [rsp + 32]",
    "call {run}",
    "add rsp, 72",
    "ret",
    ".seh_endproc",
    ".globl steward_layer_call",
    ".seh_proc steward_layer_call",
    "steward_layer_call:",
    "sub rsp, 136",
    ".seh_stackalloc 136",
    ".seh_endprologue",
    "mov rax, rcx",
    "mov r10, rdx",
    "movups xmm0, [r10 + 32]",
    "movups [rsp + 32], xmm0",
    "movups xmm0, [r10 + 48]",
    "movups [rsp + 48], xmm0",
    "movups xmm0, [r10 + 64]",
    "movups [rsp + 64], xmm0",
    "movups xmm0, [r10 + 80]",
    "movups [rsp + 80], xmm0",
    "movups xmm0, [r10 + 96]",
    "movups [rsp + 96], xmm0",
    "movups xmm0, [r10 + 112]",
    "movups [rsp + 112], xmm0",
    "movsd xmm0, [r8]",
    "movsd xmm1, [r8 + 8]",
    "movsd xmm2, [r8 + 16]",
    "movsd xmm3, [r8 + 24]",
    "mov rcx, [r10]",
    "mov rdx, [r10 + 8]",
    "mov r8, [r10 + 16]",
    "mov r9, [r10 + 24]",
    "call rax",
    "add rsp, 136",
    "ret",
    ".seh_endproc",
    run = sym forward_to,
);

const _: () = assert!(WORDS == 16 && FLOATS == 4);

unsafe extern "system" {
    fn steward_layer_forward();
    fn steward_layer_call(function: VoidFunction, words: *const [usize; WORDS], floats: *const [f64; FLOATS]) -> usize;
}

/// The slot goes on in a register that no parameter has.
#[unsafe(naked)]
unsafe extern "system" fn forward<const SLOT: usize>() {
    naked_asm!(
        "mov eax, {slot}",
        "jmp {forward}",
        slot = const SLOT,
        forward = sym steward_layer_forward,
    )
}

/// # Safety
/// The words and floats are those that the slot's caller passed.
unsafe extern "system" fn forward_to(slot: usize, words: &[usize; WORDS], floats: &[f64; FLOATS]) -> usize {
    let arguments = Arguments { words: *words, floats: *floats };
    // SAFETY: the slot's arguments, as its caller passed them.
    unsafe { run(slot, &arguments) }
}

/// # Safety
/// The function may be called with these arguments.
pub(super) unsafe fn call(function: VoidFunction, arguments: &Arguments) -> usize {
    // SAFETY: see `forward`: a command with fewer parameters ignores the others.
    unsafe { steward_layer_call(function, &raw const arguments.words, &raw const arguments.floats) }
}

pub(super) const fn hook_at<const SLOT: usize>() -> VoidFunction {
    forward::<SLOT>
}
