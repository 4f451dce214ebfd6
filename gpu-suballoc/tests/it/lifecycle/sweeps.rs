//! Law 2 over a whole cycle: each request of host memory, of ours or through the callbacks, and each command is refused
//! once; everything is as before then, and the next try succeeds.

use super::*;

/// Acquire, compile, take, give, release.
fn cycle(home: &AshContexts, memory: &SceneMemory, driver: &LifecycleDriver, host: &SceneHost) -> Result<(), String> {
    let context = try_acquire(home, info(memory, driver, Some(host))).map_err(|error| error.to_string())?;
    drop(try_kernel(&context, 1).map_err(|error| error.to_string())?);
    let region = try_buffer(&context).map_err(|error| error.to_string())?;
    let crop = context.allocator().crop(&region, 0, 64, 4).map_err(|error| error.to_string())?;
    context.allocator().free(crop).unwrap();
    context.allocator().free(region).unwrap();
    context.release().unwrap();
    Ok(())
}

#[test]
fn h9_hw27_every_refusal_of_host_memory_leaves_everything_as_it_was() {
    let (mut failed, mut nth) = (0, 0);
    loop {
        let witness = RecordingAllocator::system();
        let failing = FailingAllocator::new(witness.clone(), Fault::Never);
        let (driver, host) = (LifecycleDriver::new(), SceneHost::new());
        // SAFETY: the allocator outlives it.
        let memory = unsafe { SceneMemory::on(&failing) };
        let home = memory.home();
        failing.arm(Fault::Nth(nth));
        let first = cycle(&home, &memory, &driver, &host);
        let refused = failing.refused();
        failing.disarm();
        let left = (driver.live(), host.live(), memory.bytes()[1]);
        assert_eq!(left, (0, 0, 0), "request {nth}: {first:?}");
        assert!(first.is_ok() || refused == 1, "request {nth}: {first:?}");
        cycle(&home, &memory, &driver, &host).expect("the next try succeeds");
        drop(home);
        memory.end();
        witness.assert_empty("after the cycle");
        failed += u32::from(first.is_err());
        nth += 1;
        if refused == 0 && nth > 1 {
            break;
        }
    }
    assert!(failed >= 15, "{failed} of {nth} requests were refused with an error");
}

#[test]
fn h9_hw27_every_refusal_of_the_driver_leaves_everything_as_it_was() {
    for result in
        [vk::Result::ERROR_OUT_OF_HOST_MEMORY, vk::Result::ERROR_OUT_OF_DEVICE_MEMORY, vk::Result::ERROR_DEVICE_LOST]
    {
        let (memory, driver, host) = (SceneMemory::new(), LifecycleDriver::new(), SceneHost::new());
        let home = memory.home();
        let mut failed = 0;
        for nth in 1.. {
            driver.fail(Some((nth, result)));
            let first = cycle(&home, &memory, &driver, &host);
            let struck = driver.failed();
            driver.fail(None);
            assert_eq!((driver.live(), host.live(), memory.bytes()[1]), (0, 0, 0), "command {nth}: {first:?}");
            cycle(&home, &memory, &driver, &host).expect("the next try succeeds");
            failed += u32::from(first.is_err());
            if !struck {
                break;
            }
        }
        assert!(failed >= 7, "{result:?}: {failed}");
    }
}
