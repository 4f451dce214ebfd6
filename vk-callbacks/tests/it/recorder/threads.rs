//! Many threads, over real memory.

use super::*;

#[test]
fn v24_four_threads_that_free_each_others_blocks_are_written_down_to_the_last_call() {
    let steps = if cfg!(miri) { 60 } else { 5_000 };
    let (app, memory) = (App::default(), RecordingAllocator::system());
    let recorder = Recorder::new(&memory).expect("memory");
    let driver = tap(&recorder, 1, app.callbacks()).expect("memory");
    let swap = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for seed in 1..=4 {
            let swap = &swap;
            scope.spawn(move || churn(driver, seed, steps, swap));
        }
        // A trace written meanwhile is a whole one of the events by then.
        for _ in 0..3 {
            assert_eq!(sums(&trace(&recorder).0).not_live, 0);
        }
    });
    drain(driver, &swap);
    let (text, written) = trace(&recorder);
    let sums = sums(&text);
    assert_eq!((sums.not_live, written.lost), (0, 0));
    let ((calls, bytes), live) = (sums.calls, sums.live.values().map(|(size, _)| size).sum());
    assert_eq!((calls, bytes, sums.frees, live), told(&app));
    assert!(sums.other_thread_frees > 0 && sums.reallocations > 0);
    assert_eq!(sums.running, 0);
    recorder.close().expect("nothing is live");
    memory.assert_empty("after close");
}
