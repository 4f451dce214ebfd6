//! Signal handlers of a guard, in child processes.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use vk_callbacks::raw::RawCallbacks;

use crate::driver::Layer;
use crate::judging::report_of;

const NONE: *const RawCallbacks = ptr::null();
static SEEN: AtomicU32 = AtomicU32::new(0);

/// Never inlined: its address is compared, and an optimising compiler makes copies of small functions, each with its
/// own.
#[inline(never)]
extern "C" fn handler(_: i32) {
    SEEN.fetch_add(1, Ordering::Relaxed);
}

fn own_handler() -> usize {
    handler as *const () as usize
}

/// The handler of a signal now.
fn handler_of(signal: i32) -> usize {
    // SAFETY: a struct of integers and pointers that may be null.
    let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
    // SAFETY: asks only; the struct may be written.
    let result = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
    assert_eq!(result, 0);
    action.sa_sigaction
}

fn set_handler(signal: i32) {
    // SAFETY: all zeros are a `sigaction`.
    let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
    action.sa_sigaction = own_handler();
    // SAFETY: a handler that may run at any moment: it adds to an atomic.
    let result = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    assert_eq!(result, 0);
}

#[test]
fn ly32_handlers_come_with_a_guard_and_the_first_instance_and_pass_on_what_is_not_theirs() {
    let test = "ly32_handlers_come_with_a_guard_and_the_first_instance_and_pass_on_what_is_not_theirs";
    for guard in ["strict", ""] {
        let report = report_of(test, &[("GUARD", guard)], || {
            let is_guarded = std::env::var_os("VK_STEWARD_MEMORY_GUARD").is_some_and(|set| set == "strict");
            let others = [libc::SIGTERM, libc::SIGINT, libc::SIGUSR1, libc::SIGUSR2];
            set_handler(libc::SIGSEGV);
            others.into_iter().for_each(set_handler);
            let layer = Layer::new();
            assert_eq!(handler_of(libc::SIGSEGV), own_handler(), "before an instance");
            let instance = layer.create_instance(NONE).expect("an instance");
            assert_eq!(handler_of(libc::SIGSEGV) != own_handler(), is_guarded);
            for other in others {
                assert_eq!(handler_of(other), own_handler(), "signal {other}");
            }
            // SAFETY: the handlers return.
            assert_eq!(unsafe { libc::raise(libc::SIGSEGV) }, 0);
            assert_eq!(SEEN.load(Ordering::Relaxed), 1, "the program's own");
            layer.destroy_instance(instance, NONE);
        });
        let Some(report) = report else { return };
        assert_eq!(report["guard"] != Value::Null, guard == "strict");
    }
}
