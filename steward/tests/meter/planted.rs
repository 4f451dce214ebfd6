//! Known requests in each of the four states, on several threads at once; every cell must hold exactly these.

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::ptr;
use std::sync::{Arc, Barrier};
use std::thread;

use vk_steward::callback_coverage::meter::{self, Cells, MeteredBytes, ThreadActivity, during};

// Safe to call are those that may be asked for anything.
unsafe extern "C" {
    safe fn malloc(size: usize) -> *mut c_void;
    safe fn calloc(number: usize, size: usize) -> *mut c_void;
    fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn reallocarray(block: *mut c_void, number: usize, size: usize) -> *mut c_void;
    safe fn memalign(align: usize, size: usize) -> *mut c_void;
    safe fn aligned_alloc(align: usize, size: usize) -> *mut c_void;
    fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int;
    safe fn valloc(size: usize) -> *mut c_void;
    safe fn pvalloc(size: usize) -> *mut c_void;
    fn free(block: *mut c_void);
}

/// More than any heap gives, and known to the compiler only when it is too late.
fn too_much() -> usize {
    black_box(isize::MAX as usize)
}

/// Blocks that were granted, until they are freed.
struct Blocks {
    taken: MeteredBytes,
    live: Vec<*mut c_void>,
}

impl Blocks {
    /// Notes a block that must be there, aligned, and can be written to.
    fn granted(&mut self, block: *mut c_void, align: usize, bytes: usize) {
        assert!(
            !block.is_null() && block.addr().is_multiple_of(align),
            "{block:?} for {bytes} bytes aligned to {align}"
        );
        // SAFETY: so many bytes were granted.
        unsafe { block.cast::<u8>().write_bytes(0xA5, bytes) };
        self.taken.calls += 1;
        self.taken.bytes += bytes as u64;
        self.live.push(black_box(block));
    }
}

/// Calls every function of the family; what is refused does not count. The `Vec` has its room already.
fn every_function(blocks: &mut Blocks, n: usize) {
    assert!(blocks.live.capacity() - blocks.live.len() >= 10, "the list would grow, and be counted");
    blocks.granted(malloc(n), 16, n);
    blocks.granted(malloc(0), 16, 0);
    let zeroed = calloc(3, n);
    // SAFETY: so many bytes were granted; calloc's memory is initialised.
    let bytes = unsafe { std::slice::from_raw_parts(zeroed.cast::<u8>(), 3 * n) };
    assert!(bytes.iter().all(|byte| *byte == 0));
    blocks.granted(zeroed, 16, 3 * n);
    // SAFETY: NULL is as good as a block.
    let first = unsafe { realloc(ptr::null_mut(), n) };
    blocks.granted(first, 16, n);
    blocks.live.pop();
    // SAFETY: live.
    let larger = unsafe { realloc(first, 40 * n) };
    // SAFETY: as many bytes as before are kept, and so were written.
    let kept = unsafe { std::slice::from_raw_parts(larger.cast::<u8>(), n) };
    assert!(kept.iter().all(|byte| *byte == 0xA5));
    blocks.granted(larger, 16, 40 * n);
    blocks.live.pop();
    // SAFETY: live; frees it, which is no request.
    assert!(unsafe { realloc(larger, 0) }.is_null());
    // SAFETY: NULL is as good as a block.
    blocks.granted(unsafe { reallocarray(ptr::null_mut(), 5, n) }, 16, 5 * n);
    blocks.granted(memalign(256, n), 256, n);
    blocks.granted(aligned_alloc(64, 64 * n), 64, 64 * n);
    let mut block = ptr::null_mut();
    // SAFETY: a local to write to.
    assert_eq!(unsafe { posix_memalign(&raw mut block, 32, n) }, 0);
    blocks.granted(block, 32, n);
    blocks.granted(valloc(n), 4096, n);
    blocks.granted(pvalloc(n), 4096, n);

    let refused = [malloc(too_much()), calloc(too_much(), n), memalign(64, too_much()), aligned_alloc(3, n)];
    assert_eq!(refused, [ptr::null_mut(); 4]);
    // SAFETY: answers with an address of this thread's own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: an address of this thread's own; set so that none of the refusals before is taken for this one.
    unsafe { errno.write(0) };
    // SAFETY: NULL is as good as a block.
    let array = unsafe { reallocarray(ptr::null_mut(), too_much(), n) };
    let errno = std::io::Error::last_os_error().raw_os_error();
    assert_eq!((array, errno), (ptr::null_mut(), Some(libc::ENOMEM)));
    assert_eq!(
        // SAFETY: a local to write to.
        unsafe { posix_memalign(&raw mut block, 24, n) },
        libc::EINVAL
    );
    assert_eq!(
        // SAFETY: a local to write to.
        unsafe { posix_memalign(&raw mut block, 64, too_much()) },
        libc::ENOMEM
    );
}

