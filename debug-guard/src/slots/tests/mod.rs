//! Slots over the system's own pages, and over pages of paper, which tell when they are misused and can be had under
//! miri.

#[cfg(not(miri))]
mod kernel;
mod paper;

use core::alloc::Layout;

use alloc_core::Scope;

use super::Slots;

/// The layout and scope of the live block at `address`; any others if there is none.
fn allocated_with(slots: &Slots, address: usize) -> (Layout, Scope) {
    match slots.validate_pointer(address) {
        Ok(known) => (Layout::from_size_align(known.size, known.align).expect("a layout"), known.scope),
        Err(_) => (Layout::new::<u8>(), Scope::Object),
    }
}
