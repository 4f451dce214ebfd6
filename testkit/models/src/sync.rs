//! Atomics and the lock under alloc-core's names, made of loom's.
//!
//! alloc-core makes its cells in constants and statics. Here such a cell holds nothing but its first value, and takes
//! an atomic of loom's from a store when it is first used in a run; the store is filled before the first thread starts,
//! because loom counts making a cell as writing to it.

use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

pub(crate) use std::sync::atomic::Ordering;

use crate::harness::{self, Fences, Mutant};

/// Cells of each sort that a model may use.
const STOCK: usize = 96;

/// What a cell stands for in the current run.
struct PerRun<T: 'static>(Mutex<Option<(u64, &'static T)>>);

/// Cells made before the threads were.
struct Stock<T: 'static>(Mutex<Vec<&'static T>>);

impl<T> PerRun<T> {
    const fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn get(&self, stock: &Stock<T>) -> &'static T {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *slot {
            Some((run, cell)) if run == harness::run() => cell,
            _ => {
                let cell =
                    stock.0.lock().unwrap_or_else(PoisonError::into_inner).pop().expect("the stock is large enough");
                *slot = Some((harness::run(), cell));
                cell
            }
        }
    }
}

impl<T> Stock<T> {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Leaks what it makes: loom has forgotten its side of it at the end of the run.
    fn fill(&self, many: usize, make: impl Fn() -> T) {
        let mut stock = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stock.clear();
        stock.extend((0..many).map(|_| &*Box::leak(Box::new(make()))));
    }
}

/// At the start of a run, before any thread.
pub(crate) fn prepare() {
    AtomicI64::ZEROS.fill(STOCK, || loom::sync::atomic::AtomicI64::new(0));
    AtomicU8::ZEROS.fill(STOCK, || loom::sync::atomic::AtomicU8::new(0));
    AtomicU32::ZEROS.fill(STOCK, || loom::sync::atomic::AtomicU32::new(0));
    AtomicU32::ONES.fill(1, || loom::sync::atomic::AtomicU32::new(1));
    AtomicU64::ZEROS.fill(STOCK, || loom::sync::atomic::AtomicU64::new(0));
    AtomicUsize::ZEROS.fill(STOCK, || loom::sync::atomic::AtomicUsize::new(0));
    POINTERS.fill(STOCK, || loom::sync::atomic::AtomicUsize::new(0));
    LOCKS.fill(STOCK, || loom::sync::Mutex::new(()));
    WATCHED.fill(STOCK, || Watched(loom::cell::UnsafeCell::new(())));
}

fn exchanged(ordering: Ordering) -> Ordering {
    match ordering {
        _ if harness::mutant() == Mutant::RelaxedExchanges => Ordering::Relaxed,
        Ordering::SeqCst => Ordering::AcqRel,
        _ => ordering,
    }
}

fn stored(ordering: Ordering) -> Ordering {
    match ordering {
        _ if harness::mutant() == Mutant::RelaxedStores => Ordering::Relaxed,
        Ordering::SeqCst => Ordering::Release,
        _ => ordering,
    }
}

fn acquired(ordering: Ordering) -> Ordering {
    if ordering == Ordering::SeqCst { Ordering::Acquire } else { ordering }
}

/// Loom does not know sequentially consistent accesses, but fences: one after each store and none before a load, and,
/// in a second round, the other way round. What is too weak on either side is seen in one of the two.
fn fenced(ordering: Ordering) {
    fence(ordering, Fences::AfterStores);
}

