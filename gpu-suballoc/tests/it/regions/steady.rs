//! What a call costs does not follow what lives. The benches `gpu_region` and `gpu_range` measure the slowest calls, and compare with VMA.

use super::*;

#[test]
fn ge15_regions_are_freed_in_any_order_in_linear_time() {
    scene(MockProfile::Nvidia, AllocatorOptions::default(), |scene| {
        testkit::assert_linear("regions that are freed in any order", 4_000, |count| {
            let mut rng = Rng::new(count as u64);
            let mut live: Vec<_> = (0..count)
                .map(|_| {
                    let needs = ResourceRequirements::new(1 + rng.next() % 65_536, 256);
                    scene.gpu.allocate(&needs, &any()).unwrap()
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

/// A slot of 48 bytes and a node of 32, whether it is mapped for its life or not.
#[test]
fn di1_a_region_costs_80_bytes_of_host_memory() {
    scene(MockProfile::Nvidia, AllocatorOptions::default(), |scene| {
        let one = |number: usize| {
            let needs = ResourceRequirements::new(256, 256);
            let options = [any(), visible().mapped()][number % 2];
            scene.gpu.allocate(&needs, &options).unwrap()
        };
        let mut live: Vec<_> = (0..1 << 12).map(one).collect();
        let before = scene.gpu.host_bytes();
        live.extend((0..1 << 16).map(one));
        let each = (scene.gpu.host_bytes() - before) as f64 / f64::from(1 << 16);
        assert!((79.0..=82.0).contains(&each), "{each}");
        scene.free_each(live);
    });
}

/// A slot that is reserved for a memory object is free again when the object is refused.
#[test]
fn refused_blocks_leave_no_slots_behind() {
    let memory = MemoryOptions {
        first_block: Some(1 << 20),
        max_bytes: 2 << 20,
        ..MemoryOptions::default()
    };
    let options = AllocatorOptions {
        memory,
        ..AllocatorOptions::default()
    };
    scene(MockProfile::Nvidia, options, |scene| {
        let needs = |bytes| ResourceRequirements::new(bytes, 256);
        let region = scene.gpu.allocate(&needs(256), &any()).unwrap();
        let mut after = Vec::new();
        for _ in 0..100 {
            for policy in [DedicatedPolicy::Never, DedicatedPolicy::Required] {
                let refused = scene
                    .gpu
                    .allocate(&needs(3 << 20), &any().dedicated(policy));
                assert!(refused.is_err());
            }
            after.push(scene.gpu.host_bytes());
        }
        assert_eq!(after.first(), after.last(), "host memory grows");
        scene.free(region);
    });
}

/// A pool that had many regions and has none keeps no nodes for them, and loses none of its blocks.
#[test]
fn a_pool_without_regions_frees_the_memory_of_its_nodes() {
    scene(MockProfile::Nvidia, AllocatorOptions::default(), |scene| {
        let needs = ResourceRequirements::new(256, 256);
        let some = |count| -> Vec<_> {
            (0..count)
                .map(|_| scene.gpu.allocate(&needs, &any()).unwrap())
                .collect()
        };
        let few = || {
            some(100).into_iter().for_each(|region| scene.free(region));
            scene.gpu.host_bytes()
        };
        // Slots stay.
        some(4000).into_iter().for_each(|region| scene.free(region));
        let before = few();
        for _ in 0..3 {
            let mut many = some(2000);
            assert!(scene.gpu.host_bytes() > before + 1800 * 32);
            let last = many.pop().expect("there are many");
            scene.free_each(many);
            assert!(scene.gpu.info(last.id()).is_ok());
            let blocks = scene.gpu.stats().total.blocks;
            scene.free(last);
            assert!(scene.gpu.host_bytes() < before);
            assert_eq!(scene.gpu.stats().total.blocks, blocks);
            assert_eq!(few(), before);
        }
    });
}
