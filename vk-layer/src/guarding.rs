//! A guard, and requests that are refused on purpose, between the accounts and the system's allocator: the program's own (`vk_accounts`).
//!
//! Both stand below the callbacks that replace NULL. The layer's own records come from [`SYSTEM`], past them, and
//! callbacks of the program never come here.

use alloc_core::{Context, ContextOptions};
use vk_accounts::guard_run::{Guarding, Layers};
use vk_accounts::report::{FailRun, GuardRun};

use crate::accounts::PEAK_ONLY;
use crate::leaks::{TRACKED, TrackedMemory, leaks};
use crate::per_process::PerProcess;
use crate::record::{SYSTEM, new_record};
use crate::settings::{complain, settings};

/// The root of all accounts: over the layers that were asked for, which are made with the first instance, or over the system alone; and
/// above those what stacks need.
pub(crate) fn root(guarding: &Guarding) -> Option<Context> {
    let options = ContextOptions::new("steward").budget(PEAK_ONLY);
    let root = match (layers(guarding), leaks().is_some()) {
        (None, false) => Context::root_static(&SYSTEM, options),
        (None, true) => Context::root_static(&TRACKED, options),
        (Some(layers), false) => Context::root_static(layers, options),
        (Some(layers), true) => {
            let tracked = new_record(TrackedMemory(layers))?;
            // SAFETY: just allocated, and never freed.
            Context::root_static(unsafe { tracked.as_ref() }, options)
        }
    };
    root.ok()
}

static LAYERS: PerProcess<Layers> = PerProcess::new();

/// In the child of a fork: what was guarded is the parent's.
pub(crate) fn after_fork() {
    LAYERS.forget();
}

fn layers(guarding: &Guarding) -> Option<&'static Layers> {
    if !guarding.is_asked_for() {
        return None;
    }
    LAYERS.get_or_make(|| {
        let layers = Layers::new(guarding);
        layers
            .map_err(|error| complain(format_args!("nothing is guarded or refused: {error}")))
            .ok()
    })
}

/// What refuses requests on purpose; none where no plan was asked for, or before the first instance.
pub(crate) fn faults() -> Option<&'static Layers> {
    LAYERS.get().filter(|_| settings().guarding.fail.is_some())
}

/// What was guarded and what was refused until now; none where nothing was asked for, or before the first instance.
pub(crate) fn results() -> (Option<GuardRun>, Option<FailRun>) {
    let Some(layers) = LAYERS.get() else {
        return (None, None);
    };
    (layers.guard_run(), layers.fail_run(None))
}
