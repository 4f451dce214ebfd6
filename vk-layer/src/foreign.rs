//! The driver calls the program's callbacks as they are, through the checker, which counts the calls and adds nothing
//! to the blocks.
//!
//! Each object may bring its own (V5), in a struct that ends with the command (V6). All of one kind are one owner to
//! the checker. They are watched for as long as a command that got them runs or an object that was created with them
//! lives.

use std::ops::Deref;
use std::sync::atomic::Ordering;

use alloc_core::ScopeUsage;
use vk_callbacks::OwnerId;
use vk_callbacks::check::{Checked, CheckedOwner, OwnerUsage};
use vk_callbacks::raw::RawCallbacks;

use crate::accounts::{KindAccount, UNCHECKED_OWNERS, checker};
use crate::failing::FailingRef;
use crate::handle_records::HandleRecords;
use crate::hooks::caught;
use crate::record::OwnRecord;

pub(crate) struct ForeignOwner {
    pub(crate) id: OwnerId,
    objects: HandleRecords<WatchedCallbacks>,
}

impl ForeignOwner {
    pub(crate) fn new(kind: &'static str) -> Option<Self> {
        let id = OwnerId::fresh();
        let owner = CheckedOwner::new(id, kind).counted();
        checker()?.add_owner(owner).ok()?;
        Some(Self { id, objects: HandleRecords::new() })
    }

    pub(crate) fn usage(&self) -> ScopeUsage {
        let usage = self.usage_by_scope();
        usage.map(|usage| usage.total()).unwrap_or_default()
    }

    pub(crate) fn usage_by_scope(&self) -> Option<OwnerUsage> {
        checker()?.usage(self.id)
    }

    pub(crate) fn has(&self, handle: u64) -> bool {
        self.objects.has(handle)
    }

    /// Called before the command is passed on, since another object may have the handle as soon as it returns. Of
    /// several objects with the handle it is one that was created with the callbacks that are passed now, if there is
    /// one; others may be compatible too (V43). `None` for an object that was created unwatched.
    pub(crate) fn remove(&self, handle: u64, raw: &RawCallbacks) -> Option<EndedObject> {
        let is_like = |watched: &WatchedCallbacks| watched.raw.words() == raw.words();
        self.objects.remove_like(handle, is_like)
    }
}

/// The object's callbacks are watched until this is dropped.
pub(crate) type EndedObject = OwnRecord<WatchedCallbacks>;

/// Callbacks of the program, which are watched until this is dropped.
pub(crate) struct WatchedCallbacks {
    raw: RawCallbacks,
    failing: Option<FailingRef>,
    pub(crate) checked: Checked,
}

impl WatchedCallbacks {
    /// # Safety
    /// Callbacks that may be called until the answer is dropped.
    unsafe fn new(owner: OwnerId, raw: RawCallbacks, failing: Option<FailingRef>) -> Option<Self> {
        let passed = failing.as_ref().map_or(raw, FailingRef::raw);
        // SAFETY: they may be called until they are retired.
        let checked = unsafe { checker()?.wrap_for(passed, owner) }.ok()?;
        Some(Self { raw, failing, checked })
    }
}

impl Drop for WatchedCallbacks {
    fn drop(&mut self) {
        caught(|| {
            if let Some(checker) = checker() {
                // SAFETY: the command has returned, or the object is gone: its callbacks are called no more.
                unsafe { checker.retire(&self.checked) }
            }
        });
    }
}

/// One word, so that commands without such callbacks, which are most, move no padding (see docs/design/layer.md).
pub(crate) type ForeignRecord<'a> = OwnRecord<ForeignUse<'a>>;

pub(crate) struct ForeignUse<'a> {
    owner: &'a ForeignOwner,
    watched: WatchedCallbacks,
}

impl<'a> ForeignUse<'a> {
    /// `None` where watching is impossible: then the driver gets the callbacks as they came.
    ///
    /// # Safety
    /// Callbacks that may be called while the command runs, and while an object lives that it creates.
    pub(crate) unsafe fn record(
        kind: &'a KindAccount,
        name: &'static str,
        raw: RawCallbacks,
    ) -> Option<ForeignRecord<'a>> {
        let owner = kind.foreign_or_new(name)?;
        // SAFETY: they may be called while the command runs.
        let watched = unsafe { WatchedCallbacks::new(owner.id, raw, FailingRef::new(raw, name)) };
        if watched.is_none() {
            UNCHECKED_OWNERS.fetch_add(1, Ordering::Relaxed);
        }
        let watched = watched?;
        OwnRecord::new(Self { owner, watched })
    }

    pub(crate) const fn id(&self) -> OwnerId {
        self.owner.id
    }

    /// Without memory the object is not kept: its callbacks then stay watched and valid for ever, since the driver may
    /// call them.
    pub(crate) fn created(&self, handle: u64) {
        let failing = self.failing.clone();
        // SAFETY: `record` required the same for as long as the object lives.
        if let Some(watched) = unsafe { WatchedCallbacks::new(self.owner.id, self.raw, failing) } {
            self.owner.objects.insert(handle, watched);
        }
    }
}

impl Deref for ForeignUse<'_> {
    type Target = WatchedCallbacks;

    fn deref(&self) -> &WatchedCallbacks {
        &self.watched
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use vk_callbacks::check::Checked;
    use vk_callbacks::raw::RawCallbacks;

    use super::{ForeignOwner, ForeignUse, WatchedCallbacks};

    fn callbacks(number: usize) -> RawCallbacks {
        unsafe extern "system" fn allocation(
            _: *mut std::ffi::c_void,
            _: usize,
            _: usize,
            _: vk_callbacks::raw::RawScope,
        ) -> *mut std::ffi::c_void {
            ptr::null_mut()
        }
        unsafe extern "system" fn reallocation(
            _: *mut std::ffi::c_void,
            _: *mut std::ffi::c_void,
            _: usize,
            _: usize,
            _: vk_callbacks::raw::RawScope,
        ) -> *mut std::ffi::c_void {
            ptr::null_mut()
        }
        unsafe extern "system" fn free(_: *mut std::ffi::c_void, _: *mut std::ffi::c_void) {}
        RawCallbacks {
            p_user_data: ptr::without_provenance_mut(number),
            pfn_allocation: Some(allocation),
            pfn_reallocation: Some(reallocation),
            pfn_free: Some(free),
            pfn_internal_allocation: None,
            pfn_internal_free: None,
        }
    }

    #[test]
    fn ly15_of_objects_with_one_handle_those_with_the_callbacks_that_are_passed_end() {
        let owner = ForeignOwner::new("VkSampler").expect("memory");
        let uses = [16, 32, 48].map(|number| {
            let raw = callbacks(number);
            // SAFETY: functions that do nothing.
            let watched = unsafe { WatchedCallbacks::new(owner.id, raw, None) };
            ForeignUse { owner: &owner, watched: watched.expect("memory and a place") }
        });
        uses.iter().for_each(|used| used.created(7));
        let number = |checked: &Checked| checked.raw().p_user_data.addr();
        let ended = |raw: &RawCallbacks| {
            let ended = owner.remove(7, raw)?;
            Some(number(&ended.checked))
        };
        assert!(owner.has(7) && !owner.has(8));
        assert_eq!(ended(&uses[1].raw), Some(number(&uses[1].checked)));
        let any = ended(&callbacks(64)).expect("two are left");
        let left = if any == number(&uses[0].checked) { 2 } else { 0 };
        assert_eq!(ended(&callbacks(64)), Some(number(&uses[left].checked)));
        assert!(!owner.has(7) && ended(&uses[0].raw).is_none());
    }
}
