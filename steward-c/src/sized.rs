//! Structs of C that begin with their size, so that a program and a library of different releases understand each
//! other.
//!
//! ```text
//! a program's struct    | size | a | b |            what its header knows
//! the library's struct  | size | a | b | c | d |    c and d keep their defaults, or are not written
//! ```
//!
//! A size that ends within a field is no header's: it is rounded down to the alignment of the struct, so that no half
//! of an address is read.

use std::mem::MaybeUninit;
use std::ptr::{NonNull, copy_nonoverlapping};

/// A struct of the header.
///
/// # Safety
/// `repr(C)`; the first field is a `usize`, the size; any bytes that C may write are a value.
pub(crate) unsafe trait SizedStruct: Copy + Default {}

/// Whole fields alone; `None` where the size is smaller than the size field.
fn common<T>(size: usize) -> Option<usize> {
    let length = size.min(size_of::<T>());
    (size >= size_of::<usize>()).then_some(length - length % align_of::<T>())
}

/// Reads the caller's struct, with defaults for the fields that its header does not have; `None` if its size is not
/// set.
///
/// # Safety
/// `from` is aligned, and its first `size` bytes can be read.
pub(crate) unsafe fn read<T: SizedStruct>(from: NonNull<T>) -> Option<T> {
    // SAFETY: the size is the first field, and aligned as the struct is.
    let length = common::<T>(unsafe { from.cast::<usize>().read() })?;
    let mut value = MaybeUninit::new(T::default());
    // SAFETY: `length` is at most the struct's size here and the caller's there; this one is new, so the two do not
    // overlap.
    unsafe {
        copy_nonoverlapping(from.as_ptr().cast::<u8>(), value.as_mut_ptr().cast(), length);
    }
    // SAFETY: any bytes that C may write are a value, as the trait requires.
    Some(unsafe { value.assume_init() })
}

/// Writes the fields that the caller's header has, behind its size, which stays. Writes nothing, and returns false, for
/// NULL or if the size is not set.
///
/// # Safety
/// `to` is NULL, or aligned, its size can be read, and as many bytes can be written.
pub(crate) unsafe fn write<T: SizedStruct>(to: *mut T, value: &T) -> bool {
    let Some(to) = NonNull::new(to) else {
        return false;
    };
    // SAFETY: the size is the first field, and aligned as the struct is.
    let size = unsafe { to.cast::<usize>().read() };
    let Some(behind) = common::<T>(size).and_then(|length| length.checked_sub(size_of::<usize>())) else {
        return false;
    };
    let fields = (&raw const *value).cast::<u8>();
    // SAFETY: the struct is at least as long as its size field.
    let fields = unsafe { fields.add(size_of::<usize>()) };
    // SAFETY: the caller's struct is as long too, since `behind` is not negative.
    let place = unsafe { to.as_ptr().cast::<u8>().add(size_of::<usize>()) };
    // SAFETY: `behind` is what both have after the size; `value` is ours, so they do not overlap.
    unsafe { copy_nonoverlapping(fields, place, behind) };
    true
}

/// Whether [`write()`] would write the first `bytes` of the struct. Writes nothing.
///
/// # Safety
/// `to` is NULL, or aligned, and its size can be read.
pub(crate) unsafe fn has_room<T: SizedStruct>(to: *const T, bytes: usize) -> bool {
    // SAFETY: the size is the first field, and aligned as the struct is.
    NonNull::new(to.cast_mut()).is_some_and(|to| unsafe { to.cast::<usize>().read() } >= bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(C)]
    struct Numbers {
        size: usize,
        old: u64,
        new: u64,
    }

    impl Default for Numbers {
        fn default() -> Self {
            Self { size: size_of::<Self>(), old: 1, new: 2 }
        }
    }

    // SAFETY: numbers, the first of them the size.
    unsafe impl SizedStruct for Numbers {}

    #[test]
    fn ca6_a_shorter_struct_keeps_the_defaults_and_is_not_written_past() {
        for (size, expected_read, expected_written) in [
            (0, None, (10, 20, false)),
            (7, None, (10, 20, false)),
            (8, Some((1, 2)), (10, 20, true)),
            // Within a field: it keeps its default, and is not written.
            (12, Some((1, 2)), (10, 20, true)),
            (15, Some((1, 2)), (10, 20, true)),
            (16, Some((10, 2)), (5, 20, true)),
            (20, Some((10, 2)), (5, 20, true)),
            (24, Some((10, 20)), (5, 6, true)),
            (100, Some((10, 20)), (5, 6, true)),
        ] {
            let mut callers = Numbers { size, old: 10, new: 20 };
            // SAFETY: a live struct; what lies beyond the library's own is never read.
            let seen = unsafe { read(NonNull::from(&callers)) };
            assert_eq!(seen.map(|seen| (seen.old, seen.new)), expected_read);
            let answer = Numbers { size: 99, old: 5, new: 6 };
            // SAFETY: a live struct; what lies beyond the library's own is never written.
            let written = unsafe { write(&raw mut callers, &answer) };
            assert_eq!((callers.old, callers.new, written), expected_written);
            assert_eq!(callers.size, size, "the size is the caller's");
        }
        // SAFETY: NULL.
        assert!(!unsafe { write(std::ptr::null_mut(), &Numbers::default()) });
    }
}
