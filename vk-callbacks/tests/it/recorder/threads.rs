//! Many threads, over real memory.

use super::*;

#[test]
fn v24_four_threads_that_free_each_others_blocks_are_written_down_to_the_last_call() {
    let steps = if cfg!(miri) { 60 } else { 5_000 };
    let (malloc, memory) = (Malloc::default(), RecordingAllocator::system());
    let recorder = Recorder::new(&memory).expect("memory");
    let driver = tap(&recorder, 1, malloc.callbacks()).expect("memory");
    let swap = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for seed in 1..=4 {
            let swap = &swap;
            scope.spawn(move || churn(driver, seed, steps, swap));
        }
        // A trace written meanwhile is a whole one of the events by then.
        for _ in 0..3 {
            let (_, findings) = replays(&trace(&recorder).0);
            let leftovers =
                |finding: &ReplayFinding| matches!(finding, ReplayFinding::StillLive { .. });
            assert!(findings.iter().all(leftovers), "{findings:?}");
        }
    });
    drain(driver, &swap);
    let (text, written) = trace(&recorder);
    let (totals, findings) = replays(&text);
    assert_eq!(findings, []);
    assert_eq!(written.lost, 0);
    let (calls, bytes) = (
        totals.allocations + totals.reallocations,
        totals.allocate_bytes + totals.reallocate_bytes,
    );
    assert_eq!(
        (calls, bytes, totals.frees, totals.all().live_bytes),
        malloc.told()
    );
    assert!(totals.other_thread_frees > 0 && totals.reallocations > 0);
    assert_eq!(totals.reallocations_begun, totals.reallocations);
    recorder.close().expect("nothing is live");
    memory.assert_empty("after close");
}
