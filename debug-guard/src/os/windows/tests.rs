//! Each in a process of its own: they stop accesses, install handlers, use up stacks.

use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::boxed::Box;
use std::time::Duration;
use std::{format, println};

use testkit::{Child, Crash, Finished};

use super::calls::{
    self, ACCESS_VIOLATION, AddVectoredExceptionHandler, CONTINUE_EXECUTION, CONTINUE_SEARCH, ExceptionPointers,
    MEM_COMMIT, MEM_RESERVE, PAGE_GUARD, PAGE_READWRITE,
};
use super::memory::{commit, information_at, release, reserve};
use super::{
    UnwindContext, install_fault_handler, page_calls, page_size, process_id, random_u64, read_u64, read_u64_by_kernel,
    readable, running_stack, thread_id, thread_name, total_memory,
};
use crate::call_sites::walk_from;
use crate::mode::BackEnd;
use crate::os::{Access, BackEnds, Content, Handled, OsRefusal, Region, Trap};

// What the tests call beyond what the guard does.
#[link(name = "kernel32")]
unsafe extern "system" {
    fn SetUnhandledExceptionFilter(filter: unsafe extern "system" fn(*mut ExceptionPointers) -> i32) -> *mut c_void;
    fn ConvertThreadToFiber(data: *mut c_void) -> *mut c_void;
    fn CreateFiber(bytes: usize, start: unsafe extern "system" fn(*mut c_void), data: *mut c_void) -> *mut c_void;
    fn SwitchToFiber(fiber: *mut c_void);
    fn DeleteFiber(fiber: *mut c_void);
}

/// Runs `body` in a process of its own; what became of that, or `None` in there.
fn child(test: &str, body: impl FnOnce()) -> Option<Finished> {
    if Child::is_child(test) {
        body();
        println!("went on");
        return None;
    }
    Some(Child::this_test(test).run())
}

fn went_on(finished: Option<Finished>) {
    if let Some(finished) = finished {
        finished.assert_code(0);
        assert!(finished.stdout.contains("went on"), "{finished}");
    }
}

static REGION: AtomicPtr<Region> = AtomicPtr::new(null_mut());
static TRAPS: AtomicUsize = AtomicUsize::new(0);
static LAST: AtomicUsize = AtomicUsize::new(0);
/// One more than the place of the access in this list.
static ACCESS: AtomicUsize = AtomicUsize::new(0);
const ACCESSES: [Access; 3] = [Access::Read, Access::Write, Access::Execute];

/// A region that lives as long as the test, and that [`judge`] knows.
fn region(pages: usize) -> &'static Region {
    let calls = page_calls(BackEnd::VirtualAlloc).expect("its calls");
    let region = Box::leak(Box::new(Region::reserve(calls, pages).expect("addresses")));
    REGION.store(region, Ordering::Release);
    region
}

/// Notes what was stopped and lets it land; a jump goes back to where it came from.
fn judge(trap: &Trap) -> Handled {
    // SAFETY: null, or a region that stays.
    let Some(region) = (unsafe { REGION.load(Ordering::Acquire).as_ref() }) else {
        return Handled::No;
    };
    let Some(page) = region.page_of(trap.address) else {
        return Handled::No;
    };
    TRAPS.fetch_add(1, Ordering::Relaxed);
    LAST.store(trap.address, Ordering::Relaxed);
    let access = ACCESSES.iter().position(|one| Some(*one) == trap.access);
    ACCESS.store(access.map_or(0, |place| place + 1), Ordering::Relaxed);
    let told = trap.pc != 0 && trap.stack != 0;
    if told && trap.access != Some(Access::Execute) && region.land(page, false) { Handled::Resume } else { Handled::No }
}

/// How many accesses `f` was stopped at, and what and where the last was.
fn stopped(f: impl FnOnce()) -> (usize, Option<Access>, usize) {
    let before = TRAPS.load(Ordering::Relaxed);
    f();
    let access = ACCESS.load(Ordering::Relaxed).checked_sub(1);
    (TRAPS.load(Ordering::Relaxed) - before, access.map(|place| ACCESSES[place]), LAST.load(Ordering::Relaxed))
}

fn provide(region: &Region, first: usize, count: usize) {
    // SAFETY: the tests use a page for one thing at a time.
    let content = unsafe { region.provide(first, count, None::<NonNull<u8>>) };
    assert_eq!(content, Ok(Content::Zero));
}

