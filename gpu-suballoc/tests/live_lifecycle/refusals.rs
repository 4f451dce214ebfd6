//! What a context refuses, on a real driver: each time everything is as it was, and the right call goes through.

use std::sync::atomic::Ordering::SeqCst;

use alloc_core::{Context, ContextOptions, HostAllocator};
use ash::vk::{self, Handle};
use debug_guard::{FailingAllocator, Fault};
use gpu_suballoc::allocator::WrapInfo;
use gpu_suballoc::ash::{
    AshContext, AshContextInfo, AshContextTable, AshContexts, KernelError, KernelStep,
};
use gpu_suballoc::cache::{CacheError, CacheLimits};
use gpu_suballoc::context::{
    CommandSource, ContextError, ContextOutstanding, ReleaseBlocker, VulkanHandleKind,
    VulkanHandles,
};
use gpu_suballoc::device::{BufferHandle, DeviceError};
use gpu_suballoc::{BufferInfo, BufferUsage, GpuError, Region, RegionOptions};
use testkit::RecordingAllocator;

use crate::counting;
use crate::cycles::{Test, filled, info, kernel, try_kernel};
use crate::live::{CALLBACKS, Live, live_blocks};

pub(crate) const TESTS: &[Test] = &[
    (
        "h2_h3_h4_h11_h12_null_and_other_handles_are_refused",
        handles,
    ),
    ("h5_h13_a_command_that_is_missing_is_named", missing),
    (
        "h9_hw27_every_refusal_of_our_memory_leaves_everything_as_it_was",
        swept,
    ),
    ("h10_h16_a_second_release_is_an_error", second),
    (
        "h15_a_lost_device_is_not_called_and_its_handle_is_another_device",
        lost,
    ),
    (
        "h16_what_is_in_the_way_is_listed_and_then_it_goes",
        in_the_way,
    ),
];

/// An application's memory, over a witness.
pub(crate) struct RefusingApplication {
    shared: Context,
    memory: Context,
    root: Context,
    blocks: i64,
}

