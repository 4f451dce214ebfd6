//! The application's dispatch: callbacks for each kind of object, brackets, threads, and the watcher.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use fake_driver::{Call, Defect, Dispatch, FakeKind, FaultyAllocator, Interruption, PassedCallbacks};
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{OwnerId, Owners};

/// Two threads that meet in the midst of a reallocation, and a command to be called there.
#[derive(Default)]
pub(crate) struct Meeting {
    began: AtomicBool,
    freed: AtomicBool,
}

impl Meeting {
    fn wait(flag: &AtomicBool) {
        while !flag.load(SeqCst) {
            thread::yield_now();
        }
    }
}

/// Who writes down or checks what passes.
pub(crate) trait Watch: Sync {
    /// Callbacks around the owner's.
    fn around(&self, inner: RawCallbacks, owner: OwnerId, kind: FakeKind) -> PassedCallbacks;
    /// A command's bracket.
    fn command(&self, call: &Call, body: &mut dyn FnMut() -> i32);
    fn created(&self, kind: FakeKind, handle: u64, by: Option<OwnerId>);
    fn destroyed(&self, kind: FakeKind, handle: u64, by: Option<OwnerId>, command: &'static str);
    fn spoil(&self, kind: FakeKind);
}

/// The allocators of one run, one for each kind of object; they stay where they are.
pub(crate) struct Allocators<'a> {
    all: BTreeMap<FakeKind, Pin<Box<FaultyAllocator<'a>>>>,
}

impl<'a> Allocators<'a> {
    /// One over `inner` for each kind. Where the struct itself is to be wrong, that is the fence's, which then goes
    /// unused.
    ///
    /// # Safety
    /// The functions of `inner` may be called for as long as the allocators are there.
    pub(crate) unsafe fn new(inner: RawCallbacks, defect: Option<Defect>, interruption: &'a dyn Interruption) -> Self {
        let lacking =
            [Defect::MissingAllocation, Defect::MissingReallocation, Defect::MissingFree, Defect::HalfInternal];
        let of_one = defect.is_some_and(|defect| lacking.contains(&defect));
        let make = |kind| {
            let defect = defect.filter(|_| !of_one || kind == FakeKind::Fence);
            // SAFETY: this function's contract.
            (kind, Box::pin(unsafe { FaultyAllocator::new(inner, defect, interruption) }))
        };
        Self { all: FakeKind::WITH_CALLBACKS.map(make).into() }
    }
}

/// The dispatch of one run.
pub(crate) struct Stage<'a, W> {
    pub(crate) watch: &'a W,
    given: BTreeMap<FakeKind, PassedCallbacks>,
    meeting: &'a Meeting,
}

impl<'a, W: Watch> Stage<'a, W> {
    pub(crate) fn new(watch: &'a W, allocators: &Allocators<'_>, meeting: &'a Meeting) -> Self {
        let around = |(kind, allocator): (&FakeKind, &Pin<Box<FaultyAllocator<'_>>>)| {
            (*kind, watch.around(allocator.as_ref().raw(), OwnerId::fresh(), *kind))
        };
        Self { watch, given: allocators.all.iter().map(around).collect(), meeting }
    }

    /// The application has callbacks for these kinds alone. An instance without draws on the implementation's own
    /// memory (V33): an allocator that nobody watches.
    pub(crate) fn with_callbacks_for(mut self, kinds: &[FakeKind], own: &Allocators<'_>) -> Self {
        self.given.retain(|kind, _| kinds.contains(kind));
        let instance = own.all.get(&FakeKind::Instance).filter(|_| !kinds.contains(&FakeKind::Instance));
        if let Some(own) = instance {
            self.given
                .insert(FakeKind::Instance, Unwatched.around(own.as_ref().raw(), OwnerId::fresh(), FakeKind::Instance));
        }
        self
    }
}

impl<W: Watch> Dispatch for Stage<'_, W> {
    fn allocator(&self, kind: FakeKind) -> PassedCallbacks {
        self.given.get(&kind).copied().unwrap_or(PassedCallbacks::NONE)
    }

    fn command(&self, call: &Call, body: &mut dyn FnMut() -> i32) {
        self.watch.command(call, body);
    }

    fn created(&self, kind: FakeKind, handle: u64, by: Option<OwnerId>) {
        self.watch.created(kind, handle, by);
    }

    fn destroyed(&self, kind: FakeKind, handle: u64, by: Option<OwnerId>, command: &'static str) {
        self.watch.destroyed(kind, handle, by, command);
    }

    fn alongside(&self, here: &mut dyn FnMut(), there: &(dyn Fn() + Sync)) {
        thread::scope(|scope| {
            scope.spawn(there);
            here();
        });
    }

    fn spoil(&self, kind: FakeKind) {
        self.watch.spoil(kind);
    }

    fn meet(&self) {
        Meeting::wait(&self.meeting.began);
    }

    fn part(&self) {
        self.meeting.freed.store(true, SeqCst);
    }
}

/// What the faulty allocator does in the midst of a reallocation.
pub(crate) struct Interrupted<'a, W> {
    pub(crate) watch: &'a W,
    pub(crate) meeting: &'a Meeting,
}

impl<W: Watch> Interruption for Interrupted<'_, W> {
    fn call_a_command(&self) {
        self.watch.command(&Call { name: "vkGetFenceStatus", owners: Owners::default() }, &mut || 0);
    }

    fn run_concurrent_free(&self) {
        self.meeting.began.store(true, SeqCst);
        Meeting::wait(&self.meeting.freed);
    }
}

/// Nobody watches.
pub(crate) struct Unwatched;

impl Watch for Unwatched {
    fn around(&self, inner: RawCallbacks, owner: OwnerId, _: FakeKind) -> PassedCallbacks {
        // SAFETY: a struct that is never moved or freed: leaked, 48 bytes each. Its functions live as long as the
        // allocators.
        unsafe { PassedCallbacks::new(Box::leak(Box::new(inner)), owner) }
    }

    fn command(&self, call: &Call, body: &mut dyn FnMut() -> i32) {
        call.bracket().run(|_| body());
    }

    fn created(&self, _: FakeKind, _: u64, _: Option<OwnerId>) {}

    fn destroyed(&self, _: FakeKind, _: u64, _: Option<OwnerId>, _: &'static str) {}

    fn spoil(&self, _: FakeKind) {}
}
