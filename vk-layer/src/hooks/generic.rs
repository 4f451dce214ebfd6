//! One function for each signature of a command with a `pAllocator`; the row is a constant of each.
//!
//! The contract of every function here is Vulkan's: a live parent, and pointers that are valid for the command.

use std::mem::transmute;
use std::ptr::NonNull;

use vk_callbacks::{OwnerId, Owners};

use super::bracket::{Finished, Passed, created, ended, run};
use super::fence::{caught, fenced};
use super::{CREATE_CACHE, Callbacks, Handle, Info};
use crate::accounts::Accounts;
use crate::chain::{
    BufferCreateInfo, ERROR_INITIALIZATION_FAILED, MemoryAllocateInfo, PipelineBinaryList, VoidFunction, slice_of,
};
use crate::commands::{known_row, row};
use crate::leaks;
use crate::parent::Parent;

const CREATE_BUFFER: usize = known_row("vkCreateBuffer");
const ALLOCATE_MEMORY: usize = known_row("vkAllocateMemory");
const FREE_MEMORY: usize = known_row("vkFreeMemory");
const DESTROY_DEFERRED: usize = known_row("vkDestroyDeferredOperationKHR");

pub(super) struct Next<'c> {
    pub(super) parent: &'c Parent,
    pub(super) function: VoidFunction,
}

impl<'c> Next<'c> {
    /// # Safety
    /// As [`Parent::of`].
    pub(super) unsafe fn of(index: usize, handle: Handle) -> Option<Self> {
        // SAFETY: NULL, or a handle of the row's command, during which the answer is used.
        let parent = caught(|| unsafe { Parent::of(row(index), handle) })??;
        Some(Self { parent, function: parent.next(index)? })
    }

    fn accounts(&self) -> &'static Accounts {
        self.parent.accounts
    }

    #[inline]
    fn run(&self, index: usize, allocator: Callbacks, command: impl FnOnce(Callbacks) -> i32) -> Finished<'static> {
        let owners = self.parent.owners();
        let passed = Passed::ByProgram(allocator, None);
        run(index, self.accounts(), owners, passed, command)
    }

    pub(super) fn owner_of(&self, index: usize, handle: u64) -> Option<OwnerId> {
        self.accounts().kind(index)?.owner_of(handle)
    }

    /// # Safety
    /// After a success `object` may be read.
    unsafe fn created_one(&self, index: usize, finished: &Finished<'_>, object: *const u64) -> u64 {
        if finished.result < 0 {
            return 0;
        }
        // SAFETY: after a success `object` may be read.
        let handle = unsafe { *object };
        created(index, self.accounts(), handle, finished);
        handle
    }

    /// # Safety
    /// `objects` points to `count` handles.
    unsafe fn created_many(&self, index: usize, finished: &Finished<'_>, count: u32, objects: *const u64) {
        // SAFETY: `objects` points to `count` handles.
        for handle in unsafe { handles(count, objects) } {
            created(index, self.accounts(), handle, finished);
        }
    }
}

macro_rules! below {
    ($row:ident, $parent:ident, $function:ty $(, $refusal:expr)?) => {{
        // SAFETY: the hook's first argument is its command's handle.
        let Some(next) = (unsafe { Next::of($row, $parent) }) else {
            return $($refusal)?;
        };
        // SAFETY: the row's command has this signature.
        let function = unsafe { transmute::<VoidFunction, $function>(next.function) };
        (next, function)
    }};
}

/// # Safety
/// `objects` is NULL, or points to `count` handles that live as long as the answer is used.
pub(super) unsafe fn handles<'h>(count: u32, objects: *const u64) -> impl Iterator<Item = u64> + use<'h> {
    // SAFETY: NULL, or `count` handles that live for 'h.
    let objects: &'h [u64] = unsafe { slice_of(objects, count) };
    objects.iter().copied().filter(|handle| *handle != 0)
}

/// If a layer below, such as a validation layer, refuses the command, no stale handle is counted.
///
/// # Safety
/// `objects` is NULL, or points to `count` handles that may be written.
pub(super) unsafe fn clear(count: u32, objects: *mut u64) {
    if let Some(objects) = NonNull::new(objects) {
        // SAFETY: not NULL, so `count` handles that may be written.
        unsafe { objects.write_bytes(0, count as usize) };
    }
}

