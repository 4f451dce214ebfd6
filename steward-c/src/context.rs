//! Contexts: creating and ending them, and their blocks.

use std::alloc::{Layout, System};
use std::ffi::{c_char, c_void};
use std::ptr::{NonNull, null_mut};

use alloc_core::{
    Budget, Context, ContextHandle, ContextOptions, FromGlobalAlloc, HostAllocator, HostError, Misuse, Outstanding,
    Scope, ThreadTable,
};
use vk_callbacks::CallbackAllocator;
use vk_callbacks::raw::RawCallbacks;

use crate::edge::{StewardContext, StewardHandle, context, enter, enter_counting, quiet_panics, raw, raw_handle, text};
use crate::host::{CHost, StewardHost};
use crate::refusal::{NOT_READY, SUCCESS, misused, note, of_some, pointer};
use crate::sized::{self, SizedStruct};

/// `steward_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StewardOptions {
    pub size: usize,
    pub scope: i32,
    pub budget: i32,
    pub limit: u64,
}

impl Default for StewardOptions {
    fn default() -> Self {
        Self { size: size_of::<Self>(), scope: -1, budget: 0, limit: 0 }
    }
}

// SAFETY: numbers, the first of them the size.
unsafe impl SizedStruct for StewardOptions {}

impl StewardOptions {
    /// `None` for a number that the header does not define. A limit of 2^64 - 1 is lowered by 1, so that the budget
    /// exists and its limit can be set later.
    fn of(self, options: ContextOptions<'_>) -> Option<ContextOptions<'_>> {
        let limit = self.limit.min(u64::MAX - 1);
        let options = match self.budget {
            0 => options,
            1 => options.budget(Budget::limit(limit)),
            2 => options.budget(Budget::exact(limit)),
            3 => options.budget(Budget::soft(limit)),
            _ => return None,
        };
        match self.scope {
            -1 => Some(options),
            scope => scope_of(scope).map(|scope| options.scope(scope)),
        }
    }
}

/// `steward_outstanding`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StewardOutstanding {
    pub size: usize,
    pub bytes: u64,
    pub blocks: u64,
    pub foreign_bytes: u64,
    pub contexts: u64,
    pub handles: u64,
}

// SAFETY: numbers, the first of them the size.
unsafe impl SizedStruct for StewardOutstanding {}

/// The label is the caller's name for a context.
pub(crate) const NAME: &str = "c";
const ABI_MAJOR: u32 = 0;
const ABI_MINOR: u32 = 1;

#[unsafe(no_mangle)]
pub extern "C" fn steward_abi() -> u32 {
    ABI_MAJOR << 16 | ABI_MINOR
}

/// Creates nothing if `out` is NULL.
pub(crate) unsafe fn store(out: *mut *mut StewardContext, make: impl FnOnce() -> Result<Context, HostError>) -> i32 {
    let Some(out) = NonNull::new(out) else {
        return misused();
    };
    let (context, result) = match make() {
        Ok(context) => (raw(context), SUCCESS),
        Err(error) => (null_mut(), note(error)),
    };
    // SAFETY: the caller passes a place for the owner.
    unsafe { out.write(context) };
    result
}

