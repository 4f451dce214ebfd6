//! ralloc's calls, except text (`c/ralloc_text.c`, over these), linear memory (`linear`) and collectors (`gc`).

use std::alloc::System;
use std::cell::Cell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use alloc_core::tagged::{DomainId, Fill, TaggedBlock, TaggedDestructor, TaggedDomain};
use alloc_core::{Context, ContextOptions, FromGlobalAlloc, HostError, Misuse, Scope, ThreadTable};

use crate::edge::{StewardContext, context, enter, enter_counting, enter_leaf, quiet_panics};
use crate::refusal::{SUCCESS, misused, note, pointer};

/// The owner of a domain.
#[repr(C)]
pub struct StewardDomain {
    _incomplete: [u8; 0],
}

thread_local! {
    /// Where blocks without a parent are allocated on this thread; NULL: in the process's own domain.
    static CURRENT: Cell<*mut StewardDomain> = const { Cell::new(null_mut()) };
}

/// The domain is over the C library's allocator, and stays until the process ends.
static PROCESS: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

fn process_domain() -> Result<NonNull<c_void>, HostError> {
    if let Some(domain) = NonNull::new(PROCESS.load(Ordering::Acquire)) {
        return Ok(domain);
    }
    quiet_panics();
    let system: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;
    let options = ContextOptions::new("ralloc").scope(Scope::Object);
    let root = Context::root_owned(system, options).map_err(|rejected| rejected.error)?;
    let domain = TaggedDomain::new(root).map_err(|rejected| rejected.error)?;
    let new = domain.into_raw();
    let stored = PROCESS.compare_exchange(null_mut(), new.as_ptr(), Ordering::AcqRel, Ordering::Acquire);
    match stored.err().and_then(NonNull::new) {
        Some(first) => {
            // SAFETY: made above, and nobody else's.
            drop(unsafe { TaggedDomain::from_raw(new) });
            Ok(first)
        }
        None => Ok(new),
    }
}

#[cold]
fn current_domain() -> Result<DomainId, HostError> {
    let current = CURRENT.try_with(Cell::get).unwrap_or(null_mut());
    let domain = match NonNull::new(current) {
        Some(current) => current.cast(),
        None => process_domain()?,
    };
    // SAFETY: the owner keeps it until the thread leaves; the process's own stays.
    Ok(unsafe { borrow(domain) }.id())
}

/// The domain behind an owner's address. The caller keeps the ownership.
unsafe fn borrow(raw: NonNull<c_void>) -> ManuallyDrop<TaggedDomain> {
    // SAFETY: the caller's live owner; this one is never dropped.
    ManuallyDrop::new(unsafe { TaggedDomain::from_raw(raw) })
}

pub(crate) fn block(payload: *const c_void) -> Option<TaggedBlock> {
    NonNull::new(payload.cast_mut().cast()).map(TaggedBlock::from_payload)
}

pub(crate) fn payload(made: Result<TaggedBlock, HostError>) -> *mut c_void {
    pointer(made.map(TaggedBlock::payload)).cast()
}

