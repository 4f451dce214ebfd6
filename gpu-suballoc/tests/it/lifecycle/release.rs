//! Releasing: H10 to H17, H28, H30, H31.

use gpu_suballoc::GpuError;
use gpu_suballoc::cache::ShaderKey;
use gpu_suballoc::context::{
    ContextError, ContextHandle, ContextOutstanding, ReleaseBlocker, VulkanHandles,
};
use gpu_suballoc::device::DeviceError;

use super::fake::LifecycleDriver;
use super::scene::{
    SceneHost, SceneMemory, acquire, buffer, handles, info, kernel, try_acquire, try_buffer,
    try_kernel,
};

#[test]
fn h10_releasing_nothing_is_no_error() {
    let memory = SceneMemory::new();
    let nothing = VulkanHandles {
        instance: 0,
        physical_device: 0,
        device: 0,
    };
    assert_eq!(
        memory.table().release(None, nothing),
        Ok(None),
        "whatever the handles"
    );
}

#[test]
fn h11_h12_other_handles_release_nothing() {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    let (home, table) = (memory.home(), memory.table());
    let there = handles(&driver);
    let id = table
        .acquire(None, there, || Ok(acquire(&home, &memory, &driver)))
        .unwrap();
    table.with(id, |context| drop(kernel(context, 1))).unwrap();
    let before = (driver.live(), memory.bytes());
    for (wrong, error) in [
        (
            VulkanHandles {
                instance: 0,
                ..there
            },
            ContextError::NullHandle(ContextHandle::Instance),
        ),
        (
            VulkanHandles { device: 0, ..there },
            ContextError::NullHandle(ContextHandle::Device),
        ),
        (
            VulkanHandles {
                instance: 9,
                ..there
            },
            ContextError::OtherHandle(ContextHandle::Instance),
        ),
        (
            VulkanHandles {
                physical_device: 9,
                ..there
            },
            ContextError::OtherHandle(ContextHandle::PhysicalDevice),
        ),
        (
            VulkanHandles { device: 9, ..there },
            ContextError::OtherHandle(ContextHandle::Device),
        ),
    ] {
        assert_eq!(table.release(Some(id), wrong), Err(error));
        assert_eq!((driver.live(), memory.bytes()), before);
    }
    // Still usable, and its kernel is found.
    driver.log();
    table.with(id, |context| drop(kernel(context, 1))).unwrap();
    assert_eq!(driver.log(), [""; 0]);
    assert_eq!(table.release(Some(id), there).unwrap().unwrap().shaders, 1);
}

#[test]
fn h13_a_driver_that_cannot_destroy_is_refused_before_it_makes() {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    for name in ["vkDestroyShaderModule", "vkFreeMemory"] {
        driver.without(Some(name));
        let refused = try_acquire(&memory.home(), info(&memory, &driver, None));
        assert!(
            matches!(refused, Err(ContextError::MissingCommand { .. })),
            "{name}"
        );
    }
    assert_eq!((driver.live(), driver.log()), (0, vec![]));
}

#[test]
fn h14_h17_modules_then_buffers_then_memory_and_nothing_of_the_applications() {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    let home = memory.home();
    let context = acquire(&home, &memory, &driver);
    drop(kernel(&context, 1));
    let region = buffer(&context);
    // A kept buffer goes with the allocator.
    context.allocator().release(region).unwrap();
    driver.log();
    let released = context.release().unwrap();
    assert_eq!(
        (released.shaders, released.held, released.device_lost),
        (1, 0, false)
    );
    let log = driver.log();
    let at = |name: &str| {
        log.iter()
            .position(|there| *there == name)
            .unwrap_or_else(|| panic!("no {name} in {log:?}"))
    };
    let last = |name: &str| log.iter().rposition(|there| *there == name).unwrap();
    assert!(
        last("vkDestroyShaderModule") < at("vkFreeMemory"),
        "{log:?}"
    );
    assert!(
        last("vkDestroyBuffer") < at("vkFreeMemory")
            && last("vkFreeMemory") < at("vkDestroyPipelineCache"),
        "{log:?}"
    );
    // It would panic: the application's own commands are there, and none was called; nor was anything waited for.
    assert!(
        log.iter()
            .all(|name| name.starts_with("vkDestroy") || *name == "vkFreeMemory"),
        "{log:?}"
    );
    assert_eq!(driver.live(), 0);
}

