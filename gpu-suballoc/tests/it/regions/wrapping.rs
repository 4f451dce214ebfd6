//! Buffers that the application made.

mod mapped;

use gpu_suballoc::allocator::{Backing, DescriptorUse, WrapInfo};
use gpu_suballoc::device::BufferHandle;
use gpu_suballoc::error::{Limit, MapRefusal};
use gpu_suballoc::region::Ownership;
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{
    BufferInfo, DeviceMemory, GpuError, GpuMisuse, Lifetime, PropertyFlags, RegionOptions,
};
use mock_device::{MockCall, MockProfile};

use super::{AllocatorOptions, COPIED, Scene, VISIBLE, any, bytes, nvidia, scene, visible};

#[test]
fn h32_each_region_says_whose_it_is() {
    nvidia(|s| {
        let owned = s.buffer(256);
        let foreign = s.foreign(4096, 1);
        let wrapped = s.gpu.wrap(&WrapInfo::new(foreign.buffer, 4096)).unwrap();
        let crops = [
            s.gpu.crop(&owned, 0, 64, 4).unwrap(),
            s.gpu.crop(&wrapped, 0, 64, 4).unwrap(),
        ];
        // No arm for "anything else": one more kind of ownership would not compile.
        let letter = |ownership| match ownership {
            Ownership::Owned => 'o',
            Ownership::Wrapped => 'w',
            Ownership::CropAlias => 'c',
        };
        assert_eq!(
            [&owned, &wrapped, &crops[0], &crops[1]].map(|region| letter(region.ownership())),
            ['o', 'w', 'c', 'c']
        );
        assert_eq!(
            [&owned, &wrapped, &crops[0]]
                .map(|region| letter(s.gpu.info(region.id()).unwrap().ownership)),
            ['o', 'w', 'c']
        );
        crops.into_iter().for_each(|crop| s.free(crop));
        s.free(wrapped);
        s.free(owned);
    });
}

#[test]
fn h33_one_function_wraps_with_and_without_an_offset() {
    nvidia(|s| {
        let foreign = s.foreign(4096, 1);
        let whole = s.gpu.wrap(&WrapInfo::new(foreign.buffer, 4096)).unwrap();
        let part = s
            .gpu
            .wrap(&WrapInfo::new(foreign.buffer, 1000).offset(52))
            .unwrap();
        assert_eq!(
            (whole.copy_offset(), whole.size(), whole.memory()),
            (0, 4096, None)
        );
        assert_eq!(
            (part.copy_offset(), part.size(), part.buffer()),
            (52, 1000, Some(foreign.buffer))
        );
        s.free(whole);
        s.free(part);
    });
}

#[test]
fn h34_a_refused_wrap_leaves_everything_as_it_was() {
    nvidia(|s| {
        let foreign = s.foreign(4096, 1);
        let wrapped = s.gpu.wrap(&WrapInfo::new(foreign.buffer, 4096)).unwrap();
        let before = (
            s.host.total(),
            s.mock.all_calls(),
            s.gpu.info(wrapped.id()).unwrap().size,
        );
        let info = WrapInfo {
            buffer_size: Some(100),
            ..WrapInfo::new(foreign.buffer, 101)
        };
        assert_eq!(s.gpu.wrap(&info).unwrap_err(), GpuMisuse::Outside.into());
        assert_eq!(
            (
                s.host.total(),
                s.mock.all_calls(),
                s.gpu.info(wrapped.id()).unwrap().size
            ),
            before
        );
        s.free(wrapped);
        assert_ne!(
            s.host.total(),
            before.0,
            "a wrap that was not refused shows"
        );
    });
}

#[test]
fn h35_a_null_buffer_is_refused() {
    nvidia(|s| {
        let info = WrapInfo::new(BufferHandle::from_raw(0), 64);
        assert_eq!(s.gpu.wrap(&info).unwrap_err(), GpuMisuse::NullHandle.into());
    });
}

