//! A library in C, compiled as drivers are: without frame pointers, and with something else in their register; or with
//! frame pointers and no unwind tables.

use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_void};
use core::hint::black_box;
use std::ffi::CString;
use std::process::Command;
use std::vec::Vec;
use std::{env, fs, process};

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::SeqCst;

use testkit::Child;

use super::*;
use crate::call_sites::thread_stack::Registers;
use crate::call_sites::{CommandMark, walk_from};
use crate::os::{Handled, Trap};

/// `outer` calls `inner` calls back; in the register of the frame pointer stands a number, or the address of something
/// on the stack that looks like a frame: a pointer upwards and a word that no call returns to.
const SOURCE: &str = r#"
typedef unsigned long (*call)(void *);
__attribute__((noinline)) unsigned long inner(call f, void *data, unsigned long value) {
    register unsigned long kept __asm__("rbp") = value;
    __asm__ volatile("" : "+r"(kept));
    unsigned long answer = f(data);
    __asm__ volatile("" : "+r"(kept));
    return answer + (kept - value);
}
__attribute__((noinline)) unsigned long outer(call f, void *data, unsigned long astray) {
    struct { unsigned long next, back; } __attribute__((aligned(16))) volatile frames[4] = {{0}};
    frames[0].next = (unsigned long)&frames[2];
    frames[0].back = (unsigned long)&inner;
    frames[2].back = 0x41414141;
    unsigned long answer = inner(f, data, astray ? (unsigned long)&frames[0] : 0x1235);
    return answer + frames[1].next;
}
"#;

/// The same calls, with nothing of its own in that register.
const PLAIN: &str = r#"
typedef unsigned long (*call)(void *);
__attribute__((noinline)) unsigned long inner(call f, void *data, unsigned long value) {
    volatile unsigned long kept = value;
    unsigned long answer = f(data);
    return answer + (kept - value);
}
__attribute__((noinline)) unsigned long outer(call f, void *data, unsigned long astray) {
    volatile unsigned long kept = astray;
    unsigned long answer = inner(f, data, kept);
    return answer + (kept - astray);
}
"#;

/// How the library is compiled.
const TABLES: &str = "-fomit-frame-pointer";
const FRAMES: &str = "-fno-omit-frame-pointer";
const NO_TABLES: &str = "-fno-asynchronous-unwind-tables";

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

type Call = extern "C" fn(*mut c_void) -> usize;
type Outer = extern "C" fn(Call, *mut c_void, usize) -> usize;

struct SiteDriver {
    outer: Outer,
    inner: usize,
}

impl SiteDriver {
    /// Without frame pointers. `None` where there is no C compiler.
    fn open(test: &str) -> Option<Self> {
        Self::compiled(test, SOURCE, &[TABLES])
    }

