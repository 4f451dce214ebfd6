//! Objects that come and go on several threads, with callbacks that are compatible, under handles that are not unique.

use std::ffi::c_void;
use std::sync::Barrier;
use std::thread;

use super::*;

/// A block on its way to another thread.
struct Sent(*mut u8);

// SAFETY: blocks may be freed on another thread than the one that took them (V24).
unsafe impl Send for Sent {}

#[test]
fn v41_an_object_that_another_thread_is_making_with_the_same_callbacks_is_let_be() {
    let bench = Bench::new(&SYSTEM);
    let create = |handle| {
        let block = bench.run("vkCreateBuffer", || {
            bench.driver.alloc(64, 8, Scope::Object)
        });
        bench.checker.created("VkBuffer", handle, Some(bench.owner));
        Sent(block)
    };
    let destroy = |handle, block: Option<Sent>| {
        bench.run("vkDestroyBuffer", || {
            block
                .into_iter()
                .for_each(|block| bench.driver.free(block.0))
        });
        bench
            .checker
            .destroyed("VkBuffer", handle, Some(bench.owner), "vkDestroyBuffer");
    };
    let first = create(1);
    let (bench, destroy, at) = (&bench, &destroy, &Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(move || {
            at.wait();
            destroy(1, Some(first));
            at.wait();
            at.wait();
            // Again, when the other command returned and its object was not reported yet.
            let block = bench.run("vkCreateBuffer", || {
                bench.driver.alloc(64, 8, Scope::Object)
            });
            bench.checker.created("VkBuffer", 3, Some(bench.owner));
            destroy(3, Some(Sent(block)));
            at.wait();
        });
        let second = bench.run("vkCreateBuffer", || {
            bench.driver.internal(true, 16, 0, 1);
            let block = bench.driver.alloc(64, 8, Scope::Object);
            at.wait();
            at.wait();
            block
        });
        at.wait();
        at.wait();
        bench.checker.created("VkBuffer", 2, Some(bench.owner));
        bench.run("vkDestroyBuffer", || bench.driver.internal(false, 16, 0, 1));
        destroy(2, Some(Sent(second)));
    });
    assert_eq!(kinds(&bench.checker), []);
    // The thread's next command, or its report, ends the creation.
    create(4);
    destroy(4, None);
    assert_eq!(kinds(&bench.checker), [FindingKind::LiveAfterDestroy]);
}

#[test]
fn v41_who_told_of_an_object_makes_it_no_more_and_of_several_one_is_not_all() {
    let ended = |name: &'static str, told: u64| {
        let bench = Bench::new(&SYSTEM);
        let of_thread = &bench;
        thread::scope(|scope| {
            scope.spawn(move || {
                of_thread.run(name, || of_thread.driver.alloc(64, 8, Scope::Object));
                (1..=told).for_each(|handle| {
                    of_thread
                        .checker
                        .created("VkPipeline", handle, Some(of_thread.owner))
                });
            });
        });
        // The thread that made them issues no command any more.
        for handle in 1..=told {
            bench.run("vkDestroyPipeline", || ());
            bench
                .checker
                .destroyed("VkPipeline", handle, Some(bench.owner), "vkDestroyPipeline");
        }
        kinds(&bench.checker)
    };
    assert_eq!(ended("vkCreateBuffer", 1), [FindingKind::LiveAfterDestroy]);
    // It may report another one next.
    assert_eq!(ended("vkCreateComputePipelines", 1), []);
}