#[test]
fn h37_what_is_known_of_a_buffers_size_is_a_bound() {
    nvidia(|s| {
        let foreign = s.foreign(4096, 1);
        let known = WrapInfo {
            buffer_size: Some(foreign.size),
            size: None,
            ..WrapInfo::new(foreign.buffer, 0)
        };
        let rest = s.gpu.wrap(&known.offset(4000)).unwrap();
        assert_eq!(rest.size(), 96);
        s.free(rest);
        for (offset, size) in [
            (0, 4097),
            (4096, 1),
            (4095, 2),
            (u64::MAX, 1),
            (u64::MAX, u64::MAX),
            (1, u64::MAX),
        ] {
            let info = WrapInfo {
                size: Some(size),
                ..known.offset(offset)
            };
            assert_eq!(
                s.gpu.wrap(&info).unwrap_err(),
                GpuMisuse::Outside.into(),
                "{offset} {size}"
            );
        }
        assert_eq!(
            s.gpu.wrap(&known.offset(5000)).unwrap_err(),
            GpuMisuse::Outside.into()
        );
        assert_eq!(
            s.gpu.wrap(&known.offset(4096)).unwrap_err(),
            GpuMisuse::ZeroSize.into()
        );
        // Unknown sizes are believed, overflow is not.
        let unknown = WrapInfo::new(foreign.buffer, 1 << 40);
        s.free(s.gpu.wrap(&unknown).unwrap());
        assert_eq!(
            s.gpu.wrap(&unknown.offset(u64::MAX)).unwrap_err(),
            GpuMisuse::Outside.into()
        );
        assert_eq!(
            s.gpu
                .wrap(&WrapInfo {
                    size: None,
                    ..unknown
                })
                .unwrap_err(),
            GpuMisuse::ZeroSize.into()
        );
    });
}

#[test]
fn h38_the_application_keeps_its_buffer() {
    nvidia(|s| {
        let foreign = s.foreign(4096, 2);
        let calls = || {
            [MockCall::DestroyBuffer, MockCall::Free, MockCall::Unmap]
                .map(|call| s.mock.calls(call))
        };
        let before = calls();
        let first = s
            .gpu
            .wrap(&WrapInfo::new(foreign.buffer, 4096).name("swap chain"))
            .unwrap();
        let second = s.gpu.wrap(&WrapInfo::new(foreign.buffer, 4096)).unwrap();
        let crop = s.gpu.crop(&first, 16, 16, 1).unwrap();
        s.free(crop);
        let detached = s.gpu.detach(first).unwrap();
        assert_eq!(
            (detached.buffer, detached.offset, detached.size),
            (foreign.buffer, 0, 4096)
        );
        s.free(second);
        assert_eq!(calls(), before);
        assert!(
            s.mock.fill_buffer(foreign.buffer, 0, 4096, 7),
            "it is alive"
        );
        s.free(s.buffer(64));
        assert_ne!(calls(), before, "destroying one's own is seen");
    });
}

#[test]
fn h39_only_wrapped_buffers_are_detached() {
    nvidia(|s| {
        let owned = s.buffer(256);
        let crop = s.gpu.crop(&owned, 0, 16, 1).unwrap();
        let bare = s.gpu.allocate(&bytes(256), &any()).unwrap();
        let refuse = |region| {
            let refused = s.gpu.detach(region).unwrap_err();
            assert_eq!(refused.error, GpuMisuse::NotWrapped.into());
            refused.value
        };
        let (crop, owned, bare) = (refuse(crop), refuse(owned), refuse(bare));
        // They are as valid as before.
        assert!(
            s.gpu.info(owned.id()).is_ok()
                && s.gpu.info(crop.id()).is_ok()
                && s.gpu.info(bare.id()).is_ok()
        );
        s.free(crop);
        s.free(owned);
        s.free(bare);
    });
}

#[test]
fn h40_detaching_a_crop_leaves_the_root_wrapped() {
    nvidia(|s| {
        let foreign = s.foreign(4096, 1);
        let root = s
            .gpu
            .wrap(&WrapInfo::new(foreign.buffer, 4000).offset(8))
            .unwrap();
        let crop = s.gpu.crop(&root, 100, 50, 2).unwrap();
        let inner = s.gpu.crop(&crop, 10, 20, 2).unwrap();
        let detached = s.gpu.detach(inner).unwrap();
        assert_eq!(
            (detached.buffer, detached.offset, detached.size),
            (foreign.buffer, 118, 20)
        );
        assert_eq!(s.gpu.info(root.id()).unwrap().crops(), 1);
        assert_eq!(s.gpu.detach(crop).unwrap().offset, 108);
        assert_eq!(s.gpu.info(root.id()).unwrap().crops(), 0);
        assert_eq!(s.gpu.detach(root).unwrap().offset, 8);
    });
}

