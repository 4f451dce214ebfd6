//! Callback coverage, with the setting `meter`: bytes through callbacks, compared with the meter's counts of the heap.

use std::ffi::c_void;

use vk_callbacks::OwnerId;
use vk_callbacks::raw::RawCallbacks;
use vk_report::meter::{self, CallbackCoverage, CountingCallbacks, ThreadActivity, during};
use vk_report::report::Coverage;

use crate::accounts::{Accounts, all_accounts, checker};
use crate::count::get;
use crate::hooks::caught;
use crate::per_process::PerProcess;
use crate::record::new_static;
use crate::settings::settings;

static COVERAGE: PerProcess<CallbackCoverage> = PerProcess::new();

pub(crate) fn start() {
    if settings().meter {
        meter::this_thread_is_application();
        COVERAGE.get_or_make(CallbackCoverage::begin);
        if settings().check {
            meter::judge_frees(is_of_callbacks);
        }
    }
}

/// Judges `free` and `realloc` of the C library (LY52). Blocks of the program's own callbacks are not judged: they may
/// be the C library's.
extern "C" fn is_of_callbacks(block: *mut c_void) -> bool {
    caught(|| checker().is_some_and(|checker| checker.freed_elsewhere(block, is_ours))).unwrap_or(false)
}

fn is_ours(owner: OwnerId) -> bool {
    let mut kinds = all_accounts().flat_map(Accounts::known_kinds);
    kinds.any(|(_, kind)| kind.owner().is_some_and(|known| known.id() == owner))
}

pub(crate) fn after_fork() {
    COVERAGE.forget();
}

#[inline]
pub(crate) fn this_thread_issues_commands() {
    if COVERAGE.get().is_some() {
        meter::this_thread_is_application();
    }
}

#[inline]
pub(crate) fn in_command<R>(call: impl FnOnce() -> R) -> R {
    if COVERAGE.get().is_none() { call() } else { during(ThreadActivity::InCommand, call) }
}

/// The callbacks are never freed. `None` where there is no memory.
pub(crate) fn counted(callbacks: RawCallbacks) -> Option<RawCallbacks> {
    let Some(coverage) = COVERAGE.get() else {
        return Some(callbacks);
    };
    let counting = new_static(CountingCallbacks::new(callbacks, &coverage.requested))?;
    Some(counting.callbacks())
}

pub(crate) fn measured() -> Option<Coverage> {
    if !settings().meter {
        return None;
    }
    let kinds = all_accounts().flat_map(Accounts::known_kinds);
    let foreign_commands = kinds.map(|(_, kind)| get(&kind.foreign_commands)).sum();
    Some(CallbackCoverage::report(COVERAGE.get(), foreign_commands))
}
