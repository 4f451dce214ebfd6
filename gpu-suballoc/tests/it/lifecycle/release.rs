//! Releasing through ash: H10, H14 to H17, H31. H11, H12, H28, H30 are in `lifecycle_model`.

use super::*;

#[test]
fn h10_releasing_nothing_is_no_error() {
    let memory = SceneMemory::new();
    let nothing = VulkanHandles { instance: 0, physical_device: 0, device: 0 };
    assert_eq!(memory.table().release(None, nothing), Ok(None), "whatever the handles");
}

#[test]
fn h14_h17_modules_then_buffers_then_memory_and_nothing_of_the_applications() {
    application!(memory, driver, home, context);
    drop(kernel(&context, 1));
    let region = buffer(&context);
    // A kept buffer goes with the allocator.
    context.allocator().release(region).unwrap();
    driver.log();
    let released = context.release().unwrap();
    assert_eq!((released.shaders, released.held, released.device_lost), (1, 0, false));
    let log = driver.log();
    let at = |name: &str| log.iter().position(|there| *there == name).unwrap_or_else(|| panic!("no {name} in {log:?}"));
    let last = |name: &str| log.iter().rposition(|there| *there == name).unwrap();
    assert!(last("vkDestroyShaderModule") < at("vkFreeMemory"), "{log:?}");
    assert!(
        last("vkDestroyBuffer") < at("vkFreeMemory") && last("vkFreeMemory") < at("vkDestroyPipelineCache"),
        "{log:?}"
    );
    // It would panic: the application's own commands are there, and none was called; nor was anything waited for.
    assert!(log.iter().all(|name| name.starts_with("vkDestroy") || *name == "vkFreeMemory"), "{log:?}");
    assert_eq!(driver.live(), 0);
}

#[test]
fn h15_a_device_that_is_gone_is_not_called_any_more() {
    let host = SceneHost::new();
    application!(memory, driver, home);
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
    assert_eq!(try_buffer(second).unwrap_err(), GpuError::Device(DeviceLost));
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
    application!(memory, driver, home, context);
    let regions = times(20, || buffer(&context));
    let crop = context.allocator().crop(&regions[7], 0, 16, 4).unwrap();
    drop(kernel(&context, 1));
    let held = kernel(&context, 2).into_work_ref();
    let refused = context.release().unwrap_err();
    let owned = regions.iter().map(|region| ReleaseBlocker::Region(region.id(), Ownership::Owned));
    let others = [ReleaseBlocker::Region(crop.id(), Ownership::CropAlias), ReleaseBlocker::Shader(held.key())];
    assert!(refused.value.release_blockers().eq(owned.chain(others)));
    let said = "20 regions, 1 crop and 1 shader of the context are in use: free them, or release the context by force";
    assert_eq!(refused.to_string(), said);
    // It works as before.
    let context = refused.value;
    let mut log = driver.log();
    drop(kernel(&context, 1));
    assert!(driver.log().is_empty() && log.pop().is_some(), "nothing was taken out");
    context.allocator().free(crop).unwrap();
    regions.into_iter().for_each(|region| context.allocator().free(region).unwrap());
    let refused = context.release().unwrap_err();
    let said = "1 shader of the context is in use: free it, or release the context by force";
    assert_eq!(refused.to_string(), said);
    let context = refused.value;
    drop(held);
    assert_eq!(context.release().unwrap().shaders, 2);
}

#[test]
fn h1_h31_a_device_gets_contexts_again_and_again() {
    let host = SceneHost::new();
    application!(memory, driver, home);
    let cycle = || {
        let context = try_acquire(&home, info(&memory, &driver, Some(&host))).unwrap();
        (0..4).for_each(|number| drop(kernel(&context, number)));
        let region = buffer(&context);
        context.allocator().free(region).unwrap();
        assert_eq!(context.release().unwrap().shaders, 4);
        assert_eq!((driver.live(), host.live()), (0, 0));
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