#[test]
fn h15_a_device_that_is_gone_is_not_called_any_more() {
    let (memory, driver, host) = (SceneMemory::new(), LifecycleDriver::new(), SceneHost::new());
    let home = memory.home();
    let contexts = [0, 1].map(|_| try_acquire(&home, info(&memory, &driver, Some(&host))).unwrap());
    let [first, second] = &contexts;
    drop(kernel(first, 1));
    let held = kernel(second, 2).into_work_ref();
    let region = buffer(first);
    let number = first.shaders().device();
    driver.log();
    first.device_lost();
    // Of both, for it is their device.
    assert!(second.device_state().is_lost());
    assert_eq!(
        try_buffer(second).unwrap_err(),
        GpuError::Device(DeviceError::DeviceLost)
    );
    assert!(try_kernel(second, 3).is_err());
    // Another context on the same handle's value is on another device: nothing of the old one is found there.
    let fresh = acquire(&home, &memory, &driver);
    assert_ne!(fresh.shaders().device(), number);
    assert!(home.cache().get(ShaderKey::kernel(number, 1)).is_none());
    assert_eq!(driver.log(), ["a pipeline cache"], "its own");
    fresh.release().unwrap();
    driver.log();
    // Nothing is refused, and nothing is called.
    let [first, second] = contexts;
    assert_eq!(region.size(), 4000);
    let released = first.release().unwrap();
    assert!(released.device_lost && released.blocks == 1 && released.held == 0);
    assert!(second.release().unwrap().device_lost);
    drop(held);
    assert_eq!(driver.log(), [""; 0]);
    assert_eq!(memory.bytes()[1], 0, "all host memory of theirs");
    // What was there went with the device, the driver's own blocks too.
    assert_eq!(driver.lose(), host.live() as usize);
}

#[test]
fn h16_a_context_in_use_comes_back_with_what_is_in_the_way() {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    let home = memory.home();
    let context = acquire(&home, &memory, &driver);
    let regions: Vec<_> = (0..40).map(|_| buffer(&context)).collect();
    let crop = context.allocator().crop(&regions[7], 0, 16, 4).unwrap();
    drop(kernel(&context, 1));
    let held = kernel(&context, 2).into_work_ref();
    let refused = context.release().unwrap_err();
    assert_eq!(
        refused.error,
        ContextOutstanding {
            regions: 40,
            wrapped: 0,
            crops: 1,
            shaders: 1
        }
    );
    let listed: Vec<_> = refused.value.release_blockers().collect();
    assert_eq!(listed.len(), 42);
    for region in &regions {
        assert_eq!(
            listed
                .iter()
                .filter(|one| **one == ReleaseBlocker::Region(region.id()))
                .count(),
            1
        );
    }
    assert!(listed.contains(&ReleaseBlocker::Crop(crop.id())));
    assert_eq!(listed.last(), Some(&ReleaseBlocker::Shader(held.key())));
    let said = "40 regions, 1 crop and 1 shader of the context are in use: give them back, or release the context by force";
    assert_eq!(refused.to_string(), said);
    // It works as before.
    let context = refused.value;
    let mut log = driver.log();
    drop(kernel(&context, 1));
    assert!(
        driver.log().is_empty() && log.pop().is_some(),
        "nothing was taken out"
    );
    context.allocator().free(crop).unwrap();
    regions
        .into_iter()
        .for_each(|region| context.allocator().free(region).unwrap());
    let refused = context.release().unwrap_err();
    let said = "1 shader of the context is in use: give it back, or release the context by force";
    assert_eq!(refused.to_string(), said);
    let context = refused.value;
    drop(held);
    assert_eq!(context.release().unwrap().shaders, 2);
}

#[test]
fn h16_a_second_release_is_an_error_however_often_its_place_was_used_again() {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    let (home, table) = (memory.home(), memory.table());
    let there = handles(&driver);
    let make = || {
        table
            .acquire(None, there, || Ok(acquire(&home, &memory, &driver)))
            .unwrap()
    };
    let first = make();
    let region = table.with(first, buffer).unwrap();
    let refused = table.release(Some(first), there).unwrap_err();
    assert_eq!(
        refused,
        ContextError::Outstanding(ContextOutstanding {
            regions: 1,
            ..Default::default()
        })
    );
    table
        .with(first, |context| context.allocator().free(region).unwrap())
        .unwrap();
    table
        .with(first, |_| {
            assert_eq!(table.release(Some(first), there), Err(ContextError::InUse))
        })
        .unwrap();
    table.release(Some(first), there).unwrap();
    for _ in 0..100 {
        let next = make();
        assert_ne!(next, first);
        assert_eq!(
            table.release(Some(first), there),
            Err(ContextError::Released)
        );
        assert!(table.with(first, |_| ()).is_err());
        table.release(Some(next), there).unwrap();
    }
}

