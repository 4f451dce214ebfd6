//! The one module with a thread-local: which command this thread is in, whether it is inside a callback, its number, whether it
//! ever issued a command, what its last one made.
//!
//! It is constant-initialised and without a destructor, so it can be used until the thread's very last instruction, takes no
//! memory, and costs one look-up of its address: a bracket looks once, since in a shared library that is a call. Without the
//! feature `std` there is none and everything answers "not known".

use core::cell::Cell;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::bracket::Making;
use super::frame::CommandFrame;

pub(crate) use imp::{random_seed, thread_number, with_state};

/// What a command of this thread was making under the checker at this address, and nobody has told of yet.
pub(crate) type Pending = Option<(*const (), Making)>;

/// What is known of one thread.
pub(crate) struct ThreadState {
    top: Cell<*const CommandFrame>,
    making: Cell<Pending>,
    number: Cell<u64>,
    /// Of its last command.
    serial: Cell<u64>,
    reported_early: Cell<*const ()>,
    growths: Cell<u32>,
    in_callback: Cell<bool>,
    issued: Cell<bool>,
    early: Cell<bool>,
}

/// Takes the "inside a callback" mark off when it goes.
///
/// The mark is written and never read on the way: reading it and putting it back would cost a callback about 1 ns, in a chain from
/// call to call. So a bridge that was entered from inside another takes the mark off for both.
///
/// It keeps the address of the thread's state, which in a shared library would cost a call to find again. As a pointer it stays on its
/// thread. None where threads have no state.
pub(crate) struct InCallback(Option<NonNull<ThreadState>>);

/// This thread is in a request for memory of a checker's or a recorder's own; over when it goes.
pub(crate) struct Growth(());

/// So many such requests may be nested. That memory may call callbacks which need more of it; if each call does, it must end somewhere.
const MAX_GROWTHS: u32 = 4;

/// So many commands of one thread have numbers that follow each other. With one thread all have.
const SERIALS: u64 = 64;

/// So many threads, the first that were numbered, write down where all can read which checker's command they run.
const RUNNING_PLACES: usize = 256;

/// A line of its own for each thread, which alone writes it.
#[repr(align(64))]
struct RunningPlace(AtomicPtr<()>);

static RUNNING: [RunningPlace; RUNNING_PLACES] =
    [const { RunningPlace(AtomicPtr::new(ptr::null_mut())) }; RUNNING_PLACES];

/// How it is known that a thread runs a command of a checker.
#[derive(Clone, Copy)]
pub(crate) enum Running {
    /// It stands since now at this place, the thread's own.
    Placed(&'static AtomicPtr<()>),
    /// It stood there before: a command was called within a command.
    Nested,
    /// The thread has no place, or another checker's command is there: the checker has to count.
    Unplaced,
}

impl ThreadState {
    pub(crate) const fn new() -> Self {
        Self {
            top: Cell::new(ptr::null()),
            making: Cell::new(None),
            number: Cell::new(0),
            serial: Cell::new(0),
            reported_early: Cell::new(ptr::null()),
            growths: Cell::new(0),
            in_callback: Cell::new(false),
            issued: Cell::new(false),
            early: Cell::new(false),
        }
    }

    /// The innermost frame of this thread, or null.
    #[inline]
    pub(crate) const fn top(&self) -> *const CommandFrame {
        self.top.get()
    }

    /// Puts a frame on top; answers with the one below.
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

    /// Counted up from 1; the operating system's ids are used again after a thread ended.
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

    /// A number for a command: never 0, never used twice. A thread takes [`SERIALS`] of them at once, since a command each would cost
    /// a locked instruction.
    #[inline]
    pub(crate) fn next_serial(&self) -> u64 {
        let last = self.serial.get();
        let before = if last.is_multiple_of(SERIALS) {
            imp::reserve_serials(SERIALS)
        } else {
            last
        };
        let serial = before.wrapping_add(1);
        self.serial.set(serial);
        serial
    }

    /// Whether a callback came before the thread's first command, and `checker` was not the last to ask: each has to hear it once,
    /// whichever runs the first command.
    ///
    /// One that asks again after another has is told again. One that lies where the last one lay is not told; it came after the
    /// thread's first command, so there is nothing to tell.
    #[inline]
    pub(crate) fn was_early_for(&self, checker: *const ()) -> bool {
        self.early.get() && self.reported_early.replace(checker) != checker
    }

