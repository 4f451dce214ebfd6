//! `VkAllocationCallbacks`, defined without a dependency: the same bytes as in C and in ash.

use core::ffi::c_void;
use core::marker::PhantomData;

use alloc_core::NoticeEvent;

/// `VkAllocationCallbacks`, which an application passes as `pAllocator`.
///
/// ```text
///        +0            +8              +16               +24       +32                      +40
///        | p_user_data | pfn_allocation | pfn_reallocation | pfn_free | pfn_internal_allocation | pfn_internal_free |
/// ```
/// (offsets for 64-bit pointers). The functions may be called from any thread, by several threads at once.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawCallbacks {
    /// Passed back unchanged as the first argument of every call.
    pub p_user_data: *mut c_void,
    /// `pfnAllocation`; must be there (VUID-VkAllocationCallbacks-pfnAllocation-00632).
    pub pfn_allocation: Option<PfnAllocation>,
    /// `pfnReallocation`; must be there (VUID-VkAllocationCallbacks-pfnReallocation-00633).
    pub pfn_reallocation: Option<PfnReallocation>,
    /// `pfnFree`; must be there (VUID-VkAllocationCallbacks-pfnFree-00634).
    pub pfn_free: Option<PfnFree>,
    /// `pfnInternalAllocation`; both notifications or neither (VUID-VkAllocationCallbacks-pfnInternalAllocation-00635).
    pub pfn_internal_allocation: Option<PfnInternalNotification>,
    /// `pfnInternalFree`; as `pfn_internal_allocation`.
    pub pfn_internal_free: Option<PfnInternalNotification>,
}

/// A `VkSystemAllocationScope` from C: any number; [`alloc_core::Scope`] has the five valid ones.
pub type RawScope = i32;

/// A `VkInternalAllocationType` from C; only [`INTERNAL_EXECUTABLE`] is valid.
pub type RawInternalType = i32;

/// `VK_INTERNAL_ALLOCATION_TYPE_EXECUTABLE`.
pub const INTERNAL_EXECUTABLE: RawInternalType = 0;

/// A request from C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRequest {
    /// In bytes.
    pub size: usize,
    /// In bytes; any number.
    pub align: usize,
    /// Any number.
    pub scope: RawScope,
}

/// A notification from C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawNotice {
    /// Which of the two functions was called.
    pub event: NoticeEvent,
    /// In bytes.
    pub size: usize,
    /// Any number.
    pub kind: RawInternalType,
    /// Any number.
    pub scope: RawScope,
}

/// `PFN_vkAllocationFunction`: user data, size, alignment (both bytes), scope; NULL when it cannot.
pub type PfnAllocation = unsafe extern "system" fn(*mut c_void, usize, usize, RawScope) -> *mut c_void;
/// `PFN_vkReallocationFunction`: user data, original, size, alignment, scope; NULL when it cannot, or when size is 0.
pub type PfnReallocation = unsafe extern "system" fn(*mut c_void, *mut c_void, usize, usize, RawScope) -> *mut c_void;
/// `PFN_vkFreeFunction`: user data, memory or NULL.
pub type PfnFree = unsafe extern "system" fn(*mut c_void, *mut c_void);
/// `PFN_vkInternalAllocationNotification` and `PFN_vkInternalFreeNotification`: user data, bytes, type, scope.
pub type PfnInternalNotification = unsafe extern "system" fn(*mut c_void, usize, RawInternalType, RawScope);

impl RawCallbacks {
    /// The struct, word by word: the user data and the addresses of the functions, NULL for those that are missing.
    #[must_use]
    pub fn words(&self) -> [*mut c_void; 6] {
        let null = core::ptr::null_mut();
        [
            self.p_user_data,
            self.pfn_allocation.map_or(null, |call| call as _),
            self.pfn_reallocation.map_or(null, |call| call as _),
            self.pfn_free.map_or(null, |call| call as _),
            self.pfn_internal_allocation.map_or(null, |call| call as _),
            self.pfn_internal_free.map_or(null, |call| call as _),
        ]
    }
}

// SAFETY: the struct is plain data, and the functions must be callable from any thread.
unsafe impl Send for RawCallbacks {}
// SAFETY: a shared reference changes nothing, and the functions must be callable from any thread.
unsafe impl Sync for RawCallbacks {}

/// [`RawCallbacks`] that stay valid while `'a` lasts.
///
/// The lifetime covers the *struct*; the functions and their data must outlive every Vulkan object created with them,
/// which no Rust lifetime expresses. [`Bridge::close`](crate::Bridge::close) checks that.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct AllocationCallbacks<'a> {
    raw: RawCallbacks,
    owner: PhantomData<&'a ()>,
}

impl AllocationCallbacks<'_> {
    pub(crate) const fn new(raw: RawCallbacks) -> Self {
        Self { raw, owner: PhantomData }
    }

    /// The C struct.
    #[must_use]
    pub const fn raw(&self) -> &RawCallbacks {
        &self.raw
    }
}
