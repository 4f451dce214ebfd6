//! What a layer needs of the checker: rows instead of names, commands that record without brackets, callbacks of each
//! object's own, counts without a bridge, and findings in the middle of a run.

use std::thread;

use vk_callbacks::check::RuleLevel;
use vk_callbacks::{CallbackError, CommandRow};

use super::threads::Sent;
use super::*;

#[test]
fn lc1_a_command_is_made_from_a_row_and_keeps_its_name() {
    for (index, row) in CommandRow::all().iter().enumerate() {
        assert_eq!(CommandRow::index_of(row.name), Some(index), "{}", row.name);
    }
    assert_eq!(CommandRow::index_of("vkCmdDraw"), None);
    let bench = Bench::new(&SYSTEM);
    let owners = Owners { object: Some(bench.owner), ..Owners::default() };
    // By its name it creates a buffer; the row that it comes with says otherwise, and is not looked up again.
    let map = CommandRow::of("vkMapMemory");
    let command = Command::of(map, "vkCreateBuffer", owners, BracketCoverage::Complete);
    bench.checker.run(command, |frame| {
        assert_eq!(frame.info().name, "vkCreateBuffer");
        bench.driver.free(bench.driver.alloc(8, 8, Scope::Object));
    });
    assert_eq!(kinds(&bench.checker), [FindingKind::ObjectOutsideCreate]);
    let draw = CommandRow::of("vkCmdDraw");
    let command = Command::of(draw, "vkCmdDraw", owners, BracketCoverage::Complete);
    command.run(|frame| assert_eq!(frame.info().name, "vkCmdDraw"));
    bench.checker.close().expect("nothing is live");
}

#[test]
fn lc2_what_others_free_and_what_moves_hides_nothing_that_is_left() {
    let checker = checker(&SYSTEM);
    let app = App::default();
    let [one, two] = [OwnerId::fresh(), OwnerId::fresh()];
    let driver = |id| drive(&checker, app.callbacks(), id, "VkBuffer", 7);
    let (a, b) = (driver(one), driver(two));
    let create = |driver: Driver, id, handle: u64| {
        let block = checker.run(command("vkCreateBuffer", id), |_| driver.alloc(8, 8, Scope::Object));
        checker.created("VkBuffer", handle, Some(id));
        block
    };
    let (of_a, of_b) = (create(a, one, 1), create(b, two, 2));
    // B frees A's block, with which it is compatible: its own is still there when its object goes.
    checker.run(command("vkDestroyBuffer", two), |_| b.free(of_a));
    checker.destroyed("VkBuffer", 2, Some(two), "vkDestroyBuffer");
    assert_eq!(kinds(&checker), [FindingKind::LiveAfterDestroy]);
    checker.run(command("vkDestroyBuffer", two), |_| b.free(of_b));
    // A block that moved is left as well, and one that could not be moved.
    checker.destroyed("VkBuffer", 1, Some(one), "vkDestroyBuffer");
    assert_eq!(kinds(&checker).len(), 1, "A had nothing left");
    let block = create(a, one, 3);
    let moved = checker.run(command("vkUnheardOf", one), |_| a.realloc(block, 4096, 8, Scope::Object));
    let kept = checker.run(command("vkUnheardOf", one), |_| {
        let kept = a.alloc(16, 8, Scope::Object);
        app.refuses.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(a.realloc(kept, 1 << 20, 8, Scope::Object).is_null());
        app.refuses.store(false, std::sync::atomic::Ordering::SeqCst);
        kept
    });
    checker.destroyed("VkBuffer", 3, Some(one), "vkDestroyBuffer");
    let left = found(&checker, |found| match found.owner {
        Some(owner) if owner == one => found.bytes,
        _ => 0,
    });
    assert_eq!(left.iter().sum::<u64>(), 4096 + 16);
    checker.run(command("vkDestroyBuffer", one), |_| {
        a.free(moved);
        a.free(kept);
    });
    checker.close().expect("nothing is live");
}

