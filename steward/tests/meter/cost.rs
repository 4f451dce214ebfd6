//! What a block costs, taken and given back.

use std::hint::black_box;
use std::time::Instant;

unsafe extern "C" {
    safe fn malloc(size: usize) -> *mut std::ffi::c_void;
    fn free(block: *mut std::ffi::c_void);
}

const ROUNDS: u32 = 40;
const PAIRS: u32 = 100_000;

/// Prints picoseconds a pair: the best of many rounds, which whatever else the machine does cannot make better.
pub(super) fn print() {
    let round = || {
        let began = Instant::now();
        for _ in 0..PAIRS {
            let block = black_box(malloc(black_box(64)));
            // SAFETY: taken above.
            unsafe { free(block) };
        }
        began.elapsed().as_nanos() * 1000 / u128::from(PAIRS)
    };
    println!("{}", (0..ROUNDS).map(|_| round()).min().unwrap_or_default());
}
