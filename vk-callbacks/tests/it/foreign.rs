//! Memory that a driver maps for code: from its context's account, through the notifications, into the application's account.

use alloc_core::{Context, ContextOptions, Foreign, ForeignKind, NoticeEvent, Scope};
use testkit::RecordingAllocator;
use vk_callbacks::{Bridge, CallbackAllocator};

#[test]
fn v20_a_drivers_executable_memory_shows_in_the_applications_account_and_nothing_else_does() {
    let witness = RecordingAllocator::system();
    // SAFETY: closed below, before the witness goes.
    let application =
        unsafe { Context::root(&witness, ContextOptions::new("application")) }.expect("memory");
    let vulkan = application.child("vulkan device").expect("memory");
    let account = vulkan.handle();
    let bridge = Bridge::new(vulkan).expect("fresh");
    {
        // SAFETY: the bridge outlives the driver.
        let p_allocator = unsafe { CallbackAllocator::from_raw(&bridge.raw()) }.expect("whole");
        // SAFETY: `p_allocator` outlives the root, which is closed below.
        let device = unsafe {
            Context::root(
                &p_allocator,
                ContextOptions::new("device").scope(Scope::Device),
            )
        }
        .expect("memory");
        let jit = device
            .child_with(ContextOptions::new("jit").scope(Scope::Object))
            .expect("memory");
        let routed = account.usage().total();

        let heap = Foreign::declare(&jit, ForeignKind::Heap, 100_000).expect("a statement");
        let mapping = Foreign::declare(&jit, ForeignKind::Mapping, 4096).expect("a statement");
        assert!(
            account.usage().foreign_total().is_empty(),
            "Vulkan has no words for these"
        );
        let mut code = Foreign::declare(&jit, ForeignKind::Executable, 8192).expect("a statement");
        code.set_bytes(12_288).expect("a statement");

        let seen = account.usage().foreign(ForeignKind::Executable);
        assert_eq!(
            (seen.live_bytes, seen.peak_bytes, seen.total_bytes),
            (12_288, 12_288, 20_480)
        );
        assert_eq!(
            account.usage().total(),
            routed,
            "none of it came through the callbacks"
        );
        assert_eq!(device.subtree_usage().foreign_total().live_bytes, 116_384);

        drop((heap, mapping, code));
        assert_eq!(account.usage().foreign_total().live_bytes, 0);
        drop(jit);
        device.close_root().expect("nothing is left");
    }
    assert_eq!(bridge.counters().faults(), 0);
    let (taken, given): (Vec<_>, Vec<_>) = witness
        .notices()
        .into_iter()
        .partition(|notice| notice.event == NoticeEvent::Allocated);
    assert_eq!(
        (taken.len(), given.len()),
        (2, 2),
        "and the application's own allocator has heard of it"
    );
    drop(account);
    drop(bridge.close().expect("nothing live"));
    application.close_root().expect("nothing is left");
    witness.assert_empty("after the root was closed");
}
