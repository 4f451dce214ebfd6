//! What a call costs does not follow what lives. The benches `gpu_region` and `gpu_range` measure the slowest calls,
//! and compare with VMA.

use super::*;

#[test]
fn ge15_regions_are_freed_in_any_order_in_linear_time() {
    nvidia(|scene| {
        testkit::assert_linear("regions that are freed in any order", 4_000, |count| {
            let mut rng = Rng::new(count as u64);
            let mut live = Vec::from_iter((0..count).map(|_| {
                let needs = ResourceRequirements::new(1 + rng.next() % 65_536, 256);
                scene.must_allocate(&needs, &any())
            }));
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
    nvidia(|scene| {
        let one = |number: usize| {
            let needs = ResourceRequirements::new(256, 256);
            let options = [any(), visible().mapped()][number % 2];
            scene.must_allocate(&needs, &options)
        };
        let mut live = Vec::from_iter((0..1 << 12).map(one));
        let before = scene.host_bytes();
        live.extend((0..1 << 16).map(one));
        let each = (scene.host_bytes() - before) as f64 / f64::from(1 << 16);
        assert!((79.0..=82.0).contains(&each), "{each}");
        scene.free_each(live);
    });
}

/// Nodes of freed regions serve the next ones, and a pool that loses its last block keeps none.
#[test]
fn a_pool_without_blocks_frees_the_memory_of_its_nodes() {
    nvidia(|scene| {
        let needs = ResourceRequirements::new(256, 256);
        let many = || {
            let some = times(4000, || scene.must_allocate(&needs, &any()));
            scene.free_each(some);
            scene.host_bytes()
        };
        // Slots stay.
        let with_nodes = many();
        for _ in 0..3 {
            assert_eq!(many(), with_nodes);
            scene.trim(u64::MAX);
            assert_eq!(scene.total().blocks, 0);
            assert!(scene.host_bytes() + 3800 * 32 < with_nodes);
            assert_eq!(many(), with_nodes);
        }
    });
}

/// The last block is freed by a callback while the driver is called for the next one, which it refuses, or from which
/// it unwinds.
#[test]
fn a_pool_that_loses_its_last_block_while_another_is_refused_frees_its_nodes() {
    for unwinds in [false, true] {
        let mock: &'static Mock = Box::leak(Box::new(Mock::new(Nvidia)));
        let gpu: &'static Gpu<'static> = Box::leak(Box::new(over(mock, RecordingAllocator::system())));
        let needs = ResourceRequirements::new(256, 256);
        let many = times(4000, || gpu.allocate(&needs, &any()).unwrap());
        let with_nodes = gpu.host_bytes();
        let many = Mutex::new(Some(many));
        mock.refuse_from(0);
        mock.set_hook(Some(Box::leak(Box::new(move |call| {
            if call == Allocate
                && let Some(many) = many.lock().unwrap().take()
            {
                many.into_iter().for_each(|region| gpu.free(region).unwrap());
                gpu.trim(u64::MAX);
                assert!(!unwinds, "out of the driver");
            }
        }))));
        let reserve = || gpu.reserve(1 << 30, u32::MAX, &any());
        let refused = catch_unwind(AssertUnwindSafe(reserve));
        assert_eq!(refused.is_err(), unwinds);
        mock.set_hook(None);
        if unwinds {
            gpu.trim(u64::MAX);
        }
        assert_eq!(gpu.stats().total.blocks, 0);
        let now = gpu.host_bytes();
        assert!(now + 3800 * 32 < with_nodes, "{unwinds}: {now}");
    }
}
