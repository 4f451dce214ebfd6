//! What a request says of a resource that the program made, of an import, of its alignment and of its priority is kept,
//! or refused.

use super::*;

fn image(format: u32, usage: ImageUsage) -> ImageInfo {
    ImageInfo::new_2d(format, 640, 480, usage)
}

/// A chain that the mock does not read.
fn import() -> NextChain {
    static CHAIN: [usize; 4] = [0; 4];
    // SAFETY: nobody reads it.
    unsafe { NextChain::new(NonNull::from(&CHAIN).cast()) }
}

/// VUID-vkBindImageMemory-image-01445, which the mock checks.
#[test]
fn di2_u101_the_programs_own_resource_is_named_and_stays_the_programs() {
    on_every(|s| {
        let external = ExternalHandleTypes::DMA_BUF;
        let mut of_image = image(44, ImageUsage::COLOR_ATTACHMENT);
        let mut of_buffer = copied(5000);
        (of_image.external, of_buffer.external) = (external, external);
        // SAFETY: a mock, here and below.
        let picture = unsafe { s.mock.create_image(&of_image) }.unwrap();
        // SAFETY: the mock takes any description.
        let numbers = unsafe { s.mock.create_buffer(&of_buffer) }.unwrap();
        // SAFETY: the mock made it.
        let of_picture = unsafe { s.mock.image_requirements(picture) };
        // SAFETY: the mock made it.
        let of_numbers = unsafe { s.mock.buffer_requirements(numbers) };
        // SAFETY: the mock takes any description.
        let plain = unsafe { s.mock.create_buffer(&copied(5000)) }.unwrap();
        // SAFETY: the mock made it.
        let of_plain = unsafe { s.mock.buffer_requirements(plain) };
        assert!(!of_plain.requires_dedicated, "it might share a block, if its object did not name it");
        for (name, needs) in [
            (ResourceHandle::Image(picture), of_picture),
            (ResourceHandle::Buffer(numbers), of_numbers),
            (ResourceHandle::Buffer(plain), of_plain),
        ] {
            let mut options = any().kind(ResourceKind::Optimal);
            if name != ResourceHandle::Buffer(plain) {
                assert!(needs.requires_dedicated);
                options = options.export(external);
                let calls = s.mock.all_calls();
                assert_eq!(s.allocate(&needs, &options), refusal(UnnamedResource));
                assert_eq!(s.mock.all_calls(), calls, "no object that nothing binds to");
            }
            let options = options.dedicated_for(name);
            let unused = s.must_allocate(&needs, &options);
            s.free(unused);
            let region = s.must_allocate(&needs, &options);
            let request = s.request_of(&region);
            let expected = (Some(name), needs.size, needs.size);
            assert_eq!((request.dedicated, request.size, region.size()), expected);
            assert_eq!((region.buffer(), region.image()), (None, None));
            let memory = region.memory().unwrap();
            let bound = match name {
                // SAFETY: the mock made both, and the image is not bound.
                ResourceHandle::Image(image) => unsafe { s.mock.bind_image(image, memory, 0) },
                // SAFETY: the mock made both, and the buffer is not bound.
                ResourceHandle::Buffer(buffer) => unsafe { s.mock.bind_buffer(buffer, memory, 0) },
            };
            assert_eq!(bound, Ok(()));
            // The program's: a free of the region would be a second destruction.
            match name {
                // SAFETY: the mock made it; not used again.
                ResourceHandle::Image(image) => unsafe { s.mock.destroy_image(image) },
                // SAFETY: the mock made it; not used again.
                ResourceHandle::Buffer(buffer) => unsafe { s.mock.destroy_buffer(buffer) },
            }
            s.free(region);
            // A resource that the allocator makes is named by itself.
            let other = any().dedicated_for(name);
            let refused = s.create_buffer(&copied(64), &other);
            assert_eq!(refused, refusal(BadOptions));
            let refused = s.create_image(&image(44, ImageUsage::SAMPLED), &other);
            assert_eq!(refused, refusal(BadOptions));
        }
    });
}

/// VUID-VkMemoryAllocateInfo-memoryTypeIndex-00648.
#[test]
fn u106_an_import_goes_to_a_type_that_its_handle_allows() {
    on_every(|s| {
        let picture = image(37, ImageUsage::SAMPLED);
        for memory_type in 0..s.mock.properties().types.len() as u32 {
            let bits = 1 << memory_type;
            let options =
                RegionOptions { preference: MemoryPreference::ANY, ..any().next(import()).memory_type_bits(bits) };
            let pool = options.pool(s.pool(0));
            for made in [
                s.create_buffer(&copied(4096), &options),
                s.create_image(&picture, &options),
                s.allocate(&bytes(4096), &options),
                s.allocate(&bytes(4096), &pool),
            ] {
                match made {
                    Ok(region) => {
                        assert_eq!(region.memory_type(), Some(memory_type));
                        s.free(region);
                    }
                    Err(GpuError::MemoryType(_)) => {}
                    Err(error) => assert_eq!(error, WrongPool.into()),
                }
            }
            s.must_destroy_pool(pool.pool.unwrap());
        }
        let none = any().next(import()).memory_type_bits(0);
        let refused = s.create_buffer(&copied(64), &none);
        let none = MemoryTypeError::NoneAccepted { memory_type_bits: 0 };
        assert_eq!(refused, refusal(none));
    });
}

