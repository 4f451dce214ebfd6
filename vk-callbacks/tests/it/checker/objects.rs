//! Objects that come and go on several threads, with callbacks that are compatible, under handles that are not unique.

use std::ffi::c_void;
use std::thread;

use super::*;

/// Handles of two kinds may be equal, also where the kinds' names are as long as each other.
#[test]
fn v42_objects_of_two_kinds_with_one_handle_are_two() {
    let bench = Bench::new(&SYSTEM);
    let checker = &bench.checker;
    checker.created("VkImage", 7, Some(bench.owner));
    checker.created("VkFence", 7, None);
    checker.destroyed("VkFence", 7, None, "vkDestroyFence");
    assert_eq!(kinds(checker), []);
    checker.destroyed("VkImage", 7, None, "vkDestroyImage");
    assert_eq!(kinds(checker), [FindingKind::NoneAtDestroy]);
}

#[test]
fn v41_who_told_of_an_object_makes_it_no_more_and_of_several_one_is_not_all() {
    let ended = |name: &'static str, told: u64| {
        let bench = Bench::new(&SYSTEM);
        let of_thread = &bench;
        thread::scope(|scope| {
            scope.spawn(move || {
                of_thread.run(name, || of_thread.driver.alloc(64, 8, Scope::Object));
                (1..=told).for_each(|handle| of_thread.checker.created("VkPipeline", handle, Some(of_thread.owner)));
            });
        });
        // The thread that made them issues no command any more.
        for handle in 1..=told {
            bench.run("vkDestroyPipeline", || ());
            bench.checker.destroyed("VkPipeline", handle, Some(bench.owner), "vkDestroyPipeline");
        }
        kinds(&bench.checker)
    };
    assert_eq!(ended("vkCreateBuffer", 1), [FindingKind::LiveAfterDestroy]);
    // It may report another one next.
    assert_eq!(ended("vkCreateComputePipelines", 1), []);
}

#[test]
fn v20_internal_memory_of_compatible_callbacks_is_not_left_while_an_object_of_one_of_them_lives() {
    let app = App::default();
    let checker = checker(&SYSTEM);
    let [first, second] = [OwnerId::fresh(), OwnerId::fresh()];
    let drivers = [first, second].map(|owner| drive(&checker, app.callbacks(), owner, "VkBuffer", 5));
    for (owner, driver, handle) in [(first, drivers[0], 1), (second, drivers[1], 2)] {
        checker.run(command("vkCreateBuffer", owner), |_| driver.internal(true, 4096, 0, 1));
        checker.created("VkBuffer", handle, Some(owner));
    }
    let destroy = |owner, handle| {
        checker.run(command("vkDestroyBuffer", owner), |_| ());
        checker.destroyed("VkBuffer", handle, Some(owner), "vkDestroyBuffer");
    };
    destroy(first, 1);
    assert_eq!(kinds(&checker), [], "the other one may hold it");
    destroy(second, 2);
    assert_eq!(kinds(&checker), [FindingKind::InternalLeft], "nobody does");
    checker.close().expect("nothing is live");
}

#[test]
fn v20_the_sums_are_those_of_all_compatible_callbacks() {
    let checker = checker(&SYSTEM);
    let first = App::default();
    let (second, stranger) = (App::compatible(&first), App::default());
    let [a, b, c] = [(&first, 9), (&second, 9), (&stranger, 0)].map(|(app, group)| {
        let id = OwnerId::fresh();
        (drive(&checker, app.callbacks(), id, "VkPipeline", group), id)
    });
    let pipeline = |(maker, made_with): (Driver, OwnerId), (ender, ended_with): (Driver, OwnerId)| {
        checker.run(command("vkCreateComputePipelines", made_with), |_| maker.internal(true, 64, 0, 1));
        checker.created("VkPipeline", 1, Some(made_with));
        checker.run(command("vkDestroyPipeline", ended_with), |_| ender.internal(false, 64, 0, 1));
        checker.destroyed("VkPipeline", 1, Some(made_with), "vkDestroyPipeline");
    };
    pipeline(a, b);
    pipeline(b, a);
    assert_eq!(kinds(&checker), []);
    pipeline(a, c);
    assert_eq!(kinds(&checker), [FindingKind::InternalNegative, FindingKind::InternalLeft]);
}