/// One anonymous mapping of `pages`, and one that is refused; taken away again.
fn map(blocks: &mut Blocks, pages: usize) {
    let length = pages * 4096;
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, wherever there is room.
    let at = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    // SAFETY: just mapped, so many bytes.
    unsafe { at.cast::<u8>().write_bytes(7, length) };
    // SAFETY: just mapped, and used by nobody.
    assert_eq!(unsafe { libc::munmap(at, length) }, 0);
    // SAFETY: more than there are addresses is refused.
    let refused = unsafe { libc::mmap(ptr::null_mut(), 1 << 60, protection, flags, -1, 0) };
    assert_eq!((refused, std::io::Error::last_os_error().raw_os_error()), (libc::MAP_FAILED, Some(libc::ENOMEM)));
    blocks.taken.mapped += length as u64;
}

/// A part of the pattern: `rounds` of everything for blocks of `n` bytes.
fn plant(blocks: &mut Blocks, rounds: usize, n: usize) -> MeteredBytes {
    let before = blocks.taken;
    for _ in 0..rounds {
        every_function(blocks, n);
        for block in blocks.live.drain(..) {
            // SAFETY: taken in this round.
            unsafe { free(block) };
        }
    }
    map(blocks, n);
    // SAFETY: NULL is no block.
    unsafe { free(ptr::null_mut()) };
    let now = blocks.taken;
    MeteredBytes {
        calls: now.calls - before.calls,
        bytes: now.bytes - before.bytes,
        mapped: now.mapped - before.mapped,
    }
}

/// What each cell should hold.
#[derive(Default)]
struct Expected([MeteredBytes; 4]);

impl Expected {
    fn add(&mut self, doing: ThreadActivity, more: MeteredBytes) {
        let cell = &mut self.0[doing as usize];
        cell.calls += more.calls;
        cell.bytes += more.bytes;
        cell.mapped += more.mapped;
    }

    #[track_caller]
    fn assert_are(&self, cells: &Cells, when: &str) {
        for doing in [
            ThreadActivity::NeverIssued,
            ThreadActivity::Application,
            ThreadActivity::InCommand,
            ThreadActivity::InCallback,
        ] {
            assert_eq!(cells.of(doing), self.0[doing as usize], "{doing:?}, {when}");
        }
    }
}

/// What a thread of the pattern is, and what it plants where.
fn thread_of_the_pattern(index: usize, blocks: &mut Blocks, expected: &mut Expected) {
    let (rounds, n) = (20 + 3 * index, 24 + 8 * index);
    let mut here = |doing| expected.add(doing, plant(blocks, rounds, n));
    match index % 4 {
        // A thread of the driver's that calls back.
        0 => {
            here(ThreadActivity::NeverIssued);
            during(ThreadActivity::InCallback, || here(ThreadActivity::InCallback));
            here(ThreadActivity::NeverIssued);
        }
        // A worker of the application that marks itself.
        1 => {
            meter::this_thread_is_application();
            here(ThreadActivity::Application);
        }
        // A thread that is known by the command it calls.
        2 => {
            here(ThreadActivity::NeverIssued);
            during(ThreadActivity::InCommand, || here(ThreadActivity::InCommand));
            here(ThreadActivity::Application);
        }
        // The usual: commands with callbacks in them.
        _ => {
            meter::this_thread_is_application();
            during(ThreadActivity::InCommand, || {
                here(ThreadActivity::InCommand);
                during(ThreadActivity::InCallback, || here(ThreadActivity::InCallback));
                here(ThreadActivity::InCommand);
            });
            here(ThreadActivity::Application);
        }
    }
}