#[test]
fn h16_by_force_everything_goes_and_the_report_says_what_was_in_use() {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    let home = memory.home();
    let context = acquire(&home, &memory, &driver);
    let regions: Vec<_> = (0..40).map(|_| buffer(&context)).collect();
    let crop = context.allocator().crop(&regions[0], 0, 16, 4).unwrap();
    std::mem::forget(context.allocator().map(&regions[1]).unwrap());
    drop(kernel(&context, 1));
    let held = kernel(&context, 2).into_work_ref();
    let report = context.release_forced();
    assert_eq!(
        report.outstanding,
        ContextOutstanding {
            regions: 40,
            wrapped: 0,
            crops: 1,
            shaders: 1
        }
    );
    assert_eq!((report.released.shaders, report.released.held), (1, 1));
    assert!(report.released.blocks > 0 && report.released.block_bytes >= 40 * 4096);
    // The buffer whose mapping was forgotten stays with the driver; its memory does not. The held kernel's six objects wait for it.
    assert_eq!(
        (
            driver.live_of("VkDeviceMemory"),
            driver.live_of("VkBuffer"),
            driver.live_of("VkPipeline")
        ),
        (0, 1, 2)
    );
    drop(held);
    assert_eq!((driver.live(), driver.live_of("VkBuffer")), (1, 1));
    drop((regions, crop));
    assert_eq!((driver.lose(), memory.bytes()[1]), (1, 0));
}

#[test]
fn a_held_kernel_that_was_deleted_before_is_in_the_way_too() {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    let home = memory.home();
    let context = acquire(&home, &memory, &driver);
    let held = kernel(&context, 1).into_work_ref();
    assert_eq!(home.cache().delete_where(|_, _| true).held, 1);
    let refused = context.release().unwrap_err();
    assert_eq!(refused.error.shaders, 1);
    assert_eq!(
        refused.value.release_blockers().collect::<Vec<_>>(),
        [ReleaseBlocker::Shader(held.key())]
    );
    // By force it is still somebody's, and the report says so.
    assert_eq!(refused.value.release_forced().released.held, 1);
    assert_eq!(driver.live_of("VkShaderModule"), 1);
    drop(held);
    assert_eq!(driver.live(), 0);
}

#[test]
fn h28_what_went_before_does_not_count_again() {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    let home = memory.home();
    let stays = acquire(&home, &memory, &driver);
    let held: Vec<_> = (0..3)
        .map(|number| kernel(&stays, number).into_work_ref())
        .collect();
    for round in 0..20 {
        let goes = acquire(&home, &memory, &driver);
        (100..120).for_each(|number| drop(kernel(&goes, number)));
        assert_eq!(goes.release().unwrap().shaders, 20, "round {round}");
        assert_eq!(
            (
                home.cache().stats().entries,
                stays.shaders().stats().entries,
                stays.shaders().in_use()
            ),
            (3, 3, 3)
        );
    }
    drop(held);
    assert_eq!(stays.release().unwrap().shaders, 3);
}

#[test]
fn h30_the_devices_own_end_is_the_applications() {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    let (home, table) = (memory.home(), memory.table());
    let id = table
        .acquire(None, handles(&driver), || {
            Ok(acquire(&home, &memory, &driver))
        })
        .unwrap();
    assert_eq!(table.set_default(Some(id)), Ok(None));
    // The default's release is every release: of what the context made, and of nothing else (the fake panics at the device's end).
    table.release(Some(id), handles(&driver)).unwrap();
    assert_eq!(driver.live(), 0);
    assert_eq!(
        table.dispatch(std::ptr::null_mut(), true, |_| ()),
        Err(ContextError::NoContext),
        "it is the default no more"
    );
}

#[test]
fn h31_a_device_gets_contexts_again_and_again() {
    let (memory, driver, host) = (SceneMemory::new(), LifecycleDriver::new(), SceneHost::new());
    let home = memory.home();
    let cycle = || {
        let context = try_acquire(&home, info(&memory, &driver, Some(&host))).unwrap();
        (0..4).for_each(|number| drop(kernel(&context, number)));
        let region = buffer(&context);
        context.allocator().free(region).unwrap();
        assert_eq!(context.release().unwrap().shaders, 4);
        assert_eq!(
            (
                driver.live(),
                host.live(),
                home.contexts_on(handles(&driver).device)
            ),
            (0, 0, 0)
        );
        home.cache().trim();
        memory.bytes()
    };
    let baseline = cycle();
    for _ in 0..200 {
        assert_eq!(cycle(), baseline);
    }
    drop(home);
    memory.end();
}
