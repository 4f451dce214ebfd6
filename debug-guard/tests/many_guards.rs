//! Many guards at once, and one of every kind.

use std::alloc::{Layout, System};

use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};
use debug_guard::{FailingAllocator, Fault, Guard, GuardError, GuardOptions, Mode, Stacks};
use testkit::Child;

fn guard(options: GuardOptions) -> Guard<FromGlobalAlloc<System>> {
    Guard::new(FromGlobalAlloc::SYSTEM, options).expect("a guard")
}

fn bytes(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a layout")
}

#[test]
fn more_guards_than_can_be_asked_are_refused() {
    const NAME: &str = "more_guards_than_can_be_asked_are_refused";
    if !Child::is_child(NAME) {
        Child::this_test(NAME).run().assert_code(0);
        return;
    }
    let mut guards = Vec::new();
    let refused = loop {
        match Guard::new(FailingAllocator::new(FromGlobalAlloc::SYSTEM, Fault::Never), GuardOptions::new(Mode::Off)) {
            Ok(guard) => guards.push(guard),
            Err(refused) => break refused,
        }
        assert!(guards.len() < 10_000);
    };
    assert_eq!((refused.error, refused.value.live_bytes()), (GuardError::TooManyGuards, 0));
    assert!(guards.len() >= 100, "{}", guards.len());
    drop(guards.pop());
    guard(GuardOptions::new(Mode::Cookie)).close().expect("there is a place again");
}

#[test]
fn every_mode_serves_with_every_depth_of_stacks() {
    for (mode, stacks) in [Mode::Off, Mode::Sampled, Mode::Cookie, Mode::Fence, Mode::Strict]
        .into_iter()
        .flat_map(|mode| [Stacks::Off, Stacks::Fast, Stacks::Full].map(|stacks| (mode, stacks)))
    {
        let guard = guard(GuardOptions::new(mode).stacks(stacks));
        for size in [1, 40, 5000, 3 << 20] {
            let block = guard.allocate(bytes(size), Scope::Object).expect("memory");
            // SAFETY: all of the block.
            unsafe { block.write_bytes(1, size) };
            // SAFETY: a live block of this guard.
            let grown = unsafe { guard.resize(block, bytes(size), bytes(size + 100), Scope::Object) }.expect("memory");
            assert_eq!(
                // SAFETY: bytes of the block.
                unsafe { grown.as_ptr().wrapping_add(size - 1).read() },
                1,
                "{mode} {stacks:?} {size}"
            );
            // SAFETY: a live block of this guard.
            unsafe { guard.deallocate(grown, bytes(size + 100), Scope::Object) };
        }
        assert_eq!(
            (guard.stats().live_blocks, guard.stats().reports, guard.check_all()),
            (0, 0, 0),
            "{mode} {stacks:?}"
        );
        guard.close().expect("nothing is live");
    }
}
