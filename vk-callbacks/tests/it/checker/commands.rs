//! What is judged when a command returns, and what of it hangs on a single detail.

use super::*;

#[test]
fn v44_a_handle_of_0_is_none() {
    let bench = Bench::new(&SYSTEM);
    bench.checker.created("VkBuffer", 0, Some(bench.owner));
    bench.checker.destroyed("VkBuffer", 0, Some(bench.owner), "vkDestroyBuffer");
    assert_eq!(kinds(&bench.checker), []);
    bench.checker.destroyed("VkBuffer", 1, Some(bench.owner), "vkDestroyBuffer");
    assert_eq!(kinds(&bench.checker), [FindingKind::UnknownHandle]);
}

#[test]
fn v28_a_late_free_of_another_commands_block_hides_no_block_of_this_one() {
    let bench = Bench::new(&SYSTEM);
    let first = bench.run("vkCreateBuffer", || bench.driver.alloc(8, 8, Scope::Command));
    bench.run("vkDestroyBuffer", || {
        bench.driver.alloc(8, 8, Scope::Command);
        bench.driver.free(first);
    });
    let left = found(&bench.checker, |found| (found.kind, found.command, found.count, found.freed_later));
    let kind = FindingKind::CommandBlockLeft;
    assert_eq!(left, [(kind, "vkCreateBuffer", 1, 1), (kind, "vkDestroyBuffer", 1, 0)]);
}

#[test]
fn v31_v32_a_command_of_the_instance_has_no_device_whatever_it_was_told() {
    let (checker, app) = (checker(&SYSTEM), App::default());
    let (device, instance) = (OwnerId::fresh(), OwnerId::fresh());
    let wrapped = |id, kind| drive(&checker, app.callbacks(), id, kind, 0);
    let (of_device, of_instance) = (wrapped(device, "VkDevice"), wrapped(instance, "VkInstance"));
    let owners = Owners { device: Some(device), instance: Some(instance), ..Owners::default() };
    let of = |name, driver: &Driver| {
        let command = Command::new(name, owners, BracketCoverage::Complete);
        checker.run(command, |_| driver.free(driver.alloc(8, 8, Scope::Command)));
    };
    of("vkEnumeratePhysicalDevices", &of_instance);
    of("vkDeviceWaitIdle", &of_device);
    assert_eq!(kinds(&checker), [], "the first there is");
    of("vkDeviceWaitIdle", &of_instance);
    assert_eq!(kinds(&checker), [FindingKind::CommandLessSpecific]);
    of("vkEnumeratePhysicalDevices", &of_device);
    assert_eq!(kinds(&checker), [FindingKind::OutsideChain, FindingKind::CommandLessSpecific]);
}

/// V5 is about the user data of the running command's struct, V40 about an object whose command does not run.
#[test]
fn v40_an_objects_allocator_is_asked_for_it_by_the_command_that_creates_it() {
    let checker = checker(&SYSTEM);
    let app = [App::default(), App::default(), App::default()];
    let ids = [OwnerId::fresh(), OwnerId::fresh(), OwnerId::fresh()];
    let [device, swapchain, other] = [(0, "VkDevice"), (1, "VkSwapchainKHR"), (2, "VkSwapchainKHR")]
        .map(|(at, kind)| drive(&checker, app[at].callbacks(), ids[at], kind, 0));
    let of = |name, object: Option<OwnerId>, driver: &Driver, scope| {
        let owners = Owners { object, device: Some(ids[0]), ..Owners::default() };
        let command = Command::new(name, owners, BracketCoverage::Complete);
        checker.run(command, |_| driver.free(driver.alloc(8, 8, scope)));
        let found = found(&checker, |found| {
            let of_it = found.command == name && found.scope == Some(scope);
            let told = of_it && found.kind != FindingKind::FreedInOtherCommand;
            told.then(|| (found.kind, found.to_string()))
        });
        found.into_iter().flatten().next()
    };
    use FindingKind::{ObjectOutsideCreate, OutsideChain};
    let kind = |found: Option<(FindingKind, String)>| found.map(|(kind, _)| kind);
    // Queries, presents, and commands that create, fill or destroy other objects, with an object of their own or
    // without.
    for (name, object) in [
        ("vkQueuePresentKHR", None),
        ("vkQueueSubmit", None),
        ("vkDeviceWaitIdle", None),
        ("vkCreateImage", None),
        ("vkDestroyFence", Some(ids[2])),
        ("vkDestroySwapchainKHR", Some(ids[2])),
    ] {
        let found = of(name, object, &swapchain, Scope::Object);
        assert_eq!(kind(found), Some(ObjectOutsideCreate), "{name}");
    }
    let (_, said) = of("vkQueuePresentKHR", None, &swapchain, Scope::Object).expect("a finding");
    assert_eq!(
        said,
        "V40: the implementation asked VkSwapchainKHR's allocator for 8 B each (scope OBJECT) in vkQueuePresentKHR, \
         which makes no VkSwapchainKHR; 2 times"
    );
    // The command of another object of the kind got that one's, and memory of the command is no object's.
    let create = "vkCreateSwapchainKHR";
    for (object, scope) in [(ids[1], Scope::Object), (ids[1], Scope::Command)] {
        let found = of(create, Some(object), &other, scope);
        assert_eq!(kind(found), Some(OutsideChain), "{scope}");
    }
    let found = of("vkQueuePresentKHR", None, &swapchain, Scope::Command);
    assert_eq!(kind(found), Some(OutsideChain));
    assert_eq!(of("vkCreateSemaphore", None, &device, Scope::Object), None, "right");
}
