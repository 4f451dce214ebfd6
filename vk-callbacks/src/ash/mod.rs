//! The one folder that names ash: our structs are its structs, proved at compile time.

use core::mem::{align_of, offset_of, size_of};

use ash::vk;

use crate::raw::{AllocationCallbacks, RawCallbacks};

impl<'a> AllocationCallbacks<'a> {
    /// The same struct as ash's, to pass as `pAllocator`.
    pub const fn as_ash(&self) -> &vk::AllocationCallbacks<'a> {
        let raw: *const RawCallbacks = self.raw();
        // SAFETY: size, alignment and every field's place are asserted equal below; the functions differ only in a
        // `repr(transparent)` wrapper around the scope, which the C ABI passes as the number itself; lifetime as `self`.
        unsafe { &*raw.cast::<vk::AllocationCallbacks<'a>>() }
    }
}

impl RawCallbacks {
    /// As [`AllocationCallbacks::as_ash`], for callbacks whose validity somebody else answers for (a tap's).
    pub const fn as_ash(&self) -> &vk::AllocationCallbacks<'static> {
        let raw: *const Self = self;
        // SAFETY: as in `AllocationCallbacks::as_ash`; the struct's lifetime is of a marker alone, and of validity nothing is said here.
        unsafe { &*raw.cast::<vk::AllocationCallbacks<'static>>() }
    }

    /// Reads ash's struct as ours.
    #[must_use]
    pub const fn from_ash<'a>(callbacks: &'a vk::AllocationCallbacks<'_>) -> &'a Self {
        let raw: *const vk::AllocationCallbacks<'_> = callbacks;
        // SAFETY: as in `as_ash`, the other way; the lifetime is the argument's.
        unsafe { &*raw.cast::<Self>() }
    }
}

const _: () = {
    assert!(size_of::<RawCallbacks>() == size_of::<vk::AllocationCallbacks<'_>>());
    assert!(align_of::<RawCallbacks>() == align_of::<vk::AllocationCallbacks<'_>>());
    assert!(
        offset_of!(RawCallbacks, p_user_data)
            == offset_of!(vk::AllocationCallbacks<'_>, p_user_data)
    );
    assert!(
        offset_of!(RawCallbacks, pfn_allocation)
            == offset_of!(vk::AllocationCallbacks<'_>, pfn_allocation)
    );
    assert!(
        offset_of!(RawCallbacks, pfn_reallocation)
            == offset_of!(vk::AllocationCallbacks<'_>, pfn_reallocation)
    );
    assert!(
        offset_of!(RawCallbacks, pfn_free) == offset_of!(vk::AllocationCallbacks<'_>, pfn_free)
    );
    assert!(
        offset_of!(RawCallbacks, pfn_internal_allocation)
            == offset_of!(vk::AllocationCallbacks<'_>, pfn_internal_allocation)
    );
    assert!(
        offset_of!(RawCallbacks, pfn_internal_free)
            == offset_of!(vk::AllocationCallbacks<'_>, pfn_internal_free)
    );
    assert!(vk::InternalAllocationType::EXECUTABLE.as_raw() == crate::raw::INTERNAL_EXECUTABLE);
    assert!(
        vk::SystemAllocationScope::COMMAND.as_raw() as u32 == alloc_core::Scope::Command.as_raw()
    );
    assert!(
        vk::SystemAllocationScope::OBJECT.as_raw() as u32 == alloc_core::Scope::Object.as_raw()
    );
    assert!(vk::SystemAllocationScope::CACHE.as_raw() as u32 == alloc_core::Scope::Cache.as_raw());
    assert!(
        vk::SystemAllocationScope::DEVICE.as_raw() as u32 == alloc_core::Scope::Device.as_raw()
    );
    assert!(
        vk::SystemAllocationScope::INSTANCE.as_raw() as u32 == alloc_core::Scope::Instance.as_raw()
    );
    assert!(
        vk::Result::ERROR_OUT_OF_HOST_MEMORY.as_raw() == crate::error::VK_ERROR_OUT_OF_HOST_MEMORY
    );
    assert!(vk::Result::ERROR_UNKNOWN.as_raw() == crate::error::VK_ERROR_UNKNOWN);
};
