//! Acquiring: H1 to H9, H13, H24.

use gpu_suballoc::context::{CommandSource, ContextError, ContextHandle, VulkanHandles};

use super::fake::LifecycleDriver;
use super::scene::{SceneHost, SceneMemory, acquire, buffer, handles, info, kernel, try_acquire};

#[test]
fn h1_an_allocator_is_made_for_a_context_that_the_application_owns() {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    let home = memory.home();
    let context = acquire(&home, &memory, &driver);
    assert_eq!(context.handles(), handles(&driver));
    assert_eq!(
        (driver.live(), driver.live_of("VkPipelineCache")),
        (1, 1),
        "no device memory yet"
    );
    let region = buffer(&context);
    assert_eq!(driver.live_of("VkBuffer"), 1);
    context.allocator().free(region).unwrap();
    context.release().unwrap();
    assert_eq!(driver.live(), 0);
    drop(home);
    memory.end();
}

#[test]
fn h2_a_null_handle_is_refused_before_anything_is_asked() {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    let home = memory.home();
    let before = (memory.bytes(), driver.loads());
    let nulls = [
        (ContextHandle::Instance, info(&memory, &driver, None)),
        (ContextHandle::PhysicalDevice, info(&memory, &driver, None)),
        (ContextHandle::Device, info(&memory, &driver, None)),
    ];
    for (which, mut info) in nulls {
        match which {
            ContextHandle::Instance => info.instance = ash::vk::Instance::null(),
            ContextHandle::PhysicalDevice => info.physical_device = ash::vk::PhysicalDevice::null(),
            ContextHandle::Device => info.device = ash::vk::Device::null(),
        }
        assert_eq!(
            try_acquire(&home, info).unwrap_err(),
            ContextError::NullHandle(which)
        );
    }
    assert_eq!((memory.bytes(), driver.loads()), before);
    drop(acquire(&home, &memory, &driver));
    assert!(driver.loads() > before.1, "something would have been seen");
}

#[test]
fn h3_acquiring_again_validates_and_makes_nothing() {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    let (home, table) = (memory.home(), memory.table());
    let id = table
        .acquire(None, handles(&driver), || {
            Ok(acquire(&home, &memory, &driver))
        })
        .unwrap();
    let seen = || {
        (
            driver.loads(),
            driver.live(),
            memory.requests(),
            memory.bytes(),
        )
    };
    let before = seen();
    let again = |handles| table.acquire(Some(id), handles, || panic!("nothing is made"));
    assert_eq!(again(handles(&driver)), Ok(id));
    let there = handles(&driver);
    let (physical, device) = (
        VulkanHandles {
            physical_device: 1,
            ..there
        },
        VulkanHandles { device: 1, ..there },
    );
    assert_eq!(
        again(physical),
        Err(ContextError::OtherHandle(ContextHandle::PhysicalDevice))
    );
    assert_eq!(
        again(device),
        Err(ContextError::OtherHandle(ContextHandle::Device))
    );
    assert_eq!(
        again(VulkanHandles { device: 0, ..there }),
        Err(ContextError::NullHandle(ContextHandle::Device))
    );
    assert_eq!(seen(), before);
    assert_eq!(again(there), Ok(id), "and it is as it was");
    table.release(Some(id), there).unwrap();
    assert_eq!(again(there), Err(ContextError::Released));
}

#[test]
fn h4_another_instance_is_another_context() {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    let home = memory.home();
    let context = acquire(&home, &memory, &driver);
    let other = VulkanHandles {
        instance: 8,
        ..handles(&driver)
    };
    assert_eq!(
        context.acquire_again(other),
        Err(ContextError::OtherHandle(ContextHandle::Instance))
    );
    // Nor is a second context made on a device that is said to be another instance's.
    let mut wrong = info(&memory, &driver, None);
    wrong.instance = ash::vk::Handle::from_raw(8);
    let before = driver.loads();
    assert_eq!(
        try_acquire(&home, wrong).unwrap_err(),
        ContextError::OtherHandle(ContextHandle::Instance)
    );
    assert_eq!(
        (driver.loads(), home.contexts_on(handles(&driver).device)),
        (before, 1)
    );
    context.acquire_again(handles(&driver)).unwrap();
}

#[test]
fn h5_h7_commands_are_loaded_once_a_context_and_every_one_must_be_there() {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    let home = memory.home();
    let before = memory.bytes();
    for (level, name) in [
        (CommandSource::Loader, c"vkCreateInstance"),
        (CommandSource::Instance, c"vkGetDeviceProcAddr"),
        (
            CommandSource::Instance,
            c"vkGetPhysicalDeviceMemoryProperties",
        ),
        (CommandSource::Device, c"vkDestroyShaderModule"),
        (CommandSource::Device, c"vkFreeMemory"),
        (CommandSource::Device, c"vkCreateComputePipelines"),
    ] {
        driver.without(Some(name.to_str().unwrap()));
        let refused = try_acquire(&home, info(&memory, &driver, None)).unwrap_err();
        assert_eq!(refused, ContextError::MissingCommand { level, name });
        assert!(
            refused.to_string().contains(name.to_str().unwrap()),
            "{refused}"
        );
        assert_eq!((driver.live(), memory.bytes()), (0, before), "{name:?}");
    }
    driver.without(None);
    let before = driver.loads();
    let first = acquire(&home, &memory, &driver);
    let once = driver.loads() - before;
    assert!(once > 0);
    // Neither use nor dispatch loads anything; a second context, by the same way, loads as much again: its table is its own.
    drop(kernel(&first, 1));
    first.allocator().free(buffer(&first)).unwrap();
    first.dispatch(|_| ()).unwrap();
    assert_eq!(driver.loads() - before, once);
    let second = acquire(&home, &memory, &driver);
    assert_eq!(driver.loads() - before, 2 * once);
    drop((first, second));
}

