//! Law 2: every request of host memory may be refused: an error, everything as before, and the next try succeeds.

use debug_guard::{FailingAllocator, Fault as HostFault};
use gpu_suballoc::allocator::WrapInfo;
use gpu_suballoc::{AllocatorOptions, BufferInfo, GpuAllocator};
use mock_device::MockProfile;
use testkit::RecordingAllocator;

use super::{COPIED, Foreign, Mock, any, bytes};

type Failing = FailingAllocator<RecordingAllocator>;

#[test]
fn freeing_takes_no_memory() {
    nvidia_with_refusing_host(|gpu, host, mock| {
        let foreign = Foreign::new(mock, 4096, 1);
        let make = || {
            let owned = gpu
                .create_buffer(&BufferInfo::new(500, COPIED), &any().name("owned"))
                .unwrap();
            let wrapped = gpu
                .wrap(&WrapInfo::new(foreign.buffer, 64).name("wrapped"))
                .unwrap();
            let crops = [
                gpu.crop(&owned, 0, 4, 4).unwrap(),
                gpu.crop(&wrapped, 0, 4, 4).unwrap(),
            ];
            let kept = gpu
                .create_buffer(&BufferInfo::new(600, COPIED), &any())
                .unwrap();
            let bare = gpu.allocate(&bytes(77), &any()).unwrap();
            let batch = [Some(gpu.allocate(&bytes(78), &any()).unwrap()), None];
            (owned, wrapped, crops, kept, bare, batch)
        };
        let (owned, wrapped, [first, second], kept, bare, mut batch) = make();
        host.arm(HostFault::From(0));
        gpu.release(kept).unwrap();
        gpu.free_when_unused(owned).unwrap();
        gpu.free(first).unwrap();
        gpu.detach(second).unwrap();
        gpu.detach(wrapped).unwrap();
        gpu.free_id(bare.id()).unwrap();
        gpu.free_batch(&mut batch).unwrap();
        gpu.trim(u64::MAX);
        assert!(
            gpu.allocate(&bytes(100), &any().name("x")).is_err(),
            "a refusal would have been met"
        );
        host.arm(HostFault::Never);
        assert_eq!(gpu.stats().total.regions, 0);
    });
}

fn nvidia_with_refusing_host(body: impl FnOnce(&GpuAllocator<&Mock, &Failing>, &Failing, &Mock)) {
    let mock = Mock::new(MockProfile::Nvidia, RecordingAllocator::system());
    let host = FailingAllocator::new(RecordingAllocator::system(), HostFault::Never);
    // SAFETY: as in `scene`.
    let gpu = unsafe { GpuAllocator::new(&mock, &host, AllocatorOptions::default()) }.unwrap();
    body(&gpu, &host, &mock);
    gpu.close().unwrap();
    assert!(mock.violations().is_empty(), "{}", mock.violations());
}
