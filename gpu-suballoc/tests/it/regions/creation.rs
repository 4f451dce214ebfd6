//! Make, ask, place, bind: and all of it undone when one of them is refused.

use std::num::NonZeroU64;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use gpu_suballoc::device::{BufferHandle, DeviceError, HeapBudget, ImageHandle, MemoryHandle};
use gpu_suballoc::error::Limit;
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{
    BufferInfo, BufferUsage, DeviceMemory, GpuAllocator, GpuError, GpuMisuse, ImageInfo,
    ImageUsage, MemoryPreference, PoolOptions, PropertyFlags, Region, RegionOptions,
    ResourceRequirements,
};
use mock_device::{MockCall, MockFault, MockProfile};
use testkit::RecordingAllocator;

use super::{AllocatorOptions, COPIED, Mock, any, bytes, nvidia, scene};

#[test]
fn h107_a_refused_bind_leaves_no_buffer_and_no_place() {
    nvidia(|s| {
        let keep = s.buffer(64);
        let before = (s.mock.live_counts(), s.gpu.stats().total);
        for call in [MockCall::CreateBuffer, MockCall::BindBuffer] {
            s.mock.plant(
                MockFault::always()
                    .of(call)
                    .with(DeviceError::OutOfHostMemory),
            );
            let refused = s.gpu.create_buffer(&BufferInfo::new(5000, COPIED), &any());
            assert_eq!(
                refused.unwrap_err(),
                GpuError::Device(DeviceError::OutOfHostMemory),
                "{call:?}"
            );
            assert_eq!(
                (s.mock.live_counts(), s.gpu.stats().total),
                before,
                "{call:?}"
            );
            s.mock.clear_faults();
        }
        let image = ImageInfo::new_2d(37, 64, 64, ImageUsage::SAMPLED);
        for call in [MockCall::CreateImage, MockCall::BindImage] {
            s.mock.plant(MockFault::always().of(call));
            assert!(s.gpu.create_image(&image, &any()).is_err());
            assert_eq!(s.mock.live_counts().images, 0, "{call:?}");
            s.mock.clear_faults();
        }
        s.free(s.buffer(5000));
        s.free(keep);
    });
}

#[test]
fn h86_a_region_without_its_buffer_is_never_given_out() {
    nvidia(|s| {
        s.mock.plant(
            MockFault::always()
                .of(MockCall::Allocate)
                .with(DeviceError::OutOfDeviceMemory),
        );
        let refused = s
            .gpu
            .create_buffer(&BufferInfo::new(5000, COPIED), &any())
            .unwrap_err();
        assert!(refused.is_out_of_device_memory(), "{refused}");
        assert_eq!(s.mock.live_counts().buffers, 0);
        s.mock.clear_faults();
        let region = s.buffer(5000);
        assert!(region.buffer().is_some());
        s.free(region);
    });
}

#[test]
fn h84_a_refused_block_does_not_count_against_its_pools_limit() {
    nvidia(|s| {
        for dedicated in [DedicatedPolicy::Never, DedicatedPolicy::Required] {
            let pool = s
                .gpu
                .create_pool(&PoolOptions {
                    max_blocks: 1,
                    ..PoolOptions::new(1)
                })
                .unwrap();
            let take = || {
                s.gpu.allocate(
                    &bytes(5000),
                    &RegionOptions {
                        dedicated,
                        ..any().pool(pool)
                    },
                )
            };
            s.mock.plant(
                MockFault::always()
                    .of(MockCall::Allocate)
                    .with(DeviceError::OutOfDeviceMemory),
            );
            for _ in 0..3 {
                assert_eq!(
                    take().unwrap_err(),
                    DeviceError::OutOfDeviceMemory.into(),
                    "{dedicated:?}"
                );
            }
            s.mock.clear_faults();
            let first = take().expect("it is the first block");
            let large = s.gpu.allocate(
                &bytes(200 << 20),
                &RegionOptions {
                    dedicated,
                    ..any().pool(pool)
                },
            );
            assert_eq!(
                large.unwrap_err(),
                GpuError::Limit(Limit::Blocks { limit: 1 }),
                "and there is no second one"
            );
            s.free(first);
            s.gpu.destroy_pool(pool).unwrap();
        }
    });
}

/// A device whose buffers ask for more memory than they have bytes, and that calls its allocator back while it makes, measures and
/// binds them.
struct Meddling<'m> {
    mock: &'m Mock,
    /// The allocator over it, while it may be called.
    gpu: AtomicPtr<GpuAllocator<&'m Self, RecordingAllocator>>,
    busy: AtomicBool,
    times: AtomicU64,
}