pub(super) unsafe extern "system" fn create<const ROW: usize>(
    parent: Handle,
    info: Info,
    allocator: Callbacks,
    object: *mut u64,
) -> i32 {
    type Function = unsafe extern "system" fn(Handle, Info, Callbacks, *mut u64) -> i32;
    let (next, function) = below!(ROW, parent, Function, ERROR_INITIALIZATION_FAILED);
    let finished = next.run(ROW, allocator, |allocator| {
        // SAFETY: the program's arguments; the callbacks outlive the object.
        unsafe { function(parent, info, allocator, object) }
    });
    // SAFETY: a success has written the handle.
    let handle = unsafe { next.created_one(ROW, &finished, object) };
    if (ROW == CREATE_BUFFER || ROW == ALLOCATE_MEMORY) && handle != 0 && leaks::is_on() {
        // SAFETY: Vulkan requires the command's info.
        fenced(ROW, || unsafe { note_size(ROW, info, handle) });
    }
    if ROW == ALLOCATE_MEMORY
        && let Some(blocks) = &next.parent.memory
    {
        // SAFETY: Vulkan requires the command's info.
        let info = unsafe { &*info.cast::<MemoryAllocateInfo>() };
        // SAFETY: a valid info has a valid chain.
        fenced(ROW, || unsafe { blocks.allocated(&next.accounts().device_memory, info, handle) });
    }
    finished.finish(ROW)
}

/// # Safety
/// `info` is that of the row's command.
unsafe fn note_size(row: usize, info: Info, handle: u64) {
    let bytes = if row == CREATE_BUFFER {
        // SAFETY: the info of `vkCreateBuffer`.
        unsafe { &*info.cast::<BufferCreateInfo>() }.size
    } else {
        // SAFETY: the info of `vkAllocateMemory`.
        unsafe { &*info.cast::<MemoryAllocateInfo>() }.allocation_size
    };
    leaks::set_size(row, handle, bytes);
}

pub(super) unsafe extern "system" fn create_without_info<const ROW: usize>(
    parent: Handle,
    allocator: Callbacks,
    object: *mut u64,
) -> i32 {
    type Function = unsafe extern "system" fn(Handle, Callbacks, *mut u64) -> i32;
    let (next, function) = below!(ROW, parent, Function, ERROR_INITIALIZATION_FAILED);
    let finished = next.run(ROW, allocator, |allocator| {
        // SAFETY: the program's arguments; the callbacks outlive the object.
        unsafe { function(parent, allocator, object) }
    });
    // SAFETY: a success has written the handle.
    unsafe { next.created_one(ROW, &finished, object) };
    finished.finish(ROW)
}

pub(super) unsafe extern "system" fn create_for_display<const ROW: usize>(
    parent: Handle,
    display: u64,
    info: Info,
    allocator: Callbacks,
    object: *mut u64,
) -> i32 {
    type Function = unsafe extern "system" fn(Handle, u64, Info, Callbacks, *mut u64) -> i32;
    let (next, function) = below!(ROW, parent, Function, ERROR_INITIALIZATION_FAILED);
    let finished = next.run(ROW, allocator, |allocator| {
        // SAFETY: the program's arguments; the callbacks outlive the object.
        unsafe { function(parent, display, info, allocator, object) }
    });
    // SAFETY: a success has written the handle.
    unsafe { next.created_one(ROW, &finished, object) };
    finished.finish(ROW)
}

pub(super) unsafe extern "system" fn create_many<const ROW: usize>(
    parent: Handle,
    count: u32,
    infos: Info,
    allocator: Callbacks,
    objects: *mut u64,
) -> i32 {
    type Function = unsafe extern "system" fn(Handle, u32, Info, Callbacks, *mut u64) -> i32;
    let (next, function) = below!(ROW, parent, Function, ERROR_INITIALIZATION_FAILED);
    // SAFETY: Vulkan requires room for `count` handles.
    unsafe { clear(count, objects) };
    let finished = next.run(ROW, allocator, |allocator| {
        // SAFETY: the program's arguments; the callbacks outlive the objects.
        unsafe { function(parent, count, infos, allocator, objects) }
    });
    // Shaders created before one failed exist; of swapchains an error leaves the handles undefined.
    if finished.result >= 0 || row(ROW).object == "VkShaderEXT" {
        // SAFETY: `count` handles, which were cleared, and written where the command made one.
        unsafe { next.created_many(ROW, &finished, count, objects) };
    }
    finished.finish(ROW)
}