    fn compiled(test: &str, text: &str, flags: &[&str]) -> Option<Self> {
        let directory = env::temp_dir().join(std::format!("steward-sites-{}-{test}", process::id()));
        fs::create_dir_all(&directory).expect("there is room");
        let (source, library) = (directory.join("driver.c"), directory.join("libdriver.so"));
        fs::write(&source, text).expect("there is room");
        let done = Command::new("cc")
            .args(["-O2", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-o"])
            .args([&library, &source])
            .args(flags)
            .output();
        let Ok(done) = done else {
            testkit::skip("cc", test, "there is no C compiler");
            return None;
        };
        assert!(done.status.success(), "{}", std::string::String::from_utf8_lossy(&done.stderr));
        let path = CString::new(library.to_str().expect("plain")).expect("plain");
        // SAFETY: a name that ends in 0; what the library does at its start is nothing.
        let opened = unsafe { dlopen(path.as_ptr(), 2) };
        assert!(!opened.is_null());
        fs::remove_dir_all(&directory).expect("ours");
        // SAFETY: an open library, a name that ends in 0.
        let [outer, inner] = [c"outer", c"inner"].map(|name| unsafe { dlsym(opened, name.as_ptr()) });
        assert!(!outer.is_null() && !inner.is_null());
        // SAFETY: that is its type in the source above.
        let outer = unsafe { core::mem::transmute::<*mut c_void, Outer>(outer) };
        Some(Self { outer, inner: inner.addr() })
    }

    /// Runs `back`, called back by the driver, in a command.
    #[inline(never)]
    fn command(&self, astray: bool, back: &mut dyn FnMut(CommandMark)) {
        extern "C" fn callback(data: *mut c_void) -> usize {
            // SAFETY: the closure and the mark of the frame below, which wait.
            let (back, mark) = unsafe { &mut *data.cast::<(&mut dyn FnMut(CommandMark), CommandMark)>() };
            back(*mark);
            0
        }
        let frame = 0_u8;
        let mark = CommandMark { name: "vkDriver", serial: 1, stack: black_box(&raw const frame).addr() };
        let mut data = (back, mark);
        assert_eq!((self.outer)(callback, (&raw mut data).cast(), usize::from(astray)), 0);
        black_box(&frame);
    }
}

/// What a walk through the driver's frames begins with: a frame of its own, whatever this test was compiled with.
#[unsafe(naked)]
extern "C" fn framed(data: *mut c_void) -> usize {
    naked_asm!("push rbp", "mov rbp, rsp", "mov rsi, rsp", "mov rdx, rbp", "call {}", "pop rbp", "ret", sym walk)
}

/// Frames, what was found of them, and the mark of the command.
type Walked = ([usize; 8], (usize, bool), usize);

extern "C" fn walk(data: *mut c_void, stack: usize, frame: usize) -> usize {
    // SAFETY: the data of the test, which waits.
    let (frames, found, mark) = unsafe { &mut *data.cast::<Walked>() };
    let bounds = thread_stack::with(|local| local.bounds(stack));
    let start = WalkStart { from: Registers { stack, frame }, bounds: bounds.up_to(*mark) };
    *found = unwind::chained(start, frames, 0);
    0
}

#[test]
fn frame_pointers_end_in_the_driver_and_the_unwinder_goes_through() {
    let Some(driver) = SiteDriver::open("frame_pointers_end_in_the_driver_and_the_unwinder_goes_through") else {
        return;
    };
    let inner = driver.inner..driver.inner + 128;
    let outer = driver.outer as usize..driver.outer as usize + 512;
    for astray in [false, true] {
        let frame = 0_u8;
        let mark = black_box(&raw const frame).addr();
        let mut data: Walked = ([0; 8], (0, false), mark);
        (driver.outer)(framed, (&raw mut data).cast(), usize::from(astray));
        let (fast, found, _) = data;
        assert!(found == (1, false) && inner.contains(&fast[0]), "{fast:x?}");

        let memory = memory();
        let mut sites = depot(&memory);
        let mut ids = Vec::new();
        let before = walks();
        for _ in 0..10 {
            driver.command(astray, &mut |mark| {
                ids.push(sites.note(Some(&memory), &RequesterInfo { command: Some(&mark), ..who("x") }, Stacks::Full));
            });
        }
        assert!(ids.windows(2).all(|two| two[0] == two[1]));
        assert_eq!(walks() - before, 1);
        let view = sites.get(ids[0]).expect("noted");
        assert!(view.whole, "{view:x?}");
        let through = view.frames.iter().position(|frame| inner.contains(frame)).expect("the driver's inner function");
        assert!(outer.contains(&view.frames[through + 1]), "{view:x?}");
        let above = SiteDriver::command as fn(_, _, _) as usize;
        assert!((above..above + 1024).contains(&view.frames[through + 2]), "{view:x?}");
        assert_eq!(view.frames.len(), through + 3, "the command's frame is the last: {view:x?}");
        sites.close(&memory);
    }
}

#[test]
fn fast_stacks_through_a_driver_are_short_and_few() {
    let Some(driver) = SiteDriver::open("fast_stacks_through_a_driver_are_short_and_few") else {
        return;
    };
    let memory = memory();
    let mut sites = depot(&memory);
    for astray in [false, true] {
        for _ in 0..100 {
            driver.command(astray, &mut |mark| {
                sites.note(Some(&memory), &RequesterInfo { command: Some(&mark), ..who("x") }, Stacks::Fast);
            });
        }
    }
    // Whatever the driver keeps in the register, the depot does not fill with it.
    assert!(sites.count() <= 2, "{}", sites.count());
    for site in sites.all() {
        let frames = site.view().frames;
        assert_eq!(walk::count_calls(frames), frames.len());
    }
    sites.close(&memory);
}

/// The frames that `driver` is noted with, from its inner function on.
fn through(driver: &SiteDriver, astray: bool) -> (Vec<usize>, bool) {
    let memory = memory();
    let mut sites = depot(&memory);
    let mut ids = Vec::new();
    for _ in 0..10 {
        driver.command(astray, &mut |mark| {
            let who = RequesterInfo { command: Some(&mark), ..who("x") };
            ids.push(sites.note(Some(&memory), &who, Stacks::Full));
        });
    }
    assert!(ids.windows(2).all(|two| two[0] == two[1]));
    let view = sites.get(ids[0]).expect("noted");
    let inner = driver.inner..driver.inner + 256;
    let first = view.frames.iter().position(|frame| inner.contains(frame));
    let frames = view.frames[first.expect("the driver's inner function")..].to_vec();
    let whole = view.whole;
    sites.close(&memory);
    (frames, whole)
}

#[test]
fn where_tables_end_the_stack_goes_on_by_frame_pointers_to_who_called_the_driver() {
    const TEST: &str = "where_tables_end_the_stack_goes_on_by_frame_pointers_to_who_called_the_driver";
    let Some(driver) = SiteDriver::compiled(TEST, PLAIN, &[FRAMES, NO_TABLES]) else {
        return;
    };
    let (frames, _) = through(&driver, false);
    let outer = driver.outer as usize;
    let above = SiteDriver::command as fn(_, _, _) as usize;
    assert!(
        frames.len() >= 3 && (outer..outer + 256).contains(&frames[1]) && (above..above + 1024).contains(&frames[2]),
        "{frames:x?}"
    );
}

static INNER: AtomicUsize = AtomicUsize::new(0);
static OUTER: AtomicUsize = AtomicUsize::new(0);

fn on_trap(trap: &Trap) -> Handled {
    let mut frames = [0; 40];
    let (count, _) = walk_from(trap.pc, trap.frame, trap.stack, 0, &mut frames);
    let above = SiteDriver::command as fn(_, _, _) as usize;
    let chain = [(INNER.load(SeqCst), 256), (OUTER.load(SeqCst), 256), (above, 1024)];
    let is_chain = |three: &[usize]| {
        let mut pairs = three.iter().zip(chain);
        pairs.all(|(frame, (from, bytes))| (from..from + bytes).contains(frame))
    };
    let frames = &frames[..count];
    std::println!("seen: {}", frames.windows(3).any(is_chain));
    process::exit(7)
}

#[test]
fn a_thread_that_stops_in_a_callback_is_seen_through_a_driver_without_tables() {
    const TEST: &str =
        "call_sites::tests::driver::a_thread_that_stops_in_a_callback_is_seen_through_a_driver_without_tables";
    if Child::is_child(TEST) {
        let Some(driver) = SiteDriver::compiled("stopped", PLAIN, &[FRAMES, NO_TABLES]) else {
            std::println!("seen: true");
            process::exit(7);
        };
        INNER.store(driver.inner, SeqCst);
        OUTER.store(driver.outer as usize, SeqCst);
        os::install_fault_handler(on_trap).expect("the handler can be had");
        driver.command(false, &mut |_| {
            let nowhere = core::ptr::with_exposed_provenance::<u64>(black_box(4096 - 8));
            // SAFETY: none: the handler ends the process.
            black_box(unsafe { nowhere.read_volatile() });
        });
        return;
    }
    let child = Child::this_test(TEST).run();
    child.assert_code(7);
    assert!(child.stdout.contains("seen: true"), "{child}");
}

#[test]
fn without_tables_and_with_something_else_in_the_register_nothing_is_made_up() {
    const TEST: &str = "without_tables_and_with_something_else_in_the_register_nothing_is_made_up";
    let Some(driver) = SiteDriver::compiled(TEST, SOURCE, &[TABLES, NO_TABLES]) else {
        return;
    };
    for astray in [false, true] {
        let (frames, whole) = through(&driver, astray);
        assert_eq!((frames.len(), whole), (1, false), "{frames:x?}");
    }
}
