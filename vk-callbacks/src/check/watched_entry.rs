//! Which callbacks are watched, found by what they are: the very same callbacks of one owner are watched once, however many hand them over.

#![forbid(unsafe_code)]

use core::ffi::c_void;
use core::ptr;

use super::handed_out::Words;
use super::owner::CallbackOwner;
use super::table::TableEntry;
use crate::raw::RawCallbacks;

/// Callbacks that are watched.
#[derive(Clone, Copy)]
pub(super) struct WatchedEntry {
    /// See [`identity`].
    pub(super) identity: [usize; 6],
    /// The address of the owner they belong to.
    pub(super) owner: usize,
    /// That one's group.
    pub(super) group: u64,
    /// The user data that leads to them.
    pub(super) user_data: usize,
    /// How often they were wrapped and not retired.
    pub(super) uses: u32,
}

impl WatchedEntry {
    /// One use.
    pub(super) fn new(
        raw: &RawCallbacks,
        owner: &CallbackOwner<'static>,
        user_data: *mut c_void,
    ) -> Self {
        Self {
            identity: identity(raw),
            owner: ptr::from_ref(owner).addr(),
            group: owner.group,
            user_data: user_data.addr(),
            uses: 1,
        }
    }

    /// One use more of callbacks that have not ended: the user data that leads to them.
    pub(super) fn use_again(&mut self) -> Option<usize> {
        let uses = self.uses.checked_add(1).filter(|uses| *uses > 1)?;
        self.uses = uses;
        Some(self.user_data)
    }

    /// Ends them. False where they have ended.
    pub(super) fn end(&mut self) -> bool {
        core::mem::take(&mut self.uses) > 0
    }
}

/// The addresses of the functions, and of what they work on.
pub(super) fn identity(raw: &RawCallbacks) -> [usize; 6] {
    Words::of(raw).map(<*mut c_void>::addr)
}

/// The key of all entries with this identity.
pub(super) fn key_of(identity: &[usize; 6]) -> u64 {
    identity.iter().fold(0, |key: u64, word| {
        (key.rotate_left(7) ^ *word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

impl TableEntry for WatchedEntry {
    fn key(&self) -> u64 {
        key_of(&self.identity)
    }

    fn same(&self, other: &Self) -> bool {
        self.owner == other.owner && self.identity == other.identity
    }

    fn gone(&self) -> bool {
        self.uses == 0
    }
}
