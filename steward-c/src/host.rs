//! A caller's three functions as an allocator.

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, Scope, dangling, move_block};

use crate::sized::SizedStruct;

pub type StewardAllocFn = unsafe extern "C" fn(data: *mut c_void, size: usize, align: usize, scope: i32) -> *mut c_void;
pub type StewardResizeFn = unsafe extern "C" fn(
    data: *mut c_void,
    block: *mut c_void,
    old_size: usize,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void;
pub type StewardFreeFn =
    unsafe extern "C" fn(data: *mut c_void, block: *mut c_void, size: usize, align: usize, scope: i32);

/// `steward_host`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StewardHost {
    pub size: usize,
    pub data: *mut c_void,
    pub alloc: Option<StewardAllocFn>,
    pub resize: Option<StewardResizeFn>,
    pub free: Option<StewardFreeFn>,
}

impl Default for StewardHost {
    fn default() -> Self {
        Self { size: size_of::<Self>(), data: null_mut(), alloc: None, resize: None, free: None }
    }
}

// SAFETY: a size, an address, and functions that C sets to functions of their types or to NULL.
unsafe impl SizedStruct for StewardHost {}

/// A [`StewardHost`] without missing functions.
pub(crate) struct CHost {
    data: *mut c_void,
    alloc: StewardAllocFn,
    resize: Option<StewardResizeFn>,
    free: StewardFreeFn,
}

// SAFETY: the header requires functions that any thread may call.
unsafe impl Send for CHost {}
// SAFETY: the header requires functions that any thread may call.
unsafe impl Sync for CHost {}

impl CHost {
    /// `None` where a function is missing.
    ///
    /// # Safety
    /// The functions meet the header's requirements.
    #[must_use]
    pub(crate) const unsafe fn new(raw: &StewardHost) -> Option<Self> {
        match (raw.alloc, raw.free) {
            (Some(alloc), Some(free)) => Some(Self { data: raw.data, alloc, resize: raw.resize, free }),
            _ => None,
        }
    }
}

// SAFETY: the header requires functions that return blocks of the requested layout, which stay until they are freed.
unsafe impl HostAllocator for CHost {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new().never_unwinds()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        let scope = scope.as_raw().cast_signed();
        // SAFETY: `new` required functions that may be called so.
        let block = unsafe { (self.alloc)(self.data, layout.size(), layout.align(), scope) };
        NonNull::new(block.cast()).ok_or(AllocError)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        if layout.size() != 0 {
            let (block, scope) = (block.as_ptr().cast(), scope.as_raw().cast_signed());
            // SAFETY: a live block of this host with this layout and scope.
            unsafe { (self.free)(self.data, block, layout.size(), layout.align(), scope) };
        }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        let Some(resize) = self.resize.filter(|_| old.size() != 0 && new.size() != 0 && old.align() == new.align())
        else {
            // SAFETY: a live block of this host with the old layout and this scope.
            return unsafe { move_block(self, block, old, new, scope) };
        };
        let (block, scope) = (block.as_ptr().cast(), scope.as_raw().cast_signed());
        // SAFETY: a live block of this host, and a function that may be called so.
        let moved = unsafe { resize(self.data, block, old.size(), new.size(), new.align(), scope) };
        NonNull::new(moved.cast()).ok_or(AllocError)
    }
}