#[test]
fn h8_callbacks_are_captured_when_the_context_is_acquired() {
    let (memory, driver, host) = (SceneMemory::new(), LifecycleDriver::new(), SceneHost::new());
    let home = memory.home();
    let mut info = info(&memory, &driver, None);
    let mut theirs = Box::new(host.callbacks());
    info.options.callbacks = Some(*theirs);
    let context = try_acquire(&home, info).unwrap();
    // The application's own struct changes: the fake would tell of a destroy with another user data.
    *theirs = ash::vk::AllocationCallbacks::default();
    drop(kernel(&context, 1));
    let region = buffer(&context);
    assert!(
        host.live() > 6,
        "a module, sets, layout, pipelines, cache, buffer, memory: {}",
        host.live()
    );
    context.allocator().free(region).unwrap();
    context.release().unwrap();
    assert_eq!((host.live(), driver.live()), (0, 0));
    drop(theirs);
}

#[test]
fn h9_what_cannot_be_made_leaves_nothing() {
    let (memory, driver, host) = (SceneMemory::new(), LifecycleDriver::new(), SceneHost::new());
    let home = memory.home();
    let before = memory.bytes();
    driver.fail(Some((1, ash::vk::Result::ERROR_OUT_OF_HOST_MEMORY)));
    let refused = try_acquire(&home, info(&memory, &driver, Some(&host))).unwrap_err();
    assert!(driver.failed());
    assert_eq!(
        refused,
        ContextError::Gpu(gpu_suballoc::device::DeviceError::OutOfHostMemory.into())
    );
    let mut bad = info(&memory, &driver, Some(&host));
    bad.allocator.max_reusable_buffers = u32::MAX;
    driver.fail(None);
    assert!(
        matches!(try_acquire(&home, bad), Err(ContextError::Gpu(_))),
        "the allocator's options"
    );
    assert_eq!(
        (
            driver.live(),
            host.live(),
            memory.bytes(),
            home.contexts_on(handles(&driver).device)
        ),
        (0, 0, before, 0)
    );
    drop(try_acquire(&home, info(&memory, &driver, Some(&host))).unwrap());
}

#[test]
fn h24_a_handler_is_what_it_is_in_other_runtimes() {
    // User data and whether to create in; the context, or why not, out. And the way back.
    fn acquire_context(
        _: *mut std::ffi::c_void,
        _: bool,
    ) -> Result<Option<gpu_suballoc::context::DeviceContextId>, ContextError> {
        Ok(None)
    }
    fn release_context(
        _: *mut std::ffi::c_void,
        _: Option<gpu_suballoc::context::DeviceContextId>,
    ) {
    }
    let memory = SceneMemory::new();
    let table = memory.table();
    let handlers = gpu_suballoc::context::ContextHandlers {
        acquire_context,
        release_context,
    };
    assert!(
        table
            .set_context_handlers(Some(handlers))
            .unwrap()
            .is_none()
    );
    assert!(
        table
            .dispatch(std::ptr::null_mut(), false, |context| context.is_none())
            .unwrap()
    );
}

#[test]
fn ge10_64_devices_have_contexts_at_once_and_the_next_is_an_error() {
    let memory = SceneMemory::new();
    let drivers: Vec<_> = (0..65).map(|_| LifecycleDriver::new()).collect();
    let home = memory.home();
    let mut contexts: Vec<_> = drivers
        .iter()
        .take(64)
        .map(|driver| acquire(&home, &memory, driver))
        .collect();
    let refused = try_acquire(&home, info(&memory, &drivers[64], None));
    assert_eq!(refused.unwrap_err(), ContextError::TooManyDevices);
    assert_eq!(drivers[64].live(), 0, "nothing was left on it");
    contexts.push(acquire(&home, &memory, &drivers[0]));
    contexts.swap_remove(7).release().unwrap();
    contexts.push(acquire(&home, &memory, &drivers[64]));
    contexts
        .into_iter()
        .for_each(|one| one.release().map(drop).unwrap());
    drop(home);
    memory.end();
}

#[test]
fn ge10_64_contexts_are_in_a_table_and_the_next_is_an_error() {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    let (home, table) = (memory.home(), memory.table());
    let put = || {
        table.acquire(None, handles(&driver), || {
            Ok(acquire(&home, &memory, &driver))
        })
    };
    let ids: Vec<_> = (0..64).map(|_| put().unwrap()).collect();
    let live = driver.live();
    assert_eq!(put(), Err(ContextError::TooManyContexts));
    assert_eq!(
        driver.live(),
        live,
        "the context that found no place was released"
    );
    table.release(Some(ids[3]), handles(&driver)).unwrap();
    put().unwrap();
    drop(table);
    drop(home);
    assert_eq!(driver.live(), 0);
    memory.end();
}
