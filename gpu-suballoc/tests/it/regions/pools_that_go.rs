//! A pool is destroyed while memory for a call about it is asked for, and another one gets its place: the call is refused, and that one is
//! left alone.

use super::*;

thread_local! {
    /// Called once, before the next request.
    static HOOK: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

struct Calling(RecordingAllocator);

// SAFETY: every block is the inner one's.
unsafe impl HostAllocator for Calling {
    fn traits(&self) -> AllocatorTraits {
        self.0.traits()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if let Some(hook) = HOOK.with(|hook| hook.borrow_mut().take()) {
            hook();
        }
        self.0.allocate(layout, scope)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: as the caller promises.
        unsafe { self.0.deallocate(block, layout, scope) };
    }
}

type CalledGpu = GpuAllocator<&'static Mock, Calling>;

/// A device and an allocator that stay, so that a hook can have them.
fn staying() -> (&'static Mock, &'static CalledGpu) {
    let mock = Mock::new(MockProfile::Nvidia, RecordingAllocator::system());
    let mock: &'static Mock = Box::leak(Box::new(mock));
    let host = Calling(RecordingAllocator::system());
    let gpu = over(mock, host);
    (mock, Box::leak(Box::new(gpu)))
}

/// At the next request the first pool goes, and another one comes; the cell has its name then.
fn exchange_pools(
    gpu: &'static CalledGpu,
    first: PoolId,
    other: PoolOptions,
) -> &'static OnceLock<PoolId> {
    let second: &'static OnceLock<PoolId> = Box::leak(Box::default());
    let hook = move || {
        gpu.destroy_pool(first).unwrap();
        let made = gpu.create_pool(&other).unwrap();
        assert!(second.set(made).is_ok());
    };
    HOOK.with(|there| *there.borrow_mut() = Some(Box::new(hook)));
    second
}

#[test]
fn ge16_room_is_not_reserved_in_a_pool_that_has_the_place_of_a_destroyed_one() {
    let (mock, gpu) = staying();
    let first = gpu.create_pool(&PoolOptions::new(0)).unwrap();
    let second = exchange_pools(gpu, first, PoolOptions::new(1));
    let reserved = gpu.reserve(1 << 20, u32::MAX, &any().pool(first));
    assert!(second.get().is_some(), "called");
    assert_eq!(reserved, Err(GpuMisuse::NoSuchPool.into()));
    assert_eq!(mock.live_counts().memory, 0);
}

#[test]
fn df4_a_pool_stays_while_its_defragmentation_asks_for_memory() {
    let (_, gpu) = staying();
    let two = PoolOptions {
        min_blocks: 2,
        ..PoolOptions::new(0)
    };
    let pool = gpu.create_pool(&two).unwrap();
    let refused: &'static OnceLock<_> = Box::leak(Box::default());
    let hook = move || assert!(refused.set(gpu.destroy_pool(pool)).is_ok());
    HOOK.with(|there| *there.borrow_mut() = Some(Box::new(hook)));
    let run = gpu.defragment(DefragmentationOptions::new().pool(pool));
    assert_eq!(
        refused.get(),
        Some(&Err(GpuMisuse::Defragmenting.into())),
        "called"
    );
    assert_eq!(run.map(drop), Ok(()));
    assert_eq!(gpu.destroy_pool(pool), Ok(()), "nobody is at it");
}
