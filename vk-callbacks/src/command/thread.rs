//! The thread-local state. It is constant-initialised and has no destructor, so it can be used until the thread ends,
//! and allocates nothing. A bracket looks up its address once, because in a shared library that is a call.

use core::cell::Cell;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::bracket::{CommandFrame, Creation};

pub(crate) use imp::{random_seed, thread_number, with_state};

/// The checker's address, and the object that a command of this thread creates.
pub(crate) type Pending = Option<(*const (), Creation)>;

pub(crate) struct ThreadState {
    top: Cell<*const CommandFrame>,
    creation: Cell<Pending>,
    number: Cell<u64>,
    serial: Cell<u64>,
    reported_early: Cell<*const ()>,
    growths: Cell<u32>,
    in_callback: Cell<bool>,
    issued: Cell<bool>,
    early: Cell<bool>,
}

/// The mark "inside a callback"; dropping it restores what was before.
///
/// As a pointer it stays on its thread. None without thread state.
pub(crate) struct InCallback(Option<(NonNull<ThreadState>, bool)>);

/// The mark of an allocation of a checker or a recorder for itself; dropping it removes the mark.
pub(crate) struct Growth(());

/// The memory may call callbacks that need more of it; if each does, the nesting must end.
const MAX_GROWTHS: u32 = 4;

const SERIALS: u64 = 64;

/// The number of threads, the first ones, that publish which checker's command they run.
const RUNNING_PLACES: usize = 256;

/// A cache line for each thread, the only writer.
#[repr(align(64))]
struct RunningPlace(AtomicPtr<()>);

static RUNNING: [RunningPlace; RUNNING_PLACES] =
    [const { RunningPlace(AtomicPtr::new(ptr::null_mut())) }; RUNNING_PLACES];

#[derive(Clone, Copy)]
pub(crate) enum Running {
    /// In the thread's own place, from now on.
    Placed(&'static AtomicPtr<()>),
    /// In the place already: a nested command.
    Nested,
    /// Nowhere, because the thread has no place or another checker's command is there: the checker counts.
    Unplaced,
}

impl ThreadState {
    pub(crate) const fn new() -> Self {
        Self {
            top: Cell::new(ptr::null()),
            creation: Cell::new(None),
            number: Cell::new(0),
            serial: Cell::new(0),
            reported_early: Cell::new(ptr::null()),
            growths: Cell::new(0),
            in_callback: Cell::new(false),
            issued: Cell::new(false),
            early: Cell::new(false),
        }
    }

    #[inline]
    pub(crate) const fn top(&self) -> *const CommandFrame {
        self.top.get()
    }

    #[inline]
    pub(crate) fn enter_command(&self, frame: *const CommandFrame) -> *const CommandFrame {
        self.issued.set(true);
        self.top.replace(frame)
    }

    #[inline]
    pub(crate) fn set_top(&self, frame: *const CommandFrame) {
        self.top.set(frame);
    }

    #[inline]
    pub(crate) const fn in_callback(&self) -> bool {
        self.in_callback.get()
    }

    /// From 1; the operating system reuses the ids of ended threads.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        match self.number.get() {
            0 => {
                let number = imp::next_thread();
                self.number.set(number);
                number
            }
            number => number,
        }
    }

    /// A thread reserves [`SERIALS`] of them at once, because one each would cost a locked instruction.
    #[inline]
    pub(crate) fn next_serial(&self) -> u64 {
        let last = self.serial.get();
        let before = if last.is_multiple_of(SERIALS) { imp::reserve_serials(SERIALS) } else { last };
        let serial = before.wrapping_add(1);
        self.serial.set(serial);
        serial
    }

    /// Whether a callback came before the thread's first command, and `checker` was not the last caller: each checker
    /// must see it once.
    ///
    /// A checker at the address of an ended one does not see it: it began after the thread's first command.
    #[inline]
    pub(crate) fn was_early_for(&self, checker: *const ()) -> bool {
        self.early.get() && self.reported_early.replace(checker) != checker
    }

    #[inline]
    pub(crate) fn swap_creation(&self, creation: Pending) -> Pending {
        if creation.is_none() && self.creation.get().is_none() {
            return None;
        }
        self.creation.replace(creation)
    }

    #[inline]
    pub(crate) fn start(&self, checker: *const ()) -> Running {
        let Some(place) = self.place() else {
            return Running::Unplaced;
        };
        let there = place.load(Ordering::Relaxed).cast_const();
        if there.is_null() {
            place.store(checker.cast_mut(), Ordering::Relaxed);
            return Running::Placed(place);
        }
        if ptr::eq(there, checker) { Running::Nested } else { Running::Unplaced }
    }

    #[inline]
    fn place(&self) -> Option<&'static AtomicPtr<()>> {
        let index = usize::try_from(self.number().checked_sub(1)?).ok()?;
        RUNNING.get(index).map(|place| &place.0)
    }
}

