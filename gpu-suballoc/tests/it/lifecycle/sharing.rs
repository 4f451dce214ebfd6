//! Contexts beside one another: H25 to H27, and two drivers.

use super::*;

#[test]
fn h25_h26_h27_contexts_of_a_device_share_and_each_takes_its_own_along() {
    application!(memory, driver, home);
    let hosts = [SceneHost::new(), SceneHost::new()];
    let [a, b] = hosts
        .each_ref()
        .map(|host| try_acquire(&home, info(&memory, &driver, Some(host))).unwrap());
    assert_eq!(a.shaders().device(), b.shaders().device());
    (0..10).for_each(|number| drop(kernel(&a, number)));
    (10..20).for_each(|number| drop(kernel(&b, number)));
    let compiles = |log: Vec<&str>| {
        log.into_iter()
            .filter(|name| *name == "vkCreateShaderModule")
            .count()
    };
    assert_eq!(compiles(driver.log()), 20);
    [&a, &b]
        .into_iter()
        .for_each(|context| (0..20).for_each(|number| drop(kernel(context, number))));
    assert_eq!(compiles(driver.log()), 0, "each finds the other's");
    let of_b = hosts[1].live();
    assert_eq!(a.release().unwrap().shaders, 10);
    assert_eq!(
        (hosts[0].live(), hosts[1].live()),
        (0, of_b),
        "each was made, and went, with its owner's callbacks"
    );
    (0..20).for_each(|number| drop(kernel(&b, number)));
    assert_eq!(
        compiles(driver.log()),
        10,
        "B's stay; A's are compiled anew, once"
    );
    assert_eq!(b.release().unwrap().shaders, 20);
    assert_eq!((hosts[1].live(), driver.live()), (0, 0));
}

#[test]
fn hw25_two_drivers_know_nothing_of_one_another() {
    let (memory, drivers) = (
        SceneMemory::new(),
        [LifecycleDriver::new(), LifecycleDriver::new()],
    );
    let home = memory.home();
    // The fake panics at a handle that is not its own, and each numbers its objects from the same start: a call that crossed would find one.
    let contexts = drivers
        .each_ref()
        .map(|driver| acquire(&home, &memory, driver));
    let [first, second]: [CacheDevice; 2] = contexts
        .each_ref()
        .map(|context| context.shaders().device());
    assert_ne!(first, second);
    for number in 0..10 {
        let regions = contexts.each_ref().map(|context| {
            drop(kernel(context, number));
            buffer(context)
        });
        for (context, region) in contexts.iter().zip(regions) {
            context.allocator().free(region).unwrap();
        }
    }
    let logs = drivers.each_ref().map(|driver| driver.log());
    assert!(logs[0] == logs[1] && logs[0].len() > 60, "{logs:?}");
    let [a, b] = contexts;
    a.release().unwrap();
    assert_eq!(drivers[0].live(), 0);
    // One that was released takes nothing from the other.
    drop(kernel(&b, 99));
    assert_eq!(
        (drivers[0].log().pop(), drivers[1].live_of("VkShaderModule")),
        (Some("vkDestroyPipelineCache"), 11)
    );
    b.release().unwrap();
}

#[test]
fn hw26_a_kernel_that_outlives_its_context_goes_with_the_callbacks_it_was_made_with() {
    let host = SceneHost::new();
    application!(memory, driver, home);
    let context = try_acquire(&home, info(&memory, &driver, Some(&host))).unwrap();
    let held = kernel(&context, 1).into_work_ref();
    assert_eq!(context.release_forced().released.held, 1);
    assert!(host.live() > 0);
    thread::spawn(move || drop(held)).join().unwrap();
    assert_eq!((host.live(), driver.live(), memory.bytes()[1]), (0, 0, 0));
}