fn fence(ordering: Ordering, fences: Fences) {
    if ordering == Ordering::SeqCst && harness::fences() == fences && harness::mutant() != Mutant::NoFences {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}

/// As alloc-core's.
pub(crate) trait Relaxed {
    type Value;
    fn get(&self) -> Self::Value;
    fn set(&self, value: Self::Value);
}

macro_rules! relaxed {
    ($($cell:ident $(<$to:ident>)?: $value:ty),*) => {$(
        impl $(<$to>)? Relaxed for $cell $(<$to>)? {
            type Value = $value;
            fn get(&self) -> $value {
                self.load(Ordering::Relaxed)
            }
            fn set(&self, value: $value) {
                self.store(value, Ordering::Relaxed);
            }
        }
    )*};
}
relaxed!(AtomicU8: u8, AtomicU32: u32, AtomicU64: u64, AtomicI64: i64, AtomicPtr<T>: *mut T);

macro_rules! atomic {
    ($name:ident, $value:ty, $zeros:ident, $ones:ident) => {
        pub(crate) struct $name {
            first: $value,
            cell: PerRun<loom::sync::atomic::$name>,
        }

        static $zeros: Stock<loom::sync::atomic::$name> = Stock::new();
        static $ones: Stock<loom::sync::atomic::$name> = Stock::new();

        impl Default for $name {
            fn default() -> Self {
                Self::new(0)
            }
        }

        impl $name {
            const ZEROS: &'static Stock<loom::sync::atomic::$name> = &$zeros;
            const ONES: &'static Stock<loom::sync::atomic::$name> = &$ones;

            pub(crate) const fn new(first: $value) -> Self {
                assert!(first == 0 || first == 1);
                Self { first, cell: PerRun::new() }
            }
            fn cell(&self) -> &'static loom::sync::atomic::$name {
                self.cell.get(if self.first == 0 { Self::ZEROS } else { Self::ONES })
            }
            pub(crate) fn load(&self, ordering: Ordering) -> $value {
                fence(ordering, Fences::BeforeLoads);
                self.cell().load(acquired(ordering))
            }
            pub(crate) fn store(&self, value: $value, ordering: Ordering) {
                self.cell().store(value, stored(ordering));
                fenced(ordering);
            }
            pub(crate) fn swap(&self, value: $value, ordering: Ordering) -> $value {
                let before = self.cell().swap(value, exchanged(ordering));
                fenced(ordering);
                before
            }
            pub(crate) fn fetch_add(&self, value: $value, ordering: Ordering) -> $value {
                let before = self.cell().fetch_add(value, exchanged(ordering));
                fenced(ordering);
                before
            }
            pub(crate) fn fetch_sub(&self, value: $value, ordering: Ordering) -> $value {
                let before = self.cell().fetch_sub(value, exchanged(ordering));
                fenced(ordering);
                before
            }
            pub(crate) fn fetch_or(&self, value: $value, ordering: Ordering) -> $value {
                self.cell().fetch_or(value, exchanged(ordering))
            }
            pub(crate) fn fetch_and(&self, value: $value, ordering: Ordering) -> $value {
                self.cell().fetch_and(value, exchanged(ordering))
            }
            pub(crate) fn fetch_max(&self, value: $value, ordering: Ordering) -> $value {
                let before = self.cell().fetch_max(value, exchanged(ordering));
                fenced(ordering);
                before
            }
            pub(crate) fn compare_exchange(
                &self,
                from: $value,
                to: $value,
                ordering: Ordering,
                failed: Ordering,
            ) -> Result<$value, $value> {
                if harness::mutant() == Mutant::TornExchanges {
                    let found = self.cell().load(failed);
                    if found == from {
                        self.cell().store(to, Ordering::Release);
                    }
                    return if found == from { Ok(found) } else { Err(found) };
                }
                let found = self.cell().compare_exchange(from, to, exchanged(ordering), acquired(failed));
                fenced(ordering);
                found
            }
        }
    };
}

atomic!(AtomicI64, i64, I64_ZEROS, I64_ONES);
atomic!(AtomicU8, u8, U8_ZEROS, U8_ONES);
atomic!(AtomicU32, u32, U32_ZEROS, U32_ONES);
atomic!(AtomicU64, u64, U64_ZEROS, U64_ONES);
atomic!(AtomicUsize, usize, USIZE_ZEROS, USIZE_ONES);

static POINTERS: Stock<loom::sync::atomic::AtomicUsize> = Stock::new();

/// Always made null, which is all that alloc-core does.
pub(crate) struct AtomicPtr<T: 'static> {
    cell: PerRun<loom::sync::atomic::AtomicUsize>,
    to: PhantomData<fn() -> T>,
}

impl<T> Default for AtomicPtr<T> {
    fn default() -> Self {
        Self::new(std::ptr::null_mut())
    }
}

