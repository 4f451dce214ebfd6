//! Law 1: no public operation in any mode reaches the global allocator, not even one that does so in vain.

mod operations;

use operations::{MODES, Operation, table};
use testkit::{Once, Refusing, STILL};

#[global_allocator]
static GLOBAL: Refusing = Refusing;

fn main() {
    GLOBAL.assert_it_would_notice();
    let operations: Vec<Operation<Once>> = table();
    let mut asked = 0;
    for Operation { names, how, body, .. } in &operations {
        for mode in MODES {
            let before = STILL.requests();
            GLOBAL.inside(|| body(&Once, mode));
            assert_eq!(GLOBAL.refused(), 0, "{names:?} {how} ({mode}) asked the global allocator");
            assert_eq!(STILL.live(), 0, "{names:?} {how} ({mode}) left something");
            asked += STILL.requests() - before;
        }
    }
    assert!(asked > 100, "{asked}");
    println!("{} operations in {} modes, none asked the global allocator", operations.len(), MODES.len());

    // A thread whose first call into the library is made inside, and which ends there.
    let thread = std::thread::spawn(|| {
        let operations: Vec<Operation<Once>> = table();
        GLOBAL.inside_for_good();
        for mode in MODES {
            (operations[0].body)(&Once, mode);
        }
    });
    thread.join().expect("nothing was refused");
    assert_eq!(GLOBAL.refused(), 0, "the end of a thread asked the global allocator");
}
