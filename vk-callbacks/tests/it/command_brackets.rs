//! Brackets: the running command and its thread.

#![cfg(feature = "std")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use vk_callbacks::command::{BracketCoverage, CommandInfo, current_command, current_thread};
use vk_callbacks::{Command, Owners};

fn run<R>(name: &'static str, body: impl FnOnce(CommandInfo) -> R) -> R {
    Command::new(name, Owners::default(), BracketCoverage::Complete).run(|frame| body(frame.info()))
}

#[test]
fn brackets_nest_without_a_limit_and_serials_rise() {
    fn nested(left: u32, above: u64) {
        run("vkQueueSubmit", |info| {
            assert!(info.serial > above);
            if left > 1 {
                nested(left - 1, info.serial);
            }
            assert_eq!(current_command().map(|c| c.serial), Some(info.serial), "the inner one left");
        });
    }
    nested(100, 0);
    assert_eq!(current_command(), None);
}

#[test]
fn v22_a_command_runs_until_it_returns_or_unwinds() {
    assert_eq!(current_command(), None);
    run("outer", |outer| {
        let unwound = catch_unwind(AssertUnwindSafe(|| run("inner", |_| std::panic::resume_unwind(Box::new(1)))));
        assert!(unwound.is_err());
        assert_eq!(current_command(), Some(outer));
    });
    assert_eq!(current_command(), None);
}

#[test]
fn v23_each_thread_has_its_own_command_and_its_own_number() {
    run("vkWaitForFences", |here| {
        assert_eq!(here.thread, current_thread());
        let (there, command) = std::thread::spawn(|| (current_thread(), current_command())).join().expect("no panic");
        assert_eq!(command, None, "a worker is in no command");
        assert!(there != here.thread && there > 0 && here.thread > 0);
        let later = std::thread::spawn(current_thread).join().expect("no panic");
        assert!(later > there, "the number of a thread that ended is not used again");
    });
}

/// Whoever walks a callback's stack knows by it where the command begins.
#[test]
#[cfg(all(feature = "std", not(miri)))]
fn a_command_says_where_on_the_stack_it_lies() {
    /// An address in a frame below the caller's.
    #[inline(never)]
    fn below() -> usize {
        let local = 0_u8;
        std::hint::black_box(&raw const local).addr()
    }
    #[inline(never)]
    fn inner() -> CommandInfo {
        run("vkCreateBuffer", |inner| {
            assert!(below() < inner.stack, "{inner:?}");
            inner
        })
    }
    #[inline(never)]
    fn outer() -> CommandInfo {
        run("vkCreateDevice", |outer| {
            let inner = inner();
            assert!(inner.stack < outer.stack, "{inner:?} in {outer:?}");
            outer
        })
    }
    let here = 0_u8;
    assert!(outer().stack < std::hint::black_box(&raw const here).addr());
}

#[test]
fn serials_of_a_thread_follow_each_other_and_those_of_several_are_never_the_same() {
    use std::collections::BTreeSet;
    const COMMANDS: u64 = 300;
    let work = || {
        let serials: Vec<u64> = (0..COMMANDS).map(|_| run("vkQueueSubmit", |info| info.serial)).collect();
        let gaps = serials.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        // At most one for each 64.
        assert!(gaps <= 5 && serials.is_sorted(), "{serials:?}");
        serials
    };
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(work)).collect();
    let mut all: BTreeSet<u64> = work().into_iter().collect();
    for thread in threads {
        all.extend(thread.join().expect("a thread that ends"));
    }
    assert_eq!(all.len() as u64, 5 * COMMANDS);
    assert!(!all.contains(&0));
}
