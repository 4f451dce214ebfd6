//! Margins behind regions: what is written outside is found on free and on demand.

use super::*;

const MARGINS: [u32; 4] = [1, 16, 100, 4096];

fn everywhere(body: impl Fn(&Scene<'_>, u64)) {
    for profile in MockProfile::ALL {
        for margin in MARGINS {
            for map_policy in [MapPolicy::Persistent, MapPolicy::Counted] {
                let options = with_memory(MemoryOptions { margin, map_policy, ..MemoryOptions::default() });
                scene(profile, options, |s| body(&s, u64::from(margin)));
            }
        }
    }
}

/// What is wrong: name, offset, size of each.
fn corrupted(s: &Scene<'_>) -> Vec<(Option<String>, u64, u64)> {
    let mut all = Vec::new();
    let checked = s.check_corruption(|CorruptedMargin { name, offset, size, .. }| {
        assert_eq!(alloc_core::held_state_locks(), 0);
        all.push((name.map(str::to_owned), *offset, *size));
    });
    assert!(checked.unwrap() as usize >= all.len());
    all
}

/// Writes a byte, from a mapped region's start, where the region is not.
fn stray(s: &Scene<'_>, region: &Region, offset: isize) {
    let mapping = s.must_map(region);
    let there = mapping.as_ptr().wrapping_offset(offset);
    // SAFETY: the mock maps whole memory objects, and the tests stay within them.
    let byte = unsafe { there.read() };
    // SAFETY: the mock maps whole memory objects, and the tests stay within them.
    unsafe { there.write(!byte) };
}

#[test]
fn ge5_a_write_behind_a_region_is_found_with_its_name() {
    everywhere(|s, margin| {
        let named = |name| host().name(name).tag(7).site(9);
        let one = s.take(1000, &named("one"));
        let two = s.buffer_with(5000, &named("two"));
        let three = s.take(64, &host());
        assert!(one.size() >= 1000 && two.size() == 5000 && three.size() >= 64);
        assert_eq!(corrupted(s), [], "all is well");
        let last = one.size() + margin - 1;
        stray(s, &one, last as isize);
        assert_eq!(corrupted(s), [(Some("one".to_owned()), last, 1)], "the last byte of the margin");
        stray(s, &one, one.size() as isize);
        let whole = [(Some("one".to_owned()), one.size(), margin)];
        // A margin of one byte was written twice, and is whole again.
        assert_eq!(corrupted(s), if margin > 1 { &whole[..] } else { &[] });
        if margin == 1 {
            stray(s, &one, one.size() as isize);
        }
        let id = one.id();
        assert_eq!(s.free_id(id), refusal(MarginOverwritten));
        assert_eq!(corrupted(s), [], "the pattern was written again");
        stray(s, &one, one.size() as isize);
        let refused = s.gpu.free(one).expect_err("it was written to");
        assert_eq!(refused.error, MarginOverwritten.into());
        s.free(refused.value);
        s.free(two);
        s.free(three);
    });
}

/// One byte too many, whatever the granule, the size and the structure; of a buffer behind what it requires.
#[test]
fn ge5_one_byte_too_many_is_found_whatever_the_granule() {
    for profile in MockProfile::ALL {
        for (granule, margin) in [(16, 16), (256, 1), (256, 300), (4096, 16)] {
            let options = with_memory(MemoryOptions { granule, margin, ..MemoryOptions::default() });
            scene(profile, options, |s| {
                let pool = |algorithm| {
                    let options = PoolOptions { algorithm, ..pool_options(1 << 18, visible_type(s.mock)) };
                    s.must_create_pool(&options)
                };
                let [general, stack] = [General, Stack].map(pool);
                let optimal = host().kind(ResourceKind::Optimal);
                for size in [1, 15, 100, 255, 256, 257, 1000, 4080, 4095, 4096] {
                    for options in [host(), host().pool(stack), optimal.pool(general), optimal.pool(stack)] {
                        let region = s.take(size, &options);
                        stray(&s, &region, size as isize);
                        assert_eq!(corrupted(&s), [(None, size, 1)], "{granule} {options:?}");
                        s.free_when_unused(region).expect("whatever was written");
                    }
                    let buffer = s.buffer_with(size, &host());
                    let handle = buffer.buffer().unwrap();
                    // SAFETY: a mock, and the buffer is live.
                    let needed = unsafe { s.mock.buffer_requirements(handle) }.size;
                    stray(&s, &buffer, needed as isize);
                    assert_eq!(corrupted(&s), [(None, needed, 1)], "{granule}");
                    s.free_when_unused(buffer).expect("whatever was written");
                }
                for pool in [general, stack] {
                    s.must_destroy_pool(pool);
                }
                let own = s.take(1000, &host().dedicated(Required));
                assert_eq!(s.check_corruption(|_| panic!("it has none")), Ok(0));
                s.free(own);
            });
        }
    }
}

#[test]
fn ge5_a_write_in_front_of_a_region_is_its_neighbours() {
    everywhere(|s, _| {
        let [one, two] = ["first", "second"].map(|name| s.take(1024, &host().name(name)));
        assert_eq!(one.memory(), two.memory(), "one block");
        let (low, high) = if one.offset() < two.offset() { (&one, &two) } else { (&two, &one) };
        stray(s, high, -1);
        let found = corrupted(s);
        // The margin ends where the next granule begins.
        assert_eq!(found.len(), 1, "{found:?}");
        let name = s.must_info(low.id()).name().to_owned();
        assert_eq!(found[0].0, Some(name));
        let refused = s.free_when_unused(one);
        refused.expect("given up, whatever was written");
        s.free_when_unused(two).expect("as well");
    });
}

/// Somebody frees a region while its margin is looked at: the block is not mapped for ever.
#[test]
fn a_look_at_a_margin_leaves_nothing_mapped() {
    let options = with_memory(MemoryOptions { margin: 16, ..MemoryOptions::default() });
    scene(Nvidia, options, |s| {
        let (gpu, done) = (s.gpu, AtomicBool::new(false));
        thread::scope(|threads| {
            threads.spawn(|| {
                while !done.load(Relaxed) {
                    let looked = gpu.check_corruption(|_| panic!("nobody writes"));
                    looked.unwrap();
                }
            });
            for _ in 0..3000 {
                let four = [(); 4].map(|()| gpu.allocate(&bytes(1000), &host()).unwrap());
                s.free_each(four);
            }
            done.store(true, Relaxed);
        });
        gpu.trim(u64::MAX);
        assert_eq!(s.objects(), 0, "nothing lies in any block");
    });
}

/// A look between a write of the host and its flush discards nothing of the region.
#[test]
fn a_look_at_a_margin_keeps_what_was_not_flushed() {
    for margin in MARGINS {
        let options = with_memory(MemoryOptions { margin, ..MemoryOptions::default() });
        scene(Tiler, options, |s| {
            let region = s.take(1000, &host());
            let mapping = s.must_map(&region);
            let size = mapping.len();
            // SAFETY: mapped, so many bytes long, and nobody else is at it.
            unsafe { mapping.as_ptr().write_bytes(7, size) };
            assert_eq!(corrupted(&s), []);
            s.flush(&region, 0, region.size()).unwrap();
            // SAFETY: mapped, so many bytes long, and nobody else is at it.
            let all = unsafe { core::slice::from_raw_parts(mapping.as_ptr(), size) };
            assert!(all.iter().all(|byte| *byte == 7), "margin of {margin}");
            drop(mapping);
            s.free(region);
        });
    }
}

/// A refused free writes the pattern again, and nothing of what the device wrote to the region goes with that.
#[test]
fn a_margin_that_is_mended_keeps_what_the_device_wrote() {
    for margin in MARGINS {
        let options = with_memory(MemoryOptions { margin, ..MemoryOptions::default() });
        scene(Tiler, options, |s| {
            let info = copied(1008);
            let region = s.must_create_buffer(&info, &host());
            let buffer = region.buffer().unwrap();
            assert!(s.mock.fill_buffer(buffer, 0, 1008, 9));
            let map = s.must_memory_map();
            let placed = ranges_of(&map).find(|range| range.id == Some(region.id()));
            let last = placed.unwrap().size - 1;
            drop(map);
            stray(&s, &region, last as isize);
            let refused = s.gpu.free(region).expect_err("it was written to");
            assert_eq!(refused.error, MarginOverwritten.into());
            let region = refused.value;
            let all = s.read(&region, 1008);
            let lost = all.iter().position(|byte| *byte != 9);
            assert_eq!(lost, None, "the first byte that was lost, margin {margin}");
            s.free(region);
        });
    }
}
