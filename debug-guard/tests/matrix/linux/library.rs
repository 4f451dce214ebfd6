//! T36, the other way round: what the C library makes of a guard's block.

use debug_guard::Mode;
use testkit::Crash;

use crate::common::{Lab, On, each, note};

#[test]
fn t36_a_block_given_to_the_c_library() {
    // The C library reads what lies in front of a block, which is not what it wrote there: whatever it makes of that
    // ends the process. A page in front is not even read.
    fn given_to_the_library(lab: &Lab) {
        let block = lab.block(64, 16);
        note("freed", 1);
        // SAFETY: broken on purpose, in a process that ends by it.
        unsafe { libc::free(block.cast()) };
        note("passed", 1);
    }
    each(On::ALL, given_to_the_library, |seen| {
        seen.note("freed");
        assert!(!seen.noted("passed"));
        if seen.config.mode != Mode::Cookie && !seen.config.is_right() {
            seen.aborted().kind("underflow").block(seen.note("block"), 64, 16).access("read");
        } else {
            let crashes = [Crash::Abort, Crash::AccessViolation];
            assert!(crashes.iter().any(|crash| seen.finished.crashed(*crash)), "{}", seen.finished);
        }
    });
}
