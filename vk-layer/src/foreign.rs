//! Callbacks of the program: the driver calls them as they are, through the checker, which counts what comes and adds nothing.
//!
//! Each object may bring its own (V5), in a struct that is gone after the command (V6). All of one kind are one owner to the checker.
//! They are watched for as long as a command that got them runs or an object that was created with them lives.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use alloc_core::{ScopeUsage, TryBox};
use vk_callbacks::{Checked, CheckedOwner, OwnerId, OwnerUsage, RawCallbacks};

use crate::accounts::{KindAccount, UNCHECKED_OWNERS, checker};
use crate::handle_map::{HandleMap, key};
use crate::hooks::caught;
use crate::record::{Own, free_record, new_record, own};

/// What is known of the program's callbacks for one kind of object.
pub(crate) struct ForeignOwner {
    pub(crate) id: OwnerId,
    /// Objects that live, with the callbacks that they were created with.
    objects: HandleMap<Checked>,
}

impl ForeignOwner {
    pub(crate) fn new(kind: &'static str) -> Option<Self> {
        let id = OwnerId::fresh();
        let owner = CheckedOwner::new(id, kind).counted();
        checker()?.add_owner(owner).ok()?;
        Some(Self {
            id,
            objects: HandleMap::new(),
        })
    }

    /// What came through the callbacks, in the sizes that were asked for.
    pub(crate) fn usage(&self) -> ScopeUsage {
        let usage = self.usage_by_scope();
        usage.map(|usage| usage.total()).unwrap_or_default()
    }

    /// The same, scope by scope.
    pub(crate) fn usage_by_scope(&self) -> Option<OwnerUsage> {
        checker()?.usage(self.id)
    }

    /// Whether the object was created with callbacks that are watched.
    pub(crate) fn has(&self, handle: u64) -> bool {
        self.objects.get(key(handle)).is_some()
    }

    /// The object is about to be destroyed: takes out what it was created with. Before the command goes down, since another object may have
    /// the handle as soon as it is back. `None` for an object that was created when nobody watched.
    pub(crate) fn remove(&self, handle: u64) -> Option<EndedObject> {
        self.objects.remove(key(handle)).map(EndedObject)
    }
}

/// What an object was created with that is being destroyed: watched until this goes. The record is this one's alone.
pub(crate) struct EndedObject(NonNull<Checked>);

impl Drop for EndedObject {
    fn drop(&mut self) {
        // SAFETY: from `new_record`; the table had it alone, and has it no longer.
        let checked = unsafe { free_record(self.0) };
        caught(|| retire(&checked));
    }
}

/// Callbacks of the program that a command has got: over when it goes. In a record, since most commands have none: theirs would move
/// its room about.
pub(crate) type ForeignRecord<'a> = TryBox<ForeignUse<'a>, Own>;

/// See [`ForeignRecord`].
pub(crate) struct ForeignUse<'a> {
    owner: &'a ForeignOwner,
    raw: RawCallbacks,
    /// What the driver is given.
    pub(crate) checked: Checked,
}

impl<'a> ForeignUse<'a> {
    /// Watches them; `None` where nobody can: then the driver is given them as they came.
    ///
    /// # Safety
    /// Callbacks that may be called while the command runs, and while an object lives that it creates.
    pub(crate) unsafe fn new(
        kind: &'a KindAccount,
        name: &'static str,
        raw: RawCallbacks,
    ) -> Option<ForeignRecord<'a>> {
        let owner = kind.foreign_or_new(name)?;
        // SAFETY: the caller's promise; they are retired when neither is there any more.
        let checked = unsafe { checker()?.wrap_for(raw, owner.id) };
        if checked.is_err() {
            UNCHECKED_OWNERS.fetch_add(1, Ordering::Relaxed);
        }
        let watched = Self {
            owner,
            raw,
            checked: checked.ok()?,
        };
        TryBox::try_new_in(watched, own()).ok()
    }

    pub(crate) const fn id(&self) -> OwnerId {
        self.owner.id
    }

    /// The command has created an object, which may call them until it is destroyed.
    pub(crate) fn created(&self, handle: u64) {
        // SAFETY: as in `new`; they are retired when the object is gone.
        let checked = checker().map(|checker| unsafe { checker.wrap_for(self.raw, self.owner.id) });
        let Some(record) = checked.and_then(Result::ok).and_then(new_record) else {
            return;
        };
        if !self.owner.objects.insert(key(handle), record) {
            // SAFETY: from `new_record`, and no table has it. They stay watched: the object may call them.
            unsafe { free_record(record) };
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
        // SAFETY: the command has returned, or the object is gone: Vulkan lets nobody call what it was given for it any more.
        unsafe { checker.retire(checked) }
    }
}
