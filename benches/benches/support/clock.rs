//! Thread CPU time and the processors that threads are pinned to.

use std::hint::spin_loop;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Processor time of the calling thread in ns: what other programs take does not count.
pub fn thread_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a place for the answer.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(answer, 0, "this system has no thread clock");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The processors that this process may run on.
pub fn processors() -> &'static [usize] {
    static FOUND: OnceLock<Vec<usize>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
        // SAFETY: the place is as large as is said.
        let answer = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr()) };
        assert_eq!(answer, 0, "sched_getaffinity");
        // SAFETY: all zeros is a valid set, and it was written.
        let set = unsafe { set.assume_init() };
        // SAFETY: below the size of the set.
        (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
    })
}

/// Keeps the calling thread on the `number`-th of the process's processors.
pub fn pin(number: usize) {
    let cpu = *processors().get(number).expect("as many processors as threads");
    // SAFETY: all zeros is a valid, empty set.
    let mut set = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    // SAFETY: one of the set's processors.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is as large as is said.
    let answer = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    assert_eq!(answer, 0, "sched_setaffinity");
}

/// Runs `work` (told how many operations to do) on `threads` pinned threads that start together; ns an operation and
/// thread.
///
/// Two threads on one processor would make contended designs look good, hence the pinning.
pub fn measure(threads: usize, operations: usize, work: impl Fn(usize) + Sync) -> f64 {
    let (ready, work) = (AtomicUsize::new(0), &work);
    let one = |number: usize| {
        pin(number);
        work(operations / 8);
        ready.fetch_add(1, Ordering::SeqCst);
        while ready.load(Ordering::SeqCst) < threads {
            spin_loop();
        }
        let before = thread_ns();
        work(operations);
        (thread_ns() - before) as f64 / operations as f64
    };
    let one = &one;
    let times: Vec<f64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|number| scope.spawn(move || one(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("the work does not panic")).collect()
    });
    times.iter().sum::<f64>() / times.len() as f64
}

/// Runs `work` once on a pinned thread; what it says it took.
pub fn pinned<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            pin(0);
            work()
        });
        thread.join().expect("the work does not panic")
    })
}
