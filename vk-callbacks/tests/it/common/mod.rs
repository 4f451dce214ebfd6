//! What the tests here share: a driver that calls the callbacks, and an application that offers them.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use std::alloc::{Layout, System};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

use alloc_core::{FromGlobalAlloc, Scope, Scoped};
use vk_callbacks::check::Opened;
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::raw::{RawCallbacks, RawScope};
use vk_callbacks::trace::Pointer;
use vk_callbacks::{CheckFinding, CheckOptions, Judge, TraceEvent, TraceReader};

pub static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;
pub const COMPLETE: CheckOptions = CheckOptions { coverage: BracketCoverage::Complete, opened: Opened::ThroughLoader };

/// The trace of these lines, whole.
pub fn trace(lines: &str) -> String {
    let text = format!("# steward host trace 2\n{lines}");
    let count = text.matches('\n').count();
    text + &format!("z,{count}\n")
}

/// What `of` reads from the findings of a trace, and how many observations were lost.
pub fn judged<R>(text: &str, options: CheckOptions, of: impl FnMut(&CheckFinding<'_>) -> R) -> (Vec<R>, u64) {
    let mut judge = Judge::new(&SYSTEM, options);
    judge.run(TraceReader::new(text).expect("a header")).expect("a whole trace, and memory");
    let found = judge.findings(Scoped::new(&SYSTEM, Scope::Object)).expect("memory");
    (found.iter().map(of).collect(), judge.lost())
}

/// Calls callbacks as a driver does. The tests pass only pointers whose 16 bytes in front can be read.
#[derive(Clone, Copy, Debug)]
pub struct Driver(pub RawCallbacks);

impl Driver {
    pub fn alloc(&self, size: usize, align: usize, scope: Scope) -> *mut u8 {
        self.alloc_raw(size, align, raw(scope))
    }

    pub fn alloc_raw(&self, size: usize, align: usize, scope: RawScope) -> *mut u8 {
        let call = self.0.pfn_allocation.expect("set");
        // SAFETY: the callbacks are live; any arguments may be passed.
        unsafe { call(self.0.p_user_data, size, align, scope) }.cast()
    }

    pub fn realloc(&self, original: *mut u8, size: usize, align: usize, scope: Scope) -> *mut u8 {
        self.realloc_raw(original, size, align, raw(scope))
    }

    pub fn realloc_raw(&self, original: *mut u8, size: usize, align: usize, scope: RawScope) -> *mut u8 {
        let call = self.0.pfn_reallocation.expect("set");
        // SAFETY: the callbacks are live (see the type).
        unsafe { call(self.0.p_user_data, original.cast(), size, align, scope) }.cast()
    }

    pub fn free(&self, memory: *mut u8) {
        let call = self.0.pfn_free.expect("set");
        // SAFETY: the callbacks are live (see the type).
        unsafe { call(self.0.p_user_data, memory.cast()) }
    }

    pub fn internal(&self, taken: bool, size: usize, kind: i32, scope: RawScope) {
        let call = if taken { self.0.pfn_internal_allocation } else { self.0.pfn_internal_free }.expect("set");
        // SAFETY: the callbacks are live; any arguments may be passed.
        unsafe { call(self.0.p_user_data, size, kind, scope) }
    }
}

pub const fn raw(scope: Scope) -> RawScope {
    scope.as_raw() as RawScope
}

/// Fills a block with a pattern that depends on the place.
pub fn fill(memory: *mut u8, len: usize, seed: u8) {
    for i in 0..len {
        // SAFETY: the tests pass blocks of `len` bytes.
        unsafe { memory.wrapping_add(i).write(seed.wrapping_add(i as u8)) };
    }
}

/// The pattern is still there.
pub fn assert_filled(memory: *const u8, len: usize, seed: u8) {
    for i in 0..len {
        assert_eq!(
            // SAFETY: the tests pass blocks of `len` initialised bytes.
            unsafe { memory.wrapping_add(i).read() },
            seed.wrapping_add(i as u8),
            "byte {i} of {len}"
        );
    }
}

/// One call an application got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Alloc { size: usize, align: usize, scope: RawScope },
    Realloc { size: usize, align: usize, scope: RawScope },
    Free,
    FreeNull,
    Internal { taken: bool, size: usize, kind: i32, scope: RawScope },
}

/// The heap behind one or several applications' callbacks: those that share it are compatible (V42).
#[derive(Debug, Default)]
pub struct Heap {
    blocks: Mutex<BTreeMap<usize, Owned>>,
}

#[derive(Debug)]
struct Owned {
    base: *mut u8,
    layout: Layout,
    size: usize,
}

// SAFETY: the pointer is that of a block only the heap frees.
unsafe impl Send for Owned {}

impl Heap {
    pub fn live(&self) -> usize {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub fn live_bytes(&self) -> u64 {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.values().map(|block| block.size as u64).sum()
    }

    fn take(&self, size: usize, align: usize, off_by: usize) -> *mut u8 {
        assert!(size > 0, "size 0 reached the application");
        let layout = Layout::from_size_align(size + align, align).expect("valid request");
        // SAFETY: the size is not 0.
        let base = unsafe { std::alloc::alloc(layout) };
        // SAFETY: `off_by <= align`.
        let block = unsafe { base.add(off_by) };
        self.blocks.lock().expect("no panic inside").insert(block.addr(), Owned { base, layout, size });
        block
    }

    fn give_back(&self, block: *mut u8) -> usize {
        let owned = self
            .blocks
            .lock()
            .expect("no panic inside")
            .remove(&block.addr())
            .expect("V19: freed what is not live here");
        // SAFETY: taken in `take` with this layout, and just removed.
        unsafe { std::alloc::dealloc(owned.base, owned.layout) };
        owned.size
    }

    fn size_of(&self, block: *mut u8) -> usize {
        self.blocks
            .lock()
            .expect("no panic inside")
            .get(&block.addr())
            .expect("V11: realloc of what is not live here")
            .size
    }
}

/// An application in C's manner: plain functions and a user data pointer, which is the address of this.
#[derive(Debug, Default)]
pub struct App {
    pub heap: Arc<Heap>,
    pub calls: Mutex<Vec<Call>>,
    pub misalign_allocations: AtomicBool,
    pub misalign_reallocations: AtomicBool,
    pub refuse_after: AtomicUsize,
    pub refuses: AtomicBool,
}

impl App {
    /// Another application over the same heap.
    pub fn compatible(other: &Self) -> Self {
        Self { heap: Arc::clone(&other.heap), ..Self::default() }
    }

