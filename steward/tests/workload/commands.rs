//! Commands and phases of a plain program, as whoever stands below it sees them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ash::vk;
use vk_steward::drivers::OpenDriver;
use vk_steward::workload::{self, Moment, Options};

use super::Outcome;
use super::driver_shim::{Watcher, shimmed, watched};

/// Different in every run, so that a result cannot be right by habit.
pub(crate) fn seed() -> u32 {
    let nanoseconds =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |time| time.subsec_nanos());
    nanoseconds ^ std::process::id()
}

/// Counts each command, and insists that none has callbacks.
#[derive(Default)]
pub(crate) struct Counting(RefCell<BTreeMap<&'static str, u32>>);

impl Watcher for Counting {
    fn callbacks(
        &self,
        kind: &'static str,
        given: Option<&vk::AllocationCallbacks<'_>>,
    ) -> *const vk::AllocationCallbacks<'_> {
        assert!(given.is_none(), "{kind} has callbacks");
        std::ptr::null()
    }

    fn command(&self, name: &'static str, call: &mut dyn FnMut()) {
        call();
        *self.0.borrow_mut().entry(name).or_default() += 1;
    }
}

impl Counting {
    /// Each object that was created is destroyed.
    pub(crate) fn assert_all_destroyed(self) {
        let commands = self.0.take();
        let count = |name: &str| commands.get(name).copied().unwrap_or_default();
        let mut kinds = 0;
        for (name, created) in &commands {
            let (name, created) = match *name {
                // Both of one command are destroyed one by one.
                "vkCreateComputePipelines" => continue,
                "vkCreateGraphicsPipelines" => ("Pipeline", created + 2 * count("vkCreateComputePipelines")),
                "vkAllocateMemory" => {
                    assert_eq!(count("vkFreeMemory"), *created);
                    continue;
                }
                "vkAllocateCommandBuffers" | "vkAllocateDescriptorSets" => {
                    assert_eq!(count(&name.replace("Allocate", "Free")), *created, "{name}");
                    continue;
                }
                name => match name.strip_prefix("vkCreate") {
                    Some(object) => (object, *created),
                    None => continue,
                },
            };
            assert_eq!(count(&format!("vkDestroy{name}")), created, "{name}");
            kinds += 1;
        }
        assert!(kinds >= 20, "{commands:?}");
    }
}

/// Also without callbacks, with whose absence no create and destroy command can differ (V43).
pub(crate) fn v43_v44_each_object_that_is_created_is_destroyed(driver: &OpenDriver) -> Outcome {
    let counting = Counting::default();
    let options = Options { seed: seed(), rounds: 2, ..Options::default() };
    let ran = watched(&counting, || workload::run(&shimmed(driver), &options, &|_| {}));
    ran.unwrap_or_else(|error| panic!("seed {}: {error}", options.seed));
    counting.assert_all_destroyed();
    Ok(())
}

/// The phases of a run, and its outcome.
pub(crate) fn phases(
    driver: &OpenDriver,
    options: &Options,
) -> (Vec<&'static str>, Result<workload::Report, workload::WorkloadError>) {
    let phases = RefCell::default();
    let ran = workload::run(driver, options, &|moment| {
        if let Moment::PhaseBegins(name) = moment {
            Vec::push(&mut *phases.borrow_mut(), name);
        }
    });
    (phases.into_inner(), ran)
}

pub(crate) fn phases_come_in_their_order(driver: &OpenDriver) -> Outcome {
    let round = ["resources", "sub-allocation", "pipelines", "recording", "submit", "teardown"];
    let of = |rounds| {
        let options = Options { seed: seed(), rounds, ..Options::default() };
        let (phases, ran) = phases(driver, &options);
        assert!(ran.is_ok(), "{ran:?}");
        phases
    };
    assert_eq!(of(2), [&["instance", "device"][..], &round, &round, &["defragmentation", "shutdown"]].concat());
    assert_eq!(of(0), ["instance", "device", "shutdown"]);
    Ok(())
}
