//! A guard, and requests that are refused on purpose, between the accounts and the system's allocator: the program's own (`vk_accounts`).
//!
//! Both stand below the callbacks that replace NULL. The layer's own records come from [`SYSTEM`], past them, and
//! callbacks of the program never come here.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;

use alloc_core::{Context, ContextOptions, HostAllocator};
use vk_accounts::guard_run::{Guarding, Layers};
use vk_accounts::report::{FailRun, GuardRun};

use crate::file_name::write_named;
use crate::leaks::{TRACKED, TrackedMemory, leaks};
use crate::peak::{PeakCount, PeakMemory};
use crate::per_process::PerProcess;
use crate::record::{SYSTEM, new_static};
use crate::settings::{complain, settings};

/// The root of all accounts, and what is live below it.
pub(crate) struct Root {
    pub(crate) context: Context,
    pub(crate) count: &'static PeakCount,
}

/// The root: over the layers that were asked for, which are made with the first instance, or over the system alone; and above those what
/// stacks need.
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
    Some(Root {
        context,
        count: &counted.count,
    })
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
        let layers = Layers::with_refusals_in(guarding, refusal_file());
        layers
            .map_err(|error| complain(format_args!("nothing is guarded or refused: {error}")))
            .ok()
    })
}

/// The file that the first refusals are added to, if the settings name one. No link is followed, and no folder made.
fn refusal_file() -> Option<File> {
    let pattern = settings().refusals.as_ref()?;
    write_named("file of refusals", pattern, |name| {
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(name)
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
