//! `Replay`.

use std::cell::RefCell;

use alloc_core::{ContextHandle, Scope};
use testkit::{Sink, Stage};
use vk_callbacks::replay::{OneSink, ReplayFinding, ReplayTarget, Totals};
use vk_callbacks::trace::{Caller, Pointer, Request};
use vk_callbacks::{CallbackError, Replay, TraceEvent, TraceReader};

use super::{Ground, Operation, SYSTEM, nothing, spares, takes};

type Target = OneSink<'static, alloc_core::FromGlobalAlloc<std::alloc::System>>;

/// Lives and moves and leaves two blocks.
fn events() -> [TraceEvent<'static>; 6] {
    let by = Caller {
        thread: 1,
        owner: 1,
    };
    let asked = |size| Request {
        size,
        align: 8,
        scope: 1,
    };
    [
        TraceEvent::Owner {
            owner: 1,
            parent: 0,
            kind: "VkBuffer",
        },
        TraceEvent::Phase { name: "first" },
        TraceEvent::Allocate {
            by,
            block: Pointer::Block(1),
            asked: asked(100),
        },
        TraceEvent::Allocate {
            by,
            block: Pointer::Block(2),
            asked: asked(200),
        },
        TraceEvent::Reallocate {
            by,
            old: Pointer::Block(2),
            new: Pointer::Block(3),
            asked: asked(300),
        },
        TraceEvent::Phase { name: "second" },
    ]
}

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(&["Replay::run"], "", run::<S>),
        takes(&["Replay::step"], "", step::<S>),
        takes(
            &["Replay::finish"],
            "with blocks that are live",
            finish::<S>,
        ),
        spares(
            &["Replay::step", "ReplayTarget::sink"],
            "into a sink that refuses",
            "the block is counted as the trace has it, without memory behind",
            refusing_sink::<S>,
        ),
        nothing(
            &[
                "Replay::new",
                "Replay::totals",
                "Totals::all",
                "Totals::scope",
                "ReplayTarget::owner",
                "ReplayTarget::phase_begin",
                "ReplayTarget::phase_end",
                "ReplayTarget::finding",
            ],
            "they read, or tell",
            questions::<S>,
        ),
    ]
}

fn target() -> Target {
    OneSink(&SYSTEM)
}

fn replay(ground: &Ground<'_>) -> Replay<'static, Target, ContextHandle> {
    Replay::new(ground.root.handle())
}

/// Takes two blocks and gives one back.
pub(super) const TEXT: &str =
    "# steward host trace 2\n# driver: example\na,1,0,1,100,8,1\na,1,0,2,200,8,1\nf,1,0,1\nz,5\n";

fn run<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let totals = stage.attempt(
        || ground.picture(),
        || {
            let reader = TraceReader::new(TEXT)?;
            replay(ground).run(reader, &mut target())
        },
    );
    assert_eq!(
        (totals.allocations, totals.frees, totals.findings),
        (2, 1, 1)
    );
}

fn step<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let replay = RefCell::new(replay(ground));
    let [_, _, allocate, ..] = events();
    stage.attempt(
        || (*replay.borrow().totals(), ground.picture()),
        || replay.borrow_mut().step(1, allocate, &mut target()),
    );
    assert_eq!(replay.borrow().totals().allocations, 1);
}

fn finish<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let replay = RefCell::new(replay(ground));
    for (line, event) in (1..).zip(events()) {
        replay
            .borrow_mut()
            .step(line, event, &mut target())
            .expect("refused nothing");
    }
    let totals = stage.attempt(
        || (*replay.borrow().totals(), ground.picture()),
        || replay.borrow_mut().finish(&mut target()),
    );
    assert_eq!((totals.all().live_blocks, totals.findings), (2, 2));
}

fn refusing_sink<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let mut replay = Replay::new(alloc_core::Scoped::new(&SYSTEM, Scope::Object));
    let mut target = OneSink(ground.callbacks);
    assert!(std::ptr::eq(target.sink(1), ground.callbacks));
    let [_, _, allocate, ..] = events();
    stage.attempt(
        || (),
        || {
            replay
                .step(1, allocate, &mut target)
                .map_err(CallbackError::from)
        },
    );
    assert_eq!(replay.totals().all().live_bytes, 100);
}

/// Hears everything and keeps nothing.
struct Listener {
    heard: u32,
}

impl ReplayTarget for Listener {
    type Sink = &'static alloc_core::FromGlobalAlloc<std::alloc::System>;

    fn sink(&mut self, _: u64) -> Self::Sink {
        &SYSTEM
    }
    fn owner(&mut self, _: u64, _: u64, _: &str) {
        self.heard += 1;
    }
    fn phase_begin(&mut self, _: &str, _: &Totals) {
        self.heard += 1;
    }
    fn phase_end(&mut self, _: &str, _: &Totals) {
        self.heard += 1;
    }
    fn finding(&mut self, _: u64, finding: ReplayFinding) {
        assert!(Sink::debug(finding) > 0);
        self.heard += 1;
    }
}

fn questions<S: Stage>(stage: &S, _: &Ground<'_>) {
    stage.attempt_plainly(|| {
        let mut replay = Replay::new(alloc_core::Scoped::new(&SYSTEM, Scope::Object));
        let mut target = Listener { heard: 0 };
        for (line, event) in (1..).zip(events()) {
            replay
                .step(line, event, &mut target)
                .expect("memory of the system");
        }
        assert_eq!(replay.totals().scope(Scope::Object), replay.totals().all());
        replay.finish(&mut target).expect("memory of the system");
        // An owner, two phases begun and ended, two blocks left.
        assert_eq!(target.heard, 7);
    });
}
