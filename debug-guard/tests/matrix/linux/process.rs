//! T40 to T42: forks, signals that are not ours, faults in awkward places.

use std::alloc::{Layout, System};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use alloc_core::{AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, Scope};
use debug_guard::{Guard, GuardOptions, Mode, OnReport};
use testkit::Crash;

use crate::common::{Lab, On, each, each_with, gives, loads, note, note_pointer, stores, takes};

/// Runs `f` in a fork of this process, which never returns from it, and answers how it ended, as `waitpid` has it.
fn forked(f: impl FnOnce()) -> i32 {
    // SAFETY: the process has one thread.
    match unsafe { libc::fork() } {
        0 => {
            note("child", std::process::id() as usize);
            f();
            // SAFETY: ends the process; nothing of the parent's is run.
            unsafe { libc::_exit(0) }
        }
        child => {
            assert!(child > 0);
            let mut status = 0;
            // SAFETY: a child of ours, and room for its status.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            status
        }
    }
}

fn note_end(status: i32) {
    note("signal", if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) as usize } else { 0 });
    note("code", if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) as usize } else { 999 });
}

#[test]
fn t40_a_forked_child_is_guarded_too() {
    fn touches_what_was_freed(lab: &Lab) {
        let block = lab.block(64, 16);
        lab.give(block, 64, 16);
        note_end(forked(|| {
            loads(block);
        }));
    }
    each(On::STRICT, touches_what_was_freed, |seen| {
        seen.ended();
        assert_eq!(seen.note("signal"), libc::SIGABRT as usize, "{}\n{}", seen.config.name(), seen.finished);
        let told = seen.only();
        told.kind("use-after-free")
            .block(seen.note("block"), 64, 16)
            .stopped("read", seen.note("block"))
            .given_in_case();
        // Its one thread has its number too.
        let child = seen.note("child");
        assert_eq!((told.process(), told.thread()), (child, child));
    });

    fn touches_what_is_behind(lab: &Lab) {
        let block = lab.block(64, 16);
        stores(block, 0x41);
        note_end(forked(|| {
            assert_eq!(loads(block), 0x41, "live blocks are as they were");
            stores(block.wrapping_add(64), 0x41);
        }));
        lab.give(block, 64, 16);
    }
    each(On::RIGHT, touches_what_is_behind, |seen| {
        seen.ended();
        assert_eq!(seen.note("signal"), libc::SIGABRT as usize, "{}\n{}", seen.config.name(), seen.finished);
        let told = seen.only();
        told.kind("overflow").block(seen.note("block"), 64, 16).stopped("write", seen.note("block") + 64);
        assert_eq!(told.process(), seen.note("child"));
    });

    // What parent and child do with their own copies of a block is right, and so is the guard after it.
    fn gives_back(lab: &Lab) {
        let block = lab.block(64, 16);
        stores(block, 0x41);
        note_end(forked(|| {
            assert_eq!(loads(block), 0x41);
            lab.give(block, 64, 16);
            for size in 1..300 {
                let own = lab.take(size, 1);
                stores(own.wrapping_add(size - 1), 0x42);
                lab.give(own, size, 1);
            }
            assert_eq!(lab.guard.check_all(), 0);
            assert_eq!(lab.guard.stats().reports, 0);
        }));
        assert_eq!(loads(block), 0x41, "the parent's copy is untouched");
        lab.give(block, 64, 16);
        for size in 1..300 {
            lab.give(lab.take(size, 1), size, 1);
        }
        assert_eq!(lab.guard.check_all(), 0);
    }
    each(On::ALL, gives_back, |seen| {
        seen.quiet(300);
        assert_eq!((seen.note("signal"), seen.note("code")), (0, 0), "{}", seen.finished);
    });

    // A new block of the child's is fenced as well.
    fn takes_its_own(lab: &Lab) {
        lab.give(lab.block(64, 16), 64, 16);
        note_end(forked(|| {
            let own = lab.take(64, 16);
            note_pointer("own", own);
            lab.give(own, 64, 16);
            loads(own);
        }));
    }
    each(On::STRICT, takes_its_own, |seen| {
        seen.ended();
        assert_eq!(seen.note("signal"), libc::SIGABRT as usize, "{}\n{}", seen.config.name(), seen.finished);
        seen.only().kind("use-after-free").block(seen.note("own"), 64, 16).stopped("read", seen.note("own"));
    });
}

