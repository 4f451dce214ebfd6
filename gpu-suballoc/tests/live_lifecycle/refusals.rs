//! A cycle of a context on a real driver, each of whose requests of ours is refused once: everything is as it was, and
//! the next try succeeds.

use crate::*;

use crate::counting;
use crate::cycles::{Test, info, try_kernel};
use crate::live::{Live, live_blocks};

pub const TESTS: &[Test] = &[("h9_hw27_every_refusal_of_our_memory_leaves_everything_as_it_was", swept)];

/// An application's memory, over a witness.
pub struct RefusingApplication {
    shared: Context,
    memory: Context,
    root: Context,
    blocks: i64,
}

impl RefusingApplication {
    /// # Safety
    /// The host outlives it.
    pub unsafe fn on(live: &Live, host: &(impl HostAllocator + Sync)) -> Self {
        counting::forward_to(live.entry.static_fn().get_instance_proc_addr);
        // SAFETY: the host outlives the context.
        let root = unsafe { Context::root(host, ContextOptions::new("application")) }.unwrap();
        let [shared, memory] = ["shared", "contexts"].map(|name| root.child(name).unwrap());
        Self { shared, memory, root, blocks: live_blocks() }
    }

    pub fn home(&self) -> AshContexts {
        AshContexts::new(self.shared.handle(), CacheLimits::NONE).unwrap()
    }

    fn info<'a>(&self, live: &Live) -> AshContextInfo<'a> {
        info(live, &self.memory, counting::get_instance_proc_addr)
    }

    /// All that contexts had was given back.
    pub fn assert_nothing_is_left(&self, when: &str) {
        assert!(counting::live().iter().all(|(_, live)| *live == 0), "{when}: {:?}", counting::live());
        assert_eq!((self.memory.usage().total().live_bytes, counting::device_bytes()), (0, 0), "{when}");
    }

    fn end(self) {
        self.assert_nothing_is_left("at the end");
        assert_eq!(
            (live_blocks(), self.shared.usage().total().live_bytes),
            (self.blocks, 0),
            "the driver's blocks, and the home's"
        );
        drop((self.shared, self.memory));
        self.root.close_root().unwrap();
    }
}

/// Acquire, compile, take, give, release.
pub fn cycle(live: &Live, application: &RefusingApplication, home: &AshContexts) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    // SAFETY: the handles are live, and the device outlives the context.
    let context = unsafe { home.acquire_ash(application.info(live)) }.map_err(|error| told(&error))?;
    for number in 0..2 {
        drop(try_kernel(&context, number).map_err(|error| told(&error))?);
    }
    let info = BufferInfo::new(4000, BufferUsage::STORAGE_BUFFER);
    let region = context.allocator().create_buffer(&info, &RegionOptions::new().name("a buffer"));
    let region = region.map_err(|error| told(&error))?;
    let crop = context.allocator().crop(&region, 0, 64, 4);
    let cropped = crop.map_err(|error| told(&error)).map(|crop| context.allocator().free(crop).unwrap());
    context.allocator().free(region).unwrap();
    cropped?;
    assert_eq!(context.release().unwrap().shaders, 2);
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
    assert!(failed >= 15, "{failed} of {nth} requests were refused with an error");
}
