//! A guard and planned failures apply to the callbacks that replace NULL. The layer's own records come from [`SYSTEM`]
//! directly.

use std::fs::File;
use std::path::Path;

use alloc_core::{Context, ContextOptions, HostAllocator};
use vk_report::files;
use vk_report::guard_run::{Guarding, Layers};
use vk_report::report::{FailRun, GuardRun};

use crate::file_name::write_named;
use crate::in_process::observation;
use crate::leaks::{TRACKED, TrackedMemory, leaks};
use crate::peak::{PeakCount, PeakMemory};
use crate::per_process::PerProcess;
use crate::record::{SYSTEM, new_static};
use crate::settings::{complain, settings};

pub(crate) struct Root {
    pub(crate) context: Context,
    pub(crate) count: &'static PeakCount,
}

pub(crate) fn root(guarding: &Guarding) -> Option<Root> {
    match (layers(guarding), leaks().is_some()) {
        (None, false) => root_over(&SYSTEM),
        (None, true) => root_over(&TRACKED),
        (Some(layers), false) => root_over(layers),
        (Some(layers), true) => root_over(new_static(TrackedMemory(layers))?),
    }
}

fn root_over<B: HostAllocator + Sync>(memory: &'static B) -> Option<Root> {
    let counted = new_static(PeakMemory::new(memory))?;
    let context = Context::root_static(counted, ContextOptions::new("steward")).ok()?;
    Some(Root { context, count: &counted.count })
}

static LAYERS: PerProcess<Layers> = PerProcess::new();

pub(crate) fn after_fork() {
    LAYERS.forget();
}

fn layers(guarding: &Guarding) -> Option<&'static Layers> {
    if !guarding.is_asked_for() {
        return None;
    }
    LAYERS.get_or_make(|| {
        // A program that has the layer linked is started for its refusals.
        let first_only = observation().is_none();
        let layers = Layers::new(guarding, refusal_file(), first_only);
        layers.map_err(|error| complain(format_args!("nothing is guarded or refused: {error}"))).ok()
    })
}

fn refusal_file() -> Option<File> {
    let pattern = settings().refusals.as_ref()?;
    write_named("file of refusals", pattern, |name| files::append(Path::new(name)))
}

pub(crate) fn layers_of_process() -> Option<&'static Layers> {
    LAYERS.get()
}

pub(crate) fn faults() -> Option<&'static Layers> {
    LAYERS.get().filter(|_| settings().guarding.fail.is_some())
}

pub(crate) fn results() -> (Option<GuardRun>, Option<FailRun>) {
    let Some(layers) = LAYERS.get() else {
        return (None, None);
    };
    (layers.guard_run(), layers.fail_run(None))
}
