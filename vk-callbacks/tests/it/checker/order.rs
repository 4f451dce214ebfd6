//! The order in which a call is written down and passed on: another thread may be given an address before the call that
//! let go of it has returned. Here it always is.

use std::ffi::c_void;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::{ptr, thread};

use vk_callbacks::raw::RawScope;

use super::*;

/// What runs before the next free or reallocation returns.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// An application that returns the address of the last free again, and calls a function before it returns.
struct Hasty {
    free: Mutex<Vec<usize>>,
    meanwhile: Mutex<Vec<Meanwhile>>,
    /// Reallocations answer NULL; what they do with the old block, the application's defect, is in `lets_go`.
    refuses: bool,
    lets_go: bool,
}

fn locked<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hasty {
    fn new(refuses: bool, lets_go: bool) -> &'static Self {
        // Addresses that are never dereferenced, the last one first.
        let free = Mutex::new((1..=8).rev().map(|place| place << 12).collect());
        Box::leak(Box::new(Self { free, meanwhile: Mutex::default(), refuses, lets_go }))
    }

    fn callbacks(&'static self) -> RawCallbacks {
        RawCallbacks {
            p_user_data: ptr::from_ref(self).cast_mut().cast(),
            pfn_allocation: Some(allocation),
            pfn_reallocation: Some(reallocation),
            pfn_free: Some(free),
            pfn_internal_allocation: None,
            pfn_internal_free: None,
        }
    }

    fn next(&self, meanwhile: impl FnOnce() + Send + 'static) {
        locked(&self.meanwhile).push(Box::new(meanwhile));
    }

    fn take(&self) -> *mut c_void {
        ptr::without_provenance_mut(locked(&self.free).pop().expect("few blocks are live"))
    }

    fn give_back(&self, block: *mut c_void) {
        locked(&self.free).push(block.addr());
    }

    fn happen(&self) {
        let next = locked(&self.meanwhile).pop();
        if let Some(meanwhile) = next {
            meanwhile();
        }
    }
}

/// The application behind callbacks of [`Hasty`].
fn hasty<'a>(ud: *mut c_void) -> &'a Hasty {
    // SAFETY: `callbacks` put the address of a leaked one there.
    unsafe { &*ud.cast::<Hasty>() }
}

unsafe extern "system" fn allocation(ud: *mut c_void, _: usize, _: usize, _: RawScope) -> *mut c_void {
    hasty(ud).take()
}

unsafe extern "system" fn reallocation(
    ud: *mut c_void,
    old: *mut c_void,
    _: usize,
    _: usize,
    _: RawScope,
) -> *mut c_void {
    let hasty = hasty(ud);
    let block = if hasty.refuses { ptr::null_mut() } else { hasty.take() };
    if hasty.lets_go {
        hasty.give_back(old);
    }
    hasty.happen();
    block
}

unsafe extern "system" fn free(ud: *mut c_void, block: *mut c_void) {
    let hasty = hasty(ud);
    hasty.give_back(block);
    hasty.happen();
}

/// Such an application behind a checker, and a driver of two threads.
#[derive(Clone, Copy)]
struct Two {
    hasty: &'static Hasty,
    checker: &'static Checker<'static>,
    owner: OwnerId,
    driver: Driver,
}

// SAFETY: callbacks may be called from any thread; the user data is a number.
unsafe impl Send for Two {}

impl Two {
    fn new(refuses: bool, lets_go: bool) -> Self {
        let hasty = Hasty::new(refuses, lets_go);
        let checker: &'static Checker<'static> = Box::leak(Box::new(checker(&SYSTEM)));
        let owner = OwnerId::fresh();
        let driver = drive(checker, hasty.callbacks(), owner, "VkBuffer", 0);
        Self { hasty, checker, owner, driver }
    }

    fn run<R>(&self, body: impl FnOnce(&Driver) -> R) -> R {
        self.checker.run(command("vkCreateBuffer", self.owner), |_| body(&self.driver))
    }