impl<'m> Meddling<'m> {
    fn new(mock: &'m Mock) -> Self {
        Self {
            mock,
            gpu: AtomicPtr::new(ptr::null_mut()),
            busy: AtomicBool::new(false),
            times: AtomicU64::new(0),
        }
    }

    /// Collects everything, makes another buffer, gives it back, collects again.
    fn meddle(&self) {
        // SAFETY: set while the allocator lives and is not moved.
        let Some(gpu) = (unsafe { self.gpu.load(Ordering::Relaxed).as_ref() }) else {
            return;
        };
        if self.busy.swap(true, Ordering::Relaxed) {
            return;
        }
        self.times.fetch_add(1, Ordering::Relaxed);
        gpu.trim(u64::MAX);
        let other = gpu
            .create_buffer(&BufferInfo::new(100, COPIED), &any())
            .unwrap();
        gpu.release(other).unwrap();
        gpu.trim(u64::MAX);
        self.busy.store(false, Ordering::Relaxed);
    }
}

// SAFETY: everything is the mock's; the requirements that are given are stricter than the mock's own.
unsafe impl DeviceMemory for Meddling<'_> {
    forward_memory!(mock);
    unsafe fn create_buffer(&self, info: &BufferInfo) -> Result<BufferHandle, DeviceError> {
        self.meddle();
        // SAFETY: forwarded.
        unsafe { self.mock.create_buffer(info) }
    }
    unsafe fn destroy_buffer(&self, buffer: BufferHandle) {
        // SAFETY: forwarded.
        unsafe { self.mock.destroy_buffer(buffer) }
    }
    unsafe fn buffer_requirements(&self, buffer: BufferHandle) -> ResourceRequirements {
        self.meddle();
        // SAFETY: forwarded.
        let asked = unsafe { self.mock.buffer_requirements(buffer) };
        ResourceRequirements {
            size: asked.size + 3000,
            alignment: asked.alignment.max(1024),
            ..asked
        }
    }
    unsafe fn bind_buffer(
        &self,
        buffer: BufferHandle,
        memory: MemoryHandle,
        offset: u64,
    ) -> Result<(), DeviceError> {
        self.meddle();
        assert_eq!(offset % 1024, 0, "the alignment that was asked for");
        // SAFETY: forwarded.
        unsafe { self.mock.bind_buffer(buffer, memory, offset) }
    }
    unsafe fn create_image(&self, info: &ImageInfo) -> Result<ImageHandle, DeviceError> {
        // SAFETY: forwarded.
        unsafe { self.mock.create_image(info) }
    }
    unsafe fn destroy_image(&self, image: ImageHandle) {
        // SAFETY: forwarded.
        unsafe { self.mock.destroy_image(image) }
    }
    unsafe fn image_requirements(&self, image: ImageHandle) -> ResourceRequirements {
        // SAFETY: forwarded.
        unsafe { self.mock.image_requirements(image) }
    }
    unsafe fn bind_image(
        &self,
        image: ImageHandle,
        memory: MemoryHandle,
        offset: u64,
    ) -> Result<(), DeviceError> {
        // SAFETY: forwarded.
        unsafe { self.mock.bind_image(image, memory, offset) }
    }
    unsafe fn buffer_address(&self, buffer: BufferHandle) -> Option<NonZeroU64> {
        // SAFETY: forwarded.
        unsafe { self.mock.buffer_address(buffer) }
    }
    fn budget(&self, heaps: &mut [HeapBudget]) -> bool {
        self.mock.budget(heaps)
    }
}

#[test]
fn h112_a_buffer_gets_all_the_memory_it_asks_for() {
    let mock = Mock::new(MockProfile::Nvidia, RecordingAllocator::system());
    let device = Meddling::new(&mock);
    // SAFETY: as in `scene`.
    let gpu = unsafe {
        GpuAllocator::new(
            &device,
            RecordingAllocator::system(),
            AllocatorOptions::default(),
        )
    }
    .unwrap();
    let regions: Vec<Region> = (1..40)
        .map(|n| {
            gpu.create_buffer(&BufferInfo::new(n * 100, COPIED), &any())
                .unwrap()
        })
        .collect();
    let mut places: Vec<_> = regions
        .iter()
        .map(|region| (region.memory(), region.offset(), region.size()))
        .collect();
    places.sort_unstable();
    for pair in places.windows(2) {
        assert!(
            pair[0].0 != pair[1].0 || pair[0].1 + pair[0].2 + 3000 <= pair[1].1,
            "{pair:?}"
        );
    }
    assert!(
        regions
            .iter()
            .zip(1..)
            .all(|(region, n)| region.size() == n * 100),
        "what can be used is the buffer's own"
    );
    regions
        .into_iter()
        .for_each(|region| gpu.free(region).unwrap());
    gpu.close().unwrap();
    assert!(mock.violations().is_empty(), "{}", mock.violations());
}