#[test]
fn h41_freeing_a_wrapped_buffer_is_detaching_it() {
    nvidia(|s| {
        let foreign = s.foreign(4096, 1);
        let root = s.gpu.wrap(&WrapInfo::new(foreign.buffer, 4096)).unwrap();
        let crop = s.gpu.crop(&root, 0, 8, 8).unwrap();
        let calls = s.mock.all_calls();
        let refused = s.gpu.free(root).unwrap_err();
        assert_eq!(
            refused.error,
            GpuMisuse::HasCrops.into(),
            "crops hold wrapped roots as well"
        );
        let root = refused.value;
        s.free(crop);
        let id = root.id();
        s.free(root);
        assert_eq!(s.mock.all_calls(), calls, "the device is not asked");
        assert_eq!(s.gpu.info(id).unwrap_err(), GpuMisuse::Stale);
    });
}

#[test]
fn h42_every_region_knows_the_buffer_of_its_root() {
    nvidia(|s| {
        let foreign = s.foreign(4096, 1);
        let owned = s.buffer(256);
        let wrapped = s.gpu.wrap(&WrapInfo::new(foreign.buffer, 4096)).unwrap();
        let crop = s.gpu.crop(&wrapped, 64, 64, 4).unwrap();
        let bare = s.gpu.allocate(&bytes(64), &any()).unwrap();
        assert!(
            owned
                .buffer()
                .is_some_and(|buffer| s.mock.buffer_bound(buffer).is_some())
        );
        assert_eq!(
            (wrapped.buffer(), crop.buffer()),
            (Some(foreign.buffer), Some(foreign.buffer))
        );
        assert_eq!((bare.buffer(), bare.image()), (None, None));
        assert_eq!(s.gpu.info(crop.id()).unwrap().buffer, Some(foreign.buffer));
        for region in [bare, crop, wrapped, owned] {
            s.free(region);
        }
    });
}

#[test]
fn h43_offsets_are_64_bits_and_add_up() {
    nvidia(|s| {
        let foreign = s.foreign(4096, 1);
        // Nothing of it is touched, so the mock need not have the bytes.
        let root = s
            .gpu
            .wrap(&WrapInfo::new(foreign.buffer, 1 << 40).offset(1 << 33))
            .unwrap();
        let crop = s.gpu.crop(&root, 600_000_000 * 4, 64, 4).unwrap();
        assert_eq!(crop.copy_offset(), (1 << 33) + 2_400_000_000);
        let deeper = s.gpu.crop_id(crop.id(), 4, 4, 4).unwrap();
        assert_eq!(deeper.copy_offset(), (1 << 33) + 2_400_000_004);
        for region in [deeper, crop, root] {
            s.free(region);
        }
    });
}

#[test]
fn h44_a_misaligned_offset_is_an_aligned_base_and_an_index() {
    for profile in MockProfile::ALL {
        scene(profile, AllocatorOptions::default(), |s| {
            let foreign = s.foreign(4096, 0);
            let alignment = s.mock.config().limits.min_storage_buffer_offset_alignment;
            for offset in [0, 4, 12, 20, 64, 68, 252, 256, 1020] {
                let wrapped = s
                    .gpu
                    .wrap(&WrapInfo::new(foreign.buffer, 512).offset(offset))
                    .unwrap();
                let crop = s.gpu.crop(&wrapped, 8, 100, 4).unwrap();
                for region in [&wrapped, &crop] {
                    let descriptor = s.gpu.descriptor(region, 4, DescriptorUse::Storage).unwrap();
                    assert_eq!(descriptor.buffer, foreign.buffer);
                    assert_eq!(descriptor.offset % alignment, 0, "{profile:?} {offset}");
                    assert_eq!(
                        descriptor.offset + descriptor.index * 4,
                        region.copy_offset()
                    );
                    assert_eq!(
                        descriptor.offset + descriptor.range,
                        region.copy_offset() + region.size(),
                        "to the region's end"
                    );
                    assert!(
                        descriptor.index * 4 < alignment,
                        "no further back than it must"
                    );
                }
                s.free(crop);
                s.free(wrapped);
            }
            let odd = s
                .gpu
                .wrap(&WrapInfo::new(foreign.buffer, 512).offset(1))
                .unwrap();
            assert_eq!(
                s.gpu.descriptor(&odd, 4, DescriptorUse::Uniform),
                Err(GpuMisuse::NoDescriptorOffset)
            );
            assert_eq!(
                s.gpu.descriptor(&odd, 0, DescriptorUse::Texel),
                Err(GpuMisuse::ZeroElement)
            );
            assert_eq!(
                s.gpu
                    .descriptor(&odd, 1, DescriptorUse::Texel)
                    .unwrap()
                    .index,
                1
            );
            s.free(odd);
        });
    }
}

