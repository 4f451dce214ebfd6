//! A device for tests: it checks Vulkan's rules, reports violations, and fails as planned.
//!
//! ```text
//!   MockDevice -- Mutex -- MockState -- HandleTable<MockMemoryState>  -- MockBacking: the bytes, twice if memory is not coherent
//!                              |-- HandleTable<MockResource>  -- buffers, images: their bindings and neighbours
//!                              |-- MockFaults, counts, Violations
//! ```

mod backing;
mod control;
mod driver_heap;
mod fault;
mod handle_table;
mod memory;
mod profile;
mod queue;
mod resources;
mod state;
mod violation;

pub use control::{MockLiveCounts, MockMemory};
pub use driver_heap::IN_DRIVER;
pub use fault::MockFault;
pub use profile::{MockConfig, MockProfile, ResourceRules};
pub use violation::{Breach, MockCall, Violation, Violations};

use core::fmt;
use core::num::NonZeroU64;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::device::{
    BufferHandle, BufferInfo, DeviceError, DeviceMemory, DeviceProperties, HeapBudget, ImageHandle, ImageInfo,
    MappedRange, MemoryHandle, MemoryRequest, ResourceHandle, ResourceRequirements,
};
use fault::MockFaults;
use handle_table::HandleTable;
use memory::UNKNOWN;
use state::{BUFFER, IMAGE, MEMORY, MockHeap, MockState, ResourceInfo, SyncedObject};

/// A device in host memory, from the C library's heap.
///
/// It implements [`DeviceMemory`] for any thread, and records each breach of Vulkan's rules, or
/// of law 5 of this project, that it can see: check [`violations`](MockDevice::violations) at the end. A breach is an
/// error if the call has one, and does no harm: its `unsafe` methods may be called wrongly, except that mapped pointers
/// are real. Memory is zeroed, and allocated when it is first mapped or used.
///
/// ```
/// use gpu_suballoc::{BufferInfo, BufferUsage, DeviceMemory};
/// use gpu_suballoc::device::MemoryRequest;
/// use mock_device::{Breach, MockDevice, MockProfile};
///
/// let device = MockDevice::new(MockProfile::Nvidia);
/// // SAFETY: a mock, which reports wrong calls.
/// unsafe {
///     let buffer = device.create_buffer(&BufferInfo::new(100, BufferUsage::TRANSFER_DST))?;
///     let memory = device.allocate(&MemoryRequest::new(4096, 1))?;
///     device.bind_buffer(buffer, memory, 16)?;
///     assert!(device.violations().is_empty());
///     assert!(device.bind_buffer(buffer, memory, 64).is_err());
///     assert_eq!(device.violations().iter().next().map(|violation| violation.breach), Some(Breach::AlreadyBound));
/// }
/// # Ok::<(), gpu_suballoc::device::DeviceError>(())
/// ```
pub struct MockDevice {
    /// Never changes: read without the lock.
    config: MockConfig,
    state: Mutex<MockState>,
    linger: AtomicU32,
    more: AtomicU64,
    hook: Mutex<Option<MockHook>>,
}

impl fmt::Debug for MockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockDevice").finish_non_exhaustive()
    }
}

/// A driver may hold what it likes while it asks for host memory: law 5 is about the locks of gpu-suballoc.
fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The handle's number.
const fn raw(of: ResourceHandle) -> u64 {
    match of {
        ResourceHandle::Buffer(buffer) => buffer.as_raw(),
        ResourceHandle::Image(image) => image.as_raw(),
    }
}

/// A function that a [`MockDevice`] calls at the beginning of each call, without a lock of its own: it may call the
/// device and its user.
pub type MockHook = &'static (dyn Fn(MockCall) + Sync);

impl MockDevice {
    /// A device of a profile. Allocates nothing yet.
    #[must_use]
    pub fn new(profile: MockProfile) -> Self {
        Self::with_config(profile.config())
    }

    /// A device of another configuration. Allocates nothing yet.
    #[must_use]
    pub fn with_config(config: MockConfig) -> Self {
        static DEVICES: AtomicU8 = AtomicU8::new(1);
        let owner = DEVICES.fetch_add(1, Ordering::Relaxed);
        let state = MockState {
            config,
            memory: HandleTable::new(owner, MEMORY),
            buffers: HandleTable::new(owner, BUFFER),
            images: HandleTable::new(owner, IMAGE),
            heaps: [MockHeap::default(); crate::device::MAX_MEMORY_HEAPS],
            violations: Violations::NONE,
            counts: [0; MockCall::ALL.len()],
            faults: MockFaults::NONE,
            refuse_from: u64::MAX,
            lost: false,
            oversubscribed: false,
            clock: Some(Duration::ZERO),
        };
        Self {
            config,
            state: Mutex::new(state),
            linger: AtomicU32::new(0),
            more: AtomicU64::new(0),
            hook: Mutex::new(None),
        }
    }

