//! Device addresses: memory with the flag, or a typed error, on every profile and with every option.

use super::*;

const ADDRESSED: BufferUsage = BufferUsage::from_raw(COPIED.as_raw() | BufferUsage::SHADER_DEVICE_ADDRESS.as_raw());

/// Every profile with the feature as said, and blocks with and without addresses.
fn everywhere(feature: bool, body: impl Fn(&Scene<'_>, bool)) {
    for profile in MockProfile::ALL {
        for in_blocks in [true, false] {
            let mut config = profile.config();
            config.features.buffer_device_address = feature;
            let mock = Mock::with_config(config);
            let options = with_memory(MemoryOptions { device_address: in_blocks, ..MemoryOptions::default() });
            scene_on(&mock, options, |scene| body(&scene, in_blocks));
        }
    }
}

/// Binds a buffer with an address to a bare region, as an application would; the mock says whether it may.
fn bind_to(scene: &Scene<'_>, region: &Region) {
    let info = BufferInfo::new(region.size(), ADDRESSED);
    // SAFETY: a mock, and a valid info.
    let buffer = unsafe { scene.mock.create_buffer(&info) }.unwrap();
    let memory = region.memory().unwrap();
    // SAFETY: the region is as large and as aligned as the mock asks for.
    unsafe { scene.mock.bind_buffer(buffer, memory, region.offset()) }.expect("it may be bound");
    // SAFETY: live, bound, with the usage.
    assert!(unsafe { scene.mock.buffer_address(buffer) }.is_some());
    // SAFETY: nobody uses it.
    unsafe { scene.mock.destroy_buffer(buffer) };
}

#[test]
fn ge1_a_buffer_with_an_address_has_memory_with_the_flag() {
    everywhere(true, |s, in_blocks| {
        let mut regions = Vec::new();
        let pool = s.pool(0);
        for options in [
            any(),
            shared(),
            any().dedicated(Preferred),
            alone(),
            any().lifetime(Transient),
            any().lifetime(Persistent),
            any().pool(pool),
        ] {
            let region = match s.create_buffer(&BufferInfo::new(4096, ADDRESSED), &options) {
                Ok(region) => region,
                // Some profiles' first type accepts no buffer.
                Err(GpuError::Misuse(WrongPool)) if options.pool.is_some() => continue,
                Err(error) => panic!("{error} with {options:?}"),
            };
            let buffer = region.buffer().unwrap();
            // SAFETY: live, bound, with the usage; the mock answers none where the memory lacks the flag.
            let address = unsafe { s.mock.buffer_address(buffer) };
            assert!(address.is_some(), "{options:?}");
            regions.push(region);
        }
        // Plain buffers beside them share blocks as ever.
        let plain = [s.buffer(4096), s.buffer(4096)];
        assert_eq!(plain[0].memory(), plain[1].memory());
        if !in_blocks {
            assert!(regions.iter().all(|one| one.memory() != plain[0].memory()));
        }
        s.free_each(regions.into_iter().chain(plain));
        s.must_destroy_pool(pool);
    });
}

#[test]
fn ge1_a_bare_region_can_ask_for_addresses() {
    everywhere(true, |s, in_blocks| {
        let asked = any().device_address();
        let info = BufferInfo::new(4096, ADDRESSED);
        // SAFETY: a mock, and a valid info.
        let probe = unsafe { s.mock.create_buffer(&info) }.unwrap();
        // SAFETY: live.
        let needs = unsafe { s.mock.buffer_requirements(probe) };
        // SAFETY: nobody uses it.
        unsafe { s.mock.destroy_buffer(probe) };
        let one = s.must_allocate(&needs, &asked);
        let two = s.must_allocate(&needs, &asked);
        assert_eq!(one.memory() == two.memory(), in_blocks, "a block where blocks have them");
        let mut batch = [None, None];
        s.allocate_batch(&needs, &asked, &mut batch).unwrap();
        let brief = s.must_allocate(&needs, &asked.lifetime(Transient));
        let all = batch.into_iter().flatten().chain([one, two, brief]);
        for region in all {
            bind_to(s, &region);
            s.free(region);
        }
    });
}

#[test]
fn ge1_without_the_feature_it_is_an_error_and_no_driver_call() {
    everywhere(false, |s, _| {
        let before = s.mock.all_calls();
        let refused = s.create_buffer(&BufferInfo::new(64, ADDRESSED), &any());
        assert_eq!(refused, refusal(NotEnabled));
        let refused = s.allocate(&bytes(64), &any().device_address());
        assert_eq!(refused, refusal(NotEnabled));
        assert_eq!(s.mock.all_calls(), before);
        // The same without addresses is served.
        s.free(s.buffer(64));
    });
}
