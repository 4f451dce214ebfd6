//! The record of watched callbacks: identical callbacks of one owner are watched once.

#![forbid(unsafe_code)]

use core::ffi::c_void;
use core::ptr;

use super::handed_out::Words;
use super::owner::CallbackOwner;
use super::table::TableEntry;
use crate::raw::RawCallbacks;

/// Watched callbacks.
#[derive(Clone, Copy)]
pub(super) struct WatchedEntry {
    /// See [`identity`].
    pub(super) identity: [usize; 6],
    /// The address of the owner.
    pub(super) owner: usize,
    /// The group of the owner.
    pub(super) group: u64,
    /// The user data of the checked callbacks.
    pub(super) user_data: usize,
    /// The number of wraps less retirements.
    pub(super) uses: u32,
}

impl WatchedEntry {
    /// An entry with one use.
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

    /// Adds a use unless the callbacks ended. Returns their user data.
    pub(super) fn use_again(&mut self) -> Option<usize> {
        let uses = self.uses.checked_add(1).filter(|uses| *uses > 1)?;
        self.uses = uses;
        Some(self.user_data)
    }

    /// Ends the callbacks. False if they had ended.
    pub(super) fn end(&mut self) -> bool {
        core::mem::take(&mut self.uses) > 0
    }
}

/// The user data and the addresses of the functions.
pub(super) fn identity(raw: &RawCallbacks) -> [usize; 6] {
    Words::of(raw).map(<*mut c_void>::addr)
}

/// A short hash of the identity, never 0.
pub(super) fn hash_of(raw: &RawCallbacks) -> u32 {
    (key_of(&identity(raw)) >> 32) as u32 | 1
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
