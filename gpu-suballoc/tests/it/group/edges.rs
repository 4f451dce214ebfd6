//! What two devices say for themselves, compared: I4 to I7, I21 to I31, IW6 to IW10.

use gpu_suballoc::group::{
    CapabilityFlags as Flags, Contradiction, DeviceCapabilities, Edge, HandleTypes as Handles,
    LinkClass, UseMode,
};

fn driver(driver: u32) -> DeviceCapabilities {
    DeviceCapabilities {
        driver: Some(driver),
        ..DeviceCapabilities::default()
    }
}

/// One piece of hardware with one driver build.
fn card(uuid: u8) -> DeviceCapabilities {
    DeviceCapabilities {
        device_uuid: Some([uuid; 16]),
        driver_uuid: Some([7; 16]),
        ..driver(1)
    }
}

#[track_caller]
fn edge(from: &DeviceCapabilities, to: &DeviceCapabilities) -> Edge {
    let edge = Edge::between(from, to).expect("neither is isolated");
    assert_eq!(edge.contradiction(), None, "{edge:?}");
    edge
}

#[test]
fn i4_the_smaller_mode_is_the_better() {
    use UseMode::{Copy, Import, Native, None};
    assert!(Native < Import && Import < Copy && Copy < None);
    assert_eq!(
        [Native, Import, Copy, None].map(UseMode::is_direct),
        [true, true, false, false]
    );
}

#[test]
fn i5_an_unknown_link_is_the_default_and_no_other() {
    assert_eq!(LinkClass::default(), LinkClass::Unknown);
    let all = [
        LinkClass::SameDevice,
        LinkClass::PeerLink,
        LinkClass::PcieSameRoot,
        LinkClass::PcieCrossRoot,
        LinkClass::HostStaged,
        LinkClass::Fabric,
        LinkClass::Other,
        LinkClass::Unknown,
    ];
    let names: std::collections::BTreeSet<_> = all.iter().map(LinkClass::to_string).collect();
    assert_eq!(names.len(), all.len());
}

#[test]
fn i6_handle_types_are_bits_of_their_own() {
    let all = [
        Handles::NATIVE,
        Handles::OPAQUE_FD,
        Handles::OPAQUE_WIN32,
        Handles::DMA_BUF,
        Handles::SYNC_FD,
        Handles::HOST_ALLOCATION,
        Handles::METAL,
        Handles::ANDROID_HARDWARE_BUFFER,
    ];
    assert_eq!(all.map(Handles::bits), [1, 2, 4, 8, 16, 32, 64, 128]);
}

#[test]
fn i7_what_only_a_refinement_may_say_is_never_derived() {
    let all = Flags::UNIFIED_MEMORY
        | Flags::PEER_COHERENT
        | Flags::HOST_COHERENT
        | Flags::PEER_COPY
        | Flags::CONCURRENT
        | Flags::DEVICE_ATOMICS
        | Flags::SYSTEM_ATOMICS
        | Flags::TIMELINE_SEMAPHORE
        | Flags::PEER_ADDRESSABLE;
    let refined =
        Flags::REMOTE_DMA | Flags::SHARED_VIRTUAL_ADDRESS | Flags::PEER_ACCESS_NEEDS_GRANT;
    let says = DeviceCapabilities {
        flags: all | refined,
        ..driver(1)
    };
    assert_eq!(edge(&says, &says).flags, all | Flags::SAME_DRIVER);
}

#[test]
fn i27_flags_are_those_of_both_and_some_of_one_driver_only() {
    let flags = Flags::PEER_COHERENT | Flags::PEER_COPY | Flags::HOST_COHERENT;
    let (one, other) = (
        DeviceCapabilities { flags, ..driver(1) },
        DeviceCapabilities { flags, ..driver(2) },
    );
    assert_eq!(edge(&one, &one).flags, flags | Flags::SAME_DRIVER);
    assert_eq!(
        edge(&one, &other).flags,
        Flags::PEER_COPY | Flags::HOST_COHERENT
    );
    let less = DeviceCapabilities {
        flags: Flags::HOST_COHERENT,
        ..driver(1)
    };
    assert_eq!(
        edge(&one, &less).flags,
        Flags::HOST_COHERENT | Flags::SAME_DRIVER
    );
    // Two that do not know whose they are may be of two drivers.
    assert_eq!(
        edge(
            &DeviceCapabilities::default(),
            &DeviceCapabilities::default()
        )
        .flags,
        Flags::NONE
    );
}

#[test]
fn i22_what_one_gives_out_and_the_other_takes_in_is_the_way() {
    let fd = Handles::DMA_BUF | Handles::HOST_ALLOCATION;
    let from = DeviceCapabilities {
        buffer_import: fd,
        semaphore_import: Handles::SYNC_FD,
        ..driver(1)
    };
    let to = DeviceCapabilities {
        buffer_export: Handles::DMA_BUF,
        semaphore_export: Handles::SYNC_FD,
        ..driver(2)
    };
    let there = edge(&from, &to);
    assert_eq!(
        (there.buffers, there.semaphores),
        (Handles::DMA_BUF, Handles::SYNC_FD)
    );
    assert_eq!(
        (there.read, there.write, there.wait, there.signal),
        (
            UseMode::Import,
            UseMode::Import,
            UseMode::Import,
            UseMode::Import
        )
    );
    let back = edge(&to, &from);
    assert_eq!(
        (back.buffers, back.read, back.wait),
        (Handles::NONE, UseMode::Copy, UseMode::Copy)
    );
}