#[test]
fn h45_copies_begin_where_wrap_and_crops_say() {
    nvidia(|s| {
        let foreign = s.foreign(4096, 1);
        let owned = s.visible_buffer(1000);
        let data: Vec<u8> = (0..1000).map(|n| (n * 7 % 251) as u8).collect();
        s.write(&owned, &data);
        let wrapped = s
            .gpu
            .wrap(&WrapInfo::new(foreign.buffer, 2000).offset(3))
            .unwrap();
        let to = s.gpu.crop(&wrapped, 5, 500, 1).unwrap();
        let to = (s.gpu.crop(&to, 11, 300, 1).unwrap(), to);
        let from = s.gpu.crop(&owned, 13, 400, 1).unwrap();
        assert!(s.mock.copy_buffer(
            from.buffer().unwrap(),
            from.copy_offset(),
            to.0.buffer().unwrap(),
            to.0.copy_offset(),
            300
        ));
        assert_eq!(s.read(&to.0, 300), data[13..313]);
        let mut around = vec![9; 400];
        assert!(s.mock.read_buffer(foreign.buffer, 0, &mut around));
        assert_eq!(around[..19], [0; 19], "nothing before");
        assert_eq!(around[19..319], data[13..313]);
        assert_eq!(around[319..], [0; 81], "nothing behind");
        for region in [to.0, to.1, from, wrapped, owned] {
            s.free(region);
        }
    });
}

#[test]
fn h47_a_wrapped_buffer_is_not_kept_for_reuse() {
    nvidia(|s| {
        let foreign = s.foreign(4096, 1);
        let region = s.gpu.wrap(&WrapInfo::new(foreign.buffer, 4096)).unwrap();
        let refused = s.gpu.release(region).unwrap_err();
        assert_eq!(refused.error, GpuMisuse::IsWrapped.into());
        s.free(refused.value);
    });
}

#[test]
fn h55_one_buffer_can_be_wrapped_any_number_of_times() {
    nvidia(|s| {
        // Luma and chroma of an image in one buffer.
        let foreign = s.foreign(6144, 1);
        let luma = s.gpu.wrap(&WrapInfo::new(foreign.buffer, 4096)).unwrap();
        let chroma = s
            .gpu
            .wrap(&WrapInfo::new(foreign.buffer, 2048).offset(4096))
            .unwrap();
        let both = s.gpu.wrap(&WrapInfo::new(foreign.buffer, 6144)).unwrap();
        assert!(luma.id() != chroma.id() && chroma.id() != both.id());
        let stats = s.gpu.stats();
        assert_eq!(
            (stats.total.wrapped, stats.total.wrapped_bytes),
            (3, 4096 + 2048 + 6144)
        );
        s.free(luma);
        assert_eq!(
            s.gpu.info(chroma.id()).unwrap().copy_offset,
            4096,
            "the others live on"
        );
        s.free(both);
        s.free(chroma);
        assert_eq!(s.gpu.stats().total.wrapped, 0);
    });
}

#[test]
fn h56_data_behind_the_offset_is_the_source_shifted_by_one() {
    nvidia(|s| {
        let foreign = s.foreign(4096, 1);
        let source: Vec<u8> = (0u32..256).flat_map(u32::to_ne_bytes).collect();
        let upload = s.visible_buffer(1024);
        s.write(&upload, &source);
        assert!(
            s.mock
                .copy_buffer(upload.buffer().unwrap(), 0, foreign.buffer, 0, 1024)
        );
        let output = s
            .gpu
            .wrap(&WrapInfo::new(foreign.buffer, 1020).offset(4))
            .unwrap();
        assert_eq!(output.copy_offset(), 4);
        assert_eq!(s.read(&output, 1020), source[4..]);
        s.gpu.detach(output).unwrap();
        // Without a detach, a free does it.
        s.free(
            s.gpu
                .wrap(&WrapInfo::new(foreign.buffer, 1020).offset(4))
                .unwrap(),
        );
        s.free(upload);
    });
}

