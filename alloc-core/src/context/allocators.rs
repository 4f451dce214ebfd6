//! Contexts and handles as allocators: of this crate's trait, and of `allocator_api2`'s.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use super::{Context, ContextHandle};
use crate::adapters::HostSource;
use crate::error::HostError;
use crate::host::AllocatorTraits;
use crate::host::{HostAllocator, Notice, PointerStatus};
use crate::scope::Scope;

macro_rules! host_allocator {
    ($type:ty) => {
        // SAFETY: blocks come from the node's backing, whose contract is the same, and are freed to it; the node, and with it the
        // link to the backing, lives as long as the owner or any handle.
        unsafe impl HostAllocator for $type {
            fn traits(&self) -> AllocatorTraits {
                AllocatorTraits {
                    tracks_requester: self.node().tracks_requester(),
                    ..self.node().backing().traits()
                }
            }
            #[inline]
            fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
                self.node().allocate(layout, scope)
            }
            fn allocate_zeroed(
                &self,
                layout: Layout,
                scope: Scope,
            ) -> Result<NonNull<u8>, AllocError> {
                self.node().allocate_zeroed(layout, scope)
            }
            #[inline]
            unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
                // SAFETY: this function's contract, which is the node's as well.
                unsafe { self.node().deallocate(block, layout, scope) }
            }
            unsafe fn resize(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
                scope: Scope,
            ) -> Result<NonNull<u8>, AllocError> {
                // SAFETY: this function's contract, which is the node's as well.
                unsafe { self.node().resize(block, old, new, scope) }
            }
            fn notify(&self, notice: Notice) {
                self.node().notify_change(notice);
            }
            fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
                self.node().refusal(layout, scope)
            }
            fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
                self.node()
                    .with_requester(|backing| backing.validate_pointer(pointer, front))
            }
        }
    };
}

macro_rules! allocator {
    ($type:ty) => {
        // SAFETY: as for `HostAllocator`; moving or cloning the value refers to the same node.
        unsafe impl Allocator for $type {
            #[inline]
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                let node = self.node();
                Ok(NonNull::slice_from_raw_parts(
                    node.allocate(layout, node.scope)?,
                    layout.size(),
                ))
            }
            fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                let node = self.node();
                Ok(NonNull::slice_from_raw_parts(
                    node.allocate_zeroed(layout, node.scope)?,
                    layout.size(),
                ))
            }
            #[inline]
            unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                let node = self.node();
                // SAFETY: this function's contract, which is the node's as well.
                unsafe { node.deallocate(block, layout, node.scope) }
            }
            unsafe fn grow(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, AllocError> {
                let node = self.node();
                // SAFETY: this function's contract, which is the node's as well.
                let block = unsafe { node.resize(block, old, new, node.scope) }?;
                Ok(NonNull::slice_from_raw_parts(block, new.size()))
            }
            // Else both blocks would live, and be charged, for a moment.
            unsafe fn grow_zeroed(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, AllocError> {
                // SAFETY: this function's contract, which is that of `grow` as well.
                let block = unsafe { self.grow(block, old, new) }?;
                // SAFETY: the block holds `new.size()` bytes, at least `old.size()` of them.
                let tail = unsafe { block.cast::<u8>().add(old.size()) };
                // SAFETY: the tail is the rest of the block.
                unsafe { tail.write_bytes(0, new.size().saturating_sub(old.size())) };
                Ok(block)
            }
            unsafe fn shrink(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, AllocError> {
                // SAFETY: this function's contract: a node's block grows and shrinks alike.
                unsafe { self.grow(block, old, new) }
            }
        }

        impl HostSource for $type {
            fn refusal(&self, layout: Layout) -> HostError {
                let node = self.node();
                node.refusal(layout, node.scope)
            }
        }
    };
}

host_allocator!(Context);
host_allocator!(ContextHandle);
allocator!(&Context);
allocator!(ContextHandle);
