//! How a thread waits for another: the one module that names `std`.

/// A moment's pause in a loop that waits; `tries` says how long it has waited already.
pub(crate) fn relax(tries: u32) {
    #[cfg(feature = "std")]
    if tries.is_multiple_of(16) {
        std::thread::yield_now();
        return;
    }
    let _ = tries;
    core::hint::spin_loop();
}
