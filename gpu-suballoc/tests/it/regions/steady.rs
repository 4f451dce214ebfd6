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

/// A slot of 48 bytes and a node of 32, whether it is bare, has a buffer, or is one of many in a block.
#[test]
fn a_region_costs_80_bytes_of_host_memory() {
    scene(MockProfile::Nvidia, AllocatorOptions::default(), |scene| {
        let one = |_| {
            let needs = ResourceRequirements::new(256, 256);
            scene.gpu.allocate(&needs, &any()).expect("room")
        };
        let mut live: Vec<_> = (0..1 << 12).map(one).collect();
        let before = scene.gpu.host_bytes();
        live.extend((0..1 << 16).map(one));
        let each = (scene.gpu.host_bytes() - before) as f64 / f64::from(1 << 16);
        assert!((79.0..=82.0).contains(&each), "{each}");
        live.into_iter().for_each(|region| scene.free(region));
    });
}