fn revoke(region: &Region, first: usize, count: usize) {
    // SAFETY: the tests touch it afterwards only to be stopped.
    assert_eq!(unsafe { region.revoke(first, count) }, Ok(()));
}

fn peek(address: usize) -> u8 {
    // SAFETY: accessible, or stopped and let land; bytes of nobody's.
    unsafe { core::ptr::with_exposed_provenance::<u8>(address).read_volatile() }
}

fn poke(address: usize, value: u8) {
    // SAFETY: as for `peek`.
    unsafe { core::ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(value) };
}

#[test]
fn wn2_an_access_is_stopped_at_its_byte_and_told_as_what_it_is() {
    went_on(child("os::system::tests::wn2_an_access_is_stopped_at_its_byte_and_told_as_what_it_is", || {
        install_fault_handler(judge).expect("a handler");
        let (region, page) = (region(9), page_size());
        provide(region, 1, 1);
        provide(region, 4, 2);
        let [first, two] = [region.address_of(1), region.address_of(4)];
        for (at, value) in [(first, 1), (first + page - 1, 2), (two + 2 * page - 1, 3)] {
            assert_eq!(stopped(|| poke(at, value)).0, 0, "it is provided");
            assert_eq!(peek(at), value);
        }
        let behind = first + page + 5;
        assert_eq!(stopped(|| assert_eq!(peek(behind), 0)), (1, Some(Access::Read), behind));
        assert_eq!(stopped(|| poke(first - 1, 7)), (1, Some(Access::Write), first - 1));
        assert_eq!(peek(first - 1), 7, "it landed");
        for (at, access) in [(first + 9, Access::Read), (first + 17, Access::Write)] {
            revoke(region, 1, 1);
            let seen = stopped(|| match access {
                Access::Read => assert_eq!(peek(at), 0),
                _ => poke(at, 1),
            });
            assert_eq!(seen, (1, Some(access), at), "after its end");
        }
        revoke(region, 1, 1);
        provide(region, 1, 1);
        assert_eq!([peek(first + 17), peek(first)], [0; 2], "it is a new page");
        assert_eq!(peek(two + 2 * page - 1), 3, "nobody touched the others");
    }));
}

#[test]
fn wn2_a_jump_into_a_page_is_told_as_one() {
    let ended = child("os::system::tests::wn2_a_jump_into_a_page_is_told_as_one", || {
        fn told(trap: &Trap) -> Handled {
            let _ = judge(trap);
            println!("{:?} at {:#x}", trap.access, trap.address);
            Handled::No
        }
        install_fault_handler(told).expect("a handler");
        let region = region(4);
        provide(region, 1, 1);
        println!("jumps to {:#x}", region.address_of(1));
        // SAFETY: none: the processor stops it.
        let nowhere: extern "C" fn() = unsafe { core::mem::transmute(region.address_of(1)) };
        nowhere();
    });
    let Some(ended) = ended else { return };
    ended.assert_crash(Crash::AccessViolation);
    let (_, at) = ended.stdout.split_once("jumps to ").expect("it began");
    let at = at.lines().next().expect("an address");
    assert!(ended.stdout.contains(&format!("Some(Execute) at {at}")), "{ended}");
}

#[test]
fn reading_where_nothing_may_be_is_answered() {
    went_on(child("os::system::tests::reading_where_nothing_may_be_is_answered", || {
        let bytes: [u8; 17] = core::array::from_fn(|i| i as u8);
        let text = core::ptr::from_ref(&bytes).expose_provenance();
        for with_handler in [false, true] {
            if with_handler {
                install_fault_handler(judge).expect("a handler");
            }
            let three = u64::from_ne_bytes([3, 4, 5, 6, 7, 8, 9, 10]);
            assert_eq!(read_u64(text + 3), Some(three), "not aligned");
            assert_eq!(read_u64_by_kernel(text + 3), Some(three));
            for address in [0, 1, 8, 4095, usize::MAX / 3 * 2, usize::MAX - 7] {
                assert_eq!(read_u64(address), None, "{address:#x}, {with_handler}");
                assert_eq!(read_u64_by_kernel(address), None, "{address:#x}");
            }
            let region = region(4);
            provide(region, 1, 1);
            let end = region.address_of(2);
            let seen = stopped(|| {
                assert_eq!(read_u64(end - 8), Some(0));
                assert_eq!([read_u64(end - 7), read_u64(end)], [None; 2]);
            });
            assert_eq!(seen.0, 0, "nobody is asked about a reading that may fail");
            assert!(readable(end - 8) && !readable(end - 7));
        }
    }));
}

