//! The one folder that names ash: the structs are equal, asserted at compile time.

use core::mem::{align_of, offset_of, size_of};

use ash::vk;

use crate::raw::{AllocationCallbacks, RawCallbacks};

impl<'a> AllocationCallbacks<'a> {
    /// This struct as ash's, to pass as `pAllocator`.
    pub const fn as_ash(&self) -> &vk::AllocationCallbacks<'a> {
        let raw: *const RawCallbacks = self.raw();
        // SAFETY: size, alignment and every field's place are asserted equal below; a scope is `repr(transparent)` over
        // its number.
        unsafe { &*raw.cast::<vk::AllocationCallbacks<'a>>() }
    }
}

impl RawCallbacks {
    /// As [`AllocationCallbacks::as_ash`], for callbacks whose validity the caller answers for (a tap's).
    pub const fn as_ash(&self) -> &vk::AllocationCallbacks<'static> {
        let raw: *const Self = self;
        // SAFETY: size, alignment and places of fields are asserted equal below.
        unsafe { &*raw.cast::<vk::AllocationCallbacks<'static>>() }
    }
}

const _: () = {
    assert!(size_of::<RawCallbacks>() == size_of::<vk::AllocationCallbacks<'_>>());
    assert!(align_of::<RawCallbacks>() == align_of::<vk::AllocationCallbacks<'_>>());
    macro_rules! assert_offsets {
        ($($field:ident)*) => {
            $(assert!(offset_of!(RawCallbacks, $field) == offset_of!(vk::AllocationCallbacks<'_>, $field));)*
        };
    }
    assert_offsets!(p_user_data pfn_allocation pfn_reallocation pfn_free pfn_internal_allocation pfn_internal_free);
    assert!(vk::InternalAllocationType::EXECUTABLE.as_raw() == crate::raw::INTERNAL_EXECUTABLE);
    assert!(vk::SystemAllocationScope::COMMAND.as_raw() as u32 == alloc_core::Scope::Command.as_raw());
    assert!(vk::SystemAllocationScope::OBJECT.as_raw() as u32 == alloc_core::Scope::Object.as_raw());
    assert!(vk::SystemAllocationScope::CACHE.as_raw() as u32 == alloc_core::Scope::Cache.as_raw());
    assert!(vk::SystemAllocationScope::DEVICE.as_raw() as u32 == alloc_core::Scope::Device.as_raw());
    assert!(vk::SystemAllocationScope::INSTANCE.as_raw() as u32 == alloc_core::Scope::Instance.as_raw());
    assert!(vk::Result::ERROR_OUT_OF_HOST_MEMORY.as_raw() == crate::error::VK_ERROR_OUT_OF_HOST_MEMORY);
    assert!(vk::Result::ERROR_UNKNOWN.as_raw() == crate::error::VK_ERROR_UNKNOWN);
};