#[test]
fn u106_the_mask_counts_without_an_import_too_and_for_kept_buffers() {
    nvidia(|s| {
        s.set_reuse(true);
        for memory_type in [0, 1, 2, 0, 1, 2] {
            let options =
                RegionOptions { preference: MemoryPreference::ANY, ..any().memory_type_bits(1 << memory_type) };
            s.reserve(4096, u32::MAX, &options).unwrap();
            let blocks = s.objects();
            let region = s.buffer_with(4096, &options);
            assert_eq!(region.memory_type(), Some(memory_type));
            assert_eq!(s.objects(), blocks, "it was reserved there");
            s.release(region).unwrap();
        }
        s.set_reuse(false);
    });
}

#[test]
fn u107_an_error_says_who_owns_the_imported_handle() {
    on_every(|s| {
        let picture = image(37, ImageUsage::SAMPLED);
        for (call, error, is_drivers) in [
            (CreateBuffer, OutOfHostMemory, false),
            (Allocate, OutOfDeviceMemory, false),
            (Allocate, InvalidExternalHandle, false),
            (BindBuffer, OutOfDeviceMemory, true),
            (BindImage, OutOfHostMemory, true),
            (Map, MapFailed, true),
        ] {
            // Imported once: the driver consumes the handle where it allocates.
            let before = s.mock.calls(Free);
            let fault = MockFault::always().of(call).with(error);
            assert!(s.mock.plant(fault));
            let options = any().next(import());
            let made = match call {
                // Not tried in memory of another type.
                Map => {
                    let mapped = host();
                    let info = copied(64);
                    s.create_buffer(&info, &mapped.next(import()).mapped())
                }
                BindImage => s.create_image(&picture, &options),
                _ => s.create_buffer(&copied(64), &options),
            };
            s.mock.clear_faults();
            let refused = made.expect_err("planted");
            assert_eq!(refused.driver_owns_import(), is_drivers, "{refused:?}");
            assert_eq!(refused.as_vk_result(), error.as_raw());
            let consumed = s.mock.calls(Free) - before;
            assert_eq!(consumed, u64::from(is_drivers), "{call:?}");
        }
    });
}

/// Else an import would be consumed, and the error would be that of a pool.
#[test]
fn u107_a_pool_stays_while_the_driver_allocates_an_object_in_it() {
    let mock: &'static Mock = Box::leak(Box::new(Mock::new(Nvidia)));
    // SAFETY: a mock, on which no resource is made.
    let gpu = unsafe { GpuAllocator::new(mock, RecordingAllocator::system(), AllocatorOptions::default()) };
    let gpu: &'static Gpu<'_> = Box::leak(Box::new(gpu.map_err(|refused| refused.error).unwrap()));
    let pool = gpu.create_pool(&PoolOptions::new(1)).unwrap();
    let refused: &'static OnceLock<_> = Box::leak(Box::default());
    mock.set_hook(Some(Box::leak(Box::new(move |call| {
        if call == Allocate {
            let _ = refused.set(gpu.destroy_pool(pool));
        }
    }))));
    let options = any().pool(pool).next(import());
    let region = gpu.allocate(&bytes(64), &options).unwrap();
    mock.set_hook(None);
    assert_eq!(refused.get(), Some(&refusal(PoolInUse)));
    gpu.free(region).unwrap();
    gpu.destroy_pool(pool).unwrap();
}