#[test]
fn h111_a_buffer_in_the_making_is_nobodys_to_collect() {
    let mock = Mock::new(MockProfile::Nvidia, RecordingAllocator::system());
    let device = Meddling::new(&mock);
    // SAFETY: as in `scene`.
    let mut gpu = unsafe {
        GpuAllocator::new(
            &device,
            RecordingAllocator::system(),
            AllocatorOptions::default(),
        )
    }
    .unwrap();
    device.gpu.store(&raw mut gpu, Ordering::Relaxed);
    // SAFETY: `gpu` is not moved before the pointer is taken back.
    let shared = unsafe { &*device.gpu.load(Ordering::Relaxed) };
    let regions: Vec<Region> = (1..20)
        .map(|n| {
            shared
                .create_buffer(&BufferInfo::new(n * 1000, COPIED), &any())
                .unwrap()
        })
        .collect();
    let bound: std::collections::HashSet<_> = regions
        .iter()
        .map(|region| mock.buffer_bound(region.buffer().unwrap()).unwrap())
        .collect();
    assert_eq!(bound.len(), regions.len(), "each has a place of its own");
    for region in regions {
        if region.size() % 2000 == 0 {
            shared.release(region).unwrap()
        } else {
            shared.free(region).unwrap()
        }
    }
    assert!(
        device.times.load(Ordering::Relaxed) > 50,
        "it was called back"
    );
    device.gpu.store(ptr::null_mut(), Ordering::Relaxed);
    gpu.close().unwrap();
    assert!(mock.violations().is_empty(), "{}", mock.violations());
    assert_eq!(
        (mock.live_counts().buffers, mock.live_counts().memory),
        (0, 0)
    );
}

#[test]
fn wrong_infos_never_reach_the_driver() {
    nvidia(|s| {
        let calls = s.mock.all_calls();
        let refused = |info: BufferInfo| s.gpu.create_buffer(&info, &any()).unwrap_err();
        assert_eq!(
            refused(BufferInfo::new(0, COPIED)),
            GpuMisuse::ZeroSize.into()
        );
        assert_eq!(
            refused(BufferInfo::new(64, BufferUsage::default())),
            GpuMisuse::NoUsage.into()
        );
        for bit in 0..3 {
            assert_eq!(
                refused(BufferInfo {
                    flags: 1 << bit,
                    ..BufferInfo::new(64, COPIED)
                }),
                GpuMisuse::Unbindable.into()
            );
        }
        let limit = s.mock.config().limits.max_buffer_size;
        assert_eq!(
            refused(BufferInfo::new(limit + 1, COPIED)),
            GpuError::TooLarge {
                bytes: limit + 1,
                limit
            }
        );
        assert_eq!(
            refused(BufferInfo::new(u64::MAX - 15, COPIED)),
            GpuError::TooLarge {
                bytes: u64::MAX - 15,
                limit
            }
        );
        let image = ImageInfo::new_2d(37, 64, 64, ImageUsage::SAMPLED);
        let refused = |info: ImageInfo| s.gpu.create_image(&info, &any()).unwrap_err();
        assert_eq!(
            refused(ImageInfo {
                extent: [64, 0, 1],
                ..image
            }),
            GpuMisuse::ZeroSize.into()
        );
        assert_eq!(
            refused(ImageInfo {
                mip_levels: 0,
                ..image
            }),
            GpuMisuse::ZeroSize.into()
        );
        assert_eq!(
            refused(ImageInfo {
                usage: ImageUsage::default(),
                ..image
            }),
            GpuMisuse::NoUsage.into()
        );
        assert_eq!(
            refused(ImageInfo { flags: 1, ..image }),
            GpuMisuse::Unbindable.into()
        );
        assert_eq!(
            refused(ImageInfo {
                flags: 0x200,
                ..image
            }),
            GpuMisuse::Unbindable.into()
        );
        assert_eq!(s.mock.all_calls(), calls);
        s.free(s.gpu.create_image(&image, &any()).unwrap());
        assert_ne!(s.mock.all_calls(), calls);
    });
}