impl<T> AtomicPtr<T> {
    pub(crate) const fn new(first: *mut T) -> Self {
        assert!(first.is_null());
        Self { cell: PerRun::new(), to: PhantomData }
    }
    pub(crate) fn load(&self, ordering: Ordering) -> *mut T {
        fence(ordering, Fences::BeforeLoads);
        std::ptr::with_exposed_provenance_mut(self.cell.get(&POINTERS).load(acquired(ordering)))
    }
    pub(crate) fn store(&self, value: *mut T, ordering: Ordering) {
        self.cell.get(&POINTERS).store(value.expose_provenance(), stored(ordering));
        fenced(ordering);
    }
    pub(crate) fn swap(&self, value: *mut T, ordering: Ordering) -> *mut T {
        let before = self.cell.get(&POINTERS).swap(value.expose_provenance(), exchanged(ordering));
        fenced(ordering);
        std::ptr::with_exposed_provenance_mut(before)
    }
    pub(crate) fn compare_exchange(
        &self,
        from: *mut T,
        to: *mut T,
        ordering: Ordering,
        failed: Ordering,
    ) -> Result<*mut T, *mut T> {
        let (from, to) = (from.expose_provenance(), to.expose_provenance());
        let found = self.cell.get(&POINTERS).compare_exchange(from, to, exchanged(ordering), acquired(failed));
        fenced(ordering);
        found.map(std::ptr::with_exposed_provenance_mut).map_err(std::ptr::with_exposed_provenance_mut)
    }
}

static LOCKS: Stock<loom::sync::Mutex<()>> = Stock::new();

/// A lock, or none where the mutant says so. How alloc-core's own waits is not modelled.
pub(crate) struct Lock(PerRun<loom::sync::Mutex<()>>);

pub(crate) struct Held<'l> {
    _guard: Option<loom::sync::MutexGuard<'l, ()>>,
}

impl Lock {
    pub(crate) const fn new() -> Self {
        Self(PerRun::new())
    }

    pub(crate) fn lock(&self) -> Held<'_> {
        if harness::mutant() == Mutant::NoLocks {
            return Held { _guard: None };
        }
        Held { _guard: self.0.get(&LOCKS).lock().ok() }
    }

    pub(crate) fn try_lock(&self) -> Option<Held<'_>> {
        if harness::mutant() == Mutant::NoLocks {
            return Some(Held { _guard: None });
        }
        let guard = self.0.get(&LOCKS).try_lock().ok()?;
        Some(Held { _guard: Some(guard) })
    }

    /// For a fork, which no model has.
    pub(crate) fn while_held<R>(&self, run: impl FnOnce() -> R) -> R {
        run()
    }

    /// For the child of a fork, which no model has.
    pub(crate) fn reset(&self) {}
}

static WATCHED: Stock<Watched> = Stock::new();

/// Of which loom sees who has it.
struct Watched(loom::cell::UnsafeCell<()>);

// SAFETY: there is nothing in it.
unsafe impl Sync for Watched {}

/// State and the lock without which it is not reached, as gpu-suballoc has it; loom panics where two have it at once.
pub(crate) struct StateMutex<T> {
    lock: Lock,
    watched: PerRun<Watched>,
    value: std::cell::UnsafeCell<T>,
}

// SAFETY: the value is reached while this thread has the watched cell, of which loom allows one.
unsafe impl<T: Send> Sync for StateMutex<T> {}

pub(crate) struct HeldState<'g, T> {
    value: &'g std::cell::UnsafeCell<T>,
    // In this order: nobody has the cell when the lock goes.
    _watched: loom::cell::MutPtr<()>,
    _lock: Held<'g>,
}

impl<T> StateMutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { lock: Lock::new(), watched: PerRun::new(), value: std::cell::UnsafeCell::new(value) }
    }

    pub(crate) fn lock(&self) -> HeldState<'_, T> {
        let lock = self.lock.lock();
        HeldState { value: &self.value, _watched: self.watched.get(&WATCHED).0.get_mut(), _lock: lock }
    }
}

impl<T> std::ops::Deref for HeldState<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this thread has the watched cell, of which loom allows one.
        unsafe { &*self.value.get() }
    }
}

impl<T> std::ops::DerefMut for HeldState<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the watched cell, of which loom allows one.
        unsafe { &mut *self.value.get() }
    }
}