#[test]
fn iw8_a_signals_what_b_gave_out_and_never_the_other_way_round() {
    let importer = DeviceCapabilities {
        semaphore_import: Handles::SYNC_FD,
        ..driver(1)
    };
    let exporter = DeviceCapabilities {
        semaphore_export: Handles::SYNC_FD,
        ..driver(1)
    };
    let uses = edge(&importer, &exporter);
    assert_eq!((uses.wait, uses.signal), (UseMode::Import, UseMode::Import));
    let owns = edge(&exporter, &importer);
    assert_eq!((owns.wait, owns.signal), (UseMode::Copy, UseMode::Copy));
}

#[test]
fn i23_semaphores_are_native_within_a_driver_imported_or_waited_for_by_the_host() {
    let native = Handles::NATIVE;
    let says = |driver_number| DeviceCapabilities {
        semaphore_import: native,
        semaphore_export: native,
        ..driver(driver_number)
    };
    let own = edge(&says(1), &says(1));
    assert_eq!(
        (own.wait, own.wait_cost, own.signal, own.signal_cost),
        (UseMode::Native, 0, UseMode::Native, 1)
    );
    // A runtime's own handle means nothing to another one.
    let other = edge(&says(1), &says(2));
    assert_eq!(
        (other.wait, other.wait_cost, other.signal_cost),
        (UseMode::Copy, 10, 10)
    );
    let fd = DeviceCapabilities {
        semaphore_import: Handles::SYNC_FD,
        semaphore_export: Handles::SYNC_FD,
        ..driver(3)
    };
    assert_eq!(
        (edge(&fd, &fd).wait, edge(&fd, &fd).wait_cost),
        (UseMode::Import, 3)
    );
}

#[test]
fn i24_memory_is_native_only_where_both_can_be_addressed_by_one_driver() {
    let says = |driver_number| DeviceCapabilities {
        flags: Flags::PEER_ADDRESSABLE,
        ..driver(driver_number)
    };
    let own = edge(&says(1), &says(1));
    assert_eq!(
        (own.read, own.write, own.coherent_read),
        (UseMode::Native, UseMode::Native, UseMode::Native)
    );
    assert_eq!(edge(&says(1), &says(2)).read, UseMode::Copy);
    assert_eq!(edge(&says(1), &driver(1)).read, UseMode::Copy);
}

#[test]
fn i25_coherent_memory_is_native_where_it_is_the_hosts() {
    let says = |driver_number| DeviceCapabilities {
        flags: Flags::UNIFIED_MEMORY,
        ..driver(driver_number)
    };
    let edge = edge(&says(1), &says(2));
    assert_eq!(
        (edge.read, edge.coherent_read, edge.coherent_write),
        (UseMode::Copy, UseMode::Native, UseMode::Native)
    );
}

#[test]
fn i26_one_address_space_makes_no_memory_unified() {
    let says = DeviceCapabilities {
        flags: Flags::SHARED_VIRTUAL_ADDRESS,
        ..driver(1)
    };
    assert_eq!(edge(&says, &says).coherent_read, UseMode::Copy);
}

#[test]
fn iw9_opaque_handles_need_equal_uuids_of_device_and_driver() {
    let opaque = Handles::OPAQUE_FD | Handles::DMA_BUF;
    let gives = |says: DeviceCapabilities| DeviceCapabilities {
        buffer_import: opaque,
        buffer_export: opaque,
        ..says
    };
    assert_eq!(edge(&gives(card(1)), &gives(card(1))).buffers, opaque);
    assert_eq!(
        edge(&gives(card(1)), &gives(card(2))).buffers,
        Handles::DMA_BUF
    );
    let other_build = DeviceCapabilities {
        driver_uuid: Some([8; 16]),
        ..gives(card(1))
    };
    assert_eq!(
        edge(&gives(card(1)), &other_build).buffers,
        Handles::DMA_BUF
    );
    let silent = DeviceCapabilities {
        driver_uuid: None,
        ..gives(card(1))
    };
    assert_eq!(
        edge(&silent, &silent).buffers,
        Handles::DMA_BUF,
        "two that say nothing are not the same"
    );
    // Without another way it is a copy.
    let fd_only = |uuid| DeviceCapabilities {
        buffer_import: Handles::OPAQUE_FD,
        buffer_export: Handles::OPAQUE_FD,
        ..card(uuid)
    };
    assert_eq!(
        [
            edge(&fd_only(1), &fd_only(1)).read,
            edge(&fd_only(1), &fd_only(2)).read
        ],
        [UseMode::Import, UseMode::Copy]
    );
}