#[test]
fn images_and_buffers_are_made_on_every_profile() {
    for profile in MockProfile::ALL {
        scene(profile, AllocatorOptions::default(), |s| {
            let mut regions = Vec::new();
            for n in 1..=20u32 {
                regions.push(s.buffer(u64::from(n) * 777));
                let image = ImageInfo::new_2d(37, 16 * n, 8 * n, ImageUsage::SAMPLED);
                regions.push(s.gpu.create_image(&image, &any()).unwrap());
            }
            assert!(
                regions
                    .iter()
                    .skip(1)
                    .step_by(2)
                    .all(|region| s.mock.image_bound(region.image().unwrap()).is_some())
            );
            regions.into_iter().for_each(|region| s.free(region));
        });
    }
}

/// Where the first type that fits is the host's memory, as with NVIDIA, nothing special must not mean slow.
#[test]
fn what_says_nothing_lies_near_the_device_and_what_asks_for_the_host_is_taken_at_its_word() {
    for profile in MockProfile::ALL {
        scene(profile, AllocatorOptions::default(), |s| {
            let properties = |options: &RegionOptions<'_>| {
                let region = s
                    .gpu
                    .create_buffer(
                        &BufferInfo::new(65_536, BufferUsage::VERTEX_BUFFER),
                        options,
                    )
                    .unwrap();
                let memory_type = region.memory_type().unwrap();
                assert!(
                    std::format!("{:?}", s.gpu.info(region.id()).unwrap()).len() < 1000,
                    "its name is text"
                );
                s.gpu.free(region).unwrap();
                s.mock.properties().types[memory_type as usize].properties
            };
            assert!(
                properties(&RegionOptions::new()).contains(PropertyFlags::DEVICE_LOCAL),
                "{profile:?}"
            );
            assert_eq!(RegionOptions::default(), RegionOptions::new());
            let seen = RegionOptions::new()
                .preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE))
                .name("seen");
            assert!(
                properties(&seen).contains(PropertyFlags::HOST_VISIBLE),
                "{profile:?}"
            );
            let any = properties(&RegionOptions::new().preference(MemoryPreference::default()));
            assert_eq!(
                any.contains(PropertyFlags::DEVICE_LOCAL),
                profile != MockProfile::Nvidia,
                "{profile:?}: the first that fits"
            );
        });
    }
}

#[test]
fn ge16_room_is_reserved_ahead_and_the_longest_wait_is_told() {
    nvidia(|scene| {
        let bits = u32::MAX;
        scene.gpu.reserve(100 << 20, bits, &any()).unwrap();
        let total = scene.gpu.stats().total;
        assert!(
            total.block_bytes >= 100 << 20 && total.regions == 0,
            "{total:?}"
        );
        scene.gpu.reserve(100 << 20, bits, &any()).unwrap();
        assert_eq!(scene.gpu.stats().total, total, "there is as much");
        // No region of so many that fit asks the driver.
        let calls = scene.mock.calls(MockCall::Allocate);
        let needs = ResourceRequirements::new(1 << 20, 256);
        let regions: Vec<_> = (0..90)
            .map(|_| scene.gpu.allocate(&needs, &any()).unwrap())
            .collect();
        assert_eq!(scene.mock.calls(MockCall::Allocate), calls);
        assert!(scene.gpu.stats().longest_wait > core::time::Duration::ZERO);
        regions.into_iter().for_each(|region| scene.free(region));
        scene.gpu.trim(u64::MAX);
        assert_eq!(scene.gpu.stats().total.blocks, 0);

        let options = PoolOptions {
            block_size: Some(1 << 20),
            max_blocks: 3,
            ..PoolOptions::new(0)
        };
        let pool = scene.gpu.create_pool(&options).unwrap();
        let within = any().pool(pool);
        scene.gpu.reserve(2 << 20, bits, &within).unwrap();
        assert_eq!(scene.gpu.pool_stats(pool).unwrap().blocks, 2);
        assert!(
            scene.gpu.reserve(4 << 20, bits, &within).is_err(),
            "three blocks at most"
        );
        assert_eq!(
            scene.gpu.pool_stats(pool).unwrap().blocks,
            3,
            "what was made stays"
        );
        scene.gpu.destroy_pool(pool).unwrap();
    });
}