pub(super) fn pattern() {
    assert!(meter::is_there(), "the meter is not in this process");
    const THREADS: usize = 12;
    let quiet = Arc::new(Barrier::new(THREADS + 1));
    let thread = |index| {
        let quiet = Arc::clone(&quiet);
        move || {
            let mut blocks = Blocks { taken: MeteredBytes::default(), live: Vec::with_capacity(16) };
            let mut expected = Expected::default();
            for _ in 0..2 {
                quiet.wait();
            }
            thread_of_the_pattern(index, &mut blocks, &mut expected);
            for _ in 0..2 {
                quiet.wait();
            }
            // The list was taken before, and would be seen to go if frees counted.
            drop(blocks);
            expected
        }
    };
    let threads: Vec<_> = (0..THREADS).map(|index| thread::spawn(thread(index))).collect();
    quiet.wait();
    let before = meter::read().expect("it is there");
    quiet.wait();
    quiet.wait();
    let after = meter::read().expect("it is there").since(&before);
    quiet.wait();
    let ends = threads.into_iter().map(|thread| thread.join().expect("its own assertions hold"));
    let mut expected = Expected::default();
    for one in ends {
        for doing in [
            ThreadActivity::NeverIssued,
            ThreadActivity::Application,
            ThreadActivity::InCommand,
            ThreadActivity::InCallback,
        ] {
            expected.add(doing, one.0[doing as usize]);
        }
    }
    // A cell that nothing was planted in would prove nothing.
    assert!(
        expected.0.iter().all(|cell| cell.calls > 1000 && cell.bytes > 100_000 && cell.mapped > 0),
        "{:?}",
        expected.0
    );
    expected.assert_are(&after, "while the threads live");
    let ended = meter::read().expect("it is there").since(&before);
    expected.assert_are(&ended, "after the threads ended");
    println!("{THREADS} threads: {after:?}\nas planted");
}

/// As many threads as have places of their own, and more. Bare threads: nothing but what is planted is asked for on
/// them, so that a thread's first request is seen as well.
pub(super) fn many_threads() {
    assert!(meter::is_there(), "the meter is not in this process");
    const MORE_THAN_PLACES: u64 = 4096 + 500;
    let in_callback = || meter::read().expect("it is there").of(ThreadActivity::InCallback);
    let before = in_callback();
    for _ in 0..MORE_THAN_PLACES {
        join(start(&Task { times: 1, size: 48, together: None }));
    }
    let now = in_callback();
    assert_eq!((now.calls - before.calls, now.bytes - before.bytes), (MORE_THAN_PLACES, 48 * MORE_THAN_PLACES));

    // All of these share a place, and hurry.
    const TIMES: u64 = 500_000;
    let together = Barrier::new(4);
    let task = Task { times: TIMES, size: 24, together: Some(&together) };
    for thread in [(); 4].map(|()| start(&task)) {
        join(thread);
    }
    let last = in_callback();
    assert_eq!((last.calls - now.calls, last.bytes - now.bytes), (4 * TIMES, 24 * 4 * TIMES));
    println!("{MORE_THAN_PLACES} threads, and 4 at once\nas planted");
}

/// Blocks to be taken and freed in a callback.
struct Task<'a> {
    times: u64,
    size: usize,
    together: Option<&'a Barrier>,
}

/// Starts a thread without Rust's runtime on it; it must be [joined](join) while the task is there.
fn start(task: &Task<'_>) -> libc::pthread_t {
    extern "C" fn run(task: *mut c_void) -> *mut c_void {
        // SAFETY: the task that `start` was given, which is there until the thread was joined.
        let task = unsafe { &*task.cast_const().cast::<Task<'_>>() };
        task.together.map(Barrier::wait);
        during(ThreadActivity::InCallback, || {
            for _ in 0..task.times {
                let block = black_box(malloc(task.size));
                // SAFETY: taken above.
                unsafe { free(block) };
            }
        });
        ptr::null_mut()
    }
    let mut thread = 0;
    // SAFETY: a local to write to, no attributes, and a function that does not unwind with what it takes.
    let started =
        unsafe { libc::pthread_create(&raw mut thread, ptr::null(), run, ptr::from_ref(task).cast_mut().cast()) };
    assert_eq!(started, 0);
    thread
}

fn join(thread: libc::pthread_t) {
    // SAFETY: started, and joined only here.
    assert_eq!(unsafe { libc::pthread_join(thread, ptr::null_mut()) }, 0);
}
