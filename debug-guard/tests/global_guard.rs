//! A whole Rust program over a guard: threads, collections, strings, caught panics, values that thread and process drop
//! at their ends.
//!
//! The binary starts itself again for each mode and case, since a process has one global allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, c_char};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;

use debug_guard::{
    BackEnd, BackEnds, GlobalGuard, GuardError, GuardOptions, GuardState, GuardStats, Mode, OnReport, Sampling, Stacks,
};
use testkit::{Child, Crash, Finished};

const MODES: [Mode; 5] = [Mode::Off, Mode::Sampled, Mode::Cookie, Mode::Fence, Mode::Strict];
/// What the list of leaks ends the process with.
const LEAKED: i32 = 77;

const fn options(mode: Mode) -> GuardOptions {
    GuardOptions::new(mode).name("program").stacks(Stacks::Full).sampling(Sampling::one_in(50))
}

static GUARDS: [GlobalGuard<System>; 7] = [
    GlobalGuard::system(options(Mode::Off)),
    GlobalGuard::system(options(Mode::Sampled)),
    GlobalGuard::system(options(Mode::Cookie).exit_leaks(LEAKED)),
    GlobalGuard::system(options(Mode::Fence).exit_leaks(LEAKED)),
    GlobalGuard::system(options(Mode::Strict).exit_leaks(LEAKED)),
    // Refused: no global allocator may unwind.
    GlobalGuard::system(options(Mode::Cookie).on_report(OnReport::Panic)),
    // Whoever asks at each allocation may allocate.
    GlobalGuard::system(options(Mode::Fence).command(asks)),
];
const REFUSED: usize = 5;
const ASKED: usize = 6;

/// Asks for memory itself, which it should not: the guard must not ask it again for that.
fn asks() -> Option<debug_guard::CommandMark> {
    black_box(vec![1_u8; 10]);
    Some(debug_guard::CommandMark { name: "asks", serial: 1, stack: 0 })
}

/// The guard that the environment names; in the parent the first, under which everything passes.
struct Chosen;

#[global_allocator]
static CHOSEN: Chosen = Chosen;

const WHICH: &CStr = c"STEWARD_GLOBAL_GUARD";

// SAFETY: as the C standard declares them.
unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
    safe fn atexit(call: extern "C" fn()) -> i32;
}

fn guard() -> &'static GlobalGuard<System> {
    static INDEX: AtomicUsize = AtomicUsize::new(usize::MAX);
    let mut index = INDEX.load(Relaxed);
    if index == usize::MAX {
        // SAFETY: a terminated name; nobody changes the environment of these processes.
        let said = unsafe { getenv(WHICH.as_ptr()) };
        index = if said.is_null() {
            0
        } else {
            // SAFETY: null, or a terminated text; its first byte is read.
            usize::from(unsafe { *said } as u8 - b'0')
        };
        INDEX.store(index, Relaxed);
    }
    &GUARDS[index]
}

// SAFETY: always the same guard.
unsafe impl GlobalAlloc for Chosen {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: this function's contract, which is the guard's as well.
        unsafe { guard().alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: this function's contract, which is the guard's as well.
        unsafe { guard().alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: this function's contract, which is the guard's as well.
        unsafe { guard().dealloc(block, layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: this function's contract, which is the guard's as well.
        unsafe { guard().realloc(block, layout, size) }
    }
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("clean") => clean(),
        Some("overflow") => overflow(),
        Some("late") => late(),
        Some("twice") => twice(),
        Some("leak") => leak(),
        Some("refused") => refused(),
        Some("asked") => asked(),
        Some("nothing") => nothing(),
        Some(case) => panic!("no case {case}"),
        None => parent(),
    }
}

fn child(which: usize, case: &str) -> Finished {
    Child::new(std::env::current_exe().expect("this binary"))
        .args([case])
        .env(WHICH.to_str().expect("text"), which.to_string())
        .run()
}

fn parent() {
    let pages = BackEnds::probe().best() != BackEnd::Cookies;
    for (which, mode) in MODES.into_iter().enumerate() {
        child(which, "clean").assert_code(0);
        if mode >= Mode::Cookie {
            for (case, kind) in [("overflow", "overflow"), ("late", "use-after-free"), ("twice", "double-free")] {
                let told = child(which, case);
                told.assert_crash(Crash::Abort);
                assert!(told.stderr.contains(&format!("\"kind\":\"{kind}\"")), "{mode} {case} {told}");
                assert!(told.stderr.contains("\"guard\":\"program\""), "{mode} {case} {told}");
            }
            let told = child(which, "leak");
            told.assert_code(LEAKED);
            assert!(told.stderr.contains("1 block, 4321 bytes"), "{mode} {told}");
            assert!(told.stdout.contains("after main"), "{mode} {told}");
        }
        if mode == Mode::Cookie || mode >= Mode::Fence && pages {
            let zero = child(which, "nothing");
            zero.assert_crash(Crash::Abort);
            assert!(zero.stderr.contains("zero-size-access"), "{mode} {zero}");
        }
        println!("{mode}: a whole program ran, and what it did wrong was found");
    }
    let told = child(REFUSED, "refused");
    told.assert_code(0);
    assert!(told.stderr.contains("nothing is guarded") && told.stderr.contains("OnReport"), "{told}");
    child(ASKED, "asked").assert_code(0);
}

fn state() -> &'static GuardState {
    guard().guard().expect("it guards")
}

fn stats() -> GuardStats {
    state().stats()
}

/// What programs do. A sum of it, so that nothing is left out by the compiler.
fn work(seed: usize) -> usize {
    let mut map = HashMap::new();
    for n in 0..500 {
        map.entry(n * seed % 97).or_insert_with(Vec::new).push(format!("{n} of {seed}"));
    }
    let mut tree: BTreeMap<String, Box<[u8]>> = BTreeMap::new();
    for (key, texts) in &map {
        tree.insert(format!("key {key}"), texts.concat().into_bytes().into_boxed_slice());
    }
    let mut text = String::new();
    for (key, bytes) in tree.iter().take(50) {
        text.push_str(key);
        text.extend(bytes.iter().map(|byte| char::from(*byte)));
    }
    let caught = std::panic::catch_unwind(|| {
        let carried = vec![seed; 100];
        std::panic::resume_unwind(Box::new(carried));
    });
    let carried = *caught.expect_err("it unwinds").downcast::<Vec<usize>>().expect("what it carried");
    let zeros = vec![0_u64; 10_000];
    assert!(zeros.iter().all(|zero| *zero == 0));
    text.len() + carried.len() + zeros.len()
}

thread_local! {
    /// Dropped when its thread ends, and asks for memory then.
    static LATE: RefCell<AtEnd> = const { RefCell::new(AtEnd(Vec::new())) };
}

struct AtEnd(Vec<String>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        let mut more: Vec<String> = (0..10).map(|n| format!("late {n}")).collect();
        more.append(&mut self.0);
        black_box(more);
    }
}

