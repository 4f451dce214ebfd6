//! Law 1: no public operation reaches the global allocator, not even one that does so in vain.
//!
//! The global allocator of this process refuses whatever a library call asks of it, and counts. What it cannot see is the small
//! block that libc itself takes for a thread's first destructor of thread-local storage.
//!
//! Runs under miri.

mod common;
mod operations;

use operations::{Operation, Through, run, table};
use testkit::{Once, Refusing, STILL};

#[global_allocator]
static GLOBAL: Refusing = Refusing;

fn main() {
    GLOBAL.assert_it_would_notice();
    let operations: Vec<Operation<Once>> = table();
    // Under miri some seconds for ten operations: a tap goes through the bridge, too.
    let callbacks = if cfg!(miri) { &[Through::Tap][..] } else { &Through::ALL };
    for operation in &operations {
        for through in callbacks.iter().copied() {
            let before = STILL.requests();
            GLOBAL.inside(|| run(&Once, operation, through));
            let Operation { names, how, .. } = operation;
            assert_eq!(GLOBAL.refused(), 0, "{names:?} {how} ({through:?}) asked the global allocator");
            assert!(STILL.requests() > before && STILL.live() == 0, "{names:?} {how} ({through:?})");
        }
    }
    println!("{} operations through {} callbacks, none asked the global allocator", operations.len(), callbacks.len());

    // A thread whose first call into the library is made inside, and which ends there.
    let thread = std::thread::spawn(|| {
        let operations = table();
        GLOBAL.inside_for_good();
        run(&Once, &operations[0], Through::Bridge);
    });
    thread.join().expect("nothing was refused");
    assert_eq!(GLOBAL.refused(), 0, "the end of a thread asked the global allocator");
}