#[test]
fn u105_lazily_allocated_memory_has_an_object_a_resource_and_says_what_is_backed() {
    for profile in [Tiler, MoltenVk] {
        on(profile, |s| {
            let lazy = MemoryPreference::requiring(PropertyFlags::LAZILY_ALLOCATED);
            let wanted = any().preference(lazy);
            let pool = s.pool(2);
            let transient = ImageUsage::TRANSIENT_ATTACHMENT;
            for (format, usage) in [
                (37, ImageUsage::COLOR_ATTACHMENT | transient),
                (126, ImageUsage::DEPTH_STENCIL_ATTACHMENT | transient),
            ] {
                for options in [wanted, wanted.dedicated(Never), wanted.pool(pool)] {
                    let pair = [(); 2].map(|()| s.create_image(&image(format, usage), &options).unwrap());
                    assert_ne!(pair[0].memory(), pair[1].memory());
                    for region in pair {
                        let request = s.request_of(&region);
                        assert_eq!((request.memory_type, request.size), (2, region.size()));
                        assert_eq!(s.commitment(region.id()), Ok(Some(0)));
                        let id = region.id();
                        s.free(region);
                        assert_eq!(s.commitment(id), Err(Stale));
                    }
                }
            }
            s.must_destroy_pool(pool);
            let buffer = s.buffer(64);
            assert_eq!(s.commitment(buffer.id()), Ok(None), "all of it is backed");
            s.free(buffer);
            // There are no blocks that it would be shared from.
            let reserved = s.reserve(4096, u32::MAX, &wanted);
            assert_eq!(reserved, refusal(BadOptions));
            let with_blocks = PoolOptions { min_blocks: 1, ..PoolOptions::new(2) };
            let refused = s.create_pool(&with_blocks);
            assert_eq!(refused, refusal(BadOptions));
        });
    }
}

#[test]
fn u111_an_alignment_that_is_none_is_refused() {
    nvidia(|s| {
        for wrong in [0, 3, 24, u64::MAX] {
            let options = any().min_alignment(wrong);
            assert_eq!(s.allocate(&bytes(64), &options), refusal(BadAlignment));
            assert_eq!(s.create_buffer(&copied(64), &options), refusal(BadAlignment));
        }
    });
}

#[test]
fn u117_a_priority_reaches_the_driver_or_is_refused() {
    on_every(|s| {
        let options = any().priority(1.0);
        let made = [s.allocate(&bytes(64), &options), s.create_buffer(&copied(64), &options)];
        let with_priority = PoolOptions { priority: Some(1.0), ..PoolOptions::new(0) };
        let pool = s.create_pool(&with_priority);
        if s.mock.properties().features.memory_priority {
            for region in made {
                let region = region.unwrap();
                assert_eq!(s.request_of(&region).priority, Some(1.0));
                s.free(region);
            }
            s.must_destroy_pool(pool.unwrap());
        } else {
            for refused in made {
                assert_eq!(refused, refusal(NotEnabled));
            }
            assert_eq!(pool, refusal(NotEnabled));
        }
    });
}

/// Kept buffers are evicted for a request without memory, but what was imported is not imported again.
#[test]
fn u107_an_import_is_consumed_once_though_kept_buffers_could_make_room() {
    on_every(|s| {
        let shortage = |call| MockFault::always().of(call).with(OutOfDeviceMemory);
        let info = copied(64);
        let host_visible = host();
        // Refused at once, or consumed by the second try alone.
        for second in [false, true] {
            s.release(s.buffer_with(5000, &any())).unwrap();
            let before = s.mock.calls(Free);
            if second {
                assert!(s.mock.plant(shortage(Allocate).times(1)));
            }
            assert!(s.mock.plant(shortage(Map)));
            let options = host_visible.next(import()).mapped();
            let refused = s.create_buffer(&info, &options).expect_err("planted");
            s.mock.clear_faults();
            assert!(refused.driver_owns_import(), "{second} {refused:?}");
            s.trim(u64::MAX);
            let imported = s.mock.calls(Free) - before;
            // The kept buffer's block, if it was its last, and the import.
            assert!((1..=2).contains(&imported), "{second}: {imported}");
        }
    });
}

/// VUID-VkMemoryDedicatedAllocateInfo-buffer-01879, image-01878.
#[test]
fn u106_an_import_names_its_resource_only_where_it_must() {
    on_every(|s| {
        let info = copied(5000);
        let own = s.buffer_with(5000, &alone());
        let features = s.mock.properties().features;
        let name = own.buffer().map(ResourceHandle::Buffer);
        let name = name.filter(|_| features.dedicated_allocation);
        assert_eq!(s.request_of(&own).dedicated, name);
        s.free(own);
        let ordinary = s.create_buffer(&info, &any().next(import()));
        let ordinary = ordinary.unwrap();
        assert_eq!(s.request_of(&ordinary).dedicated, None);
        let mut external = info;
        external.external = ExternalHandleTypes::DMA_BUF;
        let options = any().next(import());
        let whole = s.must_create_buffer(&external, &options);
        let handle = whole.buffer().unwrap();
        // SAFETY: a mock, and the buffer is live.
        let needs = unsafe { s.mock.buffer_requirements(handle) };
        let named = s.request_of(&whole).dedicated;
        let expected = needs.requires_dedicated.then_some(ResourceHandle::Buffer(handle));
        assert_eq!(named, expected);
        s.free(ordinary);
        s.free(whole);
    });
}