#[test]
fn a_read_leaves_the_page_that_guards_a_stack() {
    went_on(child("os::system::tests::a_read_leaves_the_page_that_guards_a_stack", || {
        install_fault_handler(judge).expect("a handler");
        // SAFETY: new addresses.
        let page = unsafe {
            calls::VirtualAlloc(null_mut(), page_size(), MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE | PAGE_GUARD)
        };
        let page = page.expose_provenance();
        let protection = || information_at(page).expect("it is mapped").protection;
        let guarded = protection();
        assert_eq!(guarded, PAGE_READWRITE | PAGE_GUARD);
        for _ in 0..2 {
            assert_eq!(read_u64(page + 64), None);
            assert_eq!(protection(), guarded, "it still is one");
        }
    }));
}

/// A page that cannot be touched and is not ours.
fn somebody_elses() -> usize {
    reserve(page_size()).expect("a page")
}

static CALLED: AtomicUsize = AtomicUsize::new(0);

/// The program's own handler, which comes after the guard's.
unsafe extern "system" fn repairs(pointers: *mut ExceptionPointers) -> i32 {
    // SAFETY: the system's own.
    let record = unsafe { &*(*pointers).record };
    if record.code != ACCESS_VIOLATION {
        return CONTINUE_SEARCH;
    }
    CALLED.fetch_add(1, Ordering::Relaxed);
    let page = record.information[1] & !(page_size() - 1);
    // SAFETY: the test's own page.
    match unsafe { commit(page, page_size()) } {
        Ok(()) => CONTINUE_EXECUTION,
        Err(_) => CONTINUE_SEARCH,
    }
}

#[test]
fn wn3_another_vectored_handler_gets_what_is_not_the_guards() {
    went_on(child("os::system::tests::wn3_another_vectored_handler_gets_what_is_not_the_guards", || {
        // SAFETY: a function that stays.
        let handle = unsafe { AddVectoredExceptionHandler(0, repairs) };
        assert!(!handle.is_null());
        install_fault_handler(judge).expect("a handler");
        let (region, page) = (region(4), somebody_elses());
        assert_eq!(stopped(|| poke(page + 8, 9)).0, 0, "not the guard's");
        assert_eq!((CALLED.load(Ordering::Relaxed), peek(page + 8)), (1, 9));
        assert_eq!(stopped(|| poke(region.base(), 1)).0, 1, "the guard's");
        assert_eq!(CALLED.load(Ordering::Relaxed), 1);
        // A second installation changes nothing.
        install_fault_handler(|_| Handled::No).expect("a handler");
        assert_eq!(stopped(|| poke(region.address_of(1), 1)).0, 1);
        // Panics are exceptions too, and pass.
        let caught = std::panic::catch_unwind(|| std::panic!("goes on"));
        assert!(caught.is_err());
    }));
}

#[test]
fn wn3_the_filter_of_unhandled_exceptions_gets_what_is_not_the_guards() {
    unsafe extern "system" fn filter(_: *mut ExceptionPointers) -> i32 {
        println!("filtered");
        super::exit_now(7)
    }
    let ended = child("os::system::tests::wn3_the_filter_of_unhandled_exceptions_gets_what_is_not_the_guards", || {
        install_fault_handler(judge).expect("a handler");
        // SAFETY: a function that stays.
        unsafe { SetUnhandledExceptionFilter(filter) };
        poke(somebody_elses(), 1);
    });
    let Some(ended) = ended else { return };
    ended.assert_code(7);
    assert!(ended.stdout.contains("filtered"), "{ended}");
}

#[test]
fn wn3_without_another_handler_the_process_ends_by_its_exception() {
    let ended = child("os::system::tests::wn3_without_another_handler_the_process_ends_by_its_exception", || {
        install_fault_handler(judge).expect("a handler");
        poke(somebody_elses(), 1);
    });
    let Some(ended) = ended else { return };
    ended.assert_crash(Crash::AccessViolation);
    assert!(!ended.stdout.contains("went on"), "{ended}");
}

