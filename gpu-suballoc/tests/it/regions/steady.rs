//! What a call costs does not follow what lives. The benches `gpu_region` and `gpu_range` measure the slowest calls, and compare with VMA.

use gpu_suballoc::{AllocatorOptions, ResourceRequirements};

use super::{any, scene};
use mock_device::MockProfile;

#[test]
fn ge15_regions_are_freed_in_any_order_in_linear_time() {
    scene(MockProfile::Nvidia, AllocatorOptions::default(), |scene| {
        testkit::assert_linear("regions that are freed in any order", 4_000, |count| {
            let mut rng = testkit::Rng::new(count as u64);
            let mut live: Vec<_> = (0..count)
                .map(|_| {
                    let needs = ResourceRequirements::new(1 + rng.next() % 65_536, 256);
                    scene.gpu.allocate(&needs, &any()).expect("room")
                })
                .collect();
            while !live.is_empty() {
                let place = (rng.next() % live.len() as u64) as usize;
                let region = live.swap_remove(place);
                assert!(scene.gpu.free(region).is_ok());
            }
        });
    });
}