#[test]
fn lc3_what_commands_that_record_do_to_their_pool_is_no_finding() {
    let options = |coverage| CheckOptions { coverage, opened: Opened::ThroughLoader };
    for (coverage, pool, buffer) in [
        (BracketCoverage::Complete, Some(()), RuleLevel::Violation),
        (BracketCoverage::ExceptRecording, None, RuleLevel::Suspect),
        (BracketCoverage::Partial, Some(()), RuleLevel::Suspect),
    ] {
        let checker = Checker::new(&SYSTEM, options(coverage)).expect("there is memory");
        let app = App::default();
        let driver = |kind| {
            let id = OwnerId::fresh();
            drive(&checker, app.callbacks(), id, kind, 0)
        };
        let (of_pool, of_buffer) = (driver("VkCommandPool"), driver("VkBuffer"));
        for driver in [of_pool, of_buffer] {
            let block = Sent(driver.alloc(8, 8, Scope::Object));
            let block = driver.realloc(block.0, 16, 8, Scope::Object);
            driver.free(block);
            // Nor on a thread that does nothing but record.
            thread::scope(|scope| {
                scope.spawn(move || driver.free(driver.alloc(8, 8, Scope::Object)));
            });
        }
        let of_kind = |kind| {
            let levels = found(&checker, |found| (found.owner_kind == kind).then(|| found.level()));
            levels.into_iter().flatten().collect::<Vec<_>>()
        };
        assert_eq!(of_kind("VkCommandPool").is_empty(), pool.is_none(), "{coverage:?}");
        let found = of_kind("VkBuffer");
        assert!(!found.is_empty(), "{coverage:?}");
        assert!(found.iter().all(|level| *level == buffer), "{coverage:?}: {found:?}");
        // One bracket that knows less is enough for all of them.
        let less = Command::new("vkMapMemory", Owners::default(), BracketCoverage::Partial);
        checker.run(less, |_| ());
        of_pool.free(of_pool.alloc(8, 8, Scope::Command));
        assert!(!of_kind("VkCommandPool").is_empty(), "{coverage:?}");
        checker.close().expect("nothing is live");
    }
}

#[test]
fn lc4_a_command_of_another_checker_shows_nothing_about_a_worker() {
    let (bench, other) = (Bench::new(&SYSTEM), Bench::new(&SYSTEM));
    let off = |block: Sent| {
        let driver = bench.driver;
        thread::scope(|scope| {
            scope.spawn(move || {
                let block = block;
                driver.free(block.0);
            });
        });
    };
    let rules = || found(&bench.checker, |found| found.rules().to_vec());
    let block = || Sent(bench.run("vkCreateBuffer", || bench.driver.alloc(8, 8, Scope::Object)));
    // Both at once, the inner one of the other checker: that of this one still runs.
    let one = block();
    bench.run("vkQueueSubmit", || {
        other.run("vkQueueSubmit", || {
            bench.run("vkCreateFence", || ());
            off(one);
        });
    });
    assert_eq!(rules(), [[23]]);
    let one = block();
    other.run("vkQueueSubmit", || {
        bench.run("vkCreateFence", || ());
        off(one);
    });
    assert_eq!(rules(), [[22, 23]]);
    bench.checker.close().expect("nothing is live");
}

#[test]
fn lc5_callbacks_of_one_owner_are_many_and_end() {
    const MANY: usize = if cfg!(miri) { 50 } else { 5000 };
    let checker = checker(&SYSTEM);
    let owner = OwnerId::fresh();
    // SAFETY: the callbacks of each application are retired before it goes.
    let wrap_for = |app: &App| unsafe { checker.wrap_for(app.callbacks(), owner) };
    let app = App::default();
    assert_eq!(wrap_for(&app).map(|_| ()), Err(CallbackError::UnknownOwner));
    let of_buffers = CheckedOwner::new(owner, "VkBuffer").counted();
    checker.add_owner(of_buffers).expect("there is memory");

    // Very many at once: each has its own user data, and all count for one owner.
    let apps: Vec<App> = (0..MANY).map(|_| App::default()).collect();
    let wrapped: Vec<_> = apps.iter().map(|app| wrap_for(app).expect("there are places")).collect();
    let blocks: Vec<_> = checker.run(command("vkCreateBuffer", owner), |_| {
        let alloc = |one: &Checked| Driver(*one.raw()).alloc(24, 8, Scope::Object);
        wrapped.iter().map(alloc).collect()
    });
    assert!(apps.iter().all(|app| app.heap.live() == 1));
    let usage = checker.usage(owner).expect("counted").total();
    let live = (usage.live_blocks, usage.live_bytes);
    assert_eq!(live, (MANY as u64, MANY as u64 * 24));
    checker.run(command("vkDestroyBuffer", owner), |_| {
        for (one, block) in wrapped.iter().zip(blocks) {
            Driver(*one.raw()).free(block);
        }
    });
    // The very same callbacks are one, which ends when it was retired as often as it was wrapped.
    let again = wrap_for(&apps[0]).expect("there are places");
    assert_eq!(again.raw().p_user_data, wrapped[0].raw().p_user_data);
    let free = |one: &Checked| {
        checker.run(command("vkDestroyBuffer", owner), |_| {
            Driver(*one.raw()).free(std::ptr::null_mut());
        });
        apps[0].calls().len()
    };
    let before = free(&again);
    // SAFETY: nothing is called through them once they were retired as often as wrapped, but by the next line, to see
    // that.
    wrapped.iter().for_each(|one| unsafe { checker.retire(one) });
    assert_eq!(free(&again), before + 1, "wrapped once more");
    // SAFETY: only the next line calls through it after this, to see that nobody is there.
    unsafe { checker.retire(&again) };
    assert_eq!(free(&again), before + 1, "nobody is there");
    // SAFETY: nothing is retired twice.
    unsafe { checker.retire(&again) };
    // Their places are used again.
    let mut places = std::collections::BTreeSet::new();
    for _ in 0..1000 {
        let one = wrap_for(&app).expect("there are places");
        places.insert(one.raw().p_user_data.addr() % (1 << 18));
        // SAFETY: it was not called.
        unsafe { checker.retire(&one) };
    }
    // Other tests take some at the same time.
    assert!(places.len() < 500, "{}", places.len());
    checker.close().expect("nothing is live");
}

