#![forbid(unsafe_code)]

pub(crate) struct Defer<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for Defer<F> {
    #[inline]
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Where a step unwinds, the others are called all the same before the panic goes on; a second one aborts.
#[inline]
pub(crate) fn run_to_end(mut step: impl FnMut() -> bool) {
    let mut rest = Defer(|| while step() {});
    (rest.0)();
    core::mem::forget(rest);
}
