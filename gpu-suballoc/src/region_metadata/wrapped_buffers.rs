//! Records of the application's buffers. The buffers themselves are never destroyed.

use super::detail::RegionDetail;
use super::record::{RecordHeader, RegionRecord, WrappedBuffer, WrappedRecord};
use super::{Leftovers, MetadataState, RegionMetadata, ReservedSlot};
use crate::device::{DeviceMemory, MemoryHandle};
use crate::error::{GpuError, GpuMisuse, Limit};
use crate::host_memory::HostBlock;
use crate::id::RegionKey;
use crate::map_count::{MapCount, Step};
use crate::memory_type::PropertyFlags;
use crate::region::RegionContent;
use crate::request::RegionOptions;
use crate::sync::StateMutex;
use crate::threads;
use alloc_core::HostAllocator;
use core::alloc::Layout;
use core::ptr;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

pub(super) const WRAP: Layout = Layout::new::<WrappedBuffer>();
pub(super) const FOREIGN: Layout = Layout::new::<ForeignMemory>();

/// All memory of a wrapped buffer, allocated before it is inserted.
#[must_use = "it holds memory: insert it"]
pub(crate) struct NewWrappedBuffer {
    slot: ReservedSlot,
    buffer_info: NonNull<WrappedBuffer>,
    foreign: Option<NonNull<ForeignMemory>>,
    detail: Option<RegionDetail>,
}

impl RegionMetadata {
    /// Allocates all that a wrapped buffer needs, or nothing.
    pub(crate) fn prepare_wrap(
        &self,
        memory: &dyn HostAllocator,
        wrap: WrappedBuffer,
        options: &RegionOptions<'_>,
    ) -> Result<NewWrappedBuffer, GpuError> {
        let mut rest = Leftovers::default();
        let new = self.allocate_wrap(memory, wrap, options, &mut rest);
        if new.is_err() {
            let _ = rest.free(memory);
        }
        new
    }

    /// `rest` has what was allocated, until everything is.
    fn allocate_wrap(
        &self,
        memory: &dyn HostAllocator,
        wrap: WrappedBuffer,
        options: &RegionOptions<'_>,
        rest: &mut Leftovers,
    ) -> Result<NewWrappedBuffer, GpuError> {
        let buffer_info = HostBlock::allocate(memory, WRAP)?.into_start().cast();
        // SAFETY: a new block of this layout.
        unsafe { buffer_info.write(wrap) };
        rest.wrap = Some(buffer_info);
        if let Some(backing) = wrap.backing
            && backing.mapped.is_none()
            && backing.properties.contains(PropertyFlags::HOST_VISIBLE)
        {
            let foreign = HostBlock::allocate(memory, FOREIGN)?.into_start().cast();
            // SAFETY: a new block of this layout.
            unsafe { foreign.write(ForeignMemory::new(backing.memory, backing.memory_size)) };
            rest.foreign = Some(foreign);
        }
        rest.details = [RegionDetail::new(memory, options)?, None];
        let slot = self.reserve(memory, None)?;
        let [detail, _] = core::mem::take(&mut rest.details);
        Ok(NewWrappedBuffer {
            slot,
            buffer_info,
            foreign: rest.foreign,
            detail,
        })
    }

    /// Inserts a wrapped buffer. Returns its name.
    ///
    /// # Errors
    /// [`Limit::WrappedBytes`]: everything is freed.
    pub(crate) fn insert_wrap(
        &self,
        memory: &dyn HostAllocator,
        new: NewWrappedBuffer,
    ) -> Result<RegionKey, GpuError> {
        let slot = new.slot;
        // SAFETY: the block is `new`'s alone until the record refers to it.
        let size = unsafe { new.buffer_info.as_ref() }.size;
        let (key, rest) = {
            let mut state = self.state.lock();
            match state.counts.wrapped_bytes.checked_add(size) {
                None => {
                    let short_by = size
                        .wrapping_add(state.counts.wrapped_bytes)
                        .wrapping_add(1);
                    let rest = Leftovers {
                        details: [new.detail, None],
                        wrap: Some(new.buffer_info),
                        foreign: new.foreign,
                        root: None,
                    };
                    (Err(Limit::WrappedBytes { short_by }.into()), rest)
                }
                Some(bytes) => {
                    state.counts.wrapped_bytes = bytes;
                    state.counts.wrapped += 1;
                    let (key, foreign) = state.insert_wrap(new);
                    let rest = Leftovers {
                        foreign,
                        ..Leftovers::default()
                    };
                    (Ok(key), rest)
                }
            }
        };
        let _ = rest.free(memory);
        if key.is_err() {
            self.unreserve(slot);
        }
        key
    }