    /// Counts a call, and fails if a failure was planted for it.
    fn begin(&self, call: MockCall, object: u64) -> Result<MutexGuard<'_, MockState>, DeviceError> {
        let hook = *locked(&self.hook);
        if let Some(hook) = hook {
            hook(call);
        }
        let mut state = locked(&self.state);
        state.begin(call, object).map(|()| state)
    }

    /// Calls `act` for an object that Vulkan requires to be externally synchronised; `None` if there is no such object.
    fn with_exclusive<R>(
        &self,
        call: MockCall,
        object: SyncedObject,
        act: impl FnOnce(&mut MockState) -> R,
    ) -> Option<R> {
        let mut state = locked(&self.state);
        match state.users(object).map(|users| core::mem::replace(users, *users + 1)) {
            Ok(0) => {}
            Ok(_) => state.breach(Breach::ConcurrentUse, call, object.number()),
            Err(breach) => {
                state.breach(breach, call, object.number());
                return None;
            }
        }
        drop(state);
        for _ in 0..self.linger.load(Ordering::Relaxed) {
            core::hint::spin_loop();
        }
        let mut state = locked(&self.state);
        let done = act(&mut state);
        if let Ok(users) = state.users(object) {
            *users = users.saturating_sub(1);
        }
        Some(done)
    }

    fn carry(&self, call: MockCall, ranges: &[MappedRange]) -> Result<(), DeviceError> {
        let object = ranges.first().map_or(0, |range| range.memory.as_raw());
        let mut state = self.begin(call, object)?;
        ranges.iter().try_for_each(|range| state.carry(call, range))
    }

    fn destroy(&self, call: MockCall, name: ResourceHandle) {
        // It cannot fail.
        drop(self.begin(call, raw(name)));
        self.with_exclusive(call, SyncedObject::Resource(name), |state| state.destroy(call, name));
    }

    fn requirements(&self, call: MockCall, name: ResourceHandle) -> ResourceRequirements {
        drop(self.begin(call, raw(name)));
        locked(&self.state).requirements(call, name)
    }

    fn bind(&self, call: MockCall, name: ResourceHandle, memory: MemoryHandle, offset: u64) -> Result<(), DeviceError> {
        drop(self.begin(call, raw(name))?);
        let bound = self.with_exclusive(call, SyncedObject::Resource(name), |state| {
            state.bind(call, name, memory.as_raw(), offset)
        });
        bound.unwrap_or(Err(UNKNOWN))
    }
}

