//! Where memory of the device is mapped.

use core::ptr::NonNull;

/// An address in mapped memory: a number as far as this crate goes, never read through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address(pub(super) NonNull<u8>);

// SAFETY: nothing is read through it here; which thread may use the bytes behind it is up to those who map.
unsafe impl Send for Address {}
