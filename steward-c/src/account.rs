//! Accounts, budgets and snapshots of contexts.

use std::ffi::{c_char, c_void};
use std::fmt::{self, Write as _};

use alloc_core::{BudgetUsage, ContextHandle, HostError, Misuse, Snapshot, Usage};

use crate::edge::{StewardContext, context, enter};
use crate::refusal::{SUCCESS, UNKNOWN, misused, note};
use crate::sized::{self, SizedStruct};

/// `steward_scope_usage`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StewardScopeUsage {
    pub live_bytes: u64,
    pub live_blocks: u64,
    pub total_bytes: u64,
    pub total_blocks: u64,
    pub peak_bytes: u64,
}

/// `steward_usage_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StewardUsageInfo {
    pub size: usize,
    pub id: u64,
    pub scopes: [StewardScopeUsage; 5],
    pub total: StewardScopeUsage,
}

// SAFETY: numbers, the first of them the size.
unsafe impl SizedStruct for StewardUsageInfo {}

/// `steward_budget_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StewardBudgetInfo {
    pub size: usize,
    pub limit: u64,
    pub charged: u64,
    pub high: u64,
}

// SAFETY: numbers, the first of them the size.
unsafe impl SizedStruct for StewardBudgetInfo {}

pub type StewardWriterFn = unsafe extern "C" fn(user: *mut c_void, text: *const c_char, length: usize);

fn write_usage(owner: *const StewardContext, out: *mut StewardUsageInfo, read: impl FnOnce(&ContextHandle) -> Usage) {
    // SAFETY: NULL or a live owner.
    let context = unsafe { context(owner) };
    if let Some(context) = context {
        let usage = read(&context);
        let row = |usage: alloc_core::ScopeUsage| StewardScopeUsage {
            live_bytes: usage.live_bytes,
            live_blocks: usage.live_blocks,
            total_bytes: usage.total_bytes,
            total_blocks: usage.total_blocks,
            peak_bytes: usage.peak_bytes,
        };
        let info = StewardUsageInfo {
            size: size_of::<StewardUsageInfo>(),
            id: context.id().get(),
            scopes: alloc_core::Scope::ALL.map(|scope| row(usage.scope(scope))),
            total: row(usage.total()),
        };
        // SAFETY: NULL or the caller's place.
        unsafe { sized::write(out, &info) };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_usage(owner: *const StewardContext, out: *mut StewardUsageInfo) {
    enter(&"steward_usage", || write_usage(owner, out, ContextHandle::usage));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_subtree_usage(owner: *const StewardContext, out: *mut StewardUsageInfo) {
    enter(&"steward_subtree_usage", || {
        write_usage(owner, out, ContextHandle::subtree_usage);
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_budget(owner: *const StewardContext, out: *mut StewardBudgetInfo) -> i32 {
    enter(&"steward_budget", || {
        // SAFETY: NULL or a live owner.
        let context = unsafe { context(owner) };
        let Some(context) = context else {
            return misused();
        };
        let budget = context.budget();
        let Some(BudgetUsage { limit, charged, high, .. }) = budget else {
            return note(HostError::Misuse(Misuse::NoBudget));
        };
        let info = StewardBudgetInfo { size: size_of::<StewardBudgetInfo>(), limit, charged, high };
        // SAFETY: NULL or the caller's place.
        if unsafe { sized::write(out, &info) } { SUCCESS } else { misused() }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_set_limit(owner: *const StewardContext, limit: u64) -> i32 {
    enter(&"steward_set_limit", || {
        // SAFETY: NULL or a live owner.
        let context = unsafe { context(owner) };
        match context.map(|context| context.set_limit(limit)) {
            Some(Ok(())) => SUCCESS,
            Some(Err(error)) => note(error),
            None => misused(),
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_snapshot_json(
    owner: *const StewardContext,
    writer: Option<StewardWriterFn>,
    user: *mut c_void,
) -> i32 {
    // SAFETY: NULL or a live owner, and a writer that may be called with `user`.
    enter(&"steward_snapshot_json", || unsafe {
        write_snapshot(owner, writer, user, |snapshot, sink| snapshot.write_json(sink))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_snapshot_text(
    owner: *const StewardContext,
    writer: Option<StewardWriterFn>,
    user: *mut c_void,
) -> i32 {
    // SAFETY: NULL or a live owner, and a writer that may be called with `user`.
    enter(&"steward_snapshot_text", || unsafe {
        write_snapshot(owner, writer, user, |snapshot, sink| write!(sink, "{snapshot}"))
    })
}

/// Copies the tree's accounts into memory of the context itself, and writes the copy.
///
/// # Safety
/// `owner` is NULL or a live owner; `writer` may be called with `user`.
unsafe fn write_snapshot(
    owner: *const StewardContext,
    writer: Option<StewardWriterFn>,
    user: *mut c_void,
    write: impl FnOnce(&Snapshot<&ContextHandle>, &mut Sink) -> fmt::Result,
) -> i32 {
    // SAFETY: NULL or a live owner.
    let context = unsafe { context(owner) };
    let (Some(context), Some(writer)) = (context, writer) else {
        return misused();
    };
    match context.snapshot() {
        Ok(snapshot) => write(&snapshot, &mut Sink { writer, user }).map_or(UNKNOWN, |()| SUCCESS),
        Err(error) => note(error),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn steward_attach_thread() -> bool {
    enter(&"steward_attach_thread", alloc_core::attach_thread)
}

pub(crate) struct Sink {
    pub(crate) writer: StewardWriterFn,
    pub(crate) user: *mut c_void,
}

impl fmt::Write for Sink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: the header requires a function that may be called so.
        unsafe { (self.writer)(self.user, text.as_ptr().cast(), text.len()) };
        Ok(())
    }
}