fn threads() -> usize {
    let (send, receive) = channel::<Vec<String>>();
    let threads: Vec<_> = (1..=4)
        .map(|seed| {
            let send = send.clone();
            std::thread::spawn(move || {
                LATE.with_borrow_mut(|late| late.0.push("kept".to_owned()));
                for n in 0..20 {
                    send.send((0..20).map(|m| format!("{seed} {n} {m}")).collect()).expect("somebody listens");
                }
                work(seed)
            })
        })
        .collect();
    drop(send);
    // Blocks of one thread are freed on another.
    let heard: usize = receive.iter().map(|texts| texts.len()).sum();
    heard + threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<usize>()
}

fn clean() {
    assert!(threads() > 0 && work(7) > 0);
    assert_eq!(state().check_all(), 0);
    let stats = stats();
    let counted = match std::env::var(WHICH.to_str().expect("text")).as_deref() {
        Ok("0") => stats.off,
        Ok("1") if stats.back_end != BackEnd::Cookies => stats.guarded.min(stats.off),
        Ok("1") => stats.off,
        Ok("2") => stats.cookies,
        _ if stats.back_end == BackEnd::Cookies => stats.cookies,
        _ => stats.guarded,
    };
    assert!(counted > 100, "{stats}");
    assert_eq!((stats.reports, stats.lost), (0, 0), "{stats}");
    assert!(stats.live_blocks > 0 && stats.live_blocks < 1000, "{stats}");
    // From here on there is no leak: what the runtime keeps is older.
    state().exit_leaks_from(state().mark());
}

/// One byte behind a block.
fn overflow() {
    let block = black_box(vec![1_u8; 40]);
    // SAFETY: broken on purpose; the byte is the guard's.
    unsafe { block.as_ptr().cast_mut().wrapping_add(40).write(9) };
    drop(block);
    unreachable!("the store or the free was stopped");
}

/// A byte of a block that is freed.
fn late() {
    let block = black_box(vec![1_u8; 40]);
    let pointer = black_box(block.as_ptr().cast_mut());
    drop(block);
    // SAFETY: broken on purpose; the page or the block waits, or is gone.
    unsafe { pointer.wrapping_add(3).write(9) };
    state().check_all();
    unreachable!("the store was stopped or found");
}

fn twice() {
    let mut block = std::mem::ManuallyDrop::new(black_box(Box::new([1_u8; 40])));
    // SAFETY: the first time it may be.
    unsafe { std::mem::ManuallyDrop::drop(&mut block) };
    // SAFETY: broken on purpose: the guard takes no block twice.
    unsafe { std::mem::ManuallyDrop::drop(&mut block) };
    unreachable!("the second free was stopped");
}

fn leak() {
    extern "C" fn after_main() {
        // The list is made after this one, which was asked for later.
        let text = black_box(String::from("after main"));
        println!("{text}");
    }
    assert_eq!(atexit(after_main), 0);
    println!("begins");
    state().exit_leaks_from(state().mark());
    std::mem::forget(black_box(vec![1_u8; 4321]));
}

fn refused() {
    assert!(work(3) > 0);
    assert_eq!(guard().guard().err(), Some(GuardError::PanicInGlobal));
}

fn asked() {
    assert!(threads() > 0);
    assert_eq!((stats().reports, state().check_all()), (0, 0));
}

/// A block of no bytes is a block: touching it is told as such.
fn nothing() {
    let layout = Layout::from_size_align(0, 1).expect("a layout");
    // SAFETY: broken on purpose: `GlobalAlloc` forbids size 0, C does not.
    let block = unsafe { guard().alloc(layout) };
    assert!(!block.is_null());
    // SAFETY: broken on purpose; the byte is the guard's.
    unsafe { black_box(block).write(1) };
    // SAFETY: given above.
    unsafe { guard().dealloc(block, layout) };
    unreachable!("the store or the free was stopped");
}
