//! The mapping of a memory object of the application, shared by all wrapped buffers in it.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::device::{DeviceMemory, MemoryHandle};
use crate::error::{GpuError, GpuMisuse, Limit};
use crate::map_count::{MapCount, Step};
use crate::sync::StateMutex;
use crate::threads;

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
