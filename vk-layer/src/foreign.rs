//! The driver calls the program's callbacks as they are, through the checker, which counts the calls and adds nothing to the blocks.
//!
//! Each object may bring its own (V5), in a struct that ends with the command (V6). All of one kind are one owner to the checker. They are
//! watched for as long as a command that got them runs or an object that was created with them lives.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use alloc_core::ScopeUsage;
use vk_callbacks::OwnerId;
use vk_callbacks::check::{Checked, CheckedOwner, OwnerUsage};
use vk_callbacks::raw::RawCallbacks;

use crate::accounts::{KindAccount, UNCHECKED_OWNERS, checker};
use crate::failing::FailingRef;
use crate::handle_map::{HandleMap, key};
use crate::hooks::caught;
use crate::record::{free_record, new_record};

pub(crate) struct ForeignOwner {
    pub(crate) id: OwnerId,
    /// The key is made of handle and callbacks, since two objects may have one handle.
    objects: HandleMap<WatchedObject>,
    /// The values are keys in `objects`, stored as addresses that are never dereferenced.
    keys: HandleMap<u8>,
}

impl ForeignOwner {
    pub(crate) fn new(kind: &'static str) -> Option<Self> {
        let id = OwnerId::fresh();
        let owner = CheckedOwner::new(id, kind).counted();
        checker()?.add_owner(owner).ok()?;
        Some(Self {
            id,
            objects: HandleMap::new(),
            keys: HandleMap::new(),
        })
    }

    pub(crate) fn usage(&self) -> ScopeUsage {
        let usage = self.usage_by_scope();
        usage.map(|usage| usage.total()).unwrap_or_default()
    }

    pub(crate) fn usage_by_scope(&self) -> Option<OwnerUsage> {
        checker()?.usage(self.id)
    }

    pub(crate) fn has(&self, handle: u64) -> bool {
        self.keys.get(key(handle)).is_some()
    }

    /// Without memory the object is not kept: its callbacks then stay watched and valid for ever, since the driver may call them.
    fn insert(&self, handle: u64, raw: &RawCallbacks, object: WatchedObject) {
        let own = object_key(handle, raw);
        let stays = ManuallyDrop::new(object.failing.clone());
        let Some(record) = new_record(object) else {
            return;
        };
        if !self.objects.insert(own.get(), record) {
            // SAFETY: from `new_record`, and no table has it.
            unsafe { free_record(record) };
        } else if !self.keys.insert(key(handle), address(own))
            && let Some(record) = self.objects.remove(own.get())
        {
            // SAFETY: from `new_record`; the table has it no longer.
            unsafe { free_record(record) };
        } else {
            drop(ManuallyDrop::into_inner(stays));
        }
    }

    /// Called before the command is passed on, since another object may have the handle as soon as it returns. Of several objects with the
    /// handle it is one that was created with the callbacks that are passed now, if there is one; others may be compatible too (V43).
    /// `None` for an object that was created unwatched.
    pub(crate) fn remove(&self, handle: u64, raw: &RawCallbacks) -> Option<EndedObject> {
        let own = object_key(handle, raw);
        if let Some(record) = self.objects.remove(own.get()) {
            self.keys.remove_pair(key(handle), address(own));
            return Some(EndedObject(record));
        }
        loop {
            let other = self.keys.remove(key(handle))?;
            // Otherwise another thread has just ended that object.
            if let Some(record) = self.objects.remove(other.addr().get()) {
                return Some(EndedObject(record));
            }
        }
    }
}

struct WatchedObject {
    checked: Checked,
    failing: Option<FailingRef>,
}

