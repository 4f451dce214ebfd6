use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::{Context, ContextHandle};
use crate::adapters::allocator_in_scope;
use crate::error::HostError;
use crate::host::{AllocatorTraits, HostAllocator, Notice, PointerStatus};
use crate::scope::Scope;

macro_rules! host_allocator {
    ($type:ty) => {
        // SAFETY: blocks come from the node's backing, whose contract is the same, and are freed to it.
        unsafe impl HostAllocator for $type {
            fn traits(&self) -> AllocatorTraits {
                AllocatorTraits { tracks_requester: self.node().tracks_requester(), ..self.node().backing().traits() }
            }
            #[inline]
            fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
                self.node().allocate(layout, scope)
            }
            fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
                self.node().allocate_zeroed(layout, scope)
            }
            #[inline]
            unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
                // SAFETY: this function's contract.
                unsafe { self.node().deallocate(block, layout, scope) }
            }
            unsafe fn resize(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
                scope: Scope,
            ) -> Result<NonNull<u8>, AllocError> {
                // SAFETY: this function's contract.
                unsafe { self.node().resize(block, old, new, scope) }
            }
            fn notify(&self, notice: Notice) {
                self.node().notify_change(notice);
            }
            fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
                self.node().refusal(layout, scope)
            }
            fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
                self.node().with_requester(|backing| backing.validate_pointer(pointer, front))
            }
        }
    };
}

host_allocator!(Context);
host_allocator!(ContextHandle);
allocator_in_scope!(&Context, |this| (this.node(), this.node().scope));
allocator_in_scope!(ContextHandle, |this| (this.node(), this.node().scope));
