//! A witness in front of any callbacks: what the driver asked for, kind by kind and scope by scope. Shares no code with
//! the product.
//!
//! ```text
//!   workload --> layer --> Around: NULL stays NULL, else callbacks around them --> driver
//!                          driver --> Around (one lock, one map) --> the layer's callbacks
//! ```
//!
//! One call passes at a time, and whoever [holds](Around::hold) the lock knows that none is on its way.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use ash::vk;

/// What was seen of one kind and scope. `charged` is what a bridge takes for a request: 16 bytes more, and where the
/// alignment is above 16, as many more as the alignment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenBlocks {
    pub(super) blocks: u64,
    pub(super) frees: u64,
    pub(super) resizes: u64,
    pub(super) asked: u64,
    pub(super) charged: u64,
    pub(super) live_blocks: u64,
    pub(super) live_asked: u64,
    pub(super) live_charged: u64,
}

/// All that was seen until now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// By kind, then scope.
    pub(super) seen: BTreeMap<(&'static str, i32), SeenBlocks>,
    /// Most bytes live at once since the phase began, and since the start.
    pub(super) phase_peak: (u64, u64),
    pub(super) peak: (u64, u64),
    /// The same for each kind, as charged, since the start.
    pub(super) kind_peaks: BTreeMap<&'static str, u64>,
    pub(super) null_answers: u64,
    /// Calls that came from other threads than the workload's.
    pub(super) foreign_calls: u64,
}

#[derive(Clone, Copy)]
struct WatchedBlock {
    size: u64,
    align: u64,
    scope: i32,
    kind: &'static str,
}

pub(super) struct Book {
    home: ThreadId,
    live: BTreeMap<usize, WatchedBlock>,
    record: Record,
}

struct Entry {
    kind: &'static str,
    inner: vk::AllocationCallbacks<'static>,
    book: Arc<Mutex<Book>>,
}

/// Callbacks around those that the driver would get, for every kind.
pub(super) struct Around {
    book: Arc<Mutex<Book>>,
    /// By kind; created when the kind is first used, and never freed.
    entries: Mutex<BTreeMap<&'static str, &'static (vk::AllocationCallbacks<'static>, Box<Entry>)>>,
}

// SAFETY: the callbacks may be called on any thread, and are no longer changed.
unsafe impl Send for Around {}
// SAFETY: the callbacks may be called on any thread at once, and are no longer changed; `entries` has a lock.
unsafe impl Sync for Around {}

impl Around {
    pub(super) fn new() -> Self {
        let book = Book { home: thread::current().id(), live: BTreeMap::new(), record: Record::default() };
        Self { book: Arc::new(Mutex::new(book)), entries: Mutex::default() }
    }

    /// Callbacks around these, which are the kind's for as long as the process lives.
    pub(super) fn callbacks(
        &self,
        kind: &'static str,
        inner: &vk::AllocationCallbacks<'_>,
    ) -> &'static vk::AllocationCallbacks<'static> {
        let mut entries = self.entries.lock().expect("nobody panics with it");
        let (own, entry) = entries.entry(kind).or_insert_with(|| {
            let entry = Box::new(Entry {
                kind,
                inner: vk::AllocationCallbacks { _marker: std::marker::PhantomData, ..*inner },
                book: Arc::clone(&self.book),
            });
            let own = vk::AllocationCallbacks::default()
                .user_data((&raw const *entry).cast_mut().cast())
                .pfn_allocation(Some(allocate))
                .pfn_reallocation(Some(reallocate))
                .pfn_free(Some(free));
            Box::leak(Box::new((own, entry)))
        });
        assert_eq!(entry.inner.p_user_data, inner.p_user_data, "a kind has one set");
        own
    }

    /// The callbacks that are checked, of a kind that was used.
    pub(super) fn inner(&self, kind: &str) -> vk::AllocationCallbacks<'static> {
        let entries = self.entries.lock().expect("nobody panics with it");
        entries.get(kind).expect("a kind that was used").1.inner
    }

    /// Until the answer is dropped, calls wait: numbers do not move.
    pub(super) fn hold(&self) -> Held<'_> {
        Held(lock(&self.book))
    }
}

/// See [`Around::hold`].
pub(super) struct Held<'a>(MutexGuard<'a, Book>);

impl Held<'_> {
    pub(super) fn record(&self) -> Record {
        self.0.record.clone()
    }

    pub(super) fn begin_phase(&mut self) {
        self.0.record.phase_peak = self.0.record.live();
    }
}