#[test]
fn v44_one_handle_with_two_owners_blames_nobody() {
    let (bench, other) = (Bench::new(&SYSTEM), App::default());
    let id = OwnerId::fresh();
    let second = Driver(*wrap(&bench.checker, other.callbacks(), id, "VkSampler", 0).raw());
    let (a, b) = ((bench.driver, bench.owner), (second, id));
    let create = |(driver, id): (Driver, OwnerId)| {
        let block = bench.checker.run(command("vkCreateSampler", id), |_| {
            driver.alloc(64, 8, Scope::Object)
        });
        bench.checker.created("VkSampler", 5, Some(id));
        block
    };
    let destroy = |(driver, id): (Driver, OwnerId), block| {
        bench
            .checker
            .run(command("vkDestroySampler", id), |_| driver.free(block));
        bench
            .checker
            .destroyed("VkSampler", 5, Some(id), "vkDestroySampler");
    };
    let (first, second) = (create(a), create(b));
    destroy(a, first);
    destroy(b, second);
    assert_eq!(kinds(&bench.checker), []);
    // With one owner at a time the same is judged.
    let block = create(a);
    destroy(b, std::ptr::null_mut());
    assert_eq!(
        kinds(&bench.checker),
        [FindingKind::NullFree, FindingKind::OtherGroupAtDestroy]
    );
    // Both are named: the owner of the object, and that of the passed allocator.
    let found = bench
        .checker
        .findings(Scoped::new(&SYSTEM, Scope::Object))
        .expect("there is memory");
    assert_eq!(
        found.last().map(|found| (found.owner, found.passed)),
        Some((Some(bench.owner), Some(id)))
    );
    bench
        .checker
        .run(command("vkDestroySampler", a.1), |_| a.0.free(block));
}

#[test]
fn v20_the_sums_are_those_of_all_compatible_callbacks() {
    let checker = checker(&SYSTEM);
    let first = App::default();
    let (second, stranger) = (App::compatible(&first), App::default());
    let [a, b, c] = [(&first, 9), (&second, 9), (&stranger, 0)].map(|(app, group)| {
        let id = OwnerId::fresh();
        (
            Driver(*wrap(&checker, app.callbacks(), id, "VkPipeline", group).raw()),
            id,
        )
    });
    let pipeline = |(maker, made_with): (Driver, OwnerId),
                    (ender, ended_with): (Driver, OwnerId)| {
        checker.run(command("vkCreateComputePipelines", made_with), |_| {
            maker.internal(true, 64, 0, 1)
        });
        checker.created("VkPipeline", 1, Some(made_with));
        checker.run(command("vkDestroyPipeline", ended_with), |_| {
            ender.internal(false, 64, 0, 1)
        });
        checker.destroyed("VkPipeline", 1, Some(made_with), "vkDestroyPipeline");
    };
    pipeline(a, b);
    pipeline(b, a);
    assert_eq!(kinds(&checker), []);
    pipeline(a, c);
    assert_eq!(
        kinds(&checker),
        [FindingKind::InternalNegative, FindingKind::InternalLeft]
    );
}

/// The application reports its pipelines and not its device, which has compatible callbacks.
#[test]
fn v20_what_a_device_holds_that_nobody_tells_of_is_not_laid_on_its_pipelines() {
    let checker = checker(&SYSTEM);
    let first = App::default();
    let second = App::compatible(&first);
    let [(device, of_device), (pipeline, of_pipeline)] =
        [(&first, "VkDevice"), (&second, "VkPipeline")].map(|(app, kind)| {
            let id = OwnerId::fresh();
            (
                Driver(*wrap(&checker, app.callbacks(), id, kind, 9).raw()),
                id,
            )
        });
    let pipelines = |given_back| {
        checker.run(command("vkCreateComputePipelines", of_pipeline), |_| {
            pipeline.internal(true, 64, 0, 1)
        });
        checker.created("VkPipeline", 1, Some(of_pipeline));
        checker.run(command("vkDestroyPipeline", of_pipeline), |_| {
            pipeline.internal(false, given_back, 0, 1)
        });
        checker.destroyed("VkPipeline", 1, Some(of_pipeline), "vkDestroyPipeline");
    };
    checker.run(command("vkCreateDevice", of_device), |_| {
        device.internal(true, 4096, 0, 1)
    });
    pipelines(64);
    checker.run(command("vkDestroyDevice", of_device), |_| {
        device.internal(false, 4096, 0, 1)
    });
    assert_eq!(kinds(&checker), []);
    // Leftovers of pipelines cannot be distinguished from the device's then, and are reported at the end.
    pipelines(60);
    assert_eq!(kinds(&checker), []);
    checker.finish();
    assert_eq!(kinds(&checker), [FindingKind::InternalAtEnd]);
}

