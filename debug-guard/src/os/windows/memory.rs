use core::ffi::c_void;
use core::ptr::{null_mut, without_provenance, without_provenance_mut};

use super::calls::{
    GetCurrentProcess, GetLastError, MEM_COMMIT, MEM_DECOMMIT, MEM_FREE, MEM_RELEASE, MEM_RESERVE, MemoryInformation,
    PAGE_NOACCESS, PAGE_READWRITE, ReadProcessMemory, SetLastError, VirtualAlloc, VirtualFree, VirtualQuery,
};
use crate::os::OsRefusal;

pub(super) fn keeping_error<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: asks for a number of the thread.
    let before = unsafe { GetLastError() };
    let result = f();
    // SAFETY: sets that number.
    unsafe { SetLastError(before) };
    result
}

pub(super) fn refused(call: &'static str) -> OsRefusal {
    // SAFETY: asks for a number of the thread.
    let error = unsafe { GetLastError() };
    OsRefusal::Call { call, errno: error.cast_signed() }
}

pub(super) fn reserve(bytes: usize) -> Result<usize, OsRefusal> {
    // SAFETY: new addresses, chosen by the system.
    let base = unsafe { VirtualAlloc(null_mut(), bytes, MEM_RESERVE, PAGE_NOACCESS) };
    if base.is_null() { Err(refused("VirtualAlloc(MEM_RESERVE)")) } else { Ok(base.expose_provenance()) }
}

/// # Safety
/// `base` came from [`reserve`], and nothing in the addresses is used any more.
pub(super) unsafe fn release(base: usize) {
    // SAFETY: nothing in these addresses is used any more.
    let _ = unsafe { VirtualFree(without_provenance_mut(base), 0, MEM_RELEASE) };
}

/// Pages that were not committed yet are filled with zeros.
///
/// # Safety
/// The addresses are the caller's, who no longer needs them to be inaccessible.
pub(super) unsafe fn commit(base: usize, bytes: usize) -> Result<(), OsRefusal> {
    // SAFETY: nobody needs these addresses to be inaccessible.
    let pages = unsafe { VirtualAlloc(without_provenance_mut(base), bytes, MEM_COMMIT, PAGE_READWRITE) };
    if pages.is_null() { Err(refused("VirtualAlloc(MEM_COMMIT)")) } else { Ok(()) }
}

/// # Safety
/// The addresses are the caller's, and nothing in them is used any more.
pub(super) unsafe fn decommit(base: usize, bytes: usize) -> Result<(), OsRefusal> {
    // SAFETY: nothing in these addresses is used any more.
    if unsafe { VirtualFree(without_provenance_mut(base), bytes, MEM_DECOMMIT) } == 0 {
        Err(refused("VirtualFree(MEM_DECOMMIT)"))
    } else {
        Ok(())
    }
}

pub(super) fn information_at(address: usize) -> Option<MemoryInformation> {
    let mut about = MemoryInformation::default();
    let room = size_of::<MemoryInformation>();
    // SAFETY: writes into `about`, of this size.
    let written =
        keeping_error(|| unsafe { VirtualQuery(without_provenance::<c_void>(address), &raw mut about, room) });
    (written == room && about.state != MEM_FREE).then_some(about)
}

/// Asks first whether the bytes can be read: Wine copies what cannot, too.
pub(super) fn copy_u64(address: usize) -> Option<u64> {
    let last = address.checked_add(7)?;
    let can_be_read = |address| information_at(address).is_some_and(|about| about.is_readable());
    if !can_be_read(address) || !can_be_read(last) {
        return None;
    }
    let mut value = 0_u64;
    let mut read = 0;
    keeping_error(|| {
        // SAFETY: asks for a constant that stands for this process.
        let process = unsafe { GetCurrentProcess() };
        // SAFETY: writes into `value` and `read` alone; an unreadable address is answered.
        unsafe {
            ReadProcessMemory(process, without_provenance::<c_void>(address), (&raw mut value).cast(), 8, &raw mut read)
        }
    });
    (read == 8).then_some(value)
}

pub(crate) fn readable(address: usize) -> bool {
    copy_u64(address).is_some()
}

pub(crate) const fn describe(_call: &str, error: i32) -> (&'static str, &'static str) {
    match error {
        5 => ("ERROR_ACCESS_DENIED", "a security policy forbids it, or, under Wine, the host has no mapping left"),
        8 => ("ERROR_NOT_ENOUGH_MEMORY", "out of memory: guard fewer blocks"),
        87 => ("ERROR_INVALID_PARAMETER", "reserve fewer pages"),
        487 => ("ERROR_INVALID_ADDRESS", "reserve fewer pages"),
        1455 => ("ERROR_COMMITMENT_LIMIT", "the paging file is too small: enlarge it, or guard fewer blocks"),
        _ => ("see System Error Codes", "use cookies"),
    }
}