#[test]
fn iw9_two_devices_on_one_gpu_are_two_devices() {
    let edge = edge(&card(1), &card(1));
    assert_eq!(edge.link, LinkClass::SameDevice);
    // Objects of the one are unusable on the other, whatever they stand on.
    assert_eq!(
        (edge.read, edge.wait, edge.copy_cost),
        (UseMode::Copy, UseMode::Copy, None)
    );
}

#[test]
fn i21_the_same_hardware_is_near_and_no_more() {
    let gives = DeviceCapabilities {
        buffer_import: Handles::OPAQUE_FD,
        buffer_export: Handles::OPAQUE_FD,
        ..card(1)
    };
    let there = edge(&gives, &gives);
    assert_eq!(
        (there.link, there.copy_cost, there.latency),
        (LinkClass::SameDevice, Some(0), Some(0))
    );
    assert_eq!(there.wait, UseMode::Copy, "memory is no semaphore");
}

#[test]
fn i28_the_same_node_costs_nothing_and_others_are_not_known() {
    let on = |numa_node| DeviceCapabilities {
        numa_node,
        ..driver(1)
    };
    assert_eq!(edge(&on(Some(0)), &on(Some(0))).numa_distance, Some(0));
    assert_eq!(edge(&on(Some(0)), &on(Some(1))).numa_distance, None);
    assert_eq!(
        edge(&on(None), &on(None)).numa_distance,
        None,
        "node 0 and no node are two things"
    );
}

#[test]
fn i29_links_are_known_for_one_hardware_and_never_guessed() {
    assert_eq!(edge(&card(1), &card(1)).link, LinkClass::SameDevice);
    for (from, to) in [
        (card(1), card(2)),
        (driver(1), driver(1)),
        (driver(1), driver(2)),
    ] {
        let edge = edge(&from, &to);
        assert_eq!(
            (edge.link, edge.copy_cost, edge.latency),
            (LinkClass::Unknown, None, None)
        );
    }
}

#[test]
fn i31_nothing_derived_is_none_or_a_link_that_vulkan_does_not_tell() {
    for flags in [
        Flags::NONE,
        Flags::PEER_COPY | Flags::PEER_ADDRESSABLE,
        Flags::UNIFIED_MEMORY,
    ] {
        for (a, b) in [(1, 1), (1, 2)] {
            let edge = edge(
                &DeviceCapabilities { flags, ..driver(a) },
                &DeviceCapabilities { flags, ..driver(b) },
            );
            let modes = [
                edge.wait,
                edge.signal,
                edge.read,
                edge.write,
                edge.coherent_read,
                edge.coherent_write,
            ];
            assert!(
                modes.iter().all(|mode| *mode != UseMode::None) && edge.link == LinkClass::Unknown
            );
        }
    }
}

#[test]
fn iw6_an_isolated_device_has_no_edge() {
    let isolated = DeviceCapabilities {
        flags: Flags::ISOLATED,
        ..card(1)
    };
    assert_eq!(Edge::between(&isolated, &card(1)), None);
    assert_eq!(Edge::between(&card(1), &isolated), None);
    assert!(Edge::between(&card(1), &card(1)).is_some());
}

#[test]
fn iw7_an_edge_that_contradicts_itself_says_so() {
    let sound = edge(&driver(1), &driver(1));
    let free = Edge {
        copy_cost: Some(0),
        ..sound
    };
    assert_eq!(
        free.contradiction(),
        Some(Contradiction::FreeCopyThroughHost)
    );
    let imported = Edge {
        read: UseMode::Import,
        ..sound
    };
    assert_eq!(
        imported.contradiction(),
        Some(Contradiction::BufferImportWithoutHandle)
    );
    let waits = Edge {
        wait: UseMode::Import,
        ..sound
    };
    assert_eq!(
        waits.contradiction(),
        Some(Contradiction::SemaphoreImportWithoutHandle)
    );
    let native = Edge {
        read: UseMode::Native,
        link: LinkClass::HostStaged,
        ..sound
    };
    assert_eq!(
        native.contradiction(),
        Some(Contradiction::NativeThroughHost)
    );
    // A copy over the host is no copy between peers, whatever the flags say.
    let staged = Edge {
        flags: Flags::PEER_COPY | Flags::SAME_DRIVER,
        link: LinkClass::HostStaged,
        ..sound
    };
    assert!(
        !staged.is_peer_to_peer()
            && Edge {
                link: LinkClass::PcieSameRoot,
                ..staged
            }
            .is_peer_to_peer()
    );
}

#[test]
fn iw10_a_devices_edge_to_itself_says_what_the_device_can_do() {
    let poor = Edge::to_itself(&driver(1));
    assert_eq!(poor.flags, Flags::SAME_DRIVER);
    let rich = Edge::to_itself(&DeviceCapabilities {
        flags: Flags::SYSTEM_ATOMICS | Flags::HOST_COHERENT,
        ..driver(1)
    });
    assert_eq!(
        rich.flags,
        Flags::SYSTEM_ATOMICS | Flags::HOST_COHERENT | Flags::SAME_DRIVER
    );
    assert_eq!(
        (poor.read, poor.wait, poor.link),
        (UseMode::Native, UseMode::Native, LinkClass::SameDevice)
    );
}