#[inline(always)]
pub(crate) unsafe fn allocate(
    table: ThreadTable<'_>,
    parent: *const c_void,
    size: usize,
    fill: Fill,
) -> Result<TaggedBlock, HostError> {
    match block(parent) {
        // SAFETY: the caller's live block.
        Some(parent) => unsafe { parent.allocate_on(table, size, fill) },
        // SAFETY: the current domain lives.
        None => unsafe { current_domain()?.allocate(size, fill) },
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_domain_new(
    owner: *mut StewardContext,
    fallback: *const StewardDomain,
    out: *mut *mut StewardDomain,
) -> i32 {
    enter(&"steward_domain_new", || {
        let Some(out) = NonNull::new(out) else {
            return misused();
        };
        // SAFETY: the caller's place.
        unsafe { out.write(null_mut()) };
        let Some(owner) = NonNull::new(owner) else {
            return misused();
        };
        // SAFETY: the caller's owner, which the domain gets when this succeeds.
        let context = unsafe { Context::from_raw(owner.cast()) };
        let fallback = NonNull::new(fallback.cast_mut());
        // SAFETY: the caller's live domain.
        let fallback = fallback.map(|fallback| unsafe { borrow(fallback.cast()) });
        let made = match &fallback {
            Some(fallback) => TaggedDomain::with_fallback(context, fallback),
            None => TaggedDomain::new(context),
        };
        match made {
            Ok(domain) => {
                // SAFETY: the caller's place.
                unsafe { out.write(domain.into_raw().cast().as_ptr()) };
                SUCCESS
            }
            Err(rejected) => {
                let _still_the_callers = rejected.value.into_raw();
                note(rejected.error)
            }
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_domain_reserve(
    owner: *const StewardContext,
    bytes: usize,
    out: *mut *mut StewardDomain,
) -> i32 {
    enter(&"steward_domain_reserve", || {
        let Some(out) = NonNull::new(out) else {
            return misused();
        };
        // SAFETY: NULL or a live owner.
        let made = match unsafe { context(owner) } {
            Some(owner) => TaggedDomain::reserve(&owner, bytes),
            None => Err(HostError::Misuse(Misuse::OtherContext)),
        };
        let (domain, result) = match made {
            Ok(domain) => (domain.into_raw().cast().as_ptr(), SUCCESS),
            Err(error) => (null_mut(), note(error)),
        };
        // SAFETY: the caller's place.
        unsafe { out.write(domain) };
        result
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_domain_close(domain: *mut StewardDomain) {
    enter(&"steward_domain_close", || {
        if let Some(domain) = NonNull::new(domain) {
            // SAFETY: the caller's owner, used no more.
            drop(unsafe { TaggedDomain::from_raw(domain.cast()) });
        }
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_domain_reset_refused(domain: *const StewardDomain) -> bool {
    enter(&"steward_domain_reset_refused", || {
        let domain = NonNull::new(domain.cast_mut());
        // SAFETY: the caller's live domain.
        domain.is_some_and(|domain| unsafe { borrow(domain.cast()) }.reset_refused())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_ralloc_enter(domain: *mut StewardDomain) -> *mut StewardDomain {
    enter_leaf(|| CURRENT.try_with(|current| current.replace(domain)).unwrap_or(null_mut()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_ralloc_leave(before: *mut StewardDomain) {
    enter_leaf(|| {
        let _ = CURRENT.try_with(|current| current.set(before));
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_ralloc_root(domain: *const StewardDomain) -> *mut c_void {
    enter(&"steward_ralloc_root", || {
        let root = match NonNull::new(domain.cast_mut()) {
            // SAFETY: the caller's live domain.
            Some(domain) => unsafe { borrow(domain.cast()) }.allocate(0, Fill::Undefined),
            None => Err(HostError::Misuse(Misuse::NoDomain)),
        };
        payload(root)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_ralloc_size(parent: *const c_void, size: usize) -> *mut c_void {
    enter_counting(&"steward_ralloc_size", |table| {
        // SAFETY: NULL or a live parent.
        payload(unsafe { allocate(table, parent, size, Fill::Undefined) })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_rzalloc_size(parent: *const c_void, size: usize) -> *mut c_void {
    enter_counting(&"steward_rzalloc_size", |table| {
        // SAFETY: NULL or a live parent.
        payload(unsafe { allocate(table, parent, size, Fill::Zeros) })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_reralloc_size(parent: *const c_void, old: *mut c_void, size: usize) -> *mut c_void {
    enter_counting(&"steward_reralloc_size", |table| {
        payload(match block(old) {
            // SAFETY: the caller's live block.
            Some(old) => unsafe { old.resize(size) },
            // SAFETY: NULL or a live parent.
            None => unsafe { allocate(table, parent, size, Fill::Undefined) },
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_ralloc_free(dying: *mut c_void) {
    enter_counting(&"steward_ralloc_free", |table| {
        if let Some(dying) = block(dying) {
            // SAFETY: the caller's live block, used no more.
            unsafe { dying.free_on(table) };
        }
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_ralloc_steal(parent: *const c_void, stolen: *mut c_void) {
    enter_leaf(|| {
        if let Some(stolen) = block(stolen) {
            // SAFETY: the caller's live blocks. A cycle is refused, and C is told nothing, as by ralloc.
            let _ = unsafe { stolen.steal(block(parent)) };
        }
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_ralloc_adopt(parent: *const c_void, from: *mut c_void) {
    enter_leaf(|| {
        if let (Some(parent), Some(from)) = (block(parent), block(from)) {
            // SAFETY: the caller's live blocks. As in `steward_ralloc_steal`.
            let _ = unsafe { parent.adopt(from) };
        }
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_ralloc_parent(of: *const c_void) -> *mut c_void {
    enter_leaf(|| {
        // SAFETY: the caller's live block.
        let parent = block(of).and_then(|block| unsafe { block.parent() });
        parent.map_or(null_mut(), |parent| parent.payload().as_ptr().cast())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_ralloc_block_size(of: *const c_void) -> usize {
    enter_leaf(|| {
        // SAFETY: the caller's live block.
        block(of).map_or(0, |block| unsafe { block.size() })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_ralloc_set_destructor(
    of: *const c_void,
    destructor: Option<TaggedDestructor>,
) -> bool {
    enter(&"steward_ralloc_set_destructor", || {
        // SAFETY: the caller's live block.
        match block(of).map(|block| unsafe { block.set_destructor(destructor) }) {
            Some(Ok(())) => return true,
            Some(Err(error)) => note(error),
            None => misused(),
        };
        false
    })
}
