//! Deferred commands: their objects exist once the operation is done, which the commands that join it report.

use std::mem::transmute;

use vk_callbacks::command::current_thread;
use vk_callbacks::{OwnerId, Owners};

use super::bracket::{Passed, count_created, created_with, run};
use super::fence::{caught, fenced};
use super::generic::{Next, clear, handles};
use super::{CREATE_CACHE, CREATE_DEFERRED, Callbacks, Handle, Info};
use crate::accounts::Accounts;
use crate::chain::{ERROR_INITIALIZATION_FAILED, OPERATION_DEFERRED, VoidFunction};
use crate::commands::row;
use crate::foreign::{ForeignRecord, ForeignUse};
use crate::handle_records::HandleRecords;
use crate::leaks::CalledCommand;
use crate::once::OnceAcrossForks;

/// Operations that something was deferred with, until they are destroyed or used again.
pub(crate) struct DeferredOperations(HandleRecords<Deferred>);

pub(crate) struct Deferred {
    index: usize,
    count: u32,
    /// The program's array, as an address: the handles are written when the operation is done.
    objects: usize,
    owner: Option<OwnerId>,
    called: Option<CalledCommand>,
    /// The layer below may keep their address, and call them, until the operation is done.
    foreign: Option<ForeignRecord<'static>>,
    noted: OnceAcrossForks,
}

impl Deferred {
    /// # Safety
    /// `allocator` is NULL, or callbacks that may be called until the operation is done and as long as what it creates
    /// lives.
    unsafe fn new(
        index: usize,
        accounts: &'static Accounts,
        allocator: Callbacks,
        (count, objects): (u32, *const u64),
    ) -> Self {
        // SAFETY: NULL, or callbacks.
        let foreign = unsafe { allocator.as_ref() }.and_then(|raw| {
            let kind = accounts.kind(index)?;
            // SAFETY: they may be called until the operation is done and as long as what it creates lives.
            unsafe { ForeignUse::record(kind, row(index).object, *raw) }
        });
        Self {
            index,
            count,
            objects: objects.expose_provenance(),
            owner: None,
            called: None,
            foreign,
            noted: OnceAcrossForks::new(),
        }
    }

    fn foreign(&self) -> Option<&ForeignUse<'static>> {
        self.foreign.as_deref()
    }

    /// # Safety
    /// The array is the program's still, and its handles were written.
    unsafe fn note_created(&self, accounts: &Accounts) {
        let objects = std::ptr::with_exposed_provenance(self.objects);
        let callbacks = (self.owner, self.foreign());
        let created_by = (self.called, current_thread());
        // SAFETY: the array is the program's still, and its handles were written.
        for handle in unsafe { handles(self.count, objects) } {
            created_with((self.index, accounts), handle, callbacks, created_by);
        }
    }
}

impl DeferredOperations {
    pub(crate) const fn new() -> Self {
        Self(HandleRecords::new())
    }

    pub(super) fn owner_of(&self, operation: u64) -> Option<OwnerId> {
        self.0.with(operation, |deferred| deferred.owner).flatten()
    }

    /// The first command that reports an operation as done counts the created objects. Others wait for that, since the
    /// program may free the array as soon as one of them returns.
    pub(super) fn note_done(&self, operation: u64, accounts: &Accounts) {
        self.0.with(operation, |deferred| {
            deferred.noted.call_once(|| {
                // A panic is not followed by another try: the array may be freed by then.
                // SAFETY: the operation is done, and the program does not know it yet.
                caught(|| unsafe { deferred.note_created(accounts) });
            });
        });
    }

    /// `false` where there is no memory: the callbacks then stay watched for ever.
    fn insert(&self, operation: u64, deferred: Deferred) -> bool {
        drop(self.remove(operation));
        self.0.insert(operation, deferred)
    }

    /// The drop of the answer ends the watch.
    pub(super) fn remove(&self, operation: u64) -> Option<Deferred> {
        self.0.remove(operation)
    }
}

pub(super) unsafe extern "system" fn create_pipelines<const ROW: usize>(
    parent: Handle,
    operation: u64,
    cache: u64,
    count: u32,
    infos: Info,
    allocator: Callbacks,
    objects: *mut u64,
) -> i32 {
    type Function = unsafe extern "system" fn(Handle, u64, u64, u32, Info, Callbacks, *mut u64) -> i32;
    // SAFETY: Vulkan requires a live device.
    let Some(next) = (unsafe { Next::of(ROW, parent) }) else {
        return ERROR_INITIALIZATION_FAILED;
    };
    // SAFETY: the row's command has this signature.
    let function = unsafe { transmute::<VoidFunction, Function>(next.function) };
    let accounts = next.parent.accounts;
    let owners = Owners {
        cache: next.owner_of(CREATE_CACHE, cache),
        deferred: next.owner_of(CREATE_DEFERRED, operation),
        ..next.parent.owners()
    };
    // SAFETY: Vulkan requires room for so many handles.
    unsafe { clear(count, objects) };
    let mut deferred = None;
    if operation != 0 {
        // SAFETY: Vulkan requires that all stays valid until the operation is done.
        let new = || unsafe { Deferred::new(ROW, accounts, allocator, (count, objects)) };
        deferred = fenced(ROW, new);
    }
    let passed = match deferred.as_ref().and_then(Deferred::foreign) {
        Some(foreign) => Passed::Watched(foreign),
        // Callbacks that cannot be watched for long enough are passed on as they came.
        None => Passed::ByProgram(allocator, (operation != 0).then_some(0)),
    };
    let finished = run(ROW, accounts, owners, passed, |allocator| {
        // SAFETY: the program's arguments; the callbacks outlive what is created, and the operation.
        unsafe { function(parent, operation, cache, count, infos, allocator, objects) }
    });
    if let Some(deferred) = &mut deferred {
        (deferred.owner, deferred.called) = (finished.owner, finished.called);
    }
    if finished.result != OPERATION_DEFERRED {
        // SAFETY: so many handles, each of which was written, 0 where it failed.
        let all = unsafe { handles(count, objects) };
        let foreign = deferred.as_ref().and_then(Deferred::foreign);
        let callbacks = (finished.owner, foreign.or(finished.foreign()));
        let created_by = (finished.called, current_thread());
        all.for_each(|handle| created_with((ROW, accounts), handle, callbacks, created_by));
    } else if !deferred.is_some_and(|deferred| next.parent.deferred.insert(operation, deferred)) {
        // The end of the operation will not be noticed: its objects count now, and watched callbacks stay watched.
        count_created(ROW, accounts, count.into());
    }
    finished.finish(ROW)
}
