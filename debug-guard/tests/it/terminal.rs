//! A report is text alone where people read it, and has its line for programs everywhere else.

use std::alloc::{Layout, System};

use alloc_core::{FromGlobalAlloc, HostAllocator as _, Scope};
use debug_guard::{Guard, GuardOptions, Mode, OnReport};
use testkit::{Child, TerminalOutput};

const TEST: &str = "a_terminal_gets_no_line_for_programs_unless_it_is_asked_for";
const ASKED: &str = "DEBUG_GUARD_TEST_JSON";

/// A damaged block and a leak of a guard whose options say nothing of JSON, yes or no.
fn reports() {
    let options = GuardOptions::new(Mode::Cookie).on_report(OnReport::Log).exit_leaks(0);
    let options = match std::env::var(ASKED).as_deref() {
        Ok("yes") => options.json(true),
        Ok("no") => options.json(false),
        _ => options,
    };
    let guard = Guard::new(FromGlobalAlloc::<System>::SYSTEM, options).expect("a guard");
    let layout = Layout::new::<[u8; 40]>();
    let take = || guard.allocate(layout, Scope::Object).expect("memory");
    let (block, _left) = (take(), take());
    // SAFETY: broken on purpose: the byte after the block, which is the guard's own.
    unsafe { block.as_ptr().wrapping_add(40).write(0) };
    // SAFETY: allocated above with this layout and scope.
    unsafe { guard.deallocate(block, layout, Scope::Object) };
    // It lists what is left when the process exits.
    std::mem::forget(guard);
}

#[test]
fn a_terminal_gets_no_line_for_programs_unless_it_is_asked_for() {
    if Child::is_child(TEST) {
        return reports();
    }
    let child = |asked: &str| Child::this_test(TEST).env(ASKED, asked);
    let lines = |text: &str| {
        for said in ["debug-guard: overflow: ", "debug-guard: leak: 1 block, "] {
            assert!(text.contains(said), "{said}: {text}");
        }
        text.lines().filter(|line| line.starts_with("{\"debug_guard\":1,")).count()
    };
    let terminal = |asked| lines(&child(asked).run_on_terminal(100, TerminalOutput::ErrorOutput));
    let piped = |asked| lines(&child(asked).run().assert_code(0).stderr);
    assert_eq!((terminal(""), piped("")), (0, 2));
    assert_eq!((terminal("yes"), piped("yes")), (2, 2));
    assert_eq!((terminal("no"), piped("no")), (0, 0));
}
