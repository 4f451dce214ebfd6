//! Pools over the mock device: everything on every profile.

mod custom;
mod growth;
mod limits;
mod maps;
mod moves;
mod refusals;
mod regions;
mod rows;
mod types;

use core::alloc::Layout;
use core::ptr::NonNull;
use std::collections::BTreeMap;
use std::println;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::vec::Vec;

use alloc_core::{AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, Scope};

use super::walk::WalkItem;
use super::{AllocationRequest, DeviceAndHost, MemoryOptions, Pools, Suballocation};
use crate::device::DeviceMemory;
use crate::device::mock::{MockConfig, MockDevice, MockProfile};
use crate::error::GpuError;
use crate::memory_type::MemoryPreference;
use crate::property_flags::PropertyFlags;
use crate::request::DedicatedPolicy;

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;

type System = FromGlobalAlloc<std::alloc::System>;

/// Host memory that is counted, may be refused, and is never asked for under a lock.
pub(super) struct Host {
    pub(super) live: AtomicI64,
    pub(super) calls: AtomicU64,
    /// Calls until one is refused; negative: none is.
    pub(super) fuse: AtomicI64,
}

// SAFETY: blocks are the system's.
unsafe impl HostAllocator for Host {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        assert_eq!(
            alloc_core::held_state_locks(),
            0,
            "host memory is asked for under a lock"
        );
        assert_eq!(scope, Scope::Object);
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.fuse.load(Ordering::Relaxed) >= 0 && self.fuse.fetch_sub(1, Ordering::Relaxed) == 0
        {
            return Err(AllocError);
        }
        let block = System::SYSTEM.allocate(layout, scope)?;
        self.live.fetch_add(layout.size() as i64, Ordering::Relaxed);
        Ok(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        assert_eq!(
            alloc_core::held_state_locks(),
            0,
            "host memory is given back under a lock"
        );
        self.live.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: forwarded.
        unsafe { System::SYSTEM.deallocate(block, layout, scope) }
    }
}

/// A device, host memory, and the pools over both.
pub(super) struct Bed {
    pub(super) mock: MockDevice<System>,
    pub(super) host: Host,
    pub(super) pools: Pools,
    slots: AtomicU32,
}

impl Bed {
    pub(super) fn new(config: MockConfig, options: &MemoryOptions) -> Self {
        let mock = MockDevice::with_config(config, System::SYSTEM);
        let pools = Pools::new(&mock, options).unwrap();
        let host = Host {
            live: AtomicI64::new(0),
            calls: AtomicU64::new(0),
            fuse: AtomicI64::new(-1),
        };
        Self {
            mock,
            host,
            pools,
            slots: AtomicU32::new(0),
        }
    }

