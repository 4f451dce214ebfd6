//! What is undone or ended when a call returns, also where something unwinds.

#![forbid(unsafe_code)]

/// Calls the function when it is dropped.
#[must_use = "dropping it calls the function"]
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