#[test]
fn v42_the_very_same_callbacks_are_compatible_with_themselves() {
    let checker = checker(&SYSTEM);
    let app = App::default();
    let wrapped = |raw| {
        let id = OwnerId::fresh();
        (drive(&checker, raw, id, "VkSampler", 0), id)
    };
    let ((a, made_with), (b, ended_with)) = (wrapped(app.callbacks()), wrapped(app.callbacks()));
    let block = checker.run(command("vkCreateSampler", made_with), |_| a.alloc(64, 8, Scope::Object));
    checker.created("VkSampler", 5, Some(made_with));
    checker.run(command("vkDestroySampler", ended_with), |_| b.free(block));
    checker.destroyed("VkSampler", 5, Some(ended_with), "vkDestroySampler");
    assert_eq!((kinds(&checker), checker.live_blocks(), app.heap.live()), (vec![], 0, 0));
    // With other user data, or another function, they are others.
    unsafe extern "system" fn nothing(_: *mut c_void, _: *mut c_void) {}
    let other = App::default();
    for (times, raw) in [(1, other.callbacks()), (2, RawCallbacks { pfn_free: Some(nothing), ..app.callbacks() })] {
        let (stranger, id) = wrapped(raw);
        let block = checker.run(command("vkCreateSampler", made_with), |_| a.alloc(64, 8, Scope::Object));
        checker.run(command("vkDestroySampler", id), |_| stranger.free(block));
        assert_eq!(kinds(&checker), vec![FindingKind::FreedThroughOther; times]);
        assert_eq!((checker.live_blocks(), app.heap.live()), (0, 0));
    }
}

/// SwiftShader frees a pipeline layout in `vkDestroyPipeline`, if the pipeline was its last user.
#[test]
fn v19_a_block_that_is_freed_through_a_neighbours_callbacks_goes_back_through_its_own() {
    let checker = checker(&SYSTEM);
    let (layouts, pipelines) = (App::default(), App::default());
    let ids = [OwnerId::fresh(), OwnerId::fresh()];
    let [a, b] = [(&layouts, 0, "VkPipelineLayout"), (&pipelines, 1, "VkPipeline")]
        .map(|(app, at, kind)| drive(&checker, app.callbacks(), ids[at], kind, 0));
    let found = || said(&checker);
    let layout = |handle| {
        let block = checker.run(command("vkCreatePipelineLayout", ids[0]), |_| a.alloc(144, 8, Scope::Object));
        checker.created("VkPipelineLayout", handle, Some(ids[0]));
        checker.run(command("vkDestroyPipelineLayout", ids[0]), |_| {});
        checker.destroyed("VkPipelineLayout", handle, Some(ids[0]), "vkDestroyPipelineLayout");
        block
    };
    let first = layout(1);
    let left = "V41: the implementation left 144 B (scope OBJECT) of VkPipelineLayout's allocator, taken in vkCreatePipelineLayout, \
                live when vkDestroyPipelineLayout returned; never freed";
    assert_eq!(found(), [left], "until now");
    checker.run(command("vkDestroyPipeline", ids[1]), |_| b.free(first));
    let through = |times: &str| {
        format!(
            "V19: the implementation freed 144 B{} (scope OBJECT) of VkPipelineLayout's allocator through VkPipeline's, \
             which is not compatible, in vkDestroyPipeline{times}",
            if times.is_empty() { "" } else { " each" },
        )
    };
    assert_eq!(found(), [through("")], "one finding, which is true");
    assert_eq!((layouts.heap.live(), checker.live_blocks()), (0, 0));
    // Also by a reallocation to size 0, and after one to another size, whose block stays the layout's.
    let (second, third) = (layout(2), layout(3));
    checker.run(command("vkDestroyPipeline", ids[1]), |_| {
        assert!(b.realloc(second, 0, 8, Scope::Object).is_null());
        let moved = b.realloc(third, 288, 8, Scope::Object);
        assert!(!moved.is_null());
        assert_eq!((layouts.heap.live(), pipelines.heap.live()), (1, 0));
        a.free(moved);
    });
    assert_eq!((layouts.heap.live(), checker.live_blocks()), (0, 0));
    let kinds = kinds(&checker);
    assert_eq!(
        kinds,
        [FindingKind::ReallocatedThroughOther, FindingKind::FreedThroughOther, FindingKind::LiveAfterDestroy]
    );
    assert!(found()[1] == through("; 2 times"), "{:?}", found());
    assert!(found()[2].contains("freed later"), "{:?}", found());
    // A second free goes nowhere.
    checker.run(command("vkDestroyPipeline", ids[1]), |_| b.free(first));
    checker.finish();
    assert!(found().iter().all(|said| !said.contains("never freed")));
    checker.close().expect("nothing is live");
}

