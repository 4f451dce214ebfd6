//! Sizes and counts at their limits.

use super::*;

#[test]
fn ge2_blocks_below_the_granule_are_refused_with_the_reason() {
    for profile in MockProfile::ALL {
        let mock = Mock::new(profile);
        let granule = mock.properties().limits.non_coherent_atom_size.max(256);
        let make = |max_block| {
            let memory = MemoryOptions { max_block: Some(max_block), ..MemoryOptions::default() };
            // SAFETY: a mock; nothing is made on it.
            unsafe { GpuAllocator::new(&mock, RecordingAllocator::system(), with_memory(memory)) }
        };
        let refused = make(granule - 1).expect_err("no region fits");
        assert_eq!(refused.error, BlockTooSmall.into());
        assert!(refused.error.to_string().contains("granule"), "the reason is said");
        let (_, memory) = refused.value;
        memory.assert_empty("by a refused allocator");
        assert!(make(granule).is_ok());
        on_mock(&mock, |s| {
            for options in [pool_options(granule - 1, 0), PoolOptions { max_bytes: granule - 1, ..PoolOptions::new(0) }]
            {
                assert_eq!(s.create_pool(&options), refusal(BlockTooSmall));
            }
            let pool = s.pool_of(granule, 0);
            s.free(s.take(granule, &any().pool(pool)));
            s.must_destroy_pool(pool);
        });
    }
}

#[test]
fn ge2_no_shared_block_is_larger_than_an_odd_largest_block() {
    for profile in MockProfile::ALL {
        let mock = Mock::new(profile);
        let granule = mock.properties().limits.non_coherent_atom_size.max(256);
        let most = 5 * granule + granule / 2 + 1;
        let memory = MemoryOptions { max_block: Some(most), ..MemoryOptions::default() };
        scene_on(&mock, with_memory(memory), |s| {
            let never = shared();
            for options in [any(), never] {
                let regions: Vec<_> = [1, granule, 2 * granule, granule + 1].map(|size| s.take(size, &options)).into();
                mock.for_each_memory(&mut |_, object| assert!(object.request.size <= most));
                s.free_each(regions);
            }
            assert!(s.allocate(&bytes(most + 1), &never).is_err());
            s.free(s.take(most + 1, &any()));
        });
    }
}

#[test]
fn ge3_preferred_is_dedicated_below_three_quarters_of_the_objects() {
    for profile in MockProfile::ALL {
        for limit in [1u32, 2, 3, 4, 5, 8, 13, 20] {
            let mock = Mock::new(profile);
            let memory = MemoryOptions { max_allocations: limit, ..MemoryOptions::default() };
            let limit = limit.min(mock.properties().limits.max_memory_allocation_count);
            scene_on(&mock, with_memory(memory), |s| {
                let preferred = any().dedicated(Preferred);
                let regions = Vec::from_iter((0..limit * 2).map_while(|_| s.allocate(&bytes(4096), &preferred).ok()));
                let dedicated = s.total().dedicated;
                assert_eq!(dedicated, u64::from(limit - limit / 4), "of {limit}");
                if limit >= 4 {
                    assert_eq!(regions.len() as u32, limit * 2, "the others lie in blocks");
                }
                // What goes makes room for another dedicated one; blocks count as well.
                let blocks = u32::from(limit >= 4);
                let mut regions = regions.into_iter();
                regions.by_ref().take(1 + blocks as usize).for_each(|region| s.free(region));
                let next = s.take(4096, &preferred);
                assert_eq!(s.total().dedicated, dedicated - u64::from(blocks));
                regions.chain([next]).for_each(|region| s.free(region));
            });
        }
    }
}

#[test]
fn ge10_384_pools_live_at_once_and_the_next_is_an_error() {
    nvidia(|s| {
        let pools = times(384, || s.pool(0));
        let refused = s.create_pool(&PoolOptions::new(0));
        assert_eq!(refused.unwrap_err(), Limit::Pools.into());
        s.must_destroy_pool(pools[17]);
        let again = s.pool(0);
        assert_ne!(again, pools[17], "another generation");
        for (number, pool) in pools.into_iter().enumerate() {
            if number != 17 {
                s.must_destroy_pool(pool);
            }
        }
        s.must_destroy_pool(again);
    });
}

#[test]
fn ge10_65535_mappings_of_a_region_and_the_next_is_an_error() {
    nvidia(|s| {
        let region = s.visible_buffer(256);
        let first = s.map_id(region.id()).unwrap();
        for _ in 1..65_535 {
            assert_eq!(s.map_id(region.id()), Ok(first));
        }
        assert_eq!(s.map_id(region.id()), Err(Limit::Aliases.into()));
        for _ in 0..65_535 {
            s.unmap_id(region.id()).expect("counted");
        }
        assert_eq!(s.unmap_id(region.id()), refusal(NotMapped));
        s.free(region);
    });
}
