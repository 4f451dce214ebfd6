//! T46: every request of the guard's own fails once, by number, scope, chance and size.

use std::alloc::System;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use alloc_core::{AllocError, FromGlobalAlloc, HostAllocator, Scope};
use debug_guard::{FailingAllocator, Fault, Guard};

use crate::common::{Lab, On, each, layout, note, stores};

type Failing = FailingAllocator<FromGlobalAlloc<System>>;

/// Takes, grows, shrinks and gives back some blocks; stops at the first refusal, and gives back what it had.
fn works(host: &dyn HostAllocator) -> Result<(), AllocError> {
    let mut held = Vec::new();
    let answer = takes_some(host, &mut held);
    for (block, size, scope) in held {
        // SAFETY: a live block of that layout and scope.
        unsafe { host.deallocate(block, layout(size, 16), scope) };
    }
    answer
}

type Held = Vec<(std::ptr::NonNull<u8>, usize, Scope)>;

fn takes_some(host: &dyn HostAllocator, held: &mut Held) -> Result<(), AllocError> {
    for (number, scope) in Scope::ALL.into_iter().cycle().take(40).enumerate() {
        let size = [1, 64, 5000, 100 << 10][number % 4];
        let block = if number % 3 == 0 {
            host.allocate_zeroed(layout(size, 16), scope)
        } else {
            host.allocate(layout(size, 16), scope)
        }?;
        stores(block.as_ptr().wrapping_add(size - 1), 0x41);
        held.push((block, size, scope));
        if number % 5 == 4 {
            let last = held.len() - 1;
            let (block, size, scope) = held[last];
            // SAFETY: a live block of that layout and scope.
            let grown = unsafe { host.resize(block, layout(size, 16), layout(size * 3, 16), scope) }?;
            held[last] = (grown, size * 3, scope);
        }
    }
    Ok(())
}

fn guard(lab: &Lab, fault: Fault) -> Result<Guard<Failing>, ()> {
    Guard::new(FailingAllocator::new(FromGlobalAlloc::SYSTEM, fault), Lab::options(lab.config)).map_err(|refused| {
        assert_eq!(refused.value.live_bytes(), 0, "a guard that was not made keeps nothing");
    })
}

/// Works over a guard whose allocator behind fails as planned from the beginning; then works again, with nothing
/// refused.
fn fails(lab: &Lab, fault: Fault, outcomes: &[AtomicU64; 3]) {
    let Ok(guard) = guard(lab, fault) else {
        outcomes[0].fetch_add(1, SeqCst);
        return;
    };
    let answer = works(&guard);
    outcomes[if answer.is_err() { 1 } else { 2 }].fetch_add(1, SeqCst);
    assert_eq!(guard.stats().live_blocks, 0, "{fault:?}");
    guard.inner().disarm();
    works(&guard).expect("nothing is refused any more");
    assert_eq!((guard.stats().live_blocks, guard.stats().reports), (0, 0), "{fault:?}");
    let behind = guard.close().expect("nothing is live");
    assert_eq!(behind.live_bytes(), 0, "{fault:?}: nothing is left behind");
}

#[test]
fn t46_every_request_of_the_guard_fails_once() {
    fn case(lab: &Lab) {
        let whole = guard(lab, Fault::Never).expect("nothing refused");
        works(&whole).expect("nothing refused");
        let requests = whole.inner().requests();
        drop(whole);
        note("requests", requests as usize);
        let outcomes = [const { AtomicU64::new(0) }; 3];
        for n in 0..requests {
            fails(lab, Fault::Nth(n), &outcomes);
        }
        for n in (0..requests).step_by(7) {
            fails(lab, Fault::From(n), &outcomes);
        }
        for scope in Scope::ALL {
            fails(lab, Fault::Scope(scope, 0), &outcomes);
        }
        for seed in 0..20 {
            fails(lab, Fault::OneIn { requests: 5, seed }, &outcomes);
        }
        for limit in [0, 4096, 100_000, 1 << 20] {
            fails(lab, Fault::LiveBytes(limit), &outcomes);
            fails(lab, Fault::SizeAbove(limit), &outcomes);
        }
        for (name, outcome) in ["no guard", "refused", "went well"].into_iter().zip(&outcomes) {
            note(name, outcome.load(SeqCst) as usize);
        }
        // So that what the laboratory's own guard says holds as well.
        lab.give(lab.take(64, 16), 64, 16);
    }
    each(On::ALL, case, |seen| {
        seen.quiet(1);
        assert!(seen.note("no guard") > 0 && seen.note("requests") > 0, "{}", seen.finished);
        // Of a guard with pages few requests go to the allocator behind.
        assert!(seen.note("went well") > 0 && seen.note("refused") > 0, "{}: {}", seen.config.name(), seen.finished);
    });
}

/// Around a guard: who asks it hears of the refusal, and the guard keeps nothing.
#[test]
fn t46_every_request_in_front_of_the_guard_fails_once() {
    fn case(lab: &Lab) {
        let failing = FailingAllocator::new(&lab.guard, Fault::Never);
        works(&failing).expect("nothing refused");
        let requests = failing.requests();
        note("requests", requests as usize);
        let mut plans: Vec<_> = (0..requests).map(Fault::Nth).collect();
        plans.extend(Scope::ALL.map(|scope| Fault::Scope(scope, 0)));
        plans.extend((0..20).map(|seed| Fault::OneIn { requests: 5, seed }));
        plans.extend([0, 100_000].map(Fault::LiveBytes));
        plans.extend([0, 64, 5000].map(Fault::SizeAbove));
        for plan in plans {
            failing.arm(plan);
            assert!(works(&failing).is_err(), "{plan:?}");
            assert_eq!((failing.live_bytes(), lab.guard.stats().live_blocks), (0, 0), "{plan:?}");
            failing.disarm();
            works(&failing).expect("the next try succeeds");
        }
        note("found", lab.guard.check_all());
    }
    each(On::ALL, case, |seen| {
        seen.quiet(40);
        assert!(seen.note("requests") >= 40);
        assert_eq!(seen.note("found"), 0);
    });
}
