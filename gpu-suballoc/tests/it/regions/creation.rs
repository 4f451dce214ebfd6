//! Make, ask, place, bind: and all of it undone when one of them is refused.

use super::*;

#[test]
fn wrong_infos_never_reach_the_driver() {
    nvidia(|s| {
        let calls = s.mock.all_calls();
        let limit = s.mock.config().limits.max_buffer_size;
        let buffer = |size, usage, flags| {
            let info = BufferInfo::new(size, usage);
            s.create_buffer(&BufferInfo { flags, ..info }, &any())
        };
        let picture = ImageInfo::new_2d(37, 64, 64, ImageUsage::SAMPLED);
        let image = |change: fn(&mut ImageInfo)| {
            let mut info = picture;
            change(&mut info);
            s.create_image(&info, &any())
        };
        let (none, unbindable) = (BufferUsage::default(), Unbindable);
        let too_large = |bytes| GpuError::TooLarge { bytes, limit };
        for (made, error) in [
            (buffer(0, COPIED, 0), ZeroSize.into()),
            (buffer(64, none, 0), NoUsage.into()),
            (buffer(64, COPIED, 1), unbindable.into()),
            (buffer(64, COPIED, 2), unbindable.into()),
            (buffer(64, COPIED, 4), unbindable.into()),
            (buffer(limit + 1, COPIED, 0), too_large(limit + 1)),
            (buffer(u64::MAX - 15, COPIED, 0), too_large(u64::MAX - 15)),
            (image(|info| info.extent[1] = 0), ZeroSize.into()),
            (image(|info| info.mip_levels = 0), ZeroSize.into()),
            (image(|info| info.usage = ImageUsage::default()), NoUsage.into()),
            (image(|info| info.flags = 1), unbindable.into()),
            (image(|info| info.flags = 0x200), unbindable.into()),
        ] {
            assert_eq!(made.unwrap_err(), error);
        }
        assert_eq!(s.mock.all_calls(), calls);
        s.free(image(|_| ()).unwrap());
        assert_ne!(s.mock.all_calls(), calls);
    });
}

/// A type that a resource may share needs the extension, of which `vkCreate*` would be told.
#[test]
fn external_types_are_refused_where_external_memory_is_not_enabled() {
    use gpu_suballoc::device::ExternalHandleTypes;
    for enabled in [true, false] {
        let mut config = Nvidia.config();
        config.features.external_memory = enabled;
        let mock = Mock::with_config(config);
        on_mock(&mock, |s| {
            let external = ExternalHandleTypes::from_raw(1);
            let buffer = BufferInfo { external, ..copied(64) };
            let image = ImageInfo { external, ..ImageInfo::new_2d(37, 64, 64, ImageUsage::SAMPLED) };
            let calls = s.mock.all_calls();
            for made in [s.create_buffer(&buffer, &any()), s.create_image(&image, &any())] {
                match made {
                    Ok(region) => {
                        assert!(enabled);
                        s.free(region);
                    }
                    Err(error) => assert_eq!((error, enabled, s.mock.all_calls()), (NotEnabled.into(), false, calls)),
                }
            }
        });
    }
}

/// Where the first type that fits is the host's memory, as with NVIDIA, nothing special must not mean slow.
#[test]
fn what_says_nothing_lies_near_the_device_and_what_asks_for_the_host_is_taken_at_its_word() {
    for profile in MockProfile::ALL {
        on(profile, |s| {
            let properties = |options: &RegionOptions<'_>| {
                let region = s.must_create_buffer(&BufferInfo::new(65_536, BufferUsage::VERTEX_BUFFER), options);
                let memory_type = region.memory_type().unwrap();
                assert!(std::format!("{:?}", s.must_info(region.id())).len() < 1000, "its name is text");
                s.free(region);
                s.mock.properties().types[memory_type as usize].properties
            };
            assert!(properties(&any()).contains(PropertyFlags::DEVICE_LOCAL), "{profile:?}");
            assert_eq!(RegionOptions::default(), any());
            let seen = host().name("seen");
            assert!(properties(&seen).contains(PropertyFlags::HOST_VISIBLE), "{profile:?}");
            let any = properties(&any().preference(MemoryPreference::default()));
            assert_eq!(
                any.contains(PropertyFlags::DEVICE_LOCAL),
                profile != Nvidia,
                "{profile:?}: the first that fits"
            );
        });
    }
}
