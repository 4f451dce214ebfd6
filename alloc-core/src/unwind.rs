//! What is to be done also where a call out of the library unwinds.

#![forbid(unsafe_code)]

/// Calls its function when it is dropped.
pub(crate) struct Defer<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for Defer<F> {
    #[inline]
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Calls `step` until it returns false. Where a step unwinds, the others are called all the same before the panic goes
/// on; a second one aborts.
#[inline]
pub(crate) fn run_to_end(mut step: impl FnMut() -> bool) {
    let mut rest = Defer(|| while step() {});
    (rest.0)();
    core::mem::forget(rest);
}