#[test]
fn wn3_a_fault_in_the_handler_ends_the_process_and_does_not_hang() {
    fn careless(trap: &Trap) -> Handled {
        println!("in the handler");
        if judge(trap) == Handled::Resume {
            poke(8, 1);
        }
        Handled::No
    }
    let ended = child("os::system::tests::wn3_a_fault_in_the_handler_ends_the_process_and_does_not_hang", || {
        install_fault_handler(careless).expect("a handler");
        poke(region(4).base(), 1);
    });
    let Some(ended) = ended else { return };
    ended.assert_crash(Crash::AccessViolation);
    assert_eq!(ended.stdout.matches("in the handler").count(), 2, "the second is the fault itself: {ended}");
}

/// Wine ends no more than the thread: another one ends the process then.
#[test]
fn wn3_an_overflow_of_the_stack_is_passed_on() {
    const LATE: i32 = 11;
    #[expect(unconditional_recursion, reason = "that is the point")]
    fn deeper(n: usize) -> usize {
        let room = core::hint::black_box([n; 64]);
        deeper(n + 1) + room[n % 64]
    }
    let ended = child("os::system::tests::wn3_an_overflow_of_the_stack_is_passed_on", || {
        install_fault_handler(judge).expect("a handler");
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_secs(3));
            super::exit_now(LATE);
        });
        deeper(0);
    });
    let Some(ended) = ended else { return };
    assert!(ended.crashed(Crash::StackOverflow) || ended.code == Some(LATE), "{ended}");
    // By the handler of Rust's runtime, which comes after the guard's.
    assert!(ended.stderr.contains("has overflowed its stack"), "{ended}");
}

#[test]
fn the_running_stack_is_the_threads_own_or_a_fibers() {
    went_on(child("os::system::tests::the_running_stack_is_the_threads_own_or_a_fibers", || {
        static MAIN: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
        static SEEN: AtomicUsize = AtomicUsize::new(0);
        unsafe extern "system" fn fiber(_: *mut c_void) {
            let local = 0_u8;
            let (low, high) = running_stack();
            let here = core::ptr::from_ref(&local).addr();
            assert!((low..high).contains(&here));
            SEEN.store(high, Ordering::Relaxed);
            // SAFETY: the fiber that started this one.
            unsafe { SwitchToFiber(MAIN.load(Ordering::Relaxed)) };
        }
        let local = 0_u8;
        let here = core::ptr::from_ref(&local).addr();
        let (low, high) = running_stack();
        assert!((low..high).contains(&here));
        assert!(read_u64_by_kernel(high - 8).is_some(), "it ends there");
        // SAFETY: this thread is none yet.
        MAIN.store(unsafe { ConvertThreadToFiber(null_mut()) }, Ordering::Relaxed);
        // SAFETY: a function that stays.
        let other = unsafe { CreateFiber(1 << 16, fiber, null_mut()) };
        // SAFETY: made above.
        unsafe { SwitchToFiber(other) };
        // SAFETY: it does not run.
        unsafe { DeleteFiber(other) };
        assert!(![0, high].contains(&SEEN.load(Ordering::Relaxed)));
        assert_eq!(running_stack(), (low, high));
    }));
}

/// Code without unwind tables: a function that leaves its second argument at its stack pointer and calls its first,
/// and, behind, one that reads a byte and calls nothing.
fn code_without_tables() -> usize {
    const PAGE_EXECUTE_READWRITE: u32 = 0x40;
    const CALLS: [u8; LEAF] = [
        0x48, 0x83, 0xec, 0x48, // sub rsp, 0x48
        0x48, 0x89, 0x14, 0x24, // mov [rsp], rdx
        0xff, 0xd1, // call rcx
        0x48, 0x83, 0xc4, 0x48, // add rsp, 0x48
        0xc3, 0x90, // ret
    ];
    const READS: [u8; 4] = [0x0f, 0xb6, 0x01, 0xc3]; // movzx eax, byte ptr [rcx]; ret
    // SAFETY: new addresses.
    let page =
        unsafe { calls::VirtualAlloc(null_mut(), page_size(), MEM_RESERVE | MEM_COMMIT, PAGE_EXECUTE_READWRITE) };
    let page = page.cast::<u8>();
    assert!(!page.is_null());
    // SAFETY: the new page.
    unsafe { page.copy_from_nonoverlapping(CALLS.as_ptr(), LEAF) };
    // SAFETY: within the new page.
    unsafe { page.add(LEAF).copy_from_nonoverlapping(READS.as_ptr(), READS.len()) };
    page.expose_provenance()
}