pub(crate) fn root_over<A: HostAllocator + Send + Sync + 'static>(
    allocator: A,
    options: ContextOptions<'_>,
) -> Result<Context, HostError> {
    quiet_panics();
    Context::root_owned(allocator, options).map_err(|rejected| rejected.error)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_root_malloc(name: *const c_char, out: *mut *mut StewardContext) -> i32 {
    enter(&"steward_root_malloc", || {
        // SAFETY: the caller's string.
        let options = ContextOptions::new(NAME).label(unsafe { text(name) });
        let system: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;
        // SAFETY: the caller's place.
        unsafe { store(out, || root_over(system, options)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_root(
    host: *const StewardHost,
    name: *const c_char,
    out: *mut *mut StewardContext,
) -> i32 {
    enter(&"steward_root", || {
        // SAFETY: the caller's struct.
        let host = NonNull::new(host.cast_mut()).and_then(|host| unsafe { sized::read(host) });
        // SAFETY: the caller's functions obey the header.
        let host = host.and_then(|host| unsafe { CHost::new(&host) });
        // SAFETY: the caller's string.
        let options = ContextOptions::new(NAME).label(unsafe { text(name) });
        let make = || {
            let host = host.ok_or(HostError::Misuse(Misuse::OtherBacking))?;
            root_over(host, options)
        };
        // SAFETY: the caller's place.
        unsafe { store(out, make) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_root_from_callbacks(
    callbacks: *const RawCallbacks,
    scope: i32,
    name: *const c_char,
    out: *mut *mut StewardContext,
) -> i32 {
    enter(&"steward_root_from_callbacks", || {
        // SAFETY: NULL or the caller's struct, whose functions keep Vulkan's rules.
        let callbacks = unsafe { CallbackAllocator::from_ptr(callbacks) };
        // SAFETY: the caller's string.
        let options = ContextOptions::new(NAME).label(unsafe { text(name) });
        let make = || match (callbacks, scope_of(scope)) {
            (Ok(Some(callbacks)), Some(scope)) => root_over(callbacks, options.scope(scope)),
            (Ok(None), Some(scope)) => {
                let system: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;
                root_over(system, options.scope(scope))
            }
            _ => Err(HostError::Misuse(Misuse::OtherScope)),
        };
        // SAFETY: the caller's place.
        unsafe { store(out, make) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_child(
    parent: *mut StewardContext,
    name: *const c_char,
    options: *const StewardOptions,
    out: *mut *mut StewardContext,
) -> i32 {
    enter(&"steward_child", || {
        // SAFETY: the caller's string.
        let chosen = ContextOptions::new(NAME).label(unsafe { text(name) });
        let options = match NonNull::new(options.cast_mut()) {
            // SAFETY: the caller's struct.
            Some(options) => unsafe { sized::read::<StewardOptions>(options) },
            None => Some(StewardOptions::default()),
        };
        // SAFETY: NULL or a live owner.
        let parent = unsafe { context(parent) };
        let make = || {
            let chosen = options.and_then(|options| options.of(chosen));
            let chosen = chosen.ok_or(HostError::Misuse(Misuse::OutOfRange))?;
            let parent = parent.ok_or(HostError::Misuse(Misuse::OtherContext))?;
            parent.child_with(chosen)
        };
        // SAFETY: the caller's place.
        unsafe { store(out, make) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_close(owner: *mut StewardContext, left: *mut StewardOutstanding) -> i32 {
    enter(&"steward_close", || {
        let Some(owner) = NonNull::new(owner) else {
            return SUCCESS;
        };
        // SAFETY: the caller's owner, which is not used any more when this succeeds.
        let closed = unsafe { Context::from_raw(owner.cast()) }.try_close();
        let (result, outstanding) = match closed {
            Ok(()) => (SUCCESS, Outstanding::default()),
            Err(rejected) => {
                let _still_the_callers = rejected.value.into_raw();
                (NOT_READY, rejected.error.outstanding())
            }
        };
        // SAFETY: NULL or the caller's place.
        unsafe { write_outstanding(left, outstanding) };
        result
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_abandon(owner: *mut StewardContext, left: *mut StewardOutstanding) {
    enter(&"steward_abandon", || {
        if let Some(owner) = NonNull::new(owner) {
            // SAFETY: the caller's owner, which is not used any more.
            let outstanding = unsafe { Context::from_raw(owner.cast()) }.abandon();
            // SAFETY: NULL or the caller's place.
            unsafe { write_outstanding(left, outstanding) };
        }
    });
}

unsafe fn write_outstanding(left: *mut StewardOutstanding, outstanding: Outstanding) {
    let fields = StewardOutstanding {
        size: size_of::<StewardOutstanding>(),
        bytes: outstanding.bytes,
        blocks: outstanding.blocks,
        foreign_bytes: outstanding.foreign_bytes,
        contexts: outstanding.contexts,
        handles: outstanding.handles,
    };
    // SAFETY: NULL or the caller's place.
    unsafe { sized::write(left, &fields) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_retain(owner: *const StewardContext) -> *mut StewardHandle {
    enter(&"steward_retain", || {
        // SAFETY: NULL or a live owner.
        let context = unsafe { context(owner) };
        of_some(context, |context| raw_handle(context.handle()))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_release(handle: *mut StewardHandle) {
    enter(&"steward_release", || {
        if let Some(handle) = NonNull::new(handle) {
            // SAFETY: the caller's handle, used no more.
            drop(unsafe { ContextHandle::from_raw(handle.cast()) });
        }
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_alloc(
    owner: *const StewardContext,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void {
    // SAFETY: NULL or a live owner.
    enter_counting(&"steward_alloc", |table| unsafe { allocate(table, owner, size, align, scope, false) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_zalloc(
    owner: *const StewardContext,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void {
    // SAFETY: NULL or a live owner.
    enter_counting(&"steward_zalloc", |table| unsafe { allocate(table, owner, size, align, scope, true) })
}

unsafe fn allocate(
    table: ThreadTable<'_>,
    owner: *const StewardContext,
    size: usize,
    align: usize,
    scope: i32,
    zeroed: bool,
) -> *mut c_void {
    // SAFETY: NULL or a live owner.
    of_some(unsafe { context(owner) }, |context| {
        let block = place(size, align, scope, &context).and_then(|(layout, scope)| {
            let block = if zeroed {
                HostAllocator::allocate_zeroed(&*context, layout, scope)
            } else {
                context.allocate_on(table, layout, scope)
            };
            block.map_err(|_| HostAllocator::refusal(&*context, layout, scope))
        });
        pointer(block).cast()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_realloc(
    owner: *const StewardContext,
    block: *mut c_void,
    old_size: usize,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void {
    enter_counting(&"steward_realloc", |table| {
        let Some(old_block) = NonNull::new(block) else {
            // SAFETY: NULL or a live owner.
            return unsafe { allocate(table, owner, size, align, scope, false) };
        };
        // SAFETY: NULL or a live owner.
        of_some(unsafe { context(owner) }, |context| {
            let moved = place(old_size, align, scope, &context).and_then(|(old, scope)| {
                let new = layout_of(size, align)?;
                // SAFETY: the caller's live block of this size, alignment and scope.
                let moved = unsafe { context.resize(old_block.cast(), old, new, scope) };
                moved.map_err(|_| HostAllocator::refusal(&*context, new, scope))
            });
            pointer(moved).cast()
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_free(
    owner: *const StewardContext,
    block: *mut c_void,
    size: usize,
    align: usize,
    scope: i32,
) {
    enter_counting(&"steward_free", |table| {
        // SAFETY: NULL or a live owner.
        let context = unsafe { context(owner) };
        if let (Some(block), Some(context)) = (NonNull::new(block), context)
            && let Ok((layout, scope)) = place(size, align, scope, &context)
        {
            // SAFETY: the caller's live block of this size, alignment and scope.
            unsafe { context.free_on(table, block.cast(), layout, scope) };
        }
    });
}

pub(crate) fn layout_of(size: usize, align: usize) -> Result<Layout, HostError> {
    if !align.is_power_of_two() {
        return Err(HostError::Misuse(Misuse::BadAlignment));
    }
    Layout::from_size_align(size, align).map_err(|_| HostError::TooLarge)
}

fn place(size: usize, align: usize, scope: i32, context: &ContextHandle) -> Result<(Layout, Scope), HostError> {
    let scope = match scope {
        ..0 => context.scope(),
        scope => scope_of(scope).ok_or(HostError::Misuse(Misuse::OtherScope))?,
    };
    layout_of(size, align).map(|layout| (layout, scope))
}

/// `None` for a negative number, which means the context's own scope, and for an invalid one.
pub(crate) fn scope_of(scope: i32) -> Option<Scope> {
    u32::try_from(scope).ok().and_then(Scope::from_raw)
}
