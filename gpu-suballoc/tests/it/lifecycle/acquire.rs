//! Acquiring through ash: H5, H7, H8, H13. The rest of H1 to H9 is `lifecycle_model` and `sweeps`.

use super::*;

#[test]
fn h5_h7_h13_commands_are_loaded_once_a_context_and_every_one_must_be_there() {
    application!(memory, driver, home);
    let before = memory.bytes();
    for (level, name) in [
        (CommandSource::Loader, c"vkCreateInstance"),
        (CommandSource::Instance, c"vkGetDeviceProcAddr"),
        (CommandSource::Instance, c"vkGetPhysicalDeviceMemoryProperties"),
        (CommandSource::Device, c"vkDestroyShaderModule"),
        (CommandSource::Device, c"vkFreeMemory"),
        (CommandSource::Device, c"vkCreateComputePipelines"),
    ] {
        driver.without(Some(name.to_str().unwrap()));
        let refused = try_acquire(&home, info(&memory, &driver, None)).unwrap_err();
        assert_eq!(refused, ContextError::MissingCommand { level, name });
        assert!(refused.to_string().contains(name.to_str().unwrap()), "{refused}");
        assert_eq!((driver.live(), memory.bytes()), (0, before), "{name:?}");
    }
    driver.without(None);
    let before = driver.loads();
    let first = acquire(&home, &memory, &driver);
    let once = driver.loads() - before;
    assert!(once > 0);
    // Neither use nor dispatch loads anything; a second context, by the same way, loads as much again: its table is its
    // own.
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
    let host = SceneHost::new();
    application!(memory, driver, home);
    let mut info = info(&memory, &driver, None);
    let mut theirs = Box::new(host.callbacks());
    info.options.callbacks = Some(*theirs);
    let context = try_acquire(&home, info).unwrap();
    // The application's own struct changes: the fake would tell of a destroy with another user data.
    *theirs = vk::AllocationCallbacks::default();
    drop(kernel(&context, 1));
    let region = buffer(&context);
    assert!(host.live() > 6, "a module, sets, layout, pipelines, cache, buffer, memory: {}", host.live());
    context.allocator().free(region).unwrap();
    context.release().unwrap();
    assert_eq!((host.live(), driver.live()), (0, 0));
    drop(theirs);
}

/// The fake panics at an object that is not its own, and each numbers its objects from the same start: of what crossed
/// something would be left in the end.
#[test]
fn ge10_hw25_64_devices_have_contexts_at_once_that_do_not_cross_and_the_next_is_an_error() {
    let memory = SceneMemory::new();
    let drivers = times(65, LifecycleDriver::new);
    let home = memory.home();
    let mut contexts = Vec::from_iter(drivers.iter().take(64).map(|driver| acquire(&home, &memory, driver)));
    for (number, context) in (0..).zip(&contexts) {
        drop(kernel(context, number));
        context.allocator().free(buffer(context)).unwrap();
    }
    let refused = try_acquire(&home, info(&memory, &drivers[64], None));
    assert_eq!(refused.unwrap_err(), ContextError::TooManyDevices);
    assert_eq!(drivers[64].live(), 0, "nothing was left on it");
    contexts.push(acquire(&home, &memory, &drivers[0]));
    contexts.swap_remove(7).release().unwrap();
    contexts.push(acquire(&home, &memory, &drivers[64]));
    contexts.into_iter().for_each(|one| one.release().map(drop).unwrap());
    drop(home);
    memory.end();
}

#[test]
fn ge10_64_contexts_are_in_a_table_and_the_next_is_an_error() {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    let (home, table) = (memory.home(), memory.table());
    let put = || table.acquire(None, handles(&driver), || Ok(acquire(&home, &memory, &driver)));
    let ids = times(64, || put().unwrap());
    let live = driver.live();
    assert_eq!(put(), Err(ContextError::TooManyContexts));
    assert_eq!(driver.live(), live, "the context that found no place was released");
    table.release(Some(ids[3]), handles(&driver)).unwrap();
    put().unwrap();
    drop(table);
    drop(home);
    assert_eq!(driver.live(), 0);
    memory.end();
}