#[test]
fn v42_the_very_same_callbacks_are_compatible_with_themselves() {
    let checker = checker(&SYSTEM);
    let app = App::default();
    let wrapped = |raw| {
        let id = OwnerId::fresh();
        (Driver(*wrap(&checker, raw, id, "VkSampler", 0).raw()), id)
    };
    let ((a, made_with), (b, ended_with)) = (wrapped(app.callbacks()), wrapped(app.callbacks()));
    let block = checker.run(command("vkCreateSampler", made_with), |_| {
        a.alloc(64, 8, Scope::Object)
    });
    checker.created("VkSampler", 5, Some(made_with));
    checker.run(command("vkDestroySampler", ended_with), |_| b.free(block));
    checker.destroyed("VkSampler", 5, Some(ended_with), "vkDestroySampler");
    assert_eq!(
        (kinds(&checker), checker.live_blocks(), app.heap.live()),
        (vec![], 0, 0)
    );
    // With other user data, or another function, they are others.
    unsafe extern "system" fn nothing(_: *mut c_void, _: *mut c_void) {}
    let other = App::default();
    for (times, raw) in [
        (1, other.callbacks()),
        (
            2,
            RawCallbacks {
                pfn_free: Some(nothing),
                ..app.callbacks()
            },
        ),
    ] {
        let (stranger, id) = wrapped(raw);
        let block = checker.run(command("vkCreateSampler", made_with), |_| {
            a.alloc(64, 8, Scope::Object)
        });
        checker.run(command("vkDestroySampler", id), |_| stranger.free(block));
        assert_eq!(kinds(&checker), vec![FindingKind::FreedThroughOther; times]);
        checker.run(command("vkDestroySampler", made_with), |_| a.free(block));
    }
}

#[test]
fn v23_a_worker_while_a_command_runs_shows_nothing_about_v22() {
    let bench = Bench::new(&SYSTEM);
    let rules = || {
        let found = bench
            .checker
            .findings(Scoped::new(&SYSTEM, Scope::Object))
            .expect("there is memory");
        found
            .iter()
            .map(|found| found.rules().to_vec())
            .collect::<Vec<_>>()
    };
    let off = |block: Sent| {
        let driver = bench.driver;
        thread::scope(|scope| {
            scope.spawn(move || {
                let block = block;
                driver.free(block.0);
            });
        });
    };
    bench.run("vkCreateBuffer", || {
        off(Sent(bench.driver.alloc(8, 8, Scope::Object)))
    });
    assert_eq!(rules(), [[23]]);
    let block = bench.run("vkCreateBuffer", || {
        Sent(bench.driver.alloc(8, 8, Scope::Object))
    });
    off(block);
    assert_eq!(rules(), [[22, 23]]);
}

#[test]
fn v20_internal_memory_of_compatible_callbacks_is_not_left_while_an_object_of_one_of_them_lives() {
    let app = App::default();
    let checker = checker(&SYSTEM);
    let [first, second] = [OwnerId::fresh(), OwnerId::fresh()];
    let drivers = [first, second]
        .map(|owner| Driver(*wrap(&checker, app.callbacks(), owner, "VkBuffer", 5).raw()));
    for (owner, driver, handle) in [(first, drivers[0], 1), (second, drivers[1], 2)] {
        checker.run(command("vkCreateBuffer", owner), |_| {
            driver.internal(true, 4096, 0, 1)
        });
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
