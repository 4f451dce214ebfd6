use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};

const COMMIT_AND_RESERVE: u32 = 0x3000;
const RELEASE: u32 = 0x8000;
const READ_WRITE: u32 = 4;

#[link(name = "kernel32")]
unsafe extern "system" {
    fn VirtualAlloc(address: *mut c_void, bytes: usize, kind: u32, protection: u32) -> *mut c_void;
    fn VirtualFree(address: *mut c_void, bytes: usize, kind: u32) -> i32;
}

pub(crate) fn map(len: usize) -> Option<NonNull<u8>> {
    // SAFETY: new addresses of the system's choice.
    let at = unsafe { VirtualAlloc(null_mut(), len, COMMIT_AND_RESERVE, READ_WRITE) };
    NonNull::new(at.cast())
}

/// # Safety
/// [`map`] returned `first`; the pages are used no more.
pub(crate) unsafe fn unmap(first: NonNull<u8>, _: usize) {
    // SAFETY: this function's contract; the size is 0 where all is released.
    unsafe { VirtualFree(first.as_ptr().cast(), 0, RELEASE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wn6_pages_are_zeroed_and_hold_what_is_written() {
        const LEN: usize = 3 << 20;
        for value in [1, 2] {
            let first = map(LEN).expect("pages");
            for at in [0, 4096, LEN - 1] {
                // SAFETY: within the pages, which nothing else uses.
                let byte = unsafe { first.add(at) };
                // SAFETY: within the pages, which nothing else uses.
                assert_eq!(unsafe { byte.read() }, 0);
                // SAFETY: within the pages, which nothing else uses.
                unsafe { byte.write(value) };
                // SAFETY: within the pages, which nothing else uses.
                assert_eq!(unsafe { byte.read() }, value);
            }
            // SAFETY: mapped above, used no more.
            unsafe { unmap(first, LEN) };
        }
        assert_eq!(map(isize::MAX as usize), None);
    }
}