// SAFETY: numbers of live objects differ, by their index; a mapped pointer is into the object's own block, which is as
// aligned as any profile's `min_memory_map_alignment` and given back when the object is freed; facts never change;
// nothing unwinds unless the host allocator does.
unsafe impl DeviceMemory for MockDevice {
    fn properties(&self) -> DeviceProperties<'_> {
        drop(self.begin(MockCall::Properties, 0));
        self.config.properties()
    }

    unsafe fn allocate(&self, request: &MemoryRequest) -> Result<MemoryHandle, DeviceError> {
        let mut state = self.begin(MockCall::Allocate, 0)?;
        state.allocate(request).and_then(|number| MemoryHandle::from_raw(number).ok_or(UNKNOWN))
    }

    unsafe fn free(&self, memory: MemoryHandle) {
        let number = memory.as_raw();
        drop(self.begin(MockCall::Free, number));
        self.with_exclusive(MockCall::Free, SyncedObject::Memory(number), |state| state.free(number));
    }

    unsafe fn map(&self, memory: MemoryHandle, offset: u64, size: u64) -> Result<NonNull<u8>, DeviceError> {
        let number = memory.as_raw();
        drop(self.begin(MockCall::Map, number)?);
        let mapped =
            self.with_exclusive(MockCall::Map, SyncedObject::Memory(number), |state| state.map(number, offset, size));
        mapped.unwrap_or(Err(DeviceError::MapFailed))
    }

    unsafe fn unmap(&self, memory: MemoryHandle) {
        let number = memory.as_raw();
        drop(self.begin(MockCall::Unmap, number));
        self.with_exclusive(MockCall::Unmap, SyncedObject::Memory(number), |state| state.unmap(number));
    }

    unsafe fn flush(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
        self.carry(MockCall::Flush, ranges)
    }

    unsafe fn invalidate(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
        self.carry(MockCall::Invalidate, ranges)
    }

    unsafe fn create_buffer(&self, info: &BufferInfo) -> Result<BufferHandle, DeviceError> {
        let mut state = self.begin(MockCall::CreateBuffer, 0)?;
        state.create_buffer(info).and_then(|number| BufferHandle::from_raw(number).ok_or(UNKNOWN))
    }

    unsafe fn destroy_buffer(&self, buffer: BufferHandle) {
        self.destroy(MockCall::DestroyBuffer, ResourceHandle::Buffer(buffer));
    }

    unsafe fn buffer_requirements(&self, buffer: BufferHandle) -> ResourceRequirements {
        let needs = self.requirements(MockCall::BufferRequirements, ResourceHandle::Buffer(buffer));
        ResourceRequirements { size: needs.size + self.more.load(Ordering::Relaxed), ..needs }
    }

    unsafe fn bind_buffer(&self, buffer: BufferHandle, memory: MemoryHandle, offset: u64) -> Result<(), DeviceError> {
        self.bind(MockCall::BindBuffer, ResourceHandle::Buffer(buffer), memory, offset)
    }

    unsafe fn create_image(&self, info: &ImageInfo) -> Result<ImageHandle, DeviceError> {
        let mut state = self.begin(MockCall::CreateImage, 0)?;
        state.create_image(info).and_then(|number| ImageHandle::from_raw(number).ok_or(UNKNOWN))
    }

    unsafe fn destroy_image(&self, image: ImageHandle) {
        self.destroy(MockCall::DestroyImage, ResourceHandle::Image(image));
    }

    unsafe fn image_requirements(&self, image: ImageHandle) -> ResourceRequirements {
        self.requirements(MockCall::ImageRequirements, ResourceHandle::Image(image))
    }

    unsafe fn bind_image(&self, image: ImageHandle, memory: MemoryHandle, offset: u64) -> Result<(), DeviceError> {
        self.bind(MockCall::BindImage, ResourceHandle::Image(image), memory, offset)
    }

    unsafe fn buffer_address(&self, buffer: BufferHandle) -> Option<NonZeroU64> {
        let number = buffer.as_raw();
        drop(self.begin(MockCall::BufferAddress, number));
        let mut state = locked(&self.state);
        if !state.config.features.buffer_device_address {
            return None;
        }
        let judged = state.buffers.get(number).and_then(|resource| match (resource.info, resource.bound) {
            (ResourceInfo::Buffer(info), Some(bound))
                if info.usage.contains(crate::device::BufferUsage::SHADER_DEVICE_ADDRESS) =>
            {
                Ok((bound.memory & 0xffff_ffff, bound.offset))
            }
            _ => Err(Breach::NoDeviceAddress),
        });
        match judged {
            // Each memory object has 2^40 bytes of an address space of its own, a little above 0.
            Ok((memory, offset)) => NonZeroU64::new((memory + 1).wrapping_shl(40).wrapping_add(offset)),
            Err(breach) => {
                state.breach(breach, MockCall::BufferAddress, number);
                None
            }
        }
    }

    unsafe fn commitment(&self, memory: MemoryHandle) -> Option<u64> {
        let number = memory.as_raw();
        drop(self.begin(MockCall::Commitment, number));
        let mut state = locked(&self.state);
        match state.commitment(number) {
            Ok(bytes) => Some(bytes),
            Err(breach) => {
                state.breach(breach, MockCall::Commitment, number);
                None
            }
        }
    }

    fn budget(&self, heaps: &mut [HeapBudget]) -> bool {
        drop(self.begin(MockCall::Budget, 0));
        let state = locked(&self.state);
        if !state.config.features.memory_budget {
            return false;
        }
        let device = state.config.properties();
        for ((told, heap), of) in heaps.iter_mut().zip(&state.heaps).zip(device.heaps) {
            let budget = heap.budget.unwrap_or(of.size.saturating_sub(heap.elsewhere));
            *told = HeapBudget { usage: heap.live, budget };
        }
        true
    }

    fn clock(&self) -> Option<Duration> {
        locked(&self.state).clock
    }
}

impl Drop for MockDevice {
    /// Frees all memory, also of objects that were never freed.
    fn drop(&mut self) {
        for mut left in self.state.get_mut().unwrap_or_else(PoisonError::into_inner).memory.drain() {
            left.backing.free();
        }
    }
}
