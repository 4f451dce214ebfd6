//! `Judge`; its own memory is the stage's here.

use std::alloc::System;

use alloc_core::{FromGlobalAlloc, Scope, Scoped};
use testkit::{Sink, Stage};
use vk_callbacks::trace::{Caller, Pointer, Request, Sighting};
use vk_callbacks::{CallbackError, CheckOptions, Judge, TraceEvent, TraceReader};

use super::{Operation, SYSTEM, nothing, spares, takes};

const TEXT: &str =
    "# steward host trace 2\no,1,0,VkDevice\ne,1,1,vkDeviceWaitIdle\na,1,1,1,64,8,0\nf,1,1,1\nf,1,1,1\nl,1,0\nz,7\n";

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        spares(&["Judge::new", "Judge::run"], "", "a finding without room is counted as lost", |s, g| {
            let found = s.attempt(
                || g.picture(),
                || {
                    let mut judge = Judge::new(g.root, CheckOptions::default());
                    judge.run(TraceReader::new(TEXT)?)?;
                    Ok::<_, CallbackError>(judge.findings(SOURCE)?.len() as u64 + judge.lost())
                },
            );
            assert_eq!(found, 1);
        }),
        takes(&["Judge::step"], "an allocation", |s, g| {
            let mut judge = Judge::new(g.root, CheckOptions::default());
            let by = Caller { thread: 0, owner: 1 };
            judge.step(1, TraceEvent::Owner { owner: 1, parent: 0, kind: "VkDevice" }).expect("refused nothing");
            let asked = Request { size: 64, align: 8, scope: 0 };
            let allocate = TraceEvent::Allocate { by, block: Pointer::Block(1), asked };
            s.attempt(|| g.picture(), || judge.step(2, allocate));
            judge.step(3, TraceEvent::Free { by, block: Pointer::Block(1) }).expect("takes nothing");
            judge.finish();
            assert_eq!(judge.findings(g.root).expect("refused nothing").len(), 0);
        }),
        takes(&["Judge::findings"], "", |s, g| {
            let mut judge = Judge::new(&SYSTEM, CheckOptions::default());
            judge.run(TraceReader::new(TEXT).expect("a trace")).expect("whole");
            assert_eq!(s.attempt(|| g.picture(), || judge.findings(g.root)).len(), 1);
        }),
        spares(&["Judge::finish"], "with a block live", "a finding without room is counted as lost", |s, g| {
            let mut judge = Judge::new(g.root, CheckOptions::default());
            let asked = Request { size: 64, align: 8, scope: 0 };
            let allocate = TraceEvent::Allocate { by: Caller::default(), block: Pointer::Block(1), asked };
            judge.step(1, allocate).expect("refused nothing");
            s.attempt_plainly(|| judge.finish());
            assert_eq!(judge.findings(g.root).expect("refused nothing").len() as u64 + judge.lost(), 1);
        }),
        nothing(&["Judge::limits", "Judge::lost", "Sighting::word"], "they read", |s, g| {
            let judge = Judge::new(g.root, CheckOptions::default());
            s.attempt_plainly(|| {
                assert_eq!((judge.limits().count(), judge.lost()), (1, 0));
                assert!(Sink::debug(Sighting::Misaligned) > Sighting::Misaligned.word().len() / 2);
            });
        }),
    ]
}

/// The same as a source of collections.
const SOURCE: Scoped<&'static FromGlobalAlloc<System>> = Scoped::new(&SYSTEM, Scope::Object);