impl Record {
    /// The sum over the kinds and scopes that `which` names.
    pub(super) fn sum(&self, which: impl Fn(&'static str, i32) -> bool) -> SeenBlocks {
        let mut sum = SeenBlocks::default();
        for (_, seen) in self.seen.iter().filter(|((kind, scope), _)| which(kind, *scope)) {
            sum.blocks += seen.blocks;
            sum.frees += seen.frees;
            sum.resizes += seen.resizes;
            sum.asked += seen.asked;
            sum.charged += seen.charged;
            sum.live_blocks += seen.live_blocks;
            sum.live_asked += seen.live_asked;
            sum.live_charged += seen.live_charged;
        }
        sum
    }

    /// Live bytes, asked and charged.
    fn live(&self) -> (u64, u64) {
        let sum = self.sum(|_, _| true);
        (sum.live_asked, sum.live_charged)
    }
}

impl Book {
    fn change(&mut self, block: WatchedBlock, change: impl FnOnce(&mut SeenBlocks)) {
        change(self.record.seen.entry((block.kind, block.scope)).or_default());
        let (asked, charged) = self.record.live();
        for peak in [&mut self.record.phase_peak, &mut self.record.peak] {
            *peak = (peak.0.max(asked), peak.1.max(charged));
        }
        let kind = self.record.sum(|kind, _| kind == block.kind).live_charged;
        let peak = self.record.kind_peaks.entry(block.kind).or_default();
        *peak = kind.max(*peak);
    }

    fn taken(&mut self, at: usize, block: WatchedBlock) {
        assert!(self.live.insert(at, block).is_none(), "{at:#x} was given twice");
        self.change(block, |seen| {
            seen.blocks += 1;
            seen.asked += block.size;
            seen.charged += block.charged();
            seen.live_blocks += 1;
            seen.live_asked += block.size;
            seen.live_charged += block.charged();
        });
    }

    fn given(&mut self, block: WatchedBlock) {
        self.change(block, |seen| {
            seen.frees += 1;
            seen.live_blocks -= 1;
            seen.live_asked -= block.size;
            seen.live_charged -= block.charged();
        });
    }

    fn resized(&mut self, at: usize, old: WatchedBlock, new: WatchedBlock) {
        assert!(self.live.insert(at, new).is_none(), "{at:#x} was given twice");
        self.change(new, |seen| {
            seen.resizes += 1;
            seen.asked += new.size.saturating_sub(old.size);
            seen.charged += new.charged().saturating_sub(old.charged());
            seen.live_asked = seen.live_asked + new.size - old.size;
            seen.live_charged = seen.live_charged + new.charged() - old.charged();
        });
    }

    fn remove(&mut self, at: usize) -> WatchedBlock {
        self.live.remove(&at).unwrap_or_else(|| panic!("{at:#x} is not live"))
    }

    fn note_thread(&mut self) {
        self.record.foreign_calls += u64::from(thread::current().id() != self.home);
    }
}

impl WatchedBlock {
    fn charged(&self) -> u64 {
        self.size + if self.align > 16 { self.align } else { 16 }
    }
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// # Safety
/// `user` is the user data of these callbacks.
unsafe fn entry<'e>(user: *mut c_void) -> &'e Entry {
    // SAFETY: it points at an entry that lives as long as the callbacks may be called.
    unsafe { &*user.cast::<Entry>() }
}

unsafe extern "system" fn allocate(
    user: *mut c_void,
    size: usize,
    align: usize,
    scope: vk::SystemAllocationScope,
) -> *mut c_void {
    // SAFETY: our own user data.
    let entry = unsafe { entry(user) };
    let call = entry.inner.pfn_allocation.expect("callbacks have all three functions");
    let mut book = lock(&entry.book);
    // SAFETY: passed on as it came.
    let given = unsafe { call(entry.inner.p_user_data, size, align, scope) };
    let block = WatchedBlock { size: size as u64, align: align as u64, scope: scope.as_raw(), kind: entry.kind };
    book.note_thread();
    if given.is_null() {
        book.record.null_answers += 1;
    } else {
        book.taken(given.addr(), block);
    }
    given
}

unsafe extern "system" fn reallocate(
    user: *mut c_void,
    old: *mut c_void,
    size: usize,
    align: usize,
    scope: vk::SystemAllocationScope,
) -> *mut c_void {
    if old.is_null() {
        return if size == 0 {
            std::ptr::null_mut()
        } else {
            // SAFETY: the same request.
            unsafe { allocate(user, size, align, scope) }
        };
    }
    if size == 0 {
        // SAFETY: the same request.
        unsafe { free(user, old) };
        return std::ptr::null_mut();
    }
    // SAFETY: our own user data.
    let entry = unsafe { entry(user) };
    let mut book = lock(&entry.book);
    let before = book.remove(old.addr());
    let call = entry.inner.pfn_reallocation.expect("callbacks have all three functions");
    // SAFETY: passed on as it came.
    let given = unsafe { call(entry.inner.p_user_data, old, size, align, scope) };
    book.note_thread();
    if given.is_null() {
        book.record.null_answers += 1;
        book.live.insert(old.addr(), before);
    } else {
        book.resized(given.addr(), before, WatchedBlock { size: size as u64, ..before });
    }
    given
}

unsafe extern "system" fn free(user: *mut c_void, block: *mut c_void) {
    if block.is_null() {
        return;
    }
    // SAFETY: our own user data.
    let entry = unsafe { entry(user) };
    let mut book = lock(&entry.book);
    let gone = book.remove(block.addr());
    book.note_thread();
    book.given(gone);
    let call = entry.inner.pfn_free.expect("callbacks have all three functions");
    // SAFETY: passed on as it came.
    unsafe { call(entry.inner.p_user_data, block) };
}
