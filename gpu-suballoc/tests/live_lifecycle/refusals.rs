//! A cycle of a context on a real driver, and what must be left of it: nothing.

use crate::*;

use crate::counting;
use crate::cycles::{info, try_kernel};
use crate::live::Live;

/// An application's memory, over a witness.
pub struct RefusingApplication {
    shared: Context,
    memory: Context,
    _root: Context,
}

impl RefusingApplication {
    /// # Safety
    /// The host outlives it.
    pub unsafe fn on(live: &Live, host: &(impl HostAllocator + Sync)) -> Self {
        counting::forward_to(live.entry.static_fn().get_instance_proc_addr);
        // SAFETY: the host outlives the context.
        let root = unsafe { Context::root(host, ContextOptions::new("application")) }.unwrap();
        let [shared, memory] = ["shared", "contexts"].map(|name| root.child(name).unwrap());
        Self { shared, memory, _root: root }
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