    fn alloc(&self) -> usize {
        self.run(|driver| driver.alloc(64, 8, Scope::Object)).addr()
    }

    fn realloc(&self, block: usize, size: usize) -> usize {
        self.run(|driver| driver.realloc(ptr::without_provenance_mut(block), size, 8, Scope::Object)).addr()
    }

    fn free(&self, block: usize) {
        self.run(|driver| driver.free(ptr::without_provenance_mut(block)));
    }

    /// Another thread allocates a block before the next call returns; returns the cell of its address.
    fn other_takes_meanwhile(&self) -> Receiver<usize> {
        let (told, given) = channel();
        let this = *self;
        self.hasty.next(move || {
            let taken = thread::spawn(move || { this }.alloc()).join().expect("no panic");
            told.send(taken).expect("somebody waits");
        });
        given
    }

    fn known(&self) -> (Vec<FindingKind>, usize) {
        (kinds(self.checker), self.checker.live_blocks())
    }
}

#[test]
fn v11_v17_v19_an_address_that_is_given_again_before_its_call_returned_is_a_new_block() {
    // Freed, reallocated to 0 bytes, moved.
    for (refuses, size) in [(false, None), (true, Some(0)), (false, Some(100))] {
        let two = Two::new(refuses, true);
        let block = two.alloc();
        let given = two.other_takes_meanwhile();
        let moved = match size {
            Some(size) => two.realloc(block, size),
            None => {
                two.free(block);
                0
            }
        };
        let taken = given.recv().expect("the other thread took one");
        assert!(taken == block && moved != block, "the very address");
        assert_eq!(two.known(), (vec![], 1 + usize::from(moved != 0)));
        two.free(block);
        if moved != 0 {
            two.free(moved);
        }
        assert_eq!(two.known(), (vec![], 0));
        two.free(block);
        assert_eq!(two.known(), (vec![FindingKind::FreedTwice], 0));
    }
}

#[test]
fn v11_two_threads_that_reallocate_around_one_address_do_not_take_each_others_block() {
    let two = Two::new(false, true);
    let block = two.alloc();
    let (first_is_back, wait) = channel::<()>();
    let (begun, has_begun) = channel::<()>();
    // While the first reallocation runs a second thread is given the old address, and begins to reallocate that; it
    // ends last.
    two.hasty.next(move || {
        begun.send(()).expect("somebody waits");
        wait.recv().expect("the first one returns");
    });
    let (other, second) = channel();
    two.hasty.next(move || {
        let join = thread::spawn(move || {
            let block = { two }.alloc();
            (block, two.realloc(block, 200))
        });
        has_begun.recv().expect("the second one begins");
        other.send(join).expect("somebody waits");
    });
    let moved = two.realloc(block, 100);
    assert_eq!(two.known(), (vec![], 2), "one that was moved, one in transit");
    first_is_back.send(()).expect("the second thread waits");
    let (taken, moved_again) = second.recv().expect("it began").join().expect("no panic");
    assert!(taken == block && moved_again != moved);
    assert_eq!(two.known(), (vec![], 2));
    two.free(moved);
    two.free(moved_again);
    assert_eq!(two.known(), (vec![], 0));
}

#[test]
fn v16_a_reallocation_that_fails_leaves_the_block_and_who_gives_it_away_is_found() {
    for lets_go in [false, true] {
        let two = Two::new(true, lets_go);
        let block = two.alloc();
        let given = two.other_takes_meanwhile();
        assert_eq!(two.realloc(block, 100), 0);
        let other = given.recv().expect("the other thread took one");
        let found = if lets_go { vec![FindingKind::OldBlockGivenAway] } else { vec![] };
        assert_eq!(other == block, lets_go);
        let live = 2 - usize::from(lets_go);
        assert_eq!(two.known(), (found.clone(), live));
        two.free(block);
        if !lets_go {
            two.free(other);
        }
        assert_eq!(two.known(), (found, 0));
    }
}