/// Callbacks of a program that come with each object, as the layer watches them.
#[test]
fn v19_v42_callbacks_that_come_with_each_object_get_what_the_driver_calls_them_for() {
    let checker = checker(&SYSTEM);
    let (app, bridge) = (App::default(), App::default());
    let shared = App::compatible(&app);
    let ids = [OwnerId::fresh(), OwnerId::fresh(), OwnerId::fresh()];
    for (id, kind) in [(ids[0], "VkPipelineLayout"), (ids[1], "VkPipeline")] {
        let owner = CheckedOwner::new(id, kind).counted();
        checker.add_owner(owner).expect("there is memory");
    }
    let watched = |app: &App, id| {
        // SAFETY: the tests keep what is behind the callbacks until after the last call.
        Driver(*unsafe { checker.wrap_for(app.callbacks(), id) }.expect("memory").raw())
    };
    let take =
        |from: &Driver, id| checker.run(command("vkCreatePipelineLayout", id), |_| from.alloc(8, 8, Scope::Object));
    let free = |through: &Driver, id, block| {
        checker.run(command("vkDestroyPipeline", id), |_| through.free(block));
    };
    // The very same callbacks for another kind of object: nothing is wrong.
    let (layout, pipeline) = (watched(&app, ids[0]), watched(&app, ids[1]));
    free(&pipeline, ids[1], take(&layout, ids[0]));
    let moved = checker.run(command("vkCreatePipelineLayout", ids[0]), |_| {
        layout.realloc(layout.alloc(8, 8, Scope::Object), 80, 8, Scope::Object)
    });
    free(&pipeline, ids[1], moved);
    assert_eq!((kinds(&checker), app.heap.live()), (vec![], 0));
    // Others: it is reported, and the program gets the call that it would get alone.
    let other = watched(&shared, ids[1]);
    free(&other, ids[1], take(&layout, ids[0]));
    assert_eq!(kinds(&checker), [FindingKind::FreedThroughOther]);
    assert_eq!((app.heap.live(), checker.live_blocks()), (0, 0));
    let usage = checker.usage(ids[0]).expect("counted").total();
    assert_eq!((usage.live_bytes, usage.live_blocks), (0, 0));
    // A block of the one bridge goes back there through any of them; one of the program's does not go through the
    // bridge's.
    let own = drive(&checker, bridge.callbacks(), ids[2], "VkImage", 0);
    free(&pipeline, ids[1], take(&own, ids[2]));
    assert_eq!((bridge.heap.live(), checker.live_blocks()), (0, 0));
    let stays = take(&layout, ids[0]);
    free(&own, ids[2], stays);
    assert_eq!((app.heap.live(), checker.live_blocks()), (1, 1));
    checker.finish();
    let found = kinds(&checker);
    assert!(found.iter().all(|kind| *kind == FindingKind::FreedThroughOther), "no leftover besides: {found:?}");
    free(&layout, ids[0], stays);
    checker.close().expect("nothing is live");
}
