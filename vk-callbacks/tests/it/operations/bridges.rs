//! Making and ending bridges.

use std::pin::pin;

use alloc_core::{Budget, ContextOptions, Scope};
use testkit::{Sink, Stage};
use vk_callbacks::Bridge;
use vk_callbacks::bridge::{BareBridge, Callback, leaked_bridges, on_call_mistake};

use super::{Ground, Operation, nothing, takes};
use crate::common::Driver;

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(&["Bridge::new"], "", |s, g| new(s, g, ContextOptions::new("new"))),
        takes(&["Bridge::new"], "over a context with a budget", |s, g| {
            new(s, g, ContextOptions::new("new").budget(Budget::exact(10_000)).scope(Scope::Device));
        }),
        nothing(
            &[
                "Bridge::callbacks",
                "Bridge::raw",
                "Bridge::owner",
                "Bridge::context",
                "Bridge::usage",
                "Bridge::live",
                "Bridge::counters",
                "Live::is_empty",
                "Live::scope",
                "Live::total",
                "BridgeCounters::faults",
                "OwnerId::get",
                "AllocationCallbacks::raw",
                "AllocationCallbacks::as_ash",
                "RawCallbacks::as_ash",
                "leaked_bridges",
            ],
            "they read, or copy on the stack",
            questions::<S>,
        ),
        nothing(
            &["Bridge::close", "Bridge::with_leak_listener"],
            "freeing takes nothing; a refusal gives back the same bridge",
            close::<S>,
        ),
        nothing(
            &[
                "BareBridge::new",
                "BareBridge::raw",
                "BareBridge::owner",
                "BareBridge::counters",
                "BareBridge::backing",
                "Callback::name",
                "on_call_mistake",
            ],
            "it lies where its owner puts it",
            bare::<S>,
        ),
    ]
}

fn new<S: Stage>(stage: &S, ground: &Ground<'_>, options: ContextOptions<'_>) {
    let context = std::cell::Cell::new(Some(ground.root.child_with(options).expect("refused nothing")));
    let bridge = stage.attempt(
        || ground.picture(),
        || {
            Bridge::new(context.take().expect("given back")).map_err(|refused| {
                context.set(Some(refused.value));
                refused.error
            })
        },
    );
    assert!(bridge.live().is_empty());
    bridge.close().expect("nothing is live");
}

fn questions<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let bridge = ground.bridge;
    stage.attempt_plainly(|| {
        let callbacks = bridge.callbacks();
        assert_eq!(callbacks.raw().p_user_data, bridge.raw().p_user_data);

        assert_eq!(callbacks.as_ash().p_user_data, bridge.raw().p_user_data);
        assert_eq!(bridge.raw().as_ash().p_user_data, bridge.raw().p_user_data);
        assert_ne!(bridge.owner().get(), 0);
        assert_eq!(bridge.usage(), bridge.context().usage());
        let (live, notes) = (bridge.live(), bridge.counters());
        assert!(live.is_empty() && live.total() == live.scope(Scope::Object) && notes.faults() == 0);
        assert!(Sink::debug((bridge, live, notes, callbacks)) > 0);
        let _ = leaked_bridges();
    });
}

fn close<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let context = ground.root.child("closed").expect("refused nothing");
    let bridge = Bridge::new(context).expect("refused nothing");
    let mut bridge = Some(bridge.with_leak_listener(|_| ()));
    let driver = bridge.as_ref().map(|bridge| Driver(bridge.raw())).expect("made above");
    let block = driver.alloc(100, 8, Scope::Object);
    assert!(!block.is_null());
    stage.attempt_plainly(|| {
        let busy = bridge.take().expect("made above").close().expect_err("a block is live");
        assert!(Sink::debug(&busy) > 0);
        driver.free(block);
        drop(busy.value.close().expect("nothing is live"));
    });
}

fn bare<S: Stage>(stage: &S, ground: &Ground<'_>) {
    stage.attempt_plainly(|| {
        on_call_mistake(|mistake| assert!(!mistake.callback.name().is_empty()));
        assert_eq!(Callback::Free.name(), "pfnFree");
        let bare = pin!(BareBridge::new(ground.root));
        assert!(bare.as_ref().raw().pfn_free.is_some() && bare.owner().get() != 0);
        assert_eq!((bare.counters().faults(), bare.backing().id()), (0, ground.root.id()));
    });
}
