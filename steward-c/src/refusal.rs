//! Errors for C: Vulkan's results, and the exact reason, which the same thread can read.

use std::cell::Cell;

use alloc_core::{HostError, Misuse};

use crate::sized::{self, SizedStruct};

/// `VK_SUCCESS`.
pub(crate) const SUCCESS: i32 = 0;
/// `VK_NOT_READY`.
pub(crate) const NOT_READY: i32 = 1;
/// `VK_ERROR_OUT_OF_HOST_MEMORY`.
pub(crate) const OUT_OF_HOST_MEMORY: i32 = -1;
/// `VK_ERROR_OUT_OF_DEVICE_MEMORY`.
pub(crate) const OUT_OF_DEVICE_MEMORY: i32 = -2;
/// `VK_ERROR_UNKNOWN`.
pub(crate) const UNKNOWN: i32 = -13;

/// `steward_refusal`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StewardRefusal {
    pub size: usize,
    pub kind: i32,
    pub scope: i32,
    pub bytes: u64,
    pub context: u64,
    pub short_by: u64,
    pub leased_elsewhere: u64,
}

// SAFETY: numbers, the first of them the size.
unsafe impl SizedStruct for StewardRefusal {}

thread_local! {
    static LAST: Cell<Option<HostError>> = const { Cell::new(None) };
}

/// Notes why this thread was refused. Not inlined: the error would take registers of the path without one.
#[cold]
#[inline(never)]
pub(crate) fn note(error: HostError) -> i32 {
    // A thread that is ending has no place to note it.
    let _ = LAST.try_with(|last| last.set(Some(error)));
    result(error)
}

/// Notes that the caller passed NULL or an unusable value where a usable one is required.
pub(crate) fn misused() -> i32 {
    note(HostError::Misuse(Misuse::OtherContext))
}

/// The Vulkan result of a refusal.
#[must_use]
pub(crate) const fn result(error: HostError) -> i32 {
    match error {
        HostError::OutOfHostMemory { .. } | HostError::OverBudget { .. } | HostError::TooLarge => OUT_OF_HOST_MEMORY,
        _ => UNKNOWN,
    }
}

/// The value, or NULL and a note of the reason.
#[inline]
pub(crate) fn pointer<T>(result: Result<std::ptr::NonNull<T>, HostError>) -> *mut T {
    match result {
        Ok(block) => block.as_ptr(),
        Err(error) => {
            note(error);
            std::ptr::null_mut()
        }
    }
}

/// Calls `call` with the value; NULL and a note of misuse where there is none.
pub(crate) fn of_some<V, T>(value: Option<V>, call: impl FnOnce(V) -> *mut T) -> *mut T {
    value.map_or_else(
        || {
            misused();
            std::ptr::null_mut()
        },
        call,
    )
}

/// A refusal's fields.
#[must_use]
pub fn fields(error: Option<HostError>) -> StewardRefusal {
    let none = StewardRefusal { size: size_of::<StewardRefusal>(), scope: -1, ..StewardRefusal::default() };
    match error {
        None => none,
        Some(HostError::OutOfHostMemory { bytes, scope }) => {
            StewardRefusal { kind: 1, scope: scope.as_raw().cast_signed(), bytes: bytes as u64, ..none }
        }
        Some(HostError::OverBudget { context, short_by, leased_elsewhere }) => {
            StewardRefusal { kind: 2, context: context.get(), short_by, leased_elsewhere, ..none }
        }
        Some(HostError::Closed { context }) => StewardRefusal { kind: 3, context: context.get(), ..none },
        Some(HostError::TooLarge) => StewardRefusal { kind: 4, ..none },
        Some(_) => StewardRefusal { kind: 5, ..none },
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_last_refusal(out: *mut StewardRefusal) {
    let fields = fields(LAST.try_with(Cell::get).ok().flatten());
    // SAFETY: NULL or the caller's place.
    unsafe { sized::write(out, &fields) };
}

#[cfg(test)]
mod tests {
    use alloc_core::{ContextId, Misuse, Scope};

    use super::*;

    #[test]
    fn ca9_every_error_has_a_result_and_its_numbers() {
        let context = ContextId::from_raw(7).expect("not 0");
        let table = [
            (HostError::OutOfHostMemory { bytes: 100, scope: Scope::Cache }, (OUT_OF_HOST_MEMORY, 1, 2, 100, 0, 0, 0)),
            (
                HostError::OverBudget { context, short_by: 20, leased_elsewhere: 30 },
                (OUT_OF_HOST_MEMORY, 2, -1, 0, 7, 20, 30),
            ),
            (HostError::Closed { context }, (UNKNOWN, 3, -1, 0, 7, 0, 0)),
            (HostError::TooLarge, (OUT_OF_HOST_MEMORY, 4, -1, 0, 0, 0, 0)),
            (HostError::Misuse(Misuse::BadAlignment), (UNKNOWN, 5, -1, 0, 0, 0, 0)),
        ];
        let read = || {
            let mut out = StewardRefusal { size: size_of::<StewardRefusal>(), ..StewardRefusal::default() };
            // SAFETY: a place of this type.
            unsafe { steward_last_refusal(&raw mut out) };
            out
        };
        assert_eq!((read().kind, read().scope), (0, -1));
        for (error, expected) in table {
            let result = note(error);
            let StewardRefusal { size, kind, scope, bytes, context, short_by, leased_elsewhere } = read();
            assert_eq!(size, size_of::<StewardRefusal>());
            assert_eq!((result, kind, scope, bytes, context, short_by, leased_elsewhere), expected, "{error}");
        }
    }
}
