//! Deferred commands: their objects exist once the operation is done, which the commands that join it report.

use std::mem::transmute;
use std::ptr::NonNull;

use vk_callbacks::command::current_thread;
use vk_callbacks::{OwnerId, Owners};

use super::bracket::{Passed, count_created, created_with, run};
use super::fence::{caught, fenced};
use super::generic::{Next, clear, handles};
use super::{CREATE_CACHE, CREATE_DEFERRED, Callbacks, Handle, Info};
use crate::accounts::Accounts;
use crate::chain::{ERROR_INITIALIZATION_FAILED, OPERATION_DEFERRED, VoidFunction};
use crate::commands::row;
use crate::foreign::ForeignRecord;
use crate::handle_map::{HandleMap, key};
use crate::leaks::CalledCommand;
use crate::once::OnceAcrossForks;
use crate::record::{free_record, new_record};

/// The operations of a device that something was deferred with, until they are destroyed or used again.
pub(crate) struct DeferredOperations(HandleMap<Deferred>);

/// A command that was deferred.
pub(crate) struct Deferred {
    index: usize,
    count: u32,
    /// The program's array: the handles are written when the operation is done. Kept as an address until then.
    objects: usize,
    owner: Option<OwnerId>,
    called: Option<CalledCommand>,
    /// The program's own callbacks: the layer below may keep their address, and call them, until the operation is done.
    foreign: Option<ForeignRecord<'static>>,
    /// Whether the created objects are counted.
    noted: OnceAcrossForks,
}

impl Deferred {
    /// To be created before the command is called.
    ///
    /// # Safety
    /// `allocator` is NULL, or callbacks that may be called until the operation is done and as long as what it creates lives.
    unsafe fn new(
        index: usize,
        accounts: &'static Accounts,
        allocator: Callbacks,
        (count, objects): (u32, *const u64),
    ) -> Self {
        // SAFETY: the caller's promise.
        let foreign = unsafe { allocator.as_ref() }.and_then(|raw| {
            let kind = accounts.kind(index)?;
            // SAFETY: the caller's promise.
            unsafe { ForeignRecord::new(kind, row(index).object, *raw) }
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

    /// Counts the created objects.
    ///
    /// # Safety
    /// The array is the program's still, and its handles were written.
    unsafe fn note_created(&self, accounts: &Accounts) {
        let objects = std::ptr::with_exposed_provenance(self.objects);
        let callbacks = (self.owner, self.foreign.as_deref());
        let created_by = (self.called, current_thread());
        // SAFETY: the caller's promise.
        for handle in unsafe { handles(self.count, objects) } {
            created_with((self.index, accounts), handle, callbacks, created_by);
        }
    }
}

impl DeferredOperations {
    pub(crate) const fn new() -> Self {
        Self(HandleMap::new())
    }

    /// The owner of the callbacks of the command that was deferred with the operation.
    pub(super) fn owner_of(&self, operation: u64) -> Option<OwnerId> {
        let deferred = self.0.get(key(operation))?;
        // SAFETY: freed by the command that destroys or uses the operation again, which Vulkan forbids to call meanwhile.
        unsafe { deferred.as_ref() }.owner
    }

    /// A command on the operation has reported that it is done: the first such command counts the created objects. Others wait for that,
    /// since the program may free the array as soon as one of them returns.
    pub(super) fn note_done(&self, operation: u64, accounts: &Accounts) {
        let Some(deferred) = self.0.get(key(operation)) else {
            return;
        };
        // SAFETY: as in `owner_of`.
        let deferred = unsafe { deferred.as_ref() };
        deferred.noted.call_once(|| {
            // A panic is not followed by another try: the array may be freed by then.
            // SAFETY: the operation is done, and the program does not know it yet.
            caught(|| unsafe { deferred.note_created(accounts) });
        });
    }

    /// `false` where there is no memory for a further one.
    fn insert(&self, operation: u64, deferred: NonNull<Deferred>) -> bool {
        drop(self.remove(operation));
        self.0.insert(key(operation), deferred)
    }

    /// Removes the command that was deferred with the operation, which is about to be destroyed or used again: its drop ends the watch.
    pub(super) fn remove(&self, operation: u64) -> Option<Deferred> {
        let record = self.0.remove(key(operation))?;
        // SAFETY: from `new_record`; the table had it alone, and has it no longer.
        Some(unsafe { free_record(record) })
    }
}

/// Operations that the program did not destroy go with their device.
impl Drop for DeferredOperations {
    fn drop(&mut self) {
        while let Some(record) = self.0.pop() {
            // SAFETY: from `new_record`; the table had it alone, and has it no longer.
            drop(unsafe { free_record(record) });
        }
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
    type Function =
        unsafe extern "system" fn(Handle, u64, u64, u32, Info, Callbacks, *mut u64) -> i32;
    // SAFETY: the caller's promise.
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
    // SAFETY: the caller's promise: room for so many.
    unsafe { clear(count, objects) };
    let mut record = None;
    if operation != 0 {
        // SAFETY: the caller's promise: until the operation is done all that the command came with stays valid.
        let deferred = || unsafe { Deferred::new(ROW, accounts, allocator, (count, objects)) };
        record = fenced(ROW, || new_record(deferred())).flatten();
    }
    // SAFETY: just allocated; no other thread knows it.
    let foreign = record.and_then(|record| unsafe { record.as_ref() }.foreign.as_deref());
    let passed = match foreign {
        Some(foreign) => Passed::Watched(foreign),
        // Callbacks that cannot be watched for long enough are passed on as they came, as those of an object that is not watched.
        None => Passed::ByProgram(allocator, (operation != 0).then_some(0)),
    };
    let finished = run(ROW, accounts, owners, passed, |allocator| {
        // SAFETY: as in `create`: the callbacks outlive what is created, and the operation.
        unsafe { function(parent, operation, cache, count, infos, allocator, objects) }
    });
    if let Some(mut record) = record {
        // SAFETY: no other thread knows it yet.
        let deferred = unsafe { record.as_mut() };
        (deferred.owner, deferred.called) = (finished.owner, finished.called);
    }
    if finished.result != OPERATION_DEFERRED {
        // SAFETY: the caller's promise; the command has written each handle, 0 where it failed.
        let all = unsafe { handles(count, objects) };
        // SAFETY: as above.
        let foreign = record.and_then(|record| unsafe { record.as_ref() }.foreign.as_deref());
        let callbacks = (finished.owner, foreign.or(finished.foreign()));
        let created_by = (finished.called, current_thread());
        all.for_each(|handle| created_with((ROW, accounts), handle, callbacks, created_by));
        if let Some(record) = record {
            // SAFETY: from `new_record`; no map has it.
            drop(unsafe { free_record(record) });
        }
    } else if !record.is_some_and(|record| next.parent.deferred.insert(operation, record)) {
        // The end of the operation will not be noticed: its objects count now, and watched callbacks stay watched.
        count_created(ROW, accounts, count.into());
    }
    finished.finish(ROW)
}