    pub(super) fn device_and_host(&self) -> DeviceAndHost<'_> {
        DeviceAndHost {
            device: &self.mock,
            memory: &self.host,
        }
    }

    /// A region of a slot of its own.
    pub(super) fn place(&self, request: &AllocationRequest) -> Result<Suballocation, GpuError> {
        let slot = self.slots.fetch_add(1, Ordering::Relaxed);
        let request = AllocationRequest { slot, ..*request };
        self.pools.place(self.device_and_host(), &request)
    }

    pub(super) fn free(&self, placed: &Suballocation) {
        self.pools.free(self.device_and_host(), placed.at).unwrap();
    }

    /// Native memory objects and their bytes, as the driver has them.
    pub(super) fn native(&self) -> (u64, u64) {
        let live = self.mock.live_counts();
        (live.memory, live.bytes)
    }

    /// The same, as they are counted here.
    pub(super) fn objects(&self) -> (u32, u64) {
        let ledger = self.pools.budget.lock();
        (ledger.objects, ledger.bytes)
    }

    pub(super) fn allocations(&self) -> u64 {
        self.mock.calls(crate::device::mock::MockCall::Allocate)
    }

    /// Sums, tiles, limits: what must hold whenever nobody is at it.
    pub(super) fn check(&self) {
        let mut objects = BTreeMap::new();
        let mut now = None;
        let mut pieces: Vec<(u64, u64)> = Vec::new();
        let (mut regions, mut bytes) = (0u64, 0u64);
        let mut tiled = |now: Option<(u64, u64)>, pieces: &mut Vec<(u64, u64)>| {
            if let Some((memory, size)) = now {
                let end = pieces.iter().fold(0, |end, (offset, size)| {
                    assert_eq!(*offset, end, "pieces tile the memory");
                    offset + size
                });
                assert_eq!(end, size);
                assert_eq!(
                    objects.insert(memory, size),
                    None,
                    "each object is seen once"
                );
            }
            pieces.clear();
        };
        let mut seen_objects = Vec::new();
        self.pools.walk(&mut |seen| match seen {
            WalkItem::Object {
                memory, size, pool, ..
            } => {
                tiled(now, &mut pieces);
                now = Some((memory.as_raw(), size));
                seen_objects.push(pool);
            }
            WalkItem::Free { offset, size, .. } | WalkItem::Tail { offset, size } => {
                pieces.push((offset, size))
            }
            WalkItem::Region { offset, size, .. } | WalkItem::MoveTarget { offset, size } => {
                regions += 1;
                bytes += size;
                pieces.push((offset, size));
            }
        });
        tiled(now, &mut pieces);
        // h93: what is counted is what is there.
        let totals: Vec<_> = (0..512)
            .filter_map(|pool| self.pools.totals(pool))
            .collect();
        assert_eq!(totals.iter().map(|pool| pool.regions).sum::<u64>(), regions);
        assert_eq!(
            totals.iter().map(|pool| pool.region_bytes).sum::<u64>(),
            bytes
        );
        let sum: u64 = objects.values().sum();
        assert_eq!(
            totals.iter().map(|pool| pool.object_bytes).sum::<u64>(),
            sum
        );
        assert_eq!(self.objects(), (objects.len() as u32, sum));
        assert_eq!(
            self.native(),
            (objects.len() as u64, sum),
            "the driver has given what we count"
        );
    }

    /// The end: everything goes back, and nothing was done wrong meanwhile.
    pub(super) fn close(mut self) {
        self.check();
        let device_and_host = DeviceAndHost {
            device: &self.mock,
            memory: &self.host,
        };
        assert_eq!(self.pools.close(device_and_host), 0, "regions live");
        assert_eq!(self.native(), (0, 0), "device memory is left");
        assert_eq!(
            self.host.live.load(Ordering::Relaxed),
            0,
            "host memory is left"
        );
        assert!(
            self.mock.violations().is_empty(),
            "{}",
            self.mock.violations()
        );
    }
}

/// Runs a test on every profile.
pub(super) fn on_every(options: &MemoryOptions, test: impl Fn(&Bed)) {
    on_every_changed(options, |config| config, test);
}

/// Runs a test on every profile, changed.
pub(super) fn on_every_changed(
    options: &MemoryOptions,
    change: impl Fn(MockConfig) -> MockConfig,
    test: impl Fn(&Bed),
) {
    for profile in MockProfile::ALL {
        println!("profile: {}", profile.name());
        let bed = Bed::new(change(profile.config()), options);
        test(&bed);
        bed.close();
    }
}

/// A request that nothing but a shared block answers.
pub(super) fn shared(size: u64) -> AllocationRequest {
    AllocationRequest {
        dedicated: DedicatedPolicy::Never,
        ..AllocationRequest::new(size, 1)
    }
}

/// A request for memory that the host sees.
pub(super) fn visible(size: u64) -> AllocationRequest {
    AllocationRequest {
        preference: MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE),
        ..shared(size)
    }
}

/// Size of the heap that a region lies in.
pub(super) fn heap_of(bed: &Bed, placed: &Suballocation) -> (u32, u64) {
    let properties = bed.mock.properties();
    let heap = properties.types[placed.memory_type as usize].heap_index;
    (heap, properties.heaps[heap as usize].size)
}
