//! What devices, destructors and handlers call from within.

use super::*;

thread_local! {
    /// What destructors and handlers call from within.
    pub static AROUND: Cell<Option<&'static Around>> = const { Cell::new(None) };
}

/// How often devices, destructors and handlers called back.
pub static TIMES: AtomicU64 = AtomicU64::new(0);

/// What is called from within: the contexts that have a number, in turn, and their home. Nothing of it stays.
pub struct Around {
    pub table: &'static Table,
    pub home: &'static DeviceContexts<SubjectShader, ()>,
    pub ids: Mutex<Vec<DeviceContextId>>,
}

impl Around {
    pub fn call_back(&self) {
        // Locked while it is at it: its own calls do not come back to it.
        let Ok(ids) = self.ids.try_lock() else { return };
        TIMES.fetch_add(1, Relaxed);
        let stats = self.home.cache().stats();
        assert!(stats.bytes < 1 << 40 && stats.dead < 1 << 20, "{stats:?}");
        for id in ids.iter() {
            let used = self.table.with(*id, |own| {
                let gpu = own.allocator();
                let info = BufferInfo::new(700, BufferUsage::STORAGE_BUFFER);
                match gpu.create_buffer(&info, &RegionOptions::new()) {
                    Ok(region) => {
                        let crop = gpu.crop(&region, 0, 64, 4).map(|crop| gpu.free(crop).map_err(|back| back.error));
                        assert!(matches!(crop, Ok(Ok(())) | Err(GpuError::Host(_))), "{crop:?}");
                        gpu.free(region).map_err(|back| back.error).expect("nobody else has it");
                    }
                    Err(error) => drop(refused(error)),
                }
                assert!(
                    gpu.memory_map().is_ok_and(|picture| picture.leaks().all(|leak| leak.size() > 0))
                        || gpu.host_bytes() > 0
                );
                own.shaders().held_keys().for_each(|key| assert_eq!(key.device(), own.shaders().device()));
            });
            // It may be the one that is being released, or acquired.
            assert!(matches!(used, Ok(()) | Err(ContextError::InUse | ContextError::Released)), "{used:?}");
        }
    }
}
