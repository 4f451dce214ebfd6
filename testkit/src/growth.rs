//! How the time that work takes grows with its size.

use std::fs;
use std::time::{Duration, Instant};

/// How much larger the large run is.
const TIMES: usize = 8;
/// Linear work takes 8 times as long, half as much again where caches overflow; quadratic work takes 64 times as long.
const MAX_RATIO: u32 = 24;
/// What takes no longer than this for the large size is fast enough, whatever it grew from: the clock ticks in
/// milliseconds.
const MIN_TIME: Duration = Duration::from_millis(40);

/// How often both sizes are timed before the work counts as slower than linear: on a busy machine caches are shared,
/// and one pair of times may be off by a factor of two, which is still far from quadratic.
const ATTEMPTS: usize = 6;

/// Runs `work` with `size` and with eight times as much, and asserts that its time grows about linearly: no limit on
/// the time itself, so neither the machine nor the build matters. Times are those of the processor, not of the clock on
/// the wall.
///
/// # Panics
/// Where eight times the size takes more than 24 times as long, six times in a row.
pub fn assert_linear(what: &str, size: usize, mut work: impl FnMut(usize)) {
    let mut time = |size: usize| {
        let begin = Began::now();
        work(size);
        begin.elapsed()
    };
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let small = time(size).min(time(size));
        let large = time(size * TIMES);
        if large <= (small * MAX_RATIO).max(MIN_TIME) {
            return;
        }
        seen.push((small, large));
    }
    panic!("{what}, {size} and {TIMES} times as many, take: {seen:?}");
}

/// Time of this thread on a processor where the system tells it, else time.
struct Began {
    clock: Instant,
    on_processor: Option<Duration>,
}

impl Began {
    fn now() -> Self {
        Self { on_processor: on_processor(), clock: Instant::now() }
    }

    fn elapsed(&self) -> Duration {
        let clock = self.clock.elapsed();
        on_processor().zip(self.on_processor).map_or(clock, |(now, then)| now.saturating_sub(then))
    }
}

/// The first number of the file: nanoseconds that this thread ran.
fn on_processor() -> Option<Duration> {
    // A thread that waited was counted up to there; one that runs on may be counted only at the next tick.
    std::thread::yield_now();
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}
