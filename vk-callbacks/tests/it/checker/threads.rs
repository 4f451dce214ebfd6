//! Several threads at once, and threads that are not the application's.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;

use super::*;

/// A block on its way to another thread.
pub(super) struct Sent(pub(super) *mut u8);

// SAFETY: blocks may be freed on another thread than the one that took them (V24).
unsafe impl Send for Sent {}

/// Repeated ones are counted beside the rows of findings: none is lost there, or comes to another's row.
#[test]
fn v18_frees_of_null_are_counted_by_owner_and_command_on_every_thread() {
    const EACH: u64 = 500;
    // More than are counted at an owner.
    const COMMANDS: [&str; 6] = [
        "vkCreateBuffer",
        "vkDestroyBuffer",
        "vkCreateBufferView",
        "vkDestroyBufferView",
        "vkQueueSubmit",
        "vkDeviceWaitIdle",
    ];
    let bench = Bench::new(&SYSTEM);
    let other = OwnerId::fresh();
    let other_driver = drive(&bench.checker, bench.app.callbacks(), other, "VkImage", 0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for number in 0..EACH {
                    for (times, name) in (1..).zip(COMMANDS) {
                        bench.run(name, || {
                            (0..times).for_each(|_| bench.driver.free(core::ptr::null_mut()));
                        });
                    }
                    let last = COMMANDS[number as usize % COMMANDS.len()];
                    bench.run(last, || other_driver.free(core::ptr::null_mut()));
                }
            });
        }
    });
    let rows = found(&bench.checker, |found| (found.owner, found.command, found.count));
    let count = |owner, command: &str| -> u64 {
        let of_it = |row: &&(Option<OwnerId>, &str, u64)| (row.0, row.1) == (Some(owner), command);
        rows.iter().filter(of_it).map(|row| row.2).sum()
    };
    for (times, name) in (1..).zip(COMMANDS) {
        assert_eq!(count(bench.owner, name), 3 * EACH * times, "{name}");
    }
    let all: u64 = COMMANDS.iter().map(|name| count(other, name)).sum();
    assert_eq!((all, count(other, COMMANDS[0])), (3 * EACH, 3 * EACH.div_ceil(6)));
    assert_eq!((rows.len(), bench.checker.lost()), (12, 0));
}

/// A free allocates nothing: the findings of a thread are spread over all shards.
#[test]
fn v23_many_kinds_of_free_on_one_foreign_thread_have_room() {
    const COMMANDS: [&str; 24] = [
        "vkCreateBuffer",
        "vkCreateImage",
        "vkCreateFence",
        "vkCreateEvent",
        "vkCreateSampler",
        "vkCreateQueryPool",
        "vkCreateSemaphore",
        "vkCreateRenderPass",
        "vkCreateFramebuffer",
        "vkCreateImageView",
        "vkCreateBufferView",
        "vkCreateShaderModule",
        "vkCreatePipelineCache",
        "vkCreatePipelineLayout",
        "vkCreateDescriptorSetLayout",
        "vkCreateDescriptorPool",
        "vkCreateCommandPool",
        "vkCreateGraphicsPipelines",
        "vkCreateComputePipelines",
        "vkAllocateMemory",
        "vkCreatePrivateDataSlot",
        "vkCreateSamplerYcbcrConversion",
        "vkCreateDescriptorUpdateTemplate",
        "vkCreateSwapchainKHR",
    ];
    let bench = Bench::new(&SYSTEM);
    let blocks = COMMANDS.map(|command| Sent(bench.run(command, || bench.driver.alloc(8, 8, Scope::Object))));
    thread::scope(|scope| {
        let driver = bench.driver;
        scope.spawn(move || blocks.into_iter().for_each(|block| driver.free(block.0)));
    });
    let freed = kinds(&bench.checker).into_iter().filter(|kind| *kind == FindingKind::FreedOnForeignThread);
    assert_eq!(freed.count(), COMMANDS.len());
    bench.checker.close().expect("nothing is live");
}

#[test]
fn v24_threads_that_take_move_and_free_each_others_blocks_are_let_be() {
    let app = App::default();
    let checker = checker(&SYSTEM);
    let owner = OwnerId::fresh();
    let driver = drive(&checker, app.callbacks(), owner, "VkBuffer", 0);
    let (send, receive) = channel::<Sent>();
    let receive = Mutex::new(receive);
    thread::scope(|scope| {
        for worker in 0..3_usize {
            let (send, checker, receive) = (send.clone(), &checker, &receive);
            scope.spawn(move || {
                for round in 0..if cfg!(miri) { 10 } else { 500_usize } {
                    checker.run(command("vkCreateBuffer", owner), |_| {
                        let block = driver.alloc(round % 200 + 1, 8, Scope::Object);
                        let own = driver.alloc(16, 8, Scope::Command);
                        let block = driver.realloc(block, round % 300 + worker + 1, 8, Scope::Object);
                        driver.free(own);
                        send.send(Sent(block)).expect("somebody receives");
                    });
                    checker.run(command("vkDestroyBuffer", owner), |_| {
                        let other = receive.lock().expect("no panic").recv().expect("one was sent before");
                        driver.free(other.0);
                    });
                }
            });
        }
    });
    assert_eq!((kinds(&checker), checker.live_blocks(), app.heap.live()), (vec![], 0, 0));
    // The same program with one block kept says so.
    checker.run(command("vkCreateBuffer", owner), |_| driver.alloc(16, 8, Scope::Command));
    assert_eq!(kinds(&checker), [FindingKind::CommandBlockLeft]);
}

#[test]
fn v22_a_thread_that_was_early_for_two_checkers_is_relabelled_by_each() {
    let (first, second) = (Bench::new(&SYSTEM), Bench::new(&SYSTEM));
    let blocks =
        [&first, &second].map(|bench| Sent(bench.run("vkCreateBuffer", || bench.driver.alloc(8, 8, Scope::Object))));
    thread::scope(|scope| {
        let (first, second) = (&first, &second);
        let drivers = [first.driver, second.driver];
        scope.spawn(move || {
            let blocks = blocks;
            for (driver, block) in drivers.iter().zip(&blocks) {
                driver.free(block.0);
            }
            let both = || (kinds(&first.checker), kinds(&second.checker));
            let (foreign, between) = (vec![FindingKind::FreedOnForeignThread], vec![FindingKind::FreedBetweenCommands]);
            assert_eq!(both(), (foreign.clone(), foreign.clone()));
            first.run("vkGetFenceStatus", || ());
            assert_eq!(both(), (between.clone(), foreign));
            second.run("vkGetFenceStatus", || ());
            first.run("vkGetFenceStatus", || ());
            assert_eq!(both(), (between.clone(), between));
        });
    });
}
