//! `Recorder`; its own memory is the stage's here.

use alloc_core::{Context, Scope};
use testkit::{Sink, Stage};
use vk_callbacks::Recorder;
use vk_callbacks::trace::Sighting;

use super::{Ground, Operation, nothing, spares, takes};
use crate::common::Driver;

/// Why a refusal is no error to what is recorded.
const LOST: &str = "the event is lost and counted, the program goes on";

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(&["Recorder::new"], "", |s, g| {
            let recorder = s.attempt(|| g.picture(), || Recorder::new(g.root));
            recorder.close().expect("nothing is live");
        }),
        takes(&["Recorder::tap"], "", |s, g| {
            let recorder = recorder(g.root);
            // SAFETY: the tap is never called.
            s.attempt(|| (recorder.live_blocks(), g.picture()), || unsafe { recorder.tap(1, g.raw) });
        }),
        takes(&["Recorder::write"], "", write::<S>),
        spares(&["Recorder::owner"], "", LOST, |s, g| lost(s, g, |recorder| recorder.owner(1, 0, "VkBuffer"))),
        spares(&["Recorder::phase"], "", LOST, |s, g| lost(s, g, |recorder| recorder.phase("first"))),
        spares(&["Recorder::created"], "", LOST, |s, g| lost(s, g, |recorder| recorder.created(1, 7, "VkBuffer"))),
        spares(&["Recorder::destroyed"], "", LOST, |s, g| lost(s, g, |recorder| recorder.destroyed(1, 7, "VkBuffer"))),
        spares(&["Recorder::seen"], "", LOST, |s, g| lost(s, g, |recorder| recorder.seen(1, Sighting::OldStruct))),
        spares(&["Recorder::enter"], "", LOST, |s, g| lost(s, g, |recorder| recorder.enter("vkCreateBuffer"))),
        spares(&["Recorder::enter_for"], "", LOST, |s, g| {
            lost(s, g, |recorder| recorder.enter_for(1, "vkDestroyBuffer"))
        }),
        spares(&["Recorder::leave"], "", LOST, |s, g| lost(s, g, |recorder| recorder.leave(0))),
        spares(&["Tap::raw"], "a call through a tap", LOST, tapped::<S>),
        nothing(
            &["Recorder::live_blocks", "Recorder::close", "Recorder::close_anyway"],
            "they read, or give back",
            ending::<S>,
        ),
    ]
}

fn recorder(memory: &Context) -> Recorder<'_> {
    Recorder::new(memory).expect("refused nothing")
}

/// Whatever happened: what was written down and what was lost are all there was.
fn assert_all_accounted(recorder: &Recorder<'_>, events: u64) {
    let written = recorder.write("test", &mut Sink::default()).expect("refused nothing");
    assert_eq!(written.events + written.lost, events);
}

fn lost<S: Stage>(stage: &S, ground: &Ground<'_>, append: fn(&Recorder<'_>)) {
    let recorder = recorder(ground.root);
    stage.attempt_plainly(|| append(&recorder));
    assert_all_accounted(&recorder, 1);
    append(&recorder);
    assert_all_accounted(&recorder, 2);
    recorder.close().expect("nothing is live");
}

fn tapped<S: Stage>(stage: &S, ground: &Ground<'_>) {
    // SAFETY: the ground's callbacks outlive the body; the tap is not called after the recorder was closed.
    let recorder = recorder(ground.root);
    // SAFETY: the ground's callbacks outlive the body.
    let tap = unsafe { recorder.tap(1, ground.raw) }.expect("refused nothing");
    // The block itself is another's, so that only the log can be refused.
    let driver = Driver(*tap.raw());
    let block = Driver(ground.raw).alloc(100, 8, Scope::Object);
    stage.attempt_plainly(|| driver.free(block));
    assert_all_accounted(&recorder, 1);
    // Given elsewhere, freed here: one less than none is none.
    assert_eq!(recorder.live_blocks(), 0);
    recorder.close().expect("nothing is live");
}

fn write<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let recorder = recorder(ground.root);
    // SAFETY: the ground's callbacks outlive the body; the tap is not called after the recorder was closed.
    let tap = unsafe { recorder.tap(1, ground.raw) }.expect("refused nothing");
    let driver = Driver(*tap.raw());
    recorder.enter("vkCreateBuffer");
    let block = driver.alloc(100, 8, Scope::Object);
    let block = driver.realloc(block, 200, 8, Scope::Object);
    driver.free(block);
    recorder.leave(0);
    let written =
        stage.attempt(|| (recorder.live_blocks(), ground.picture()), || recorder.write("test", &mut Sink::default()));
    assert_eq!((written.events, written.lost), (6, 0));
    recorder.close().expect("nothing is live");
}

fn ending<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let (first, second) = (recorder(ground.root), recorder(ground.root));
    // SAFETY: the ground's callbacks outlive the body; the tap is not called after the recorder was closed.
    let tap = unsafe { first.tap(1, ground.raw) }.expect("refused nothing");
    let block = Driver(*tap.raw()).alloc(100, 8, Scope::Object);
    let mut recorders = Some((first, second));
    stage.attempt_plainly(|| {
        let (first, second) = recorders.take().expect("made above");
        assert!(tap.raw().pfn_free.is_some());
        assert_eq!(first.live_blocks(), 1);
        let in_use = first.close().expect_err("a block is live");
        assert_eq!(in_use.value.live_blocks(), 1);
        // SAFETY: the tap is not called any more.
        unsafe { in_use.value.close_anyway() };
        second.close().expect("nothing is live");
    });
    Driver(ground.raw).free(block);
}