const LEAF: usize = 16;

/// Where a walk came to.
static LAST_PC: AtomicUsize = AtomicUsize::new(0);

extern "C" fn walks() {
    let mut context = UnwindContext::capture();
    while context.step() && context.pc() != 0 {
        LAST_PC.store(context.pc(), Ordering::Relaxed);
    }
}

#[test]
fn a_function_without_tables_that_called_ends_the_walk() {
    extern "C" fn innocent() {
        println!("never called");
    }
    let code = code_without_tables();
    // SAFETY: the function of that type.
    let calls: extern "C" fn(extern "C" fn(), extern "C" fn()) = unsafe { core::mem::transmute(code) };
    calls(walks, innocent);
    let last = LAST_PC.load(Ordering::Relaxed);
    assert!((code..code + LEAF).contains(&last), "{last:#x}, {code:#x}");
}

#[inline(never)]
fn calls_leaf(code: usize, address: usize) -> u8 {
    // SAFETY: the function of that type.
    let reads: extern "C" fn(usize) -> u8 = unsafe { core::mem::transmute(code + LEAF) };
    core::hint::black_box(reads(address))
}

#[test]
fn a_function_without_tables_that_was_stopped_is_a_leaf() {
    fn sees(trap: &Trap) -> Handled {
        let mut frames = [0; 8];
        walk_from(trap.pc, trap.frame, trap.stack, 0, &mut frames);
        LAST_PC.store(frames[1], Ordering::Relaxed);
        judge(trap)
    }
    went_on(child("os::system::tests::a_function_without_tables_that_was_stopped_is_a_leaf", || {
        install_fault_handler(sees).expect("a handler");
        let code = code_without_tables();
        let region = region(4);
        assert_eq!(calls_leaf(code, region.address_of(1)), 0);
        let caller = LAST_PC.load(Ordering::Relaxed);
        let function = calls_leaf as *const () as usize;
        assert!((function..function + 256).contains(&caller), "{caller:#x}, {function:#x}");
    }));
}

#[test]
fn wn5_the_back_ends_are_those_of_the_system() {
    assert_eq!(BackEnd::ALL, [BackEnd::VirtualAlloc, BackEnd::Cookies]);
    let found = BackEnds::probe();
    assert_eq!(found.best(), BackEnd::VirtualAlloc);
    assert_eq!(found.refusals().count(), 0);
    for other in [BackEnd::UserfaultfdMove, BackEnd::UserfaultfdCopy, BackEnd::GuardMarkers, BackEnd::Mprotect] {
        assert_eq!(found.refusal(other), Some(OsRefusal::Unavailable));
        assert!(page_calls(other).is_none());
    }
    let calls = page_calls(BackEnd::VirtualAlloc).expect("its calls");
    for pages in [usize::MAX, usize::MAX / page_size(), 1 << 40] {
        let refusal = Region::reserve(calls, pages).err().expect("so many");
        let said = format!("{refusal}");
        assert!(said.starts_with("VirtualAlloc(MEM_RESERVE) failed with error ") && said.contains("(ERROR_"), "{said}");
    }
}

#[test]
fn threads_have_names() {
    let name = std::thread::Builder::new()
        .name("a name".into())
        .spawn(|| std::string::String::from(thread_name(thread_id(), &mut [0; 16])))
        .expect("a thread")
        .join()
        .expect("it ends");
    assert_eq!(name, "a name");
    assert_eq!(thread_name(u32::MAX, &mut [0; 16]), "");
}

#[test]
fn numbers_of_the_system_are_known() {
    assert_eq!(process_id(), std::process::id());
    let other = std::thread::spawn(thread_id).join().expect("it ends");
    assert!(other != 0 && other != thread_id());
    assert!(total_memory().is_some_and(|bytes| bytes > 1 << 24));
    assert_ne!(random_u64(), random_u64());
    let base = reserve(page_size()).expect("a page");
    assert!(information_at(base).is_some());
    // SAFETY: not used.
    unsafe { release(base) };
    assert!(!readable(base));
}
