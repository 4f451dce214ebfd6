//! A block of the trace, and the memory of its replay.

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{HostAllocator, Scope};

use crate::trace::{Caller, Request};

/// A request of the trace.
#[derive(Clone, Copy)]
pub(super) struct TracedRequest {
    pub(super) line: u64,
    pub(super) by: Caller,
    pub(super) asked: Request,
}

/// A live block of the trace.
pub(super) struct TracedBlock<S: HostAllocator> {
    /// The request of its allocation; after a reallocation with the new size.
    pub(super) request: TracedRequest,
    /// The counted part of the size: all or, if it is impossible, nothing.
    pub(super) counted: u64,
    /// The memory; none if the request was impossible or the sink refused it.
    pub(super) held: Option<ReplayedBlock<S>>,
}

impl<S: HostAllocator> TracedBlock<S> {
    pub(super) fn scope(&self) -> Option<Scope> {
        scope(self.request.asked)
    }
}

/// The scope of a request, if valid.
pub(super) fn scope(asked: Request) -> Option<Scope> {
    u32::try_from(asked.scope).ok().and_then(Scope::from_raw)
}

/// The layout of a request, if valid.
pub(super) fn layout(asked: Request) -> Option<Layout> {
    let size = usize::try_from(asked.size).ok()?;
    let align = usize::try_from(asked.align).ok()?;
    Layout::from_size_align(size, align).ok()
}

/// Memory of a sink, freed on drop.
pub(super) struct ReplayedBlock<S: HostAllocator> {
    sink: S,
    start: NonNull<u8>,
    layout: Layout,
    scope: Scope,
}

impl<S: HostAllocator> ReplayedBlock<S> {
    pub(super) fn allocate(sink: S, layout: Layout, scope: Scope) -> Option<Self> {
        let start = sink.allocate(layout, scope).ok()?;
        Some(Self {
            sink,
            start,
            layout,
            scope,
        })
    }

    /// Resizes it to `size` bytes; if refused, frees it.
    pub(super) fn resize(mut self, size: usize) -> Option<Self> {
        let new = Layout::from_size_align(size, self.layout.align()).ok()?;
        // SAFETY: `start` came from `sink` with `layout` and `scope` and is live.
        let moved = unsafe { self.sink.resize(self.start, self.layout, new, self.scope) };
        self.start = moved.ok()?;
        self.layout = new;
        Some(self)
    }
}

impl<S: HostAllocator> Drop for ReplayedBlock<S> {
    fn drop(&mut self) {
        // SAFETY: `start` came from `sink` with `layout` and `scope`, and ends with this value.
        unsafe { self.sink.deallocate(self.start, self.layout, self.scope) }
    }
}