fn object_key(handle: u64, raw: &RawCallbacks) -> NonZeroUsize {
    let mixed = std::iter::once(key(handle))
        .chain(raw.words().map(<*mut c_void>::addr))
        .fold(0_usize, |key, word| {
            (key.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
    NonZeroUsize::MIN.saturating_add(mixed | 1)
}

fn address(key: NonZeroUsize) -> NonNull<u8> {
    NonNull::new(ptr::without_provenance_mut(key.get())).unwrap_or(NonNull::dangling())
}

/// It owns the record. The callbacks are watched until this is dropped.
pub(crate) struct EndedObject(NonNull<WatchedObject>);

impl Drop for EndedObject {
    fn drop(&mut self) {
        // SAFETY: from `new_record`; the table has it no longer.
        let object = unsafe { free_record(self.0) };
        caught(|| retire(&object.checked));
    }
}

/// It is one word, in a record of its own, so that commands without such callbacks, which are most, move no padding (see
/// docs/design/layer.md).
pub(crate) struct ForeignRecord<'a>(NonNull<ForeignUse<'a>>);

impl<'a> Deref for ForeignRecord<'a> {
    type Target = ForeignUse<'a>;

    fn deref(&self) -> &ForeignUse<'a> {
        // SAFETY: from `new_record`, and freed by the drop only.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for ForeignRecord<'_> {
    fn drop(&mut self) {
        // SAFETY: from `new_record`; no borrow outlives this value.
        drop(unsafe { free_record(self.0) });
    }
}

pub(crate) struct ForeignUse<'a> {
    owner: &'a ForeignOwner,
    raw: RawCallbacks,
    failing: Option<FailingRef>,
    pub(crate) checked: Checked,
}

impl<'a> ForeignRecord<'a> {
    /// `None` where watching is impossible: then the driver gets the callbacks as they came.
    ///
    /// # Safety
    /// Callbacks that may be called while the command runs, and while an object lives that it creates.
    pub(crate) unsafe fn new(
        kind: &'a KindAccount,
        name: &'static str,
        raw: RawCallbacks,
    ) -> Option<Self> {
        let owner = kind.foreign_or_new(name)?;
        let failing = FailingRef::new(raw, name);
        let passed = failing.as_ref().map_or(raw, FailingRef::raw);
        // SAFETY: they may be called while the command runs and its object lives; they are retired then.
        let checked = unsafe { checker()?.wrap_for(passed, owner.id) };
        if checked.is_err() {
            UNCHECKED_OWNERS.fetch_add(1, Ordering::Relaxed);
        }
        let watched = ForeignUse {
            owner,
            raw,
            failing,
            checked: checked.ok()?,
        };
        new_record(watched).map(Self)
    }
}

impl ForeignUse<'_> {
    pub(crate) const fn id(&self) -> OwnerId {
        self.owner.id
    }

    pub(crate) fn created(&self, handle: u64) {
        let passed = self.failing.as_ref().map_or(self.raw, FailingRef::raw);
        // SAFETY: `ForeignRecord::new` required the same for as long as the object lives.
        let checked = checker().map(|checker| unsafe { checker.wrap_for(passed, self.owner.id) });
        if let Some(checked) = checked.and_then(Result::ok) {
            let failing = self.failing.clone();
            let object = WatchedObject { checked, failing };
            self.owner.insert(handle, &self.raw, object);
        }
    }
}

impl Drop for ForeignUse<'_> {
    fn drop(&mut self) {
        caught(|| retire(&self.checked));
    }
}

fn retire(checked: &Checked) {
    if let Some(checker) = checker() {
        // SAFETY: the command has returned, or the object is gone: its callbacks are called no more.
        unsafe { checker.retire(checked) }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use vk_callbacks::check::Checked;
    use vk_callbacks::raw::RawCallbacks;

    use super::{ForeignOwner, ForeignUse, checker};

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
            let checked = unsafe { checker().expect("memory").wrap_for(raw, owner.id) };
            ForeignUse {
                owner: &owner,
                raw,
                failing: None,
                checked: checked.expect("a place"),
            }
        });
        uses.iter().for_each(|used| used.created(7));
        let number = |checked: &Checked| checked.raw().p_user_data.addr();
        let ended = |raw: &RawCallbacks| {
            let ended = owner.remove(7, raw)?;
            // SAFETY: the record is this one's alone.
            Some(number(&unsafe { ended.0.as_ref() }.checked))
        };
        assert!(owner.has(7) && !owner.has(8));
        assert_eq!(ended(&uses[1].raw), Some(number(&uses[1].checked)));
        let any = ended(&callbacks(64)).expect("two are left");
        let left = if any == number(&uses[0].checked) {
            2
        } else {
            0
        };
        assert_eq!(ended(&callbacks(64)), Some(number(&uses[left].checked)));
        assert!(!owner.has(7) && ended(&uses[0].raw).is_none());
    }
}