    /// Frees the memory of wrapped buffers and names, when the allocator ends with some of them.
    pub(super) fn free_all_wraps(
        &mut self,
        device: Option<&dyn DeviceMemory>,
        memory: &dyn HostAllocator,
    ) {
        let state = self.state.get_mut();
        let mut number = 0;
        while let Some(record) = state.table.get_mut(number) {
            let detail = record.header_mut().and_then(|it| it.detail.take());
            RegionDetail::free(detail, memory);
            let rest = state.remove_wrapped(number);
            if let (Some(device), Some(foreign)) = (device, rest.foreign) {
                // SAFETY: its last user is gone, and it is freed below.
                unsafe { foreign.as_ref() }.unmap_all(device);
            }
            let _ = rest.free(memory);
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

impl WrappedBuffer {
    pub(crate) fn foreign(&self) -> Option<&ForeignMemory> {
        // SAFETY: a call that copies a wrapped buffer out of its record has a mapping that the record counts: until the mapping ends, the
        // record and the block live. Fields that other threads change meanwhile are not read through this reference.
        self.foreign.map(|foreign| unsafe { foreign.as_ref() })
    }
}

impl MetadataState {
    /// Fills the reserved slot. Returns its name, and the block that is not needed because the memory object has one.
    fn insert_wrap(
        &mut self,
        new: NewWrappedBuffer,
    ) -> (RegionKey, Option<NonNull<ForeignMemory>>) {
        let NewWrappedBuffer {
            slot,
            mut buffer_info,
            foreign,
            detail,
        } = new;
        let (used, unneeded) = self.share_foreign(foreign);
        // SAFETY: the block is the caller's alone until the record refers to it.
        unsafe { buffer_info.as_mut() }.foreign = used;
        let filled = self.table.fill(slot.number, |header| {
            RegionRecord::Wrapped(WrappedRecord {
                buffer_info,
                header: RecordHeader {
                    detail,
                    content: RegionContent::Buffer,
                    ..header
                },
            })
        });
        let key = filled.unwrap_or(RegionKey {
            slot: slot.number,
            generation: 0,
        });
        (key, unneeded)
    }

    /// The entry of a memory object: `new`, or the one that exists; and `new` if it is not needed.
    fn share_foreign(
        &mut self,
        new: Option<NonNull<ForeignMemory>>,
    ) -> (
        Option<NonNull<ForeignMemory>>,
        Option<NonNull<ForeignMemory>>,
    ) {
        let Some(new) = new else { return (None, None) };
        // SAFETY: the caller's own block, initialised.
        let fresh = unsafe { new.as_ref() };
        let mut entry = self.foreign;
        while let Some(there) = entry {
            // SAFETY: in the list, hence live; there are no exclusive references to entries.
            let one = unsafe { there.as_ref() };
            if one.memory == fresh.memory {
                one.users.fetch_add(1, Ordering::Relaxed);
                return (Some(there), Some(new));
            }
            entry = one.next();
        }
        fresh.set_next(self.foreign);
        self.foreign = Some(new);
        (Some(new), None)
    }

    /// Removes a user. Returns the entry, unlinked, if that was the last.
    fn release_foreign(&mut self, left: NonNull<ForeignMemory>) -> Option<NonNull<ForeignMemory>> {
        // SAFETY: it has a user, hence is live.
        let gone = unsafe { left.as_ref() };
        if gone.users.fetch_sub(1, Ordering::Relaxed) > 1 {
            return None;
        }
        if self.foreign == Some(left) {
            self.foreign = gone.next();
        }
        let mut entry = self.foreign;
        while let Some(there) = entry {
            // SAFETY: in the list, hence live.
            let one = unsafe { there.as_ref() };
            if one.next() == Some(left) {
                one.set_next(gone.next());
                break;
            }
            entry = one.next();
        }
        Some(left)
    }

    pub(super) fn remove_wrapped(&mut self, number: u32) -> Leftovers {
        let Some(RegionRecord::Wrapped(wrapped)) = self.table.get_mut(number) else {
            return Leftovers::default();
        };
        let buffer = wrapped.buffer_info();
        let rest = Leftovers {
            details: [wrapped.header.detail.take(), None],
            wrap: Some(wrapped.buffer_info),
            ..Leftovers::default()
        };
        self.table.release(number, true);
        self.counts.wrapped = self.counts.wrapped.saturating_sub(1);
        self.counts.wrapped_bytes = self.counts.wrapped_bytes.saturating_sub(buffer.size);
        Leftovers {
            foreign: buffer
                .foreign
                .and_then(|foreign| self.release_foreign(foreign)),
            ..rest
        }
    }
}

// The mapping of a memory object of the application, shared by all wrapped buffers in it.

/// A memory object of the application. It lives while a wrapped buffer refers to it. `users` and `next` change only under the records' lock;
/// they are atomics because other threads have shared references meanwhile.
pub(crate) struct ForeignMemory {
    pub(super) memory: MemoryHandle,
    size: u64,
    pub(super) users: AtomicU32,
    pub(super) next: AtomicPtr<Self>,
    map: StateMutex<MapCount>,
}

impl ForeignMemory {
    pub(super) const fn new(memory: MemoryHandle, size: u64) -> Self {
        let (users, next) = (AtomicU32::new(1), AtomicPtr::new(ptr::null_mut()));
        Self {
            memory,
            size,
            users,
            next,
            map: StateMutex::new(MapCount::NONE),
        }
    }

    pub(super) fn next(&self) -> Option<NonNull<Self>> {
        NonNull::new(self.next.load(Ordering::Relaxed))
    }

    pub(super) fn set_next(&self, next: Option<NonNull<Self>>) {
        self.next.store(
            next.map_or(ptr::null_mut(), NonNull::as_ptr),
            Ordering::Relaxed,
        );
    }

    /// Maps the memory object, unless it is mapped. Returns its start.
    pub(crate) fn map(&self, device: &dyn DeviceMemory) -> Result<NonNull<u8>, GpuError> {
        let mut tries = 0u32;
        loop {
            let step = self.map.lock().enter();
            match step {
                Step::Done(Some(start)) => return Ok(start),
                Step::Done(None) | Step::Refused => return Err(Limit::Aliases.into()),
                Step::Wait if threads::pause(&mut tries) => {}
                Step::Wait => return Err(GpuMisuse::NestedMap.into()),
                Step::Driver => {
                    let _in_call = threads::enter_call();
                    // SAFETY: the memory is live, host-visible, of this size, and not mapped by the application, as `Backing` requires. This
                    // turn excludes other mappings of ours.
                    let mapped = unsafe { device.map(self.memory, 0, self.size) };
                    self.map.lock().entered(mapped.ok());
                    return Ok(mapped?);
                }
            }
        }
    }

    /// Undoes every [`map`](ForeignMemory::map).
    fn unmap_all(&self, device: &dyn DeviceMemory) {
        while self.is_mapped() {
            self.unmap(device);
        }
    }

    fn is_mapped(&self) -> bool {
        self.map.lock().is_mapped()
    }

    /// Undoes one [`map`](ForeignMemory::map); the last one unmaps.
    pub(crate) fn unmap(&self, device: &dyn DeviceMemory) {
        let step = self.map.lock().leave(false);
        if step == Step::Driver {
            let _in_call = threads::enter_call();
            // SAFETY: mapped by `map`, and the last user is gone; this turn excludes other mappings of ours.
            unsafe { device.unmap(self.memory) };
            self.map.lock().left();
        }
    }
}
