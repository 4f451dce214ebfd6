//! Pools that end, and calls that do not come back: nothing is left behind, and nobody waits for ever.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, Scope};
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{
    AllocatorOptions, BlockAlgorithm, GpuAllocator, PoolOptions, RegionOptions,
    ResourceRequirements,
};
use mock_device::{MockDevice, MockProfile};
use testkit::RecordingAllocator;

#[test]
fn a_linear_pool_that_placed_nothing_ends_with_all_its_memory() {
    let mock = MockDevice::new(MockProfile::Nvidia, RecordingAllocator::system());
    // SAFETY: what is asked here is valid.
    let gpu = unsafe {
        GpuAllocator::new(
            &mock,
            RecordingAllocator::system(),
            AllocatorOptions::default(),
        )
    }
    .expect("sound");
    for _ in 0..3 {
        let options = PoolOptions {
            algorithm: BlockAlgorithm::Ring,
            block_size: Some(1 << 20),
            ..PoolOptions::new(1)
        };
        let pool = gpu.create_pool(&options).expect("memory");
        // Larger than the block: its line was opened for nothing.
        let refused = gpu.allocate(
            &ResourceRequirements::new(2 << 20, 16),
            &RegionOptions::new().pool(pool),
        );
        assert!(refused.is_err());
        assert!(mock.live_counts().memory > 0, "the block is there");
        gpu.destroy_pool(pool).expect("no region lives");
        assert_eq!(
            mock.live_counts().memory,
            0,
            "the pool is gone, and its memory"
        );
    }
    gpu.close()
        .map_err(|refused| refused.error)
        .expect("nothing lives");
}

/// A host allocator that panics where it is told to.
struct Panics<'p> {
    inner: RecordingAllocator,
    now: &'p AtomicBool,
}

// SAFETY: the witness's, but where it unwinds before anything was taken.
unsafe impl HostAllocator for Panics<'_> {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }

    fn allocate(
        &self,
        layout: std::alloc::Layout,
        scope: Scope,
    ) -> Result<std::ptr::NonNull<u8>, AllocError> {
        if self.now.swap(false, SeqCst) {
            std::panic::resume_unwind(Box::new("planted"));
        }
        self.inner.allocate(layout, scope)
    }

    unsafe fn deallocate(
        &self,
        block: std::ptr::NonNull<u8>,
        layout: std::alloc::Layout,
        scope: Scope,
    ) {
        // SAFETY: forwarded.
        unsafe { self.inner.deallocate(block, layout, scope) }
    }
}

/// Whoever asks next gets memory, and does not wait for a block that nobody makes.
#[test]
fn an_allocator_that_unwinds_leaves_nobody_waiting() {
    let mut unwound = 0;
    for nth in 0..40 {
        let mock = MockDevice::new(MockProfile::IntelUma, RecordingAllocator::system());
        let now = AtomicBool::new(false);
        // SAFETY: what is asked here is valid.
        let made = unsafe {
            GpuAllocator::new(
                &mock,
                Panics {
                    inner: RecordingAllocator::system(),
                    now: &now,
                },
                AllocatorOptions::default(),
            )
        };
        let Ok(gpu) = made else { panic!("sound") };
        let mut held = Vec::new();
        for round in 0..nth {
            held.push(
                gpu.allocate(
                    &ResourceRequirements::new(3 << 20 << (round % 3), 256),
                    &RegionOptions::new(),
                )
                .expect("memory"),
            );
        }
        now.store(true, SeqCst);
        let policy = if nth % 2 == 0 {
            DedicatedPolicy::Never
        } else {
            DedicatedPolicy::Required
        };
        let ask = || {
            gpu.allocate(
                &ResourceRequirements::new(40 << 20, 256),
                &RegionOptions::new().dedicated(policy),
            )
        };
        match catch_unwind(AssertUnwindSafe(ask)) {
            Ok(region) => held.push(region.expect("memory")),
            Err(_) => unwound += 1,
        }
        now.store(false, SeqCst);
        held.push(ask().expect("nobody is waited for"));
        held.into_iter().for_each(|region| {
            gpu.free(region)
                .map_err(|refused| refused.error)
                .expect("a live region")
        });
        assert_eq!(gpu.stats().total.regions, 0);
        let Ok(_) = gpu.close().map_err(|refused| refused.error) else {
            panic!("nothing lives")
        };
        assert_eq!(mock.live_counts().memory, 0);
    }
    assert!(unwound > 5, "{unwound}");
}
