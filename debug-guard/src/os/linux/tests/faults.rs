//! The handler and its neighbours, and reading where nothing may be.

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::println;

use super::super::{install_fault_handler, page_size, read_u64 as read, thread_id, thread_name};
use super::{alone, judge, offered, peek, poke, provide, region, revoke, stopped};
use crate::os::{Handled, Trap};

#[test]
fn reading_where_nothing_may_be_is_answered() {
    alone("faults::reading_where_nothing_may_be_is_answered", || {
        let value = 0x0123_4567_89AB_CDEF_u64;
        let bytes: [u8; 17] = core::array::from_fn(|i| i as u8);
        let text = core::ptr::from_ref(&bytes).expose_provenance();
        for with_handler in [false, true] {
            if with_handler {
                install_fault_handler(judge).expect("a handler");
            }
            let here = core::ptr::from_ref(&value).expose_provenance();
            assert_eq!(read(here), Some(value));
            assert_eq!(read(text + 3), Some(u64::from_ne_bytes([3, 4, 5, 6, 7, 8, 9, 10])), "not aligned");
            let nowhere = if cfg!(target_pointer_width = "64") { usize::MAX / 3 * 2 } else { usize::MAX - 64 };
            for address in [0, 1, 8, page_size() - 1, nowhere, usize::MAX - 3, usize::MAX - 7] {
                assert_eq!(read(address), None, "{address:#x}, handler: {with_handler}");
            }
            for back_end in offered() {
                let region = region(back_end, 4);
                provide(region, 1, 1);
                let end = region.address_of(2);
                let none = stopped(|| {
                    assert_eq!(read(end - 8), Some(0x5A5A_5A5A_5A5A_5A5A), "{back_end}");
                    assert_eq!(
                        [read(end - 7), read(end), read(region.base())],
                        [None; 3],
                        "{back_end}: straddling, behind, in front"
                    );
                    revoke(region, 1, 1);
                    assert_eq!(read(end - 8), None, "{back_end}: dead");
                });
                assert_eq!(none.0, 0, "{back_end}: nobody is asked about a reading that may fail");
            }
        }
    });
}

static CALLED: AtomicUsize = AtomicUsize::new(0);
/// Bit 0: its own signal was blocked while it ran; bit 1: another one was.
static BLOCKED: AtomicUsize = AtomicUsize::new(0);
static SIGNAL: AtomicUsize = AtomicUsize::new(0);

extern "C" fn former(signal: c_int, info: *mut libc::siginfo_t, _: *mut core::ffi::c_void) {
    // SAFETY: the kernel's own.
    let info = unsafe { &*info };
    // SAFETY: faults have an address.
    let address = unsafe { info.si_addr() }.addr();
    CALLED.fetch_add(1, Ordering::Relaxed);
    SIGNAL.store(signal as usize, Ordering::Relaxed);
    // SAFETY: all zeros is a set.
    let mut blocked: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: writes a set.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, core::ptr::null(), &raw mut blocked) };
    for (number, bit) in [(signal, 1), (libc::SIGUSR1, 2)] {
        // SAFETY: written above.
        let set = unsafe { libc::sigismember(&raw const blocked, number) };
        BLOCKED.fetch_or(if set == 1 { bit } else { 0 }, Ordering::Relaxed);
    }
    let page = address & !(page_size() - 1);
    // SAFETY: the page is the test's own.
    let _ = unsafe {
        libc::mprotect(core::ptr::without_provenance_mut(page), page_size(), libc::PROT_READ | libc::PROT_WRITE)
    };
}

extern "C" fn former_of_one(signal: c_int) {
    SIGNAL.store(signal as usize, Ordering::Relaxed);
    CALLED.fetch_add(1, Ordering::Relaxed);
}

fn stand(signal: c_int, handler: usize, flags: c_int) {
    // SAFETY: all zeros is an action.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    assert_eq!(
        // SAFETY: handlers of the right kind for the flags.
        unsafe { libc::sigaction(signal, &raw const action, core::ptr::null_mut()) },
        0
    );
}

/// A page that cannot be touched and is not ours.
fn somebody_elses() -> usize {
    super::super::memory::reserve(page_size()).expect("a page")
}

