//! Memory that is refused, the application's and the checker's own, and what V9 says about it.

use debug_guard::{FailingAllocator, Fault};
use testkit::RecordingAllocator;

use super::*;

type Failing = FailingAllocator<&'static FromGlobalAlloc<System>>;

fn failing() -> Failing {
    FailingAllocator::new(&SYSTEM, Fault::Never)
}

#[test]
fn a_finding_without_room_is_counted() {
    let memory = failing();
    let bench = Bench::new(&memory);
    let many = strangers(&bench, 300);
    let found = || found(&bench.checker, |_| ()).len();
    let free_null = || {
        bench.run("vkCreateBuffer", || {
            let requests = memory.requests();
            many.iter().for_each(|driver| driver.free(std::ptr::null_mut()));
            assert_eq!(memory.requests(), requests, "law 3");
        });
        bench.checker.lost()
    };
    memory.arm(Fault::From(0));
    let lost = free_null();
    assert!(lost > 0 && found() > 16 && found() + lost as usize == many.len());
    memory.arm(Fault::Never);
    // Now commands make room for what the frees in them may lead to.
    let mut lost = [lost, free_null()];
    for _ in 0..10 {
        lost = [lost[1], free_null()];
    }
    assert_eq!((found(), lost[1]), (many.len(), lost[0]));
}

#[test]
fn each_request_makes_room_for_what_the_frees_after_it_lead_to() {
    type Request = fn(&Driver, *mut u8) -> *mut u8;
    let requests: [Request; 3] = [
        |driver, _| driver.alloc(8, 8, Scope::Object),
        |driver, _| driver.realloc(std::ptr::null_mut(), 8, 8, Scope::Object),
        |driver, block| driver.realloc(block, 16, 8, Scope::Object),
    ];
    for request in requests {
        let bench = Bench::new(&SYSTEM);
        let many = strangers(&bench, 300);
        let bridge = std::pin::pin!(vk_callbacks::bridge::BareBridge::new(&SYSTEM));
        let driver = drive(&bench.checker, bridge.as_ref().raw(), bench.owner, "VkBuffer", 0);
        bench.run("vkCreateBuffer", || {
            let free_null = || {
                many.iter().for_each(|driver| driver.free(std::ptr::null_mut()));
                bench.checker.lost()
            };
            let mut block = driver.alloc(8, 8, Scope::Object);
            let mut lost = [0, free_null()];
            assert!(lost[1] > 0);
            for _ in 0..10 {
                block = request(&driver, block);
                lost = [lost[1], free_null()];
                if lost[0] == lost[1] {
                    return;
                }
            }
            panic!("{lost:?}");
        });
    }
}

/// As many different callbacks.
fn strangers(bench: &Bench<'_>, number: usize) -> Vec<Driver> {
    let one = |_| drive(&bench.checker, bench.app.callbacks(), OwnerId::fresh(), "VkImage", 0);
    (0..number).map(one).collect()
}

#[test]
fn freeing_takes_no_memory_whatever_it_leads_to() {
    let memory = failing();
    let bench = Bench::new(&memory);
    let stranger = App::default();
    let other = drive(&bench.checker, stranger.callbacks(), OwnerId::fresh(), "VkImage", 0);
    let [block, others, moving] =
        bench.run("vkCreateBuffer", || [8, 8, 8].map(|size| bench.driver.alloc(size, 8, Scope::Object)));
    let told = bench.run("vkCreateImage", || bench.driver.alloc(8, 8, Scope::Command));
    let requests = memory.requests();
    let mut own = [0_u8; 64];
    bench.run("vkGetFenceStatus", || {
        bench.driver.free(std::ptr::null_mut());
        bench.driver.free(own.as_mut_ptr());
        other.free(others);
        bench.driver.free(block);
        bench.driver.free(block);
        bench.driver.internal(false, 8, 0, 1);
        bench.driver.internal(false, 8, 1, 1);
        bench.driver.internal(false, 8, 0, 9);
    });
    bench.driver.internal(false, 0, 0, 1);
    bench.driver.free(told);
    std::thread::scope(|scope| {
        let (driver, moving) = (bench.driver, threads::Sent(moving));
        scope.spawn(move || {
            driver.internal(true, 0, 0, 1);
            let moving = moving;
            driver.free(moving.0);
        });
    });
    assert_eq!(memory.requests(), requests, "law 3");
    use FindingKind as Kind;
    assert_eq!(
        kinds(&bench.checker),
        [
            Kind::NullFree,
            Kind::FreedUnknown,
            Kind::FreedTwice,
            Kind::FreedThroughOther,
            Kind::InternalType,
            Kind::InternalNegative,
            Kind::NotifiedBetweenCommands,
            Kind::NotifiedOnForeignThread,
            Kind::FreedBetweenCommands,
            Kind::FreedOnForeignThread,
            Kind::CommandBlockLeft,
            Kind::BadScope,
            Kind::FreedInOtherCommand,
        ]
    );
}

#[test]
fn no_lock_is_held_when_memory_is_taken_or_given_back() {
    // It asserts law 5 at every call.
    let memory = RecordingAllocator::system();
    let bench = Bench::new(&memory);
    let many = if cfg!(miri) { 200 } else { 3000 };
    bench.run("vkCreateBuffer", || {
        let blocks: Vec<_> = (0..many).map(|size| bench.driver.alloc(size % 7 + 1, 8, Scope::Object)).collect();
        for block in blocks {
            let block = bench.driver.realloc(block, 9, 16, Scope::Object);
            bench.driver.free(block);
            bench.driver.free(block);
        }
    });
    assert_eq!(kinds(&bench.checker), [FindingKind::OtherAlignment, FindingKind::FreedTwice]);
    let counts = found(&bench.checker, |found| found.count);
    assert_eq!(counts, [many as u64, many as u64]);
    bench.checker.close().expect("nothing is live");
}

#[test]
fn v41_v44_a_handle_without_room_blames_nobody_and_calls_are_judged_all_the_same() {
    let memory = failing();
    let bench = Bench::new(&memory);
    let end = |handle| {
        bench.run("vkDestroyBuffer", || ());
        bench.checker.destroyed("VkBuffer", handle, Some(bench.owner), "vkDestroyBuffer");
    };
    let block = bench.run("vkCreateBuffer", || bench.driver.alloc(8, 8, Scope::Object));
    bench.checker.created("VkBuffer", 1, Some(bench.owner));
    memory.arm(Fault::From(0));
    let mut handle = 1;
    while bench.checker.lost() == 0 {
        handle += 1;
        bench.checker.created("VkBuffer", handle, Some(bench.owner));
    }
    memory.arm(Fault::Never);
    (1..=handle).for_each(end);
    let lost = bench.checker.lost();
    assert!(lost > 1, "what the missing handle makes doubtful is lost, too: {lost}");
    bench.run("vkDestroyBuffer", || {
        bench.driver.free(block);
        bench.driver.free(block);
    });
    let kinds = found(&bench.checker, |found| found.kind);
    assert_eq!(kinds, [FindingKind::FreedTwice]);
}