/// What is there: live objects by kind, functions asked for, bytes of books, blocks of the driver.
type Seen = (Vec<(&'static str, i64)>, u64, [u64; 2], i64);

impl RefusingApplication {
    /// # Safety
    /// The host outlives it.
    pub(crate) unsafe fn on(live: &Live, host: &(impl HostAllocator + Sync)) -> Self {
        counting::forward_to(live.entry.static_fn().get_instance_proc_addr);
        // SAFETY: the caller's promise.
        let root =
            unsafe { Context::root(host, ContextOptions::new("application")) }.expect("memory");
        let [shared, memory] = ["shared", "contexts"].map(|name| root.child(name).expect("memory"));
        Self {
            shared,
            memory,
            root,
            blocks: live_blocks(),
        }
    }

    pub(crate) fn home(&self) -> AshContexts {
        AshContexts::new(self.shared.handle(), CacheLimits::NONE).expect("memory")
    }

    fn info<'a>(&self, live: &Live) -> AshContextInfo<'a> {
        info(live, &self.memory, counting::get_instance_proc_addr)
    }

    fn seen(&self) -> Seen {
        let bytes = [&self.shared, &self.memory].map(|context| context.usage().total().live_bytes);
        (
            counting::live(),
            counting::LOADS.load(SeqCst),
            bytes,
            live_blocks(),
        )
    }

    /// All that contexts had was given back.
    pub(crate) fn assert_nothing_is_left(&self, when: &str) {
        assert!(
            counting::live().iter().all(|(_, live)| *live == 0),
            "{when}: {:?}",
            counting::live()
        );
        assert_eq!(
            (
                self.memory.usage().total().live_bytes,
                counting::device_bytes()
            ),
            (0, 0),
            "{when}"
        );
    }

    fn end(self) {
        self.assert_nothing_is_left("at the end");
        assert_eq!(
            (live_blocks(), self.shared.usage().total().live_bytes),
            (self.blocks, 0),
            "the driver's blocks, and the home's"
        );
        drop((self.shared, self.memory));
        self.root.close_root().expect("nothing is left");
    }
}

fn with(live: &Live, run: impl FnOnce(&RefusingApplication, &AshContexts)) {
    let witness = RecordingAllocator::system();
    // SAFETY: the witness outlives it.
    let application = unsafe { RefusingApplication::on(live, &witness) };
    let home = application.home();
    run(&application, &home);
    drop(home);
    application.end();
    witness.assert_empty("after all contexts");
}

fn try_acquire(home: &AshContexts, info: AshContextInfo<'_>) -> Result<AshContext, ContextError> {
    // SAFETY: of one another, or refused; alive while the test's devices are.
    unsafe { home.acquire_ash(info) }
}

fn handles_of(live: &Live) -> VulkanHandles {
    VulkanHandles {
        instance: live.instance.handle().as_raw(),
        physical_device: live.physical.as_raw(),
        device: live.device.handle().as_raw(),
    }
}

fn buffer(context: &AshContext) -> Result<Region, GpuError> {
    let info = BufferInfo::new(4000, BufferUsage::STORAGE_BUFFER);
    context
        .allocator()
        .create_buffer(&info, &RegionOptions::new().name("a buffer"))
}

/// Those of a second instance of the same driver, and null ones: asked again, released, and acquired with.
fn handles(live: &Live) {
    let other = Live::open().expect("as the first was");
    with(live, |application, home| {
        let table = AshContextTable::new(application.shared.handle());
        let (there, theirs) = (handles_of(live), handles_of(&other));
        assert!(there.instance != theirs.instance && there.device != theirs.device);
        assert_ne!(there.physical_device, theirs.physical_device);
        let id = table
            .acquire(None, there, || try_acquire(home, application.info(live)))
            .expect("acquired");
        table
            .with(id, |context| drop(kernel(context, 1)))
            .expect("it is there");
        let before = application.seen();
        let cases = [
            (
                VulkanHandles {
                    instance: 0,
                    ..there
                },
                ContextError::NullHandle(VulkanHandleKind::Instance),
            ),
            (
                VulkanHandles {
                    physical_device: 0,
                    ..there
                },
                ContextError::NullHandle(VulkanHandleKind::PhysicalDevice),
            ),
            (
                VulkanHandles { device: 0, ..there },
                ContextError::NullHandle(VulkanHandleKind::Device),
            ),
            (
                VulkanHandles {
                    instance: theirs.instance,
                    ..there
                },
                ContextError::OtherHandle(VulkanHandleKind::Instance),
            ),
            (
                VulkanHandles {
                    physical_device: theirs.physical_device,
                    ..there
                },
                ContextError::OtherHandle(VulkanHandleKind::PhysicalDevice),
            ),
            (
                VulkanHandles {
                    device: theirs.device,
                    ..there
                },
                ContextError::OtherHandle(VulkanHandleKind::Device),
            ),
        ];
        for (wrong, error) in cases {
            assert_eq!(
                table.acquire(Some(id), wrong, || panic!("nothing is made")),
                Err(error)
            );
            assert_eq!(table.release(Some(id), wrong), Err(error));
            // Acquired with: another device is another context's business, a known one is checked.
            if error != ContextError::OtherHandle(VulkanHandleKind::Device) {
                let mut info = application.info(live);
                info.instance = vk::Instance::from_raw(wrong.instance);
                info.physical_device = vk::PhysicalDevice::from_raw(wrong.physical_device);
                info.device = vk::Device::from_raw(wrong.device);
                assert_eq!(try_acquire(home, info).unwrap_err(), error);
            }
            assert_eq!(application.seen(), before, "{error}");
        }
        assert_eq!(
            table.acquire(Some(id), there, || panic!("nothing is made")),
            Ok(id),
            "and it is as it was"
        );
        table
            .with(id, |context| drop(kernel(context, 1)))
            .expect("it is there");
        assert_eq!(application.seen(), before, "found, not compiled");
        assert_eq!(
            table
                .release(Some(id), there)
                .expect("its own")
                .expect("released")
                .shaders,
            1
        );
    });
}

fn missing(live: &Live) {
    with(live, |application, home| {
        let before = application.seen();
        for (level, name) in [
            (CommandSource::Loader, c"vkCreateInstance"),
            (CommandSource::Instance, c"vkGetDeviceProcAddr"),
            (CommandSource::Device, c"vkDestroyShaderModule"),
            (CommandSource::Device, c"vkFreeMemory"),
        ] {
            counting::without(Some(name));
            let refused = try_acquire(home, application.info(live)).map(drop);
            counting::without(None);
            assert_eq!(refused, Err(ContextError::MissingCommand { level, name }));
            let (objects, _, bytes, blocks) = application.seen();
            assert_eq!(
                (objects, bytes, blocks),
                (before.0.clone(), before.2, before.3),
                "{name:?}"
            );
        }
        try_acquire(home, application.info(live))
            .expect("all are there")
            .release()
            .expect("nothing is in the way");
    });
}

fn second(live: &Live) {
    with(live, |application, home| {
        let table = AshContextTable::new(application.shared.handle());
        let there = handles_of(live);
        let make = || {
            table
                .acquire(None, there, || try_acquire(home, application.info(live)))
                .expect("acquired")
        };
        assert_eq!(table.release(None, there), Ok(None), "nothing");
        let first = make();
        let region = table
            .with(first, buffer)
            .expect("it is there")
            .expect("a buffer");
        let one = ContextOutstanding {
            regions: 1,
            ..ContextOutstanding::default()
        };
        assert_eq!(
            table.release(Some(first), there),
            Err(ContextError::Outstanding(one))
        );
        let freed = table.with(first, |context| {
            context
                .allocator()
                .free(region)
                .map_err(|refused| refused.error)
        });
        assert_eq!(freed, Ok(Ok(())));
        let inside = table.with(first, |_| table.release(Some(first), there));
        assert_eq!(inside, Ok(Err(ContextError::InUse)));
        assert!(table.release(Some(first), there).is_ok());
        for _ in 0..10 {
            let next = make();
            let before = application.seen();
            assert_eq!(
                table.release(Some(first), there),
                Err(ContextError::Released)
            );
            assert_eq!(
                table.acquire(Some(first), there, || panic!("nothing is made")),
                Err(ContextError::Released)
            );
            assert_eq!(application.seen(), before);
            assert!(table.release(Some(next), there).is_ok());
        }
    });
}

/// The device is only said to be lost, so that what nobody destroyed can be.
fn lost(live: &Live) {
    with(live, |application, home| {
        let [first, second] =
            [0, 1].map(|_| try_acquire(home, application.info(live)).expect("acquired"));
        let number = first.shaders().device();
        let caches = counting::handles("VkPipelineCache");
        assert_eq!(caches.len(), 2);
        let before = counting::live();
        first.device_lost();
        let gone = GpuError::Device(DeviceError::DeviceLost);
        for context in [&first, &second] {
            assert!(context.device_state().is_lost());
            assert_eq!(buffer(context).unwrap_err(), gone);
            let refused = try_kernel(context, 1).map(drop).unwrap_err();
            assert_eq!(
                refused,
                CacheError::Compile(KernelError {
                    step: KernelStep::ShaderModule,
                    error: gone
                })
            );
        }
        // The handle's value is another device from now on.
        let fresh = try_acquire(home, application.info(live)).expect("acquired");
        assert_ne!(fresh.shaders().device(), number);
        drop(kernel(&fresh, 1));
        let region = filled(&fresh, 1);
        fresh.allocator().free(region).expect("live");
        for context in [first, second] {
            assert!(context.release().expect("nothing is refused").device_lost);
        }
        let left = counting::handles("VkPipelineCache");
        assert!(
            caches.iter().all(|cache| left.contains(cache)),
            "no driver was called: {left:?}"
        );
        // The application's way to end them.
        let commands = fresh.device().commands();
        for cache in caches {
            let cache = vk::PipelineCache::from_raw(cache);
            // SAFETY: made on this device with these callbacks, and its contexts are gone.
            unsafe { (commands.destroy_pipeline_cache)(live.device.handle(), cache, &CALLBACKS) };
        }
        assert_eq!(fresh.release().expect("nothing is in the way").shaders, 1);
        assert_ne!(counting::live(), before);
    });
}

fn in_the_way(live: &Live) {
    with(live, |application, home| {
        let context = try_acquire(home, application.info(live)).expect("acquired");
        let mut regions: Vec<_> = (0..40)
            .map(|_| buffer(&context).expect("a buffer"))
            .collect();
        let mapped = filled(&context, 5);
        context.allocator().map_id(mapped.id()).expect("visible");
        let crop = context
            .allocator()
            .crop(&regions[7], 0, 16, 4)
            .expect("within");
        let own = vk::BufferCreateInfo::default()
            .size(512)
            .usage(vk::BufferUsageFlags::STORAGE_BUFFER);
        // SAFETY: a valid info; destroyed below.
        let own = unsafe { live.device.create_buffer(&own, None) }.expect("a buffer");
        let wrapped = context
            .allocator()
            .wrap(&WrapInfo::new(BufferHandle::from_raw(own.as_raw()), 512))
            .expect("wrapped");
        drop(kernel(&context, 1));
        let held = kernel(&context, 2).into_work_ref();

        let refused = context.release().expect_err("nearly all is in the way");
        assert_eq!(
            refused.error,
            ContextOutstanding {
                regions: 41,
                wrapped: 1,
                crops: 1,
                shaders: 1
            }
        );
        let listed: Vec<_> = refused.value.release_blockers().collect();
        let there = regions
            .iter()
            .chain([&mapped])
            .map(|region| ReleaseBlocker::Region(region.id()));
        let rest = [
            ReleaseBlocker::Wrapped(wrapped.id()),
            ReleaseBlocker::Crop(crop.id()),
            ReleaseBlocker::Shader(held.key()),
        ];
        let expected: Vec<_> = there.chain(rest).collect();
        assert!(
            listed.len() == expected.len() && expected.iter().all(|one| listed.contains(one)),
            "{listed:?}"
        );

        // Each goes in its turn, and what is left is refused for.
        let (objects, ..) = application.seen();
        let context = refused.value;
        drop(kernel(&context, 1));
        assert_eq!(
            application.seen().0,
            objects,
            "it works as before, and nothing was taken out"
        );
        let gpu = context.allocator();
        gpu.free(crop).expect("live");
        regions
            .drain(..)
            .for_each(|region| gpu.free(region).expect("live"));
        let refused = context
            .release()
            .expect_err("a mapped region, a wrapped one and a kernel");
        assert_eq!(
            refused.error,
            ContextOutstanding {
                regions: 1,
                wrapped: 1,
                crops: 0,
                shaders: 1
            }
        );
        let context = refused.value;
        context.allocator().free(wrapped).expect("live");
        drop(held);
        let refused = context.release().expect_err("a mapped region");
        assert_eq!(
            refused.value.release_blockers().collect::<Vec<_>>(),
            [ReleaseBlocker::Region(mapped.id())]
        );
        let context = refused.value;
        context.allocator().unmap_id(mapped.id()).expect("mapped");
        context.allocator().free(mapped).expect("live");
        assert_eq!(context.release().expect("nothing is in the way").shaders, 2);
        // SAFETY: made above; no context destroyed it.
        unsafe { live.device.destroy_buffer(own, None) };
    });
}

/// Acquire, compile, take, give, release.
pub(crate) fn cycle(
    live: &Live,
    application: &RefusingApplication,
    home: &AshContexts,
) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let context = try_acquire(home, application.info(live)).map_err(|error| told(&error))?;
    for number in 0..2 {
        drop(try_kernel(&context, number).map_err(|error| told(&error))?);
    }
    let region = buffer(&context).map_err(|error| told(&error))?;
    let crop = context.allocator().crop(&region, 0, 64, 4);
    let cropped = crop
        .map_err(|error| told(&error))
        .map(|crop| context.allocator().free(crop).expect("live"));
    context.allocator().free(region).expect("live");
    cropped?;
    assert_eq!(context.release().expect("nothing is in the way").shaders, 2);
    Ok(())
}

/// Law 2: each request of ours is refused once.
fn swept(live: &Live) {
    let (mut failed, mut nth) = (0, 0);
    loop {
        let witness = RecordingAllocator::system();
        let failing = FailingAllocator::new(witness.clone(), Fault::Never);
        // SAFETY: the allocator outlives it.
        let application = unsafe { RefusingApplication::on(live, &failing) };
        let home = application.home();
        failing.arm(Fault::Nth(nth));
        let first = cycle(live, &application, &home);
        let refused = failing.refused();
        failing.disarm();
        application.assert_nothing_is_left(&format!("request {nth}: {first:?}"));
        assert!(first.is_ok() || refused == 1, "request {nth}: {first:?}");
        cycle(live, &application, &home).expect("the next try succeeds");
        drop(home);
        application.end();
        witness.assert_empty("after the cycle");
        failed += u32::from(first.is_err());
        if refused == 0 {
            break;
        }
        nth += 1;
    }
    println!("  {nth} requests of ours, {failed} refused with an error");
    assert!(
        failed >= 15,
        "{failed} of {nth} requests were refused with an error"
    );
}
