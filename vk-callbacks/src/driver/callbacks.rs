use core::alloc::Layout;
use core::ffi::c_void;
use core::ptr::NonNull;

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, Notice, NoticeEvent, Scope, dangling, move_block};

use crate::error::CallbackError;
use crate::raw::{
    INTERNAL_EXECUTABLE, PfnAllocation, PfnFree, PfnInternalNotification, PfnReallocation, RawCallbacks, RawScope,
};
use crate::sink::Callback;

/// The callbacks of one command, by value: the application may free its struct after the call (V6).
///
/// Every call passes the `pUserData` of the copied struct (V5): make one for each received struct.
///
/// Callable from any thread; a driver must call it only during a command, on that command's thread (V22, V23).
///
/// ```
/// # use std::pin::pin;
/// # use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};
/// # use vk_callbacks::CallbackAllocator;
/// # use vk_callbacks::bridge::BareBridge;
/// # let application = pin!(BareBridge::new(FromGlobalAlloc::SYSTEM));
/// # let p_allocator = application.as_ref().raw();
/// // SAFETY: the application's functions keep Vulkan's rules while the object lives.
/// let host = unsafe { CallbackAllocator::from_raw(&p_allocator) }?;
/// let layout = std::alloc::Layout::new::<[u64; 4]>();
/// let block = host.allocate(layout, Scope::Object).map_err(|_| host.refusal(layout, Scope::Object))?;
/// // SAFETY: just given, with this layout and scope.
/// unsafe { host.deallocate(block, layout, Scope::Object) };
/// # Ok::<(), vk_callbacks::CallbackError>(())
/// ```
#[derive(Debug)]
#[doc(alias("vk_alloc", "VkAllocationCallbacks"))]
pub struct CallbackAllocator {
    user_data: *mut c_void,
    allocation: PfnAllocation,
    reallocation: PfnReallocation,
    free: PfnFree,
    internal: Option<(PfnInternalNotification, PfnInternalNotification)>,
}

// SAFETY: any thread may call the functions, as `from_raw` requires; the rest is plain data.
unsafe impl Send for CallbackAllocator {}
// SAFETY: any thread may call the functions, as `from_raw` requires; the rest is plain data.
unsafe impl Sync for CallbackAllocator {}

impl CallbackAllocator {
    /// Copies and checks the struct.
    ///
    /// # Errors
    /// [`CallbackError::MissingFunction`] (V1 to V3, VUID-VkAllocationCallbacks-pfnAllocation-00632, -00633, -00634)
    /// and [`CallbackError::HalfInternal`] (V4, -00635).
    ///
    /// # Safety
    /// Until the last block is freed, the functions obey the specification (*Host Memory*), from any thread: NULL or a
    /// block of the requested size and alignment, a reallocation keeps the content, no unwinding.
    pub unsafe fn from_raw(raw: &RawCallbacks) -> Result<Self, CallbackError> {
        Ok(Self {
            user_data: raw.p_user_data,
            allocation: raw.pfn_allocation.ok_or(CallbackError::MissingFunction(Callback::Allocation))?,
            reallocation: raw.pfn_reallocation.ok_or(CallbackError::MissingFunction(Callback::Reallocation))?,
            free: raw.pfn_free.ok_or(CallbackError::MissingFunction(Callback::Free))?,
            internal: match (raw.pfn_internal_allocation, raw.pfn_internal_free) {
                (Some(taken), Some(freed)) => Some((taken, freed)),
                (None, None) => None,
                _ => return Err(CallbackError::HalfInternal),
            },
        })
    }

    /// As [`from_raw`](Self::from_raw) for a command's `pAllocator`, which may be NULL.
    ///
    /// # Safety
    /// `raw` is NULL or points to a struct that is readable during this call; else as [`from_raw`](Self::from_raw).
    pub unsafe fn from_ptr(raw: *const RawCallbacks) -> Result<Option<Self>, CallbackError> {
        // SAFETY: NULL, or a struct that is readable during this call.
        match unsafe { raw.as_ref() } {
            // SAFETY: the functions obey the specification until the last block is freed.
            Some(raw) => unsafe { Self::from_raw(raw) }.map(Some),
            None => Ok(None),
        }
    }

    /// A block that is not aligned as requested (V8) is freed: a refusal.
    #[inline]
    fn checked(&self, answer: *mut c_void, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        let block = NonNull::new(answer.cast::<u8>()).ok_or(AllocError)?;
        if !block.as_ptr().addr().is_multiple_of(layout.align()) {
            // SAFETY: a live block of these callbacks that nothing else uses.
            unsafe { (self.free)(self.user_data, answer) };
            return Err(AllocError);
        }
        Ok(block)
    }

    /// The old block is gone (V8), so the content is brought to a good one. If there is none, returns the misaligned
    /// one: a refusal would tell the caller to keep a freed block.
    #[cold]
    fn rescue(&self, moved: NonNull<u8>, kept: usize, new: Layout, scope: Scope) -> NonNull<u8> {
        let Ok(good) = self.allocate(new, scope) else {
            return moved;
        };
        // SAFETY: both blocks are live, different, and hold the kept bytes.
        unsafe { moved.copy_to_nonoverlapping(good, kept) };
        // SAFETY: a live block of these callbacks that nothing else uses.
        unsafe { (self.free)(self.user_data, moved.as_ptr().cast()) };
        good
    }
}

// SAFETY: `from_raw` demands functions that give such blocks.
unsafe impl HostAllocator for CallbackAllocator {
    /// `extern "system"` functions cannot unwind.
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new().never_unwinds()
    }

    #[inline]
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        // SAFETY: `from_raw` demands a function that may be called with these arguments.
        let answer = unsafe { (self.allocation)(self.user_data, layout.size(), layout.align(), raw_scope(scope)) };
        self.checked(answer, layout)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, _: Scope) {
        if layout.size() != 0 {
            // SAFETY: the block came from these callbacks and is live, as `HostAllocator::deallocate` requires.
            unsafe { (self.free)(self.user_data, block.as_ptr().cast()) }
        }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        // Sizes of 0 are never forwarded; pfnReallocation cannot change an alignment (V15).
        if old.size() == 0 || new.size() == 0 || old.align() != new.align() {
            // SAFETY: a live block of this allocator with the layout `old`, as `HostAllocator::resize` requires.
            return unsafe { move_block(self, block, old, new, scope) };
        }
        let original = block.as_ptr().cast();
        // SAFETY: a live block of these callbacks (V11) with its own alignment (V15); see `from_raw`.
        let answer =
            unsafe { (self.reallocation)(self.user_data, original, new.size(), new.align(), raw_scope(scope)) };
        let moved = NonNull::new(answer.cast::<u8>()).ok_or(AllocError)?;
        if moved.as_ptr().addr().is_multiple_of(new.align()) {
            return Ok(moved);
        }
        Ok(self.rescue(moved, old.size().min(new.size()), new, scope))
    }

    fn notify(&self, notice: Notice) {
        let Some((taken, freed)) = self.internal else {
            return;
        };
        let tell = match notice.event {
            NoticeEvent::Allocated => taken,
            NoticeEvent::Freed => freed,
        };
        // SAFETY: `from_raw` demands functions that may be called with these arguments.
        unsafe { tell(self.user_data, notice.bytes, INTERNAL_EXECUTABLE, raw_scope(notice.scope)) }
    }
}

const fn raw_scope(scope: Scope) -> RawScope {
    scope.as_raw().cast_signed()
}