/// A fault that is none of the guard's, after one access of each sort went well.
#[test]
fn t41_faults_of_others_go_to_the_handler_before() {
    fn null(lab: &Lab) {
        used(lab);
        // Null with an offset: a debug build asks about null itself.
        stores(std::ptr::without_provenance_mut(8), 1);
        note("passed", 1);
    }
    fn used(lab: &Lab) {
        lab.give(lab.take(64, 16), 64, 16);
    }
    each(On::PAGES, null, |seen| {
        seen.finished.assert_crash(Crash::AccessViolation);
        assert!(seen.reports.is_empty() && !seen.noted("passed"), "{}", seen.finished);
    });

    // The standard library's handler tells of the overflow; it was there before.
    fn stack_overflow(lab: &Lab) {
        used(lab);
        #[inline(never)]
        fn deeper(depth: usize) -> usize {
            let room = std::hint::black_box([depth; 512]);
            if depth == usize::MAX { 0 } else { deeper(depth + 1) + room[depth % 512] }
        }
        thread::scope(|scope| {
            scope.spawn(|| note("passed", deeper(0)));
        });
    }
    each(On::PAGES, stack_overflow, |seen| {
        seen.finished.assert_crash(Crash::Abort);
        assert!(seen.reports.is_empty() && !seen.noted("passed"), "{}", seen.finished);
        assert!(seen.finished.stderr.contains("overflowed its stack"), "{}", seen.finished);
    });

    // A handler that was there before gets what is not the guard's, with the same address, and may go on elsewhere.
    static HEARD: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn former(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the kernel's own record.
        let info = unsafe { &*info };
        // SAFETY: of a fault, which has an address.
        let address = unsafe { info.si_addr() };
        HEARD.store(address.addr(), SeqCst);
        note("heard", address.addr());
        // SAFETY: ends the process.
        unsafe { libc::_exit(7) }
    }
    /// Before the guard is made, and with it the guard's handler.
    fn with_a_handler(options: GuardOptions) -> GuardOptions {
        // SAFETY: all zeros is a valid value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = former as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        assert_eq!(
            // SAFETY: a handler that may be called on any stack.
            unsafe { libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()) },
            0
        );
        options
    }
    fn chained(lab: &Lab) {
        used(lab);
        stores(std::ptr::without_provenance_mut(0x1230), 1);
        note("passed", 1);
    }
    each_with(On::PAGES, with_a_handler, chained, |seen| {
        seen.finished.assert_code(7);
        assert_eq!(seen.note("heard"), 0x1230);
        assert!(seen.reports.is_empty() && !seen.noted("passed"), "{}", seen.finished);
    });
    // What is the guard's does not reach it.
    fn ours(lab: &Lab) {
        let block = lab.block(64, 16);
        lab.give(block, 64, 16);
        loads(block);
        note("passed", 1);
    }
    each_with(On::STRICT, with_a_handler, ours, |seen| {
        assert!(!seen.noted("heard") && !seen.noted("passed"));
        seen.of("use-after-free", 64, 16).stopped("read", seen.note("block"));
    });
}

/// An allocator behind that misuses a block of the guard's in the midst of a request.
struct Careless {
    block: AtomicUsize,
    armed: AtomicBool,
}

// SAFETY: blocks are the system's.
unsafe impl HostAllocator for &'static Careless {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if self.armed.swap(false, SeqCst) {
            note("within", 1);
            loads(std::ptr::with_exposed_provenance(self.block.load(SeqCst)));
        }
        FromGlobalAlloc::<System>::SYSTEM.allocate(layout, scope)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: this function's contract: the block is the system's.
        unsafe { FromGlobalAlloc::<System>::SYSTEM.deallocate(block, layout, scope) };
    }
}

#[test]
fn t42_a_fault_in_a_signal_handler_and_in_an_allocator() {
    static BLOCK: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn touching(_: libc::c_int) {
        note("in the handler", 1);
        loads(std::ptr::with_exposed_provenance(BLOCK.load(SeqCst)));
        note("passed", 1);
    }
    fn in_a_handler(lab: &Lab) {
        let block = lab.block(64, 16);
        BLOCK.store(block.expose_provenance(), SeqCst);
        lab.give(block, 64, 16);
        // SAFETY: a handler with the right signature.
        unsafe { libc::signal(libc::SIGUSR1, touching as *const () as libc::sighandler_t) };
        // SAFETY: has a handler.
        unsafe { libc::raise(libc::SIGUSR1) };
    }
    each(On::STRICT, in_a_handler, |seen| {
        seen.note("in the handler");
        assert!(!seen.noted("passed"));
        let told = seen.of("use-after-free", 64, 16);
        told.stopped("read", seen.note("block")).given_in_case();
    });

    fn in_the_allocator_behind(lab: &Lab) {
        static CARELESS: Careless = Careless { block: AtomicUsize::new(0), armed: AtomicBool::new(false) };
        let guard = Guard::new(&CARELESS, Lab::options(lab.config)).expect("a guard");
        let block = takes(&guard, 64, 16);
        note_pointer("block", block);
        CARELESS.block.store(block.expose_provenance(), SeqCst);
        gives(&guard, block, 64, 16);
        CARELESS.armed.store(true, SeqCst);
        // Sooner or later the guard needs memory of its own.
        for _ in 0..1_000_000 {
            let more = takes(&guard, 8, 8);
            stores(more, 1);
        }
        note("passed", 1);
    }
    each(On::STRICT, in_the_allocator_behind, |seen| {
        seen.note("within");
        assert!(!seen.noted("passed"));
        seen.of("use-after-free", 64, 16).stopped("read", seen.note("block"));
    });

    // Reports are made while other threads hold whatever locks there are.
    const FAULTS: usize = 50;
    fn while_others_work(lab: &Lab) {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(SeqCst) {
                        let block = lab.take(64, 16);
                        lab.give(block, 64, 16);
                    }
                });
            }
            for _ in 0..FAULTS {
                let block = lab.take(64, 16);
                lab.give(block, 64, 16);
                if lab.config.mode == Mode::Strict {
                    loads(block);
                } else {
                    lab.give(block, 64, 16);
                }
            }
            stop.store(true, SeqCst);
        });
    }
    each_with(
        On::ALL,
        |options| options.on_report(OnReport::Log),
        while_others_work,
        |seen| {
            seen.ended();
            assert_eq!((seen.note("reports"), seen.reports.len()), (FAULTS, FAULTS), "{}", seen.config.name());
            let kind = if seen.config.mode == Mode::Strict { "use-after-free" } else { "double-free" };
            seen.reports.iter().for_each(|told| {
                told.kind(kind).given_in_case();
            });
        },
    );
}
