//! What a handler sees of the thread that it interrupted.

use core::hint::black_box;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::SeqCst;
use std::println;
use std::process::exit;

use testkit::Child;

use crate::call_sites::walk_from;
use crate::os::{self, Handled, Trap};

static MARK: AtomicUsize = AtomicUsize::new(0);

/// Reads where nothing is.
#[inline(never)]
fn innermost(address: usize) -> u64 {
    // SAFETY: none: the handler ends the process.
    let value = unsafe { core::ptr::with_exposed_provenance::<u64>(address).read_volatile() };
    black_box(value)
}

#[inline(never)]
fn middle(address: usize) -> u64 {
    black_box(innermost(black_box(address))) + 1
}

#[inline(never)]
fn command(address: usize) -> u64 {
    let frame = 0_u8;
    MARK.store(black_box(&raw const frame).addr(), SeqCst);
    let answer = middle(address);
    black_box(&frame);
    answer
}

fn on_trap(trap: &Trap) -> Handled {
    let mut frames = [0; 40];
    let (count, whole) = walk_from(trap.pc, trap.frame, trap.stack, MARK.load(SeqCst), &mut frames);
    let within =
        |frame: usize, function: fn(usize) -> u64| (function as usize..function as usize + 1024).contains(&frame);
    // Without optimisation the read is a function of its own.
    let own = usize::from(!within(frames[0], innermost));
    for (n, function) in [innermost, middle, command].into_iter().enumerate() {
        assert!(within(frames[own + n], function), "frame {n}: {:x?}", &frames[..count]);
    }
    assert_eq!((frames[0], count), (trap.pc, own + 3));
    println!("seen whole: {whole}");
    exit(7)
}

#[test]
fn a_stopped_thread_is_seen_up_to_its_command() {
    const NAME: &str = "call_sites::tests::stopped::a_stopped_thread_is_seen_up_to_its_command";
    if Child::is_child(NAME) {
        os::install_fault_handler(on_trap).expect("the handler can be had");
        let on_thread = std::thread::spawn(|| command(black_box(4096 - 8)));
        let _ = on_thread.join();
        return;
    }
    let child = Child::this_test(NAME).run();
    child.assert_code(7);
    assert!(child.stdout.contains("seen whole: true"), "{child}");
}
