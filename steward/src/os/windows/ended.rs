//! How a process ended: an exit code that an exception gives says which one it was. Such a code is "the signal"
//! elsewhere in the program.

#![forbid(unsafe_code)]

use std::process::ExitStatus;

/// `STATUS_CONTROL_C_EXIT`.
pub(super) const CONTROL_C: i32 = 0xC000_013A_u32.cast_signed();
/// `STATUS_COMMITMENT_LIMIT`.
const COMMIT_LIMIT: i32 = 0xC000_012D_u32.cast_signed();
/// `STATUS_STACK_BUFFER_OVERRUN`: what a process says that stops itself.
const FAIL_FAST: i32 = 0xC000_0409_u32.cast_signed();

pub(crate) fn ended_by(status: ExitStatus) -> Option<i32> {
    let code = status.code()?;
    // Errors of the system's own facilities, its four warnings about instructions, and the exception of C++. A program
    // may exit with -1.
    let is_exception = matches!(
        code.cast_unsigned(),
        0x8000_0001..=0x8000_0004 | 0xC000_0000..=0xCFFF_FFFF | 0xE06D_7363
    );
    is_exception.then_some(code)
}

/// A process that this ended made no mistake of its own.
pub(crate) fn is_from_outside(code: i32) -> bool {
    [CONTROL_C, COMMIT_LIMIT].contains(&code)
}

pub(crate) const fn is_abort(code: i32) -> bool {
    code == FAIL_FAST
}

/// What a shell says of a process that ended so.
pub(crate) const fn exit_code(code: i32) -> i32 {
    code
}

pub(crate) fn signal_name(code: i32) -> String {
    let code = code.cast_unsigned();
    let name = match code {
        0x8000_0001 => "guard page",
        0x8000_0002 => "misaligned access",
        0x8000_0003 => "breakpoint",
        0x8000_0004 => "single step",
        0xC000_0005 => "access violation",
        0xC000_0006 => "unreadable page of a file",
        0xC000_0008 => "invalid handle",
        0xC000_0017 => "no memory",
        0xC000_001D => "illegal instruction",
        0xC000_0025 => "exception that cannot be continued",
        0xC000_008C => "array index out of bounds",
        0xC000_008E => "floating-point division by zero",
        0xC000_0094 => "integer division by zero",
        0xC000_0095 => "integer overflow",
        0xC000_0096 => "privileged instruction",
        0xC000_00FD => "stack overflow",
        0xC000_012D => "commit limit",
        0xC000_0135 => "DLL not found",
        0xC000_0139 => "DLL without a function that is imported",
        0xC000_013A => "Ctrl-C",
        0xC000_0142 => "DLL that refused to start",
        0xC000_0374 => "heap corruption",
        0xC000_0409 => "fail fast",
        0xC000_0420 => "failed assertion",
        0xE06D_7363 => "C++ exception",
        _ => "exception",
    };
    format!("{name}, 0x{code:08X}")
}
