//! The live checker, with reports of all that the fake program does. `steward/tests/it/guard_matrix` runs it over a
//! guard.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use fake_driver::{Call, FakeKind, PassedCallbacks};
use vk_callbacks::check::{CheckedOwner, HandedOut};
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{Checker, OwnerId};

use super::stage::Watch;

pub(crate) struct Checking<'c> {
    checker: &'c Checker<'static>,
    handed: Mutex<BTreeMap<FakeKind, Handed<'c>>>,
}

struct Handed<'c>(HandedOut<'c>);

// SAFETY: made, spoilt and read by the program's one thread.
unsafe impl Send for Handed<'_> {}

impl<'c> Checking<'c> {
    pub(crate) fn new(checker: &'c Checker<'static>) -> Self {
        Self { checker, handed: Mutex::default() }
    }
}

impl Watch for Checking<'_> {
    fn around(&self, inner: RawCallbacks, owner: OwnerId, kind: FakeKind) -> PassedCallbacks {
        // SAFETY: the heap behind `inner` outlives the checker.
        let Ok(checked) = (unsafe { self.checker.wrap(inner, CheckedOwner::new(owner, kind.name())) }) else {
            return PassedCallbacks::NONE;
        };
        let handed = self.checker.hand_out(&checked).expect("memory of the system");
        // SAFETY: the struct lies in the checker's memory, the functions are the checker's: both outlive the run.
        let given = unsafe { PassedCallbacks::new(handed.as_ptr(), owner) };
        self.handed.lock().unwrap_or_else(PoisonError::into_inner).insert(kind, Handed(handed));
        given
    }

    fn command(&self, call: &Call, body: &mut dyn FnMut() -> i32) {
        self.checker.run(call.bracket(), |frame| frame.returned(body()));
    }

    fn created(&self, kind: FakeKind, handle: u64, by: Option<OwnerId>) {
        self.checker.created(kind.name(), handle, by);
    }

    fn destroyed(&self, kind: FakeKind, handle: u64, by: Option<OwnerId>, command: &'static str) {
        self.checker.destroyed(kind.name(), handle, by, command);
    }

    fn spoil(&self, kind: FakeKind) {
        if let Some(Handed(handed)) = self.handed.lock().unwrap_or_else(PoisonError::into_inner).get(&kind) {
            // SAFETY: the program spoils it when the command that was given it has returned.
            unsafe { handed.poison() };
        }
    }
}