#[test]
fn lc6_callbacks_that_no_bridge_counts_are_counted_by_scope() {
    let checker = checker(&SYSTEM);
    let (app, owner) = (App::default(), OwnerId::fresh());
    let counted = CheckedOwner::new(owner, "VkDevice").counted();
    // SAFETY: the application outlives the checker's use.
    let checked = unsafe { checker.wrap(app.callbacks(), counted) }.expect("there is memory");
    let driver = Driver(*checked.raw());
    let usage = |scope| {
        let usage = checker.usage(owner).expect("counted").scope(scope);
        let live = (usage.live_blocks, usage.live_bytes);
        (live, usage.peak_bytes, usage.total_blocks, usage.total_bytes)
    };
    let given = Owners { device: Some(owner), ..Owners::default() };
    checker.run(Command::new("vkUnheardOf", given, BracketCoverage::Complete), |_| {
        let one = driver.alloc(100, 8, Scope::Object);
        let two = driver.alloc(50, 8, Scope::Device);
        assert_eq!(usage(Scope::Object), ((1, 100), 100, 1, 100));
        let one = driver.realloc(one, 160, 8, Scope::Object);
        assert_eq!(usage(Scope::Object), ((1, 160), 160, 1, 160));
        let one = driver.realloc(one, 10, 8, Scope::Object);
        assert_eq!(usage(Scope::Object), ((1, 10), 160, 1, 160));
        // What is refused is not counted.
        app.refuses.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(driver.alloc(7, 8, Scope::Object).is_null());
        app.refuses.store(false, std::sync::atomic::Ordering::SeqCst);
        let total = checker.usage(owner).expect("counted").total();
        assert_eq!((total.live_bytes, total.peak_bytes), (60, 210));
        driver.free(one);
        driver.free(two);
    });
    assert_eq!(usage(Scope::Object), ((0, 0), 160, 1, 160));
    assert_eq!(usage(Scope::Device), ((0, 0), 50, 1, 50));
    assert_eq!(checker.usage(OwnerId::fresh()), None);
    checker.close().expect("nothing is live");
}

#[test]
fn lc7_what_is_left_is_read_in_the_middle_and_told_once_at_the_end() {
    let bench = Bench::new(&SYSTEM);
    let block = bench.run("vkCreateBuffer", || {
        bench.driver.internal(true, 64, 0, 1);
        bench.driver.alloc(40, 8, Scope::Object)
    });
    let middle = || {
        let found = bench.checker.findings_at_end(Scoped::new(&SYSTEM, Scope::Object)).expect("there is memory");
        let row = |found: &CheckFinding<'_>| (found.kind, found.count, found.bytes);
        found.iter().map(row).collect::<Vec<_>>()
    };
    let left = [(FindingKind::LiveAtEnd, 1, 40), (FindingKind::InternalAtEnd, 1, 64)];
    // As often as one likes, and the check goes on without a word of it.
    for _ in 0..2 {
        let mut found = middle();
        found.sort_by_key(|(kind, ..)| *kind as u8 != FindingKind::LiveAtEnd as u8);
        assert_eq!(found, left);
        assert_eq!(kinds(&bench.checker), []);
    }
    bench.run("vkDestroyBuffer", || {
        bench.driver.free(block);
        bench.driver.internal(false, 64, 0, 1);
    });
    assert_eq!(middle(), []);
    let block = bench.run("vkCreateBuffer", || bench.driver.alloc(8, 8, Scope::Object));
    bench.checker.finish();
    assert_eq!(middle(), [(FindingKind::LiveAtEnd, 1, 8)], "told once");
    bench.run("vkDestroyBuffer", || bench.driver.free(block));
    bench.checker.close().expect("nothing is live");
}