/// The sizes are the application's word: they may be anything, and their sum is kept in 64 bits.
#[test]
fn wrapped_bytes_overflow_is_refused_and_nothing_is_left() {
    nvidia(|s| {
        let buffer = BufferHandle::from_raw(7).unwrap();
        let all = s.gpu.wrap(&WrapInfo::new(buffer, u64::MAX - 100)).unwrap();
        let (before, host) = (s.gpu.stats(), s.host.total().live_blocks);
        let backing = Backing {
            memory: s.foreign(64, 1).memory,
            offset: 0,
            memory_size: u64::MAX,
            properties: VISIBLE,
            mapped: None,
        };
        // Often enough that a slot lost with each would be missed.
        for size in [101, 1 << 63, u64::MAX].into_iter().cycle().take(300) {
            let info = WrapInfo::new(buffer, size)
                .backing(backing)
                .name("too much")
                .tag(1);
            let short_by = size - 100;
            assert_eq!(
                s.gpu.wrap(&info).unwrap_err(),
                Limit::WrappedBytes { short_by }.into()
            );
            assert_eq!(
                (s.gpu.stats(), s.host.total().live_blocks),
                (before, host),
                "as it was"
            );
        }
        let rest = s.gpu.wrap(&WrapInfo::new(buffer, 100)).unwrap();
        assert_eq!(s.gpu.stats().total.wrapped_bytes, u64::MAX);
        s.free(all);
        assert_eq!(
            (
                s.gpu.stats().total.wrapped,
                s.gpu.stats().total.wrapped_bytes
            ),
            (1, 100)
        );
        let again = s.gpu.wrap(&WrapInfo::new(buffer, u64::MAX - 100)).unwrap();
        s.free(again);
        s.free(rest);
        assert_eq!(
            (
                s.gpu.stats().total.wrapped,
                s.gpu.stats().total.wrapped_bytes
            ),
            (0, 0)
        );
    });
}

/// No memory object may be mapped twice (VUID-vkMapMemory-memory-00678), and of its own the allocator knows.
#[test]
fn a_wrap_that_names_the_allocators_own_memory_is_refused_with_the_remedy() {
    nvidia(|s| {
        let dedicated = RegionOptions {
            dedicated: DedicatedPolicy::Required,
            ..visible()
        };
        for options in [
            visible(),
            visible().lifetime(Lifetime::Transient),
            dedicated,
        ] {
            let region = s.gpu.allocate(&bytes(4096), &options).unwrap();
            // SAFETY: a mock; the info is valid.
            let buffer = unsafe { s.mock.create_buffer(&BufferInfo::new(4096, COPIED)) }.unwrap();
            let memory = region.memory().unwrap();
            // SAFETY: the region is for it.
            unsafe { s.mock.bind_buffer(buffer, memory, region.offset()) }.unwrap();
            let memory_size = s.mock.memory(memory).unwrap().request.size;
            let mapping = s.gpu.map(&region).unwrap();
            for mapped in [None, std::ptr::NonNull::new(mapping.as_ptr())] {
                let backing = Backing {
                    memory,
                    offset: region.offset(),
                    memory_size,
                    properties: VISIBLE,
                    mapped,
                };
                let wrapped = s
                    .gpu
                    .wrap(&WrapInfo::new(buffer, 4096).backing(backing))
                    .map(|wrapped| {
                        // What it led to.
                        drop(s.gpu.map(&wrapped));
                        s.free(wrapped);
                    });
                assert_eq!(wrapped.unwrap_err(), GpuMisuse::OwnMemory.into());
            }
            // Said not to be visible it is never mapped, and so not twice.
            let backing = Backing {
                memory,
                offset: region.offset(),
                memory_size,
                properties: PropertyFlags::NONE,
                mapped: None,
            };
            let wrapped = s
                .gpu
                .wrap(&WrapInfo::new(buffer, 4096).backing(backing))
                .unwrap();
            assert!(s.gpu.map(&wrapped).is_err());
            s.free(wrapped);
            drop(mapping);
            // As the error says: without it, and the region is what is mapped.
            let wrapped = s.gpu.wrap(&WrapInfo::new(buffer, 4096)).unwrap();
            drop(s.gpu.map(&region).unwrap());
            s.free(wrapped);
            // SAFETY: made above, and used by nobody.
            unsafe { s.mock.destroy_buffer(buffer) };
            s.free(region);
        }
        // Another allocator's memory is the application's here.
        let foreign = s.foreign(4096, 2);
        let backing = Backing {
            memory: foreign.memory,
            offset: 0,
            memory_size: 4096,
            properties: VISIBLE,
            mapped: None,
        };
        let wrapped = s
            .gpu
            .wrap(&WrapInfo::new(foreign.buffer, 4096).backing(backing))
            .unwrap();
        drop(s.gpu.map(&wrapped).unwrap());
        s.free(wrapped);
    });
}
