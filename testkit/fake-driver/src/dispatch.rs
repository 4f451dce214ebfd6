//! The layer between the fake program and the driver: brackets, callbacks, threads.

use crate::host::PassedCallbacks;
use crate::kind::FakeKind;
use vk_callbacks::command::{BracketCoverage, Command, OwnerId, Owners};

/// A command to be called.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its name.
    pub name: &'static str,
    /// The owners of the callbacks that it may call.
    pub owners: Owners,
}

impl Call {
    /// Its bracket: every command of the fake program has one.
    #[must_use]
    pub const fn bracket(&self) -> Command {
        Command::new(self.name, self.owners, BracketCoverage::Complete)
    }
}

/// A test's layer between the fake program and the fake driver.
///
/// Defaults: plain brackets, no other thread.
pub trait Dispatch: Sync {
    /// The callbacks for objects of this kind.
    fn allocator(&self, kind: FakeKind) -> PassedCallbacks;

    /// Runs a command; `body` returns its `VkResult`.
    fn command(&self, call: &Call, body: &mut dyn FnMut() -> i32) {
        call.bracket().run(|_| body());
    }

    /// An object was created: `vkCreate*` has returned.
    fn created(&self, kind: FakeKind, handle: u64, by: Option<OwnerId>) {
        let _ = (kind, handle, by);
    }

    /// An object was destroyed: the named command has returned.
    fn destroyed(&self, kind: FakeKind, handle: u64, by: Option<OwnerId>, command: &'static str) {
        let _ = (kind, handle, by, command);
    }

    /// Runs `here` on this thread, and meanwhile `there` on a thread without a command; returns after both.
    fn alongside(&self, here: &mut dyn FnMut(), there: &(dyn Fn() + Sync)) {
        here();
        there();
    }

    /// The application has freed the last struct for objects of this kind (V6).
    fn spoil(&self, kind: FakeKind) {
        let _ = kind;
    }

    /// Waits until the application's allocator is inside a reallocation, on another thread
    /// ([`Interruption::run_concurrent_free`](super::faulty::Interruption::run_concurrent_free)).
    fn meet(&self) {}

    /// Lets that allocator continue.
    fn part(&self) {}
}