    /// Remembers what the last command was making; answers with what was remembered.
    #[inline]
    pub(crate) fn swap_making(&self, making: Pending) -> Pending {
        if making.is_none() && self.making.get().is_none() {
            return None;
        }
        self.making.replace(making)
    }

    /// This thread begins a command of the checker.
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
        if ptr::eq(there, checker) {
            Running::Nested
        } else {
            Running::Unplaced
        }
    }

    #[inline]
    fn place(&self) -> Option<&'static AtomicPtr<()>> {
        let index = usize::try_from(self.number().checked_sub(1)?).ok()?;
        RUNNING.get(index).map(|place| &place.0)
    }
}

/// Whether some thread with a place runs a command of the checker.
pub(crate) fn some_thread_runs(checker: *const ()) -> bool {
    let runs = |place: &RunningPlace| ptr::eq(place.0.load(Ordering::Relaxed), checker);
    RUNNING.iter().any(runs)
}

/// The innermost frame of this thread, or null.
#[inline]
pub(crate) fn top() -> *const CommandFrame {
    with_state(ThreadState::top)
}

/// This thread has run a command in a bracket.
pub(crate) fn has_issued() -> bool {
    with_state(|thread| thread.issued.get())
}

/// A callback came before the thread's first command.
pub(crate) fn early_callback() {
    with_state(|thread| thread.early.set(true));
}

#[inline(always)]
pub(crate) fn enter_callback() -> InCallback {
    InCallback(with_state(|thread| {
        thread.in_callback.set(true);
        imp::lasting(thread)
    }))
}

#[inline]
pub(crate) fn in_callback() -> bool {
    with_state(ThreadState::in_callback)
}

impl Drop for InCallback {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(thread) = self.0 {
            // SAFETY: this thread's state, which has no destructor and is there until the thread's end.
            unsafe { thread.as_ref() }.in_callback.set(false);
        }
    }
}

/// None where the requests of this thread are nested too deep.
pub(crate) fn enter_growth() -> Option<Growth> {
    with_state(|thread| {
        let growths = thread.growths.get();
        (growths < MAX_GROWTHS).then(|| {
            thread.growths.set(growths.saturating_add(1));
            Growth(())
        })
    })
}

/// This thread is inside a callback, or in a request of a checker or a recorder for memory: what is closed now may be in use further
/// up its stack.
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
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::hash::RandomState;
    use std::thread_local;

    use super::ThreadState;

    thread_local! {
        static STATE: ThreadState = const { ThreadState::new() };
    }

    /// Shows `look` this thread's state.
    #[inline(always)]
    pub(crate) fn with_state<R>(look: impl FnOnce(&ThreadState) -> R) -> R {
        STATE.with(look)
    }

    /// The state's address, which holds as long as the thread runs.
    #[inline(always)]
    pub(super) fn lasting(thread: &ThreadState) -> Option<NonNull<ThreadState>> {
        Some(NonNull::from(thread))
    }

    /// From the system's source of random numbers. Takes no memory.
    pub(crate) fn random_seed() -> u64 {
        RandomState::new().build_hasher().finish()
    }

    /// This thread's number.
    #[inline]
    pub(crate) fn thread_number() -> u64 {
        with_state(ThreadState::number)
    }

    #[cold]
    pub(super) fn next_thread() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Relaxed)
    }

    /// So many numbers that nobody else gets: those behind the one that is answered, a multiple of them.
    #[cold]
    pub(super) fn reserve_serials(number: u64) -> u64 {
        static TAKEN: AtomicU64 = AtomicU64::new(0);
        TAKEN.fetch_add(number, Relaxed)
    }
}

#[cfg(not(feature = "std"))]
mod imp {
    use core::ptr::NonNull;
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::ThreadState;

    /// Without threads to tell apart each look finds a state that nothing is known of, and what it writes is forgotten.
    #[inline(always)]
    pub(crate) fn with_state<R>(look: impl FnOnce(&ThreadState) -> R) -> R {
        look(&ThreadState::new())
    }

    /// What was found is gone already.
    pub(super) const fn lasting(_: &ThreadState) -> Option<NonNull<ThreadState>> {
        None
    }

    /// Without a source of random numbers: where the program lies, if the system randomises that, and a count.
    pub(crate) fn random_seed() -> u64 {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let here = 0_u8;
        let places =
            ((&raw const NEXT).addr() as u64).rotate_left(32) ^ (&raw const here).addr() as u64;
        let mut x = places
            .wrapping_add((NEXT.fetch_add(1, Relaxed) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // The finaliser of splitmix64: every bit of the input moves every bit of the output.
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