pub(crate) fn some_thread_runs(checker: *const ()) -> bool {
    let runs = |place: &RunningPlace| ptr::eq(place.0.load(Ordering::Relaxed), checker);
    RUNNING.iter().any(runs)
}

#[inline]
pub(crate) fn top() -> *const CommandFrame {
    with_state(ThreadState::top)
}

pub(crate) fn has_issued() -> bool {
    with_state(|thread| thread.issued.get())
}

pub(crate) fn early_callback() {
    with_state(|thread| thread.early.set(true));
}

#[inline(always)]
pub(crate) fn enter_callback() -> InCallback {
    InCallback(with_state(|thread| {
        let outer = thread.in_callback.replace(true);
        imp::lasting(thread).map(|thread| (thread, outer))
    }))
}

#[inline]
pub(crate) fn in_callback() -> bool {
    with_state(ThreadState::in_callback)
}

impl Drop for InCallback {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some((thread, outer)) = self.0 {
            // SAFETY: this thread's state, which has no destructor and exists until the thread ends.
            unsafe { thread.as_ref() }.in_callback.set(outer);
        }
    }
}

pub(crate) fn enter_growth() -> Option<Growth> {
    with_state(|thread| {
        let growths = thread.growths.get();
        (growths < MAX_GROWTHS).then(|| {
            thread.growths.set(growths.saturating_add(1));
            Growth(())
        })
    })
}

/// Whether what is closed now may be in use further up this thread's stack: by a callback, or an allocation of a
/// checker or a recorder.
pub(crate) fn is_busy() -> bool {
    with_state(|thread| thread.in_callback.get() || thread.growths.get() > 0)
}

impl Drop for Growth {
    fn drop(&mut self) {
        with_state(|thread| {
            thread.growths.set(thread.growths.get().saturating_sub(1));
        });
    }
}

#[cfg(feature = "std")]
mod imp {
    extern crate std;

    use core::hash::{BuildHasher as _, Hasher as _};
    use core::ptr::NonNull;
    use core::sync::atomic::AtomicU64;
    use core::sync::atomic::Ordering::Relaxed;
    use std::hash::RandomState;
    use std::thread_local;

    use super::ThreadState;

    thread_local! {
        static STATE: ThreadState = const { ThreadState::new() };
    }

    #[inline(always)]
    pub(crate) fn with_state<R>(look: impl FnOnce(&ThreadState) -> R) -> R {
        STATE.with(look)
    }

    /// The state's address, valid as long as the thread runs.
    #[inline(always)]
    pub(super) fn lasting(thread: &ThreadState) -> Option<NonNull<ThreadState>> {
        Some(NonNull::from(thread))
    }

    /// From the system's random numbers. Allocates nothing.
    pub(crate) fn random_seed() -> u64 {
        RandomState::new().build_hasher().finish()
    }

    #[inline]
    pub(crate) fn thread_number() -> u64 {
        with_state(ThreadState::number)
    }

    #[cold]
    pub(super) fn next_thread() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Threads that are not listed count the locks that they hold in one place, which all of them write.
        alloc_core::attach_thread();
        NEXT.fetch_add(1, Relaxed)
    }

    /// Reserves numbers: those behind the result, which is a multiple of `number`.
    #[cold]
    pub(super) fn reserve_serials(number: u64) -> u64 {
        static TAKEN: AtomicU64 = AtomicU64::new(0);
        TAKEN.fetch_add(number, Relaxed)
    }
}

#[cfg(not(feature = "std"))]
mod imp {
    use core::ptr::NonNull;
    use core::sync::atomic::AtomicUsize;
    use core::sync::atomic::Ordering::Relaxed;

    use super::ThreadState;

    /// Without thread-locals each call gets a fresh state, and its changes are lost.
    #[inline(always)]
    pub(crate) fn with_state<R>(look: impl FnOnce(&ThreadState) -> R) -> R {
        look(&ThreadState::new())
    }

    pub(super) const fn lasting(_: &ThreadState) -> Option<NonNull<ThreadState>> {
        None
    }

    /// Without random numbers: load addresses, if the system randomises them, and a count.
    pub(crate) fn random_seed() -> u64 {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let here = 0_u8;
        let places = ((&raw const NEXT).addr() as u64).rotate_left(32) ^ (&raw const here).addr() as u64;
        let mut x = places.wrapping_add((NEXT.fetch_add(1, Relaxed) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // The finaliser of splitmix64.
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    pub(crate) const fn thread_number() -> u64 {
        0
    }

    pub(super) const fn next_thread() -> u64 {
        0
    }

    pub(super) const fn reserve_serials(_: u64) -> u64 {
        u64::MAX
    }
}
