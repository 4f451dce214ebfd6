//! Blocks and pools over a real driver: the first device that the loader shows. A process of its own.
#![cfg_attr(
    not(feature = "ash"),
    allow(unused, reason = "there is nothing to test")
)]

#[cfg(feature = "ash")]
#[allow(dead_code, unused_imports, reason = "each test binary uses its part")]
mod live;
#[cfg(feature = "ash")]
#[path = "it/pools_of/mod.rs"]
mod pools_of;

/// What lavapipe gives no chance to show: one coherent memory type in one heap, neither budget nor priority.
const LAVAPIPE: [&str; 4] = ["budget", "non-coherent", "priority", "type fall-through"];

#[cfg(feature = "ash")]
mod machine {
    use gpu_suballoc::device::BufferHandle;
    use gpu_suballoc::{AshDevice, DeviceMemory};

    use crate::live::Live;
    use crate::pools_of::Machine;

    pub(crate) struct Real<'l> {
        pub(crate) live: &'l Live,
        pub(crate) device: AshDevice,
    }

    impl Machine for Real<'_> {
        fn device(&self) -> &dyn DeviceMemory {
            &self.device
        }
        fn copy(&self, copies: &[(BufferHandle, u64, BufferHandle, u64, u64)]) {
            self.live.copy(copies);
        }
    }
}

fn main() {
    #[cfg(feature = "ash")]
    {
        use gpu_suballoc::ash::AshOptions;

        let ran = live::run(pools_of::CASES, |case, live| {
            let options = AshOptions {
                callbacks: Some(live::CALLBACKS),
                ..live.options
            };
            let unseen = case(&machine::Real {
                live,
                device: live.ash(options),
            });
            assert_eq!(live::live_blocks(), 0, "the driver holds host memory");
            (live.driver.clone(), live.is_lavapipe(), unseen)
        });
        let Some((driver, is_lavapipe, _)) = ran.first() else {
            return;
        };
        let mut unseen: Vec<&str> = ran
            .iter()
            .flat_map(|(.., unseen)| unseen.iter().copied())
            .collect();
        unseen.sort_unstable();
        println!(
            "{driver} cannot exercise: {}",
            if unseen.is_empty() {
                "nothing".into()
            } else {
                unseen.join(", ")
            }
        );
        if *is_lavapipe && ran.len() == pools_of::CASES.len() {
            assert_eq!(unseen, LAVAPIPE);
            assert!(live::taken_blocks() > 0, "lavapipe asks the callbacks");
        }
    }
}
