//! Where the fake application stands between its program and the driver: brackets, callbacks, threads.

use super::host::PassedCallbacks;
use super::kind::FakeKind;
use crate::command::{BracketCoverage, Command, OwnerId, Owners};

/// A command about to be called.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its name.
    pub name: &'static str,
    /// Whose callbacks it may reach.
    pub owners: Owners,
}

impl Call {
    /// The bracket for it: every command of the fake program has one.
    #[must_use]
    pub const fn bracket(&self) -> Command {
        Command::new(self.name, self.owners, BracketCoverage::Complete)
    }
}

/// What a test puts between the fake program and the fake driver.
///
/// Each call has a default: no callbacks, plain brackets, no other thread.
pub trait Dispatch: Sync {
    /// The callbacks that objects of this kind are given.
    fn allocator(&self, kind: FakeKind) -> PassedCallbacks;

    /// Runs a command; `body` answers its `VkResult`.
    fn command(&self, call: &Call, body: &mut dyn FnMut() -> i32) {
        call.bracket().run(|_| body());
    }

    /// An object was made: `vkCreate*` has returned.
    fn created(&self, kind: FakeKind, handle: u64, by: Option<OwnerId>) {
        let _ = (kind, handle, by);
    }

    /// An object is gone: the named command has returned.
    fn destroyed(&self, kind: FakeKind, handle: u64, by: Option<OwnerId>, command: &'static str) {
        let _ = (kind, handle, by, command);
    }

    /// Runs `here` on this thread, and meanwhile `there` on one that is in no command; returns when both have.
    fn alongside(&self, here: &mut dyn FnMut(), there: &(dyn Fn() + Sync)) {
        here();
        there();
    }

    /// The struct that objects of this kind were given last is no more, as far as the application is concerned (V6).
    fn spoil(&self, kind: FakeKind) {
        let _ = kind;
    }

    /// Waits until the application's allocator is in the midst of a reallocation, on another thread
    /// ([`Interruption::run_concurrent_free`](super::faulty::Interruption::run_concurrent_free)).
    fn meet(&self) {}

    /// Lets that allocator go on.
    fn part(&self) {}
}
