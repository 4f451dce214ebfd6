//! A block of the trace, and the memory that stands in for it.

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{HostAllocator, Scope};

use crate::trace::{Caller, Request};

/// A block of the trace that is live.
pub(super) struct TracedBlock<S: HostAllocator> {
    /// The line that gave it.
    pub(super) line: u64,
    /// Who took it.
    pub(super) by: Caller,
    /// What was asked for; after a reallocation the new size.
    pub(super) asked: Request,
    /// The part of the size that is counted: all or, where it is impossible, nothing.
    pub(super) counted: u64,
    /// The memory; none where the request was impossible or the sink refused it.
    pub(super) held: Option<ReplayedBlock<S>>,
}

impl<S: HostAllocator> TracedBlock<S> {
    pub(super) fn scope(&self) -> Option<Scope> {
        scope(self.asked)
    }
}

/// The scope of a request, where it exists.
pub(super) fn scope(asked: Request) -> Option<Scope> {
    u32::try_from(asked.scope).ok().and_then(Scope::from_raw)
}

/// The layout of a request, where it can be had.
pub(super) fn layout(asked: Request) -> Option<Layout> {
    let size = usize::try_from(asked.size).ok()?;
    let align = usize::try_from(asked.align).ok()?;
    Layout::from_size_align(size, align).ok()
}

/// Memory of a sink, given back when this goes.
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

    /// Makes it `size` bytes; when that cannot be had it is given back.
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
        // SAFETY: `start` came from `sink` with `layout` and `scope`, and goes with this value.
        unsafe { self.sink.deallocate(self.start, self.layout, self.scope) }
    }
}
