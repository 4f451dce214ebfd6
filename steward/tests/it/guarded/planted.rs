//! The fake driver with something planted in it, over the layers that the program puts between its accounts and the
//! system.

use std::collections::BTreeMap;

use alloc_core::{Context, ContextOptions};
use fake_driver::{Dispatch, FakeKind, FakeProgram, Harm, PassedCallbacks};
use testkit::Child;
use vk_callbacks::Bridge;
use vk_callbacks::raw::RawCallbacks;
use vk_report::guard_run::{GuardChoice, Guarding, Layers};
use vk_report::report::GuardRun;
use vk_steward::symbols::Symbols;

/// The application: a bridge for each kind of object, over a context of that name.
struct Application {
    bridges: BTreeMap<FakeKind, (Bridge, RawCallbacks)>,
}

impl Application {
    fn new(root: &Context) -> Self {
        let bridge = |kind: FakeKind| {
            let bridge = Bridge::new(root.child(kind.name()).expect("memory")).expect("an unused context");
            let raw = bridge.raw();
            (kind, (bridge, raw))
        };
        Self { bridges: FakeKind::WITH_CALLBACKS.map(bridge).into() }
    }
}

impl Dispatch for Application {
    fn allocator(&self, kind: FakeKind) -> PassedCallbacks {
        // SAFETY: bridges and structs stay where they are until the program has returned.
        self.bridges
            .get(&kind)
            .map_or(PassedCallbacks::NONE, |(bridge, raw)| unsafe { PassedCallbacks::new(raw, bridge.owner()) })
    }
}

/// The test that runs as a child with [`VARIABLE`] set.
pub(super) const PLANTED: &str = "gv24_what_is_planted_is_named_with_owner_scope_command_and_stacks";
const VARIABLE: &str = "STEWARD_PLANTED";
/// Stands before the line with what the guard saw.
const MARK: &str = "guard run: ";

/// What a guard of this mode sees of `harm`, in a process of its own, which must live on.
pub(super) fn planted(mode: &str, harm: Harm) -> GuardRun {
    let done = Child::this_test(PLANTED).env(VARIABLE, format!("{mode} {harm:?}")).run();
    done.assert_code(0);
    let line = done.stdout.lines().find_map(|line| line.split_once(MARK)).unwrap_or_else(|| panic!("{done}")).1;
    let guard: GuardRun = serde_json::from_str(line).expect("own line");
    assert!(guard.callback_blocks > 50 && guard.own_blocks > 10, "{guard}");
    // What was reported was shown at once as well.
    assert_eq!(done.stderr.matches("debug-guard: ").count() as u64, guard.reports, "{done}");
    guard
}

/// The child's side: runs the fake program as it is told, and prints what the guard saw.
pub(super) fn run_planted() {
    let told = std::env::var(VARIABLE).expect("what to plant");
    let (mode, harm) = told.split_once(' ').expect("two words");
    let harm = Harm::ALL.iter().find(|one| format!("{one:?}") == harm).expect("a harm");
    let guard: GuardChoice = mode.parse().expect("a mode");
    let guarding = Guarding { guard: Some(guard), ..Guarding::default() };
    let layers = Layers::new(&guarding, None, true).expect("a guard");
    // SAFETY: closed below, before the layers go.
    let root = unsafe { Context::root(&layers, ContextOptions::new("application")) }.expect("memory");
    let application = Application::new(&root);
    let program = FakeProgram { defect: None, rounds: 1, habits: false };
    // SAFETY: every block is guarded, and what is written where it may not be harms nothing that anybody reads.
    unsafe { program.run_harming(&application, *harm) }.expect("nothing is refused");
    let mut seen = layers.guard_run().expect("there is a guard");
    Symbols::default().annotate_run(&mut seen);
    drop(application);
    root.close_root().expect("nothing is left");
    println!("{MARK}{}", serde_json::to_string(&seen).expect("JSON"));
}
