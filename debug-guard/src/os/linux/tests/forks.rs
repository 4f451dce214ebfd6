//! A fork: what is dead stays so in the child, what lives is its own.

use core::sync::atomic::{AtomicBool, Ordering};
use std::println;

use super::super::memory::readable;
use super::super::{install_fault_handler, page_size, thread_id};
use super::{alone, judge, offered, pass_on, peek, poke, provide, region, revoke, stopped};
use crate::mode::BackEnd;
use crate::os::{BackEnds, Handled, Trap};

/// Runs `f` in a child and waits for it.
fn forked(f: impl FnOnce()) {
    // SAFETY: the test has this one thread that matters; the child ends without unwinding.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_ok();
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(!well)) };
    }
    let mut status = 0;
    // SAFETY: writes a number.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "what the child found");
}

#[test]
fn a_page_that_a_child_shares_is_not_passed_on() {
    alone("forks::a_page_that_a_child_shares_is_not_passed_on", || {
        if !BackEnds::probe().offers(BackEnd::UserfaultfdMove) {
            return println!("NOT OFFERED {}", BackEnd::UserfaultfdMove);
        }
        let region = region(BackEnd::UserfaultfdMove, 16);
        provide(region, 1, 1);
        provide(region, 3, 1);
        let mut ends = [0; 2];
        // SAFETY: makes two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let [from, to] = ends;
        // SAFETY: the child only waits and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut byte = 0_u8;
            // SAFETY: one byte, read into one.
            unsafe { libc::close(to) };
            // SAFETY: one byte, read into one.
            unsafe { libc::read(from, (&raw mut byte).cast(), 1) };
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }
        assert!(!pass_on(region, 1, 5), "shared");
        assert_eq!(peek(region.address_of(1)), 0x5A, "and nothing changed");
        revoke(region, 1, 1);
        provide(region, 5, 1);
        assert!(!readable(region.address_of(1)));
        // Written to, it is the parent's own.
        poke(region.address_of(3), 1);
        assert!(pass_on(region, 3, 7));
        assert_eq!(peek(region.address_of(7)), 1);
        // SAFETY: our own end of the pipe.
        unsafe { libc::close(to) };
        // SAFETY: our own child.
        unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) };
    });
}

#[test]
fn a_descriptor_that_the_program_closes_is_made_anew() {
    alone("forks::a_descriptor_that_the_program_closes_is_made_anew", || {
        install_fault_handler(judge).expect("a handler");
        for back_end in [BackEnd::UserfaultfdMove, BackEnd::UserfaultfdCopy] {
            if !BackEnds::probe().offers(back_end) {
                println!("NOT OFFERED {back_end}");
                continue;
            }
            let region = region(back_end, 16);
            provide(region, 1, 1);
            // As daemons do.
            // SAFETY: descriptors of this process that nobody uses any more, but the guard's.
            unsafe { libc::close_range(3, u32::MAX, 0) };
            assert!(readable(region.address_of(3)), "{back_end}: nobody watches now");
            provide(region, 5, 1);
            assert!(!readable(region.address_of(7)), "{back_end}: watched again");
            assert_eq!(stopped(|| poke(region.address_of(9), 1)).0, 1, "{back_end}");
            assert_eq!(peek(region.address_of(1)), 0x5A, "{back_end}");
            // In a child's child too.
            forked(|| forked(|| assert!(!readable(region.address_of(7)), "{back_end}")));
        }
    });
}

#[test]
fn t42_a_report_may_fork_and_the_child_may_be_stopped() {
    alone("forks::t42_a_report_may_fork_and_the_child_may_be_stopped", || {
        /// Judges the first from a child, which is stopped itself meanwhile, deep in its own stack.
        fn forking(trap: &Trap) -> Handled {
            static FORKED: AtomicBool = AtomicBool::new(false);
            if !FORKED.swap(true, Ordering::Relaxed) {
                let canary = [0xA5_u8; 4096];
                core::hint::black_box(&canary);
                forked(|| {
                    let other = trap.address + page_size();
                    assert_eq!(stopped(|| poke(other, 1)), (1, 1, other));
                    assert!(
                        core::hint::black_box(&canary).iter().all(|&byte| byte == 0xA5),
                        "the report's own stack is as it was"
                    );
                });
            }
            judge(trap)
        }
        thread_id();
        install_fault_handler(forking).expect("a handler");
        for back_end in offered() {
            let region = region(back_end, 8);
            let at = region.address_of(2);
            assert_eq!(stopped(|| poke(at, 1)), (1, 1, at), "{back_end}");
            assert!(!readable(region.address_of(3)), "{back_end}: what the child let through is the child's");
        }
    });
}
