//! Waiting until a word changes.

use crate::sync::{AtomicU32, Ordering};

/// Until the word is another one, whoever changes it.
pub(crate) fn wait_while(word: &AtomicU32, value: u32) {
    while word.load(Ordering::Acquire) == value {
        loom::thread::yield_now();
    }
}

/// Who waits looks again anyway.
pub(crate) const fn wake(_: &AtomicU32) {}
