//! Law 1: no public operation reaches the global allocator, not even one that does so in vain.

mod operations;

use operations::{Operation, table};
use testkit::{Once, Refusing, STILL};

#[global_allocator]
static GLOBAL: Refusing = Refusing;

fn main() {
    GLOBAL.assert_it_would_notice();
    let operations: Vec<Operation<Once>> = table();
    let mut asked = 0;
    for Operation { names, how, body, .. } in &operations {
        let before = STILL.requests();
        GLOBAL.inside(|| body(&Once));
        assert_eq!(GLOBAL.refused(), 0, "{names:?} {how} asked the global allocator");
        assert_eq!(STILL.live(), 0, "{names:?} {how} left something");
        asked += STILL.requests() - before;
    }
    assert!(asked > 100, "{asked}");
    println!("{} operations, none asked the global allocator", operations.len());

    // A thread whose first call into the library is made inside, and which ends there.
    let thread = std::thread::spawn(|| {
        let operations: Vec<Operation<Once>> = table();
        GLOBAL.inside_for_good();
        operations.iter().for_each(|operation| (operation.body)(&Once));
    });
    thread.join().expect("nothing was refused");
    assert_eq!(GLOBAL.refused(), 0, "a thread's own calls, or its end, asked the global allocator");
}
