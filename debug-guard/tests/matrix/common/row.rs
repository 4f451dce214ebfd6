//! A row's case, run in a child for each configuration that the row speaks of.

use std::env;
use std::time::Duration;

use debug_guard::GuardOptions;
use testkit::{Child, Finished};

use super::config::{Config, On};
use super::lab::{Lab, note};
use super::names::anchor;
use super::seen::SeenByChild;

/// Tells the child which case it is, and under which configuration.
const CASE: &str = "STEWARD_CASE";
const CONFIG: &str = "STEWARD_CONFIG";

/// For machines that are busy with something else.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs `case` in a child for each configuration of `on` that the kernel offers, and lets `verdict` judge what was
/// seen.
///
/// `case` is a function within the test's own function: its path says which test the child has to run.
pub(crate) fn each<C: Fn(&Lab)>(on: On, case: C, verdict: impl Fn(&SeenByChild)) {
    each_with(on, |options| options, case, verdict);
}

/// As [`each`], with other options for the guard.
pub(crate) fn each_with<C: Fn(&Lab)>(
    on: On,
    options: impl Fn(GuardOptions) -> GuardOptions,
    case: C,
    verdict: impl Fn(&SeenByChild),
) {
    on.skip_the_rest(Place::of(&case).test);
    each_of(on.configs(), options, case, verdict);
}

/// As [`each_with`], under these configurations.
pub(crate) fn each_of<C: Fn(&Lab)>(
    configs: Vec<Config>,
    options: impl Fn(GuardOptions) -> GuardOptions,
    case: C,
    verdict: impl Fn(&SeenByChild),
) {
    let place = Place::of(&case);
    if is_child() {
        return place.run(|_, given| options(given), case);
    }
    assert!(!configs.is_empty(), "{} was run under nothing", place.test);
    for config in configs {
        verdict(&SeenByChild::new(place.path, config, place.child(config, |child| child)));
    }
}

/// True in a process that was started for one case, this or another one.
pub(crate) fn is_child() -> bool {
    env::var_os(CASE).is_some()
}

/// Where a case stands in this program.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// `module::test::case`.
    pub(crate) path: &'static str,
    /// `module::test`.
    test: &'static str,
}

impl Place {
    /// Of a function within a test's function.
    pub(crate) fn of<C: Fn(&Lab)>(_: &C) -> Self {
        let path = std::any::type_name::<C>();
        let (_, path) = path.split_once("::").expect("crate::module::test::case");
        let (test, _) = path.rsplit_once("::").expect("module::test::case");
        Self { path, test }
    }

    /// Starts a child for the case.
    pub(crate) fn child(self, config: Config, more: impl FnOnce(Child) -> Child) -> Finished {
        more(Child::this_test(self.test).limit(LIMIT).env(CASE, self.path).env(CONFIG, config.name())).run()
    }

    /// In a child: runs the case if it is meant, and ends the process.
    pub(crate) fn run(self, options: impl Fn(Config, GuardOptions) -> GuardOptions, case: impl Fn(&Lab)) {
        if env::var_os(CASE).is_none_or(|wanted| wanted != self.path) {
            return;
        }
        let config =
            env::var(CONFIG).ok().and_then(|name| Config::named(&name)).expect("a configuration that the parent named");
        note("anchor", anchor());
        let lab = Lab::new(config, options(config, Lab::options(config)));
        case(&lab);
        lab.note_stats();
        note("done", 1);
        // SAFETY: C's own end: Rust's passes over what the C runtime of Windows has to run.
        unsafe { libc::exit(0) }
    }
}
