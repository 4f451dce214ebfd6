//! The recorder between the fake application and its driver, and what the judge says of the log.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use alloc_core::{Scope, Scoped};
use fake_driver::{Call, FakeKind, FakeProgram, PassedCallbacks};
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::recorder::Tap;
use vk_callbacks::{Judge, OwnerId, Recorder, TraceReader};

use super::checking::{FoundKinds, OPTIONS, SYSTEM, by_kind};
use super::heap::Heap;
use super::stage::{Allocators, Interrupted, Meeting, Stage, Watch};

pub(crate) struct Recording<'r> {
    recorder: &'r Recorder<'static>,
    /// The passed structs, which do not move; and their owners.
    taps: Mutex<BTreeMap<FakeKind, (Box<Tap>, OwnerId)>>,
}

impl Watch for Recording<'_> {
    /// Instance and device come first.
    fn around(&self, inner: RawCallbacks, owner: OwnerId, kind: FakeKind) -> PassedCallbacks {
        let mut taps = self.taps.lock().unwrap_or_else(PoisonError::into_inner);
        let number = |kind| taps.get(&kind).map_or(0, |(_, owner): &(_, OwnerId)| u64::from(owner.get()));
        let parent = match kind {
            FakeKind::Instance => 0,
            FakeKind::Device => number(FakeKind::Instance),
            _ => number(FakeKind::Device),
        };
        self.recorder.owner(owner.get().into(), parent, kind.name());
        // SAFETY: the heap behind `inner` outlives the recorder.
        let tap = Box::new(unsafe { self.recorder.tap(owner.get().into(), inner) }.expect("memory of the system"));
        // SAFETY: boxed, and kept until the run is over.
        let given = unsafe { PassedCallbacks::new(tap.raw(), owner) };
        taps.insert(kind, (tap, owner));
        given
    }

    fn command(&self, call: &Call, body: &mut dyn FnMut() -> i32) {
        let number = |owner: Option<OwnerId>| owner.map_or(0, |owner| owner.get().into());
        let owners = call.owners;
        self.recorder.enter_for(number(owners.object.or(owners.device).or(owners.instance)), call.name);
        // A bracket, so that the recorder's log and the program agree about threads.
        let mut result = 0;
        call.bracket().run(|_| result = body());
        self.recorder.leave(result);
    }

    fn created(&self, kind: FakeKind, handle: u64, by: Option<OwnerId>) {
        self.recorder.created(by.map_or(0, |owner| owner.get().into()), handle, kind.name());
    }

    fn destroyed(&self, kind: FakeKind, handle: u64, by: Option<OwnerId>, _: &'static str) {
        self.recorder.destroyed(by.map_or(0, |owner| owner.get().into()), handle, kind.name());
    }

    fn spoil(&self, _: FakeKind) {}
}

/// Runs the program while all is written down; the log.
pub(crate) fn recorded(program: FakeProgram) -> String {
    let recorder = Recorder::new(&SYSTEM).expect("memory of the system");
    let (heap, meeting) = (Heap::default(), Meeting::default());
    let mut log = String::new();
    {
        let recording = Recording { recorder: &recorder, taps: Mutex::default() };
        let interrupted = Interrupted { watch: &recording, meeting: &meeting };
        // SAFETY: the heap outlives the allocators, which outlive the run.
        let allocators = unsafe { Allocators::new(heap.raw(), program.defect, &interrupted) };
        let stage = Stage::new(&recording, &allocators, &meeting);
        program.run(&stage).expect("the heap refuses nothing");
        let written = recorder.write("the fake driver", &mut log).expect("a String takes all");
        assert_eq!(written.lost, 0);
    }
    // SAFETY: the program is over, and all its threads are.
    unsafe { recorder.close_anyway() };
    log
}

/// What the judge says of a log, by kind.
pub(crate) fn judged(log: &str) -> FoundKinds {
    let mut judge = Judge::new(&SYSTEM, OPTIONS);
    judge.run(TraceReader::new(log).expect("a trace")).expect("a whole trace, and memory");
    assert_eq!((judge.lost(), judge.limits().count()), (0, 0));
    by_kind(&judge.findings(Scoped::new(SYSTEM, Scope::Object)).expect("memory of the system"))
}