    pub fn callbacks(&self) -> RawCallbacks {
        RawCallbacks {
            p_user_data: ptr::from_ref(self).cast_mut().cast(),
            pfn_allocation: Some(allocation),
            pfn_reallocation: Some(reallocation),
            pfn_free: Some(free),
            pfn_internal_allocation: Some(internal_allocation),
            pfn_internal_free: Some(internal_free),
        }
    }

    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().expect("no panic inside").clone()
    }

    fn log(&self, call: Call) {
        self.calls.lock().expect("no panic inside").push(call);
    }

    /// True when this request is to be refused: all are, once `refuse_after` more have been served.
    fn refuse(&self) -> bool {
        self.refuses.load(SeqCst) && self.refuse_after.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_err()
    }
}

fn app<'a>(ud: *mut c_void) -> &'a App {
    // SAFETY: `callbacks` put the application's address there; it outlives the calls.
    unsafe { &*ud.cast::<App>() }
}

unsafe extern "system" fn allocation(ud: *mut c_void, size: usize, align: usize, scope: RawScope) -> *mut c_void {
    let app = app(ud);
    app.log(Call::Alloc { size, align, scope });
    if app.refuse() {
        return ptr::null_mut();
    }
    app.heap.take(size, align, usize::from(app.misalign_allocations.load(SeqCst))).cast()
}

unsafe extern "system" fn reallocation(
    ud: *mut c_void,
    original: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    let app = app(ud);
    app.log(Call::Realloc { size, align, scope });
    if app.refuse() {
        return ptr::null_mut();
    }
    let kept = app.heap.size_of(original.cast()).min(size);
    let new = app.heap.take(size, align, usize::from(app.misalign_reallocations.load(SeqCst)));
    // SAFETY: both blocks are live, different, and hold `kept` bytes.
    unsafe { ptr::copy_nonoverlapping(original.cast::<u8>(), new, kept) };
    app.heap.give_back(original.cast());
    new.cast()
}

unsafe extern "system" fn free(ud: *mut c_void, memory: *mut c_void) {
    let app = app(ud);
    if memory.is_null() {
        return app.log(Call::FreeNull);
    }
    app.log(Call::Free);
    app.heap.give_back(memory.cast());
}

unsafe extern "system" fn internal_allocation(ud: *mut c_void, size: usize, kind: i32, scope: RawScope) {
    app(ud).log(Call::Internal { taken: true, size, kind, scope });
}

unsafe extern "system" fn internal_free(ud: *mut c_void, size: usize, kind: i32, scope: RawScope) {
    app(ud).log(Call::Internal { taken: false, size, kind, scope });
}

/// What the calls of a trace add up to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceSums {
    /// Allocations and reallocations, and the sum of their sizes.
    pub calls: (u64, u64),
    pub frees: u64,
    pub reallocations: u64,
    /// Reallocations that began and did not return.
    pub running: i64,
    /// Blocks that came of them, each resized one again.
    pub blocks: u64,
    pub not_live: u64,
    pub other_thread_frees: u64,
    pub lost: u64,
    /// Size and thread of each live block.
    pub live: BTreeMap<u64, (u64, u64)>,
}

/// Adds up a trace of the recorder's.
pub fn sums(text: &str) -> TraceSums {
    let mut sums = TraceSums::default();
    for line in TraceReader::new(text).expect("own header") {
        let (by, old, new, size) = match line.expect("own line").1 {
            TraceEvent::Allocate { by, block, asked } => (by, Pointer::Null, block, Some(asked.size)),
            TraceEvent::ReallocateBegin { .. } => {
                sums.running += 1;
                continue;
            }
            TraceEvent::Reallocate { by, old, new, asked } => {
                sums.reallocations += 1;
                sums.running -= 1;
                let stays = new == Pointer::Null && asked.size != 0;
                let old = if stays { Pointer::Null } else { old };
                (by, old, new, Some(asked.size))
            }
            TraceEvent::Free { by, block } => (by, block, Pointer::Null, None),
            TraceEvent::Lost { events } => {
                sums.lost += events;
                continue;
            }
            _ => continue,
        };
        match size {
            Some(size) => sums.calls = (sums.calls.0 + 1, sums.calls.1.saturating_add(size)),
            None => sums.frees += 1,
        }
        let freed = match old {
            Pointer::Null => None,
            Pointer::Block(old) => sums.live.remove(&old),
            _ => None,
        };
        sums.not_live += u64::from(old != Pointer::Null && freed.is_none());
        sums.other_thread_frees +=
            u64::from(new == Pointer::Null && freed.is_some_and(|(_, thread)| thread != by.thread));
        if let Pointer::Block(new) = new {
            sums.blocks += 1;
            sums.live.insert(new, (size.unwrap_or(0), by.thread));
        }
    }
    sums
}
