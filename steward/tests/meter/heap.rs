//! How much more of the C library's heap is in use after threads came and went.

use std::hint::black_box;
use std::thread;

/// Prints the bytes; with a leak, each thread keeps a small block.
pub(super) fn print(leak: bool) {
    let thread = || {
        let once = move || {
            let block: Box<[u8; 40]> = Box::new(black_box([1; 40]));
            if leak {
                black_box(Box::leak(block));
            }
        };
        thread::spawn(once).join().expect("it does not panic");
    };
    // The first thread makes what the runtime and the C library keep.
    thread();
    let before = in_use();
    for _ in 0..64 {
        thread();
    }
    println!("{}", in_use() - before);
}

fn in_use() -> usize {
    // SAFETY: asks for nothing.
    unsafe { libc::mallinfo2() }.uordblks
}