#[test]
fn t41_what_is_not_ours_goes_to_the_former_handler() {
    alone("faults::t41_what_is_not_ours_goes_to_the_former_handler", || {
        stand(libc::SIGSEGV, former as *const () as usize, libc::SA_SIGINFO);
        stand(libc::SIGBUS, former_of_one as *const () as usize, 0);
        install_fault_handler(judge).expect("a handler");
        let region = region(offered()[0], 4);
        let page = somebody_elses();
        let ours = stopped(|| poke(page + 8, 9));
        assert_eq!((CALLED.load(Ordering::Relaxed), ours.0, peek(page + 8)), (1, 0, 9));
        assert_eq!(SIGNAL.load(Ordering::Relaxed), libc::SIGSEGV as usize);
        assert_eq!(BLOCKED.load(Ordering::Relaxed), 1, "as if the kernel had called it");
        // Ours is not passed on.
        assert_eq!(stopped(|| poke(region.base(), 1)).0, 1);
        assert_eq!(CALLED.load(Ordering::Relaxed), 1);
        // What somebody sends is not a fault of anybody's.
        // SAFETY: a signal to this thread.
        assert_eq!(unsafe { libc::raise(libc::SIGBUS) }, 0);
        assert_eq!((CALLED.load(Ordering::Relaxed), SIGNAL.load(Ordering::Relaxed)), (2, libc::SIGBUS as usize));
        // A second installation changes nothing.
        install_fault_handler(|_| Handled::No).expect("a handler");
        assert_eq!(stopped(|| poke(region.address_of(1), 1)).0, 1);
    });
}

#[test]
fn t41_without_a_former_handler_the_process_ends_by_its_signal() {
    const TEST: &str = "faults::t41_without_a_former_handler_the_process_ends_by_its_signal";
    if testkit::Child::is_child(&super::named(TEST)) {
        let case = std::env::var(super::CASE).expect("set by the parent");
        match case.as_str() {
            "rust" => {}
            "ignored" => stand(libc::SIGSEGV, libc::SIG_IGN, 0),
            _ => [libc::SIGSEGV, libc::SIGBUS].into_iter().for_each(|signal| stand(signal, libc::SIG_DFL, 0)),
        }
        install_fault_handler(judge).expect("a handler");
        println!("it stands");
        match case.as_str() {
            "sent" => {
                // SAFETY: a signal to this thread.
                unsafe { libc::raise(libc::SIGBUS) };
            }
            "ignored" => {
                // SAFETY: a signal to this thread, whose handler is the default one.
                unsafe { libc::raise(libc::SIGSEGV) };
                println!("and goes on");
                poke(somebody_elses(), 1);
            }
            _ => poke(somebody_elses(), 1),
        }
        println!("not reached");
        return;
    }
    for (case, signal) in
        [("default", libc::SIGSEGV), ("ignored", libc::SIGSEGV), ("rust", libc::SIGSEGV), ("sent", libc::SIGBUS)]
    {
        let ended = super::with_case(TEST, case);
        ended.assert_signal(signal);
        let said = |what| ended.stdout.contains(what);
        assert!(said("it stands") && !said("not reached"), "{case}: {ended}");
        assert_eq!(said("and goes on"), case == "ignored", "{case}: {ended}");
    }
}

#[test]
fn a_report_has_room_on_a_thread_with_a_small_stack() {
    alone("faults::a_report_has_room_on_a_thread_with_a_small_stack", || {
        fn greedy(trap: &Trap) -> Handled {
            let mut room = [1_u8; 100_000];
            core::hint::black_box(&mut room);
            if room.iter().all(|&byte| byte == 1) { judge(trap) } else { Handled::No }
        }
        install_fault_handler(greedy).expect("a handler");
        let region = region(offered()[0], 64);
        let before = super::TRAPS.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for page in 0..16 {
                        poke(region.address_of(thread * 16 + page), 1);
                    }
                });
            }
        });
        assert_eq!(super::TRAPS.load(Ordering::Relaxed) - before, 64);
    });
}

#[test]
fn a_thread_that_blocks_all_signals_is_heard_once_it_is_known() {
    alone("faults::a_thread_that_blocks_all_signals_is_heard_once_it_is_known", || {
        install_fault_handler(judge).expect("a handler");
        let region = region(offered()[0], 64);
        let blocked = std::thread::spawn(move || {
            // SAFETY: all zeros is a set.
            let mut all: libc::sigset_t = unsafe { core::mem::zeroed() };
            // SAFETY: writes a set.
            unsafe { libc::sigfillset(&raw mut all) };
            // SAFETY: a set that was made in full.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, core::ptr::null_mut()) };
            let _ = thread_id();
            stopped(|| poke(region.base(), 1)).0
        });
        assert_eq!(blocked.join().expect("it goes on"), 1);
    });
}

#[test]
fn threads_have_numbers_and_names() {
    let own = thread_id();
    let (other, name) = std::thread::Builder::new()
        .name("a name".into())
        .spawn(|| {
            let mut text = [0; 16];
            (thread_id(), std::string::String::from(thread_name(thread_id(), &mut text)))
        })
        .expect("a thread")
        .join()
        .expect("it ends");
    assert_ne!(own, other);
    assert_eq!((thread_id(), name.as_str()), (own, "a name"));
    assert_eq!(thread_name(u32::MAX, &mut [0; 16]), "");
}
