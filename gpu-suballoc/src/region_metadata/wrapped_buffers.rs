//! Records of the application's buffers. The buffers themselves are never destroyed.

use super::detail::RegionDetail;
use super::record::{RecordHeader, RegionRecord, WrappedBuffer, WrappedRecord};
use super::{Leftovers, MetadataState, RegionMetadata};
use crate::error::{GpuError, GpuMisuse, Limit};
use crate::host_memory::{HostBlock, lock_filled};
use crate::id::RegionKey;
use crate::region::RegionContent;
use crate::request::RegionOptions;
use alloc_core::HostAllocator;
use core::alloc::Layout;

pub(super) const WRAP: Layout = Layout::new::<WrappedBuffer>();

impl RegionMetadata {
    /// Inserts a wrapped buffer. Returns its name.
    ///
    /// # Errors
    /// The refusal of `memory`, [`Limit::Records`], [`Limit::WrappedBytes`]: everything is freed.
    pub(crate) fn insert_wrap(
        &self,
        memory: &dyn HostAllocator,
        wrap: WrappedBuffer,
        options: &RegionOptions<'_>,
    ) -> Result<RegionKey, GpuError> {
        let mut rest = Leftovers {
            details: [RegionDetail::new(memory, options)?, None],
            ..Leftovers::default()
        };
        let inserted = self.insert_wrap_or(memory, wrap, &mut rest);
        let _ = rest.free(memory);
        inserted
    }

    /// `rest` has what was allocated, until the record has it.
    fn insert_wrap_or(
        &self,
        memory: &dyn HostAllocator,
        wrap: WrappedBuffer,
        rest: &mut Leftovers,
    ) -> Result<RegionKey, GpuError> {
        let buffer_info = HostBlock::allocate(memory, WRAP)?.into_start().cast();
        // SAFETY: a new block of this layout.
        unsafe { buffer_info.write(wrap) };
        rest.wrap = Some(buffer_info);
        let mut state = lock_filled(&self.state, memory)?;
        let before = state.counts.wrapped_bytes;
        let short_by = wrap.size.wrapping_add(before).wrapping_add(1);
        let bytes = before.checked_add(wrap.size);
        let bytes = bytes.ok_or(Limit::WrappedBytes { short_by })?;
        let slot = state.table.reserve().ok_or(Limit::Records)?;
        state.counts.wrapped_bytes = bytes;
        state.counts.wrapped += 1;
        let [detail, _] = core::mem::take(&mut rest.details);
        rest.wrap = None;
        let filled = state.table.fill(slot, |header| {
            RegionRecord::Wrapped(WrappedRecord {
                buffer_info,
                header: RecordHeader {
                    detail,
                    content: RegionContent::Buffer,
                    ..header
                },
            })
        });
        filled.ok_or_else(|| GpuMisuse::Stale.into())
    }

    /// Frees the memory of wrapped buffers and names, when the allocator ends with some of them.
    pub(super) fn free_all_wraps(&mut self, memory: &dyn HostAllocator) {
        let state = self.state.get_mut();
        let mut number = 0;
        while let Some(record) = state.table.get_mut(number) {
            let detail = record.header_mut().and_then(|it| it.detail.take());
            RegionDetail::free(detail, memory);
            let _ = state.remove_wrapped(number).free(memory);
            number += 1;
        }
    }
}

impl WrappedRecord {
    pub(super) fn buffer_info(&self) -> WrappedBuffer {
        // SAFETY: the block lives as long as the record, and does not change while the record refers to it.
        unsafe { self.buffer_info.read() }
    }
}

impl MetadataState {
    pub(super) fn remove_wrapped(&mut self, number: u32) -> Leftovers {
        let Some(RegionRecord::Wrapped(wrapped)) = self.table.get_mut(number) else {
            return Leftovers::default();
        };
        let size = wrapped.buffer_info().size;
        let rest = Leftovers {
            details: [wrapped.header.detail.take(), None],
            wrap: Some(wrapped.buffer_info),
            ..Leftovers::default()
        };
        self.table.release(number, true);
        self.counts.wrapped = self.counts.wrapped.saturating_sub(1);
        self.counts.wrapped_bytes = self.counts.wrapped_bytes.saturating_sub(size);
        rest
    }
}