pub(super) unsafe extern "system" fn create_list<const ROW: usize>(
    parent: Handle,
    info: Info,
    allocator: Callbacks,
    list: *mut PipelineBinaryList,
) -> i32 {
    type Function = unsafe extern "system" fn(Handle, Info, Callbacks, *mut PipelineBinaryList) -> i32;
    let (next, function) = below!(ROW, parent, Function, ERROR_INITIALIZATION_FAILED);
    // SAFETY: Vulkan requires a list.
    let room = unsafe { &*list };
    let (count, handles) = (room.count, room.handles);
    // SAFETY: Vulkan requires room for `count` handles where there is an array.
    unsafe { clear(count, handles) };
    let finished = next.run(ROW, allocator, |allocator| {
        // SAFETY: the program's arguments; the callbacks outlive the objects.
        unsafe { function(parent, info, allocator, list) }
    });
    // SAFETY: Vulkan requires a list; the command has returned.
    let list = unsafe { &*list };
    // Without an array the command only says how many there would be.
    // SAFETY: the command has written so many handles, after errors too.
    unsafe { next.created_many(ROW, &finished, list.count, list.handles) };
    finished.finish(ROW)
}

pub(super) unsafe extern "system" fn create_pipelines<const ROW: usize>(
    parent: Handle,
    cache: u64,
    count: u32,
    infos: Info,
    allocator: Callbacks,
    objects: *mut u64,
) -> i32 {
    type Function = unsafe extern "system" fn(Handle, u64, u32, Info, Callbacks, *mut u64) -> i32;
    let (next, function) = below!(ROW, parent, Function, ERROR_INITIALIZATION_FAILED);
    let owners = Owners { cache: next.owner_of(CREATE_CACHE, cache), ..next.parent.owners() };
    // SAFETY: Vulkan requires room for `count` handles.
    unsafe { clear(count, objects) };
    let finished = run(ROW, next.accounts(), owners, Passed::ByProgram(allocator, None), |allocator| {
        // SAFETY: the program's arguments; the callbacks outlive the objects.
        unsafe { function(parent, cache, count, infos, allocator, objects) }
    });
    // SAFETY: `count` handles; the command has written each, 0 where it failed.
    unsafe { next.created_many(ROW, &finished, count, objects) };
    finished.finish(ROW)
}

pub(super) unsafe extern "system" fn destroy<const ROW: usize>(parent: Handle, object: u64, allocator: Callbacks) {
    type Function = unsafe extern "system" fn(Handle, u64, Callbacks);
    let (next, function) = below!(ROW, parent, Function);
    if leaks::is_on() {
        fenced(ROW, || leaks::destroying(ROW, object));
    }
    if ROW == FREE_MEMORY
        && let Some(blocks) = &next.parent.memory
    {
        fenced(ROW, || blocks.freed(&next.accounts().device_memory, object));
    }
    // The driver may free what the operation kept until the command has returned.
    let _deferred =
        if ROW == DESTROY_DEFERRED { fenced(ROW, || next.parent.deferred.remove(object)).flatten() } else { None };
    let finished =
        run(ROW, next.accounts(), next.parent.owners(), Passed::ByProgram(allocator, Some(object)), |allocator| {
            // SAFETY: the program's arguments; NULL was replaced at the creation, too.
            unsafe { function(parent, object, allocator) };
            0
        });
    if object != 0 {
        ended(ROW, next.accounts(), object, &finished);
    }
    finished.finish(ROW);
}

pub(super) unsafe extern "system" fn release<const ROW: usize>(
    parent: Handle,
    info: Info,
    allocator: Callbacks,
) -> i32 {
    type Function = unsafe extern "system" fn(Handle, Info, Callbacks) -> i32;
    let (next, function) = below!(ROW, parent, Function, ERROR_INITIALIZATION_FAILED);
    let finished = next.run(ROW, allocator, |allocator| {
        // SAFETY: the program's arguments; NULL was replaced at the creation, too.
        unsafe { function(parent, info, allocator) }
    });
    finished.finish(ROW)
}
