//! Words and numbers: memory types, flags, handles, infos, errors.

use std::fmt::Write;

use gpu_suballoc::device::{
    BufferHandle, DeviceError, ExternalHandleTypes, HeapFlags, ImageHandle, MemoryHandle,
    MemoryHeap, MemoryRequest, NextChain, QueueFamilies,
};
use gpu_suballoc::error::Limit;
use gpu_suballoc::memory_type::{MemoryType, choose_memory_type};
use gpu_suballoc::report::MemoryTotals;
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{
    BufferInfo, BufferUsage, GpuError, GpuMisuse, ImageInfo, ImageUsage, Lifetime,
    MemoryPreference, PoolOptions, PropertyFlags, RegionId, RegionOptions, ResourceKind,
    ResourceRequirements,
};
use testkit::{Sink, Stage};

use super::{GpuOperation, NONE, operation};

pub(super) fn table<S: Stage>() -> Vec<GpuOperation<S>> {
    vec![
        operation(
            &[
                "PropertyFlags::count",
                "MemoryPreference::avoiding",
                "MemoryPreference::preferring",
                "MemoryPreference::requiring",
                "choose_memory_type",
            ],
            "",
            NONE,
            |stage| stage.attempt_plainly(types),
        ),
        operation(
            &[
                "BufferInfo::new",
                "ImageInfo::new_2d",
                "MemoryHeap::is_device_local",
                "MemoryHeap::new",
                "MemoryRequest::new",
                "NextChain::as_ptr",
                "NextChain::new",
                "PoolOptions::new",
                "QueueFamilies::bits",
                "QueueFamilies::concurrent",
                "RegionId::as_raw",
                "RegionId::from_raw",
                "RegionId::tag",
                "RegionOptions::new",
                "ResourceRequirements::memory_types",
                "ResourceRequirements::new",
                "MemoryTotals::free_bytes",
                "MemoryTotals::free_bytes_in_use",
                "MemoryTotals::reserved_percent",
            ],
            "",
            NONE,
            |stage| stage.attempt_plainly(infos),
        ),
        operation(
            &[
                "DeviceError::as_raw",
                "DeviceError::from_raw",
                "GpuError::as_vk_result",
                "GpuError::is_device_lost",
                "GpuError::is_out_of_device_memory",
            ],
            "",
            NONE,
            |stage| stage.attempt_plainly(errors),
        ),
    ]
}

fn types() {
    let visible = PropertyFlags::from_raw(PropertyFlags::HOST_VISIBLE.as_raw());
    assert!(visible.contains(PropertyFlags::HOST_VISIBLE) && visible.count() == 1);
    assert!(visible.without(PropertyFlags::HOST_VISIBLE).is_empty());
    let own = MemoryType {
        properties: PropertyFlags::DEVICE_LOCAL,
        heap_index: 0,
    };
    let types = [
        own,
        MemoryType {
            properties: visible,
            heap_index: 1,
        },
    ];
    let wish = MemoryPreference::requiring(visible)
        .preferring(PropertyFlags::HOST_CACHED)
        .avoiding(PropertyFlags::PROTECTED);
    assert_eq!(choose_memory_type(&types, 0b11, wish), Ok(1));
    let error =
        choose_memory_type(&types, 0b01, wish).expect_err("the one that is visible is not allowed");
    let mut sink = Sink::default();
    write!(sink, "{error} {error:?} {visible:?} {wish:?}").expect("the sink takes all");
    assert!(sink.bytes > 0);
}

fn infos() {
    let handles = (
        MemoryHandle::from_raw(3),
        BufferHandle::from_raw(0),
        ImageHandle::from_raw(5),
    );
    assert_eq!(
        (
            handles.0.map(MemoryHandle::as_raw),
            handles.1.map(BufferHandle::as_raw)
        ),
        (Some(3), None)
    );
    assert_eq!(handles.2.map(ImageHandle::as_raw), Some(5));
    let usage = BufferUsage::from_raw(BufferUsage::TRANSFER_DST.as_raw());
    assert!(usage.contains(BufferUsage::TRANSFER_DST) && BufferInfo::new(16, usage).size == 16);
    let usage = ImageUsage::from_raw(ImageUsage::SAMPLED.as_raw());
    assert!(
        usage.contains(ImageUsage::SAMPLED) && Sink::debug(ImageInfo::new_2d(37, 4, 4, usage)) > 0
    );
    assert!(ExternalHandleTypes::from_raw(0).is_empty() && ExternalHandleTypes::NONE.as_raw() == 0);
    let flags = HeapFlags::from_raw(HeapFlags::DEVICE_LOCAL.as_raw());
    assert!(MemoryHeap::new(1, flags).is_device_local());
    assert_eq!(MemoryRequest::new(7, 1).size, 7);
    let chain = std::ptr::NonNull::from(&flags).cast();
    // SAFETY: nobody reads it.
    let chain = unsafe { NextChain::new(chain) };
    assert!(!std::ptr::addr_eq(chain.as_ptr(), std::ptr::null::<u8>()));
    assert_eq!(PoolOptions::new(2).memory_type, 2);
    assert_eq!(QueueFamilies::concurrent(6).bits(), 6);
    let id = RegionId::from_raw([1, 2, 3, 0]);
    assert_eq!((id.as_raw(), id.tag()), ([1, 2, 3, 0], 1));
    let options = RegionOptions::new()
        .name("n")
        .lifetime(Lifetime::Transient)
        .preference(MemoryPreference::default());
    assert_eq!(options.name, Some("n"));
    let options = options
        .dedicated(DedicatedPolicy::Never)
        .export(ExternalHandleTypes::from_raw(1))
        .kind(ResourceKind::Optimal);
    let options = options
        .next(chain)
        .priority(0.5)
        .site(3)
        .tag(4)
        .within_budget()
        .device_address()
        .upper_address()
        .pinned();
    assert!(options.device_address && options.upper_address && options.pinned);
    assert!(options.export.as_raw() == 1 && options.next == Some(chain) && options.within_budget);
    assert_eq!(
        (options.dedicated, options.kind),
        (DedicatedPolicy::Never, ResourceKind::Optimal)
    );
    assert_eq!(
        (options.priority, options.site, options.tag),
        (Some(0.5), 3, 4)
    );
    assert_eq!(
        ResourceRequirements::new(64, 16)
            .memory_types(2)
            .memory_type_bits,
        2
    );
    let totals = MemoryTotals {
        block_bytes: 10,
        region_bytes: 4,
        ..MemoryTotals::default()
    };
    assert_eq!(totals.free_bytes(), 6);
    let half_empty = MemoryTotals {
        empty_bytes: 5,
        ..totals
    };
    assert_eq!(half_empty.free_bytes_in_use(), 1);
    assert_eq!(totals.reserved_percent(), Some(250));
    assert_eq!(MemoryTotals::default().reserved_percent(), None);
}

fn errors() {
    assert_eq!(
        DeviceError::from_raw(DeviceError::OutOfDeviceMemory.as_raw()),
        DeviceError::OutOfDeviceMemory
    );
    let error = GpuError::Device(DeviceError::DeviceLost);
    assert!(error.is_device_lost() && !error.is_out_of_device_memory() && error.as_vk_result() < 0);
    let mut sink = Sink::default();
    for error in [
        error,
        GpuMisuse::Stale.into(),
        Limit::Pools.into(),
        GpuError::TooLarge { bytes: 1, limit: 0 },
    ] {
        write!(sink, "{error} {error:?}").expect("the sink takes all");
    }
    assert!(sink.bytes > 0);
}
