//! One call at a time: what passes, and what is written.

use super::*;

#[test]
fn v5_v7_v35_calls_pass_unchanged_legal_or_not() {
    let (model, memory) = (RecorderModel::default(), system());
    let recorder = Recorder::new(&memory).expect("memory");
    let driver = tap(&recorder, 3, model.callbacks()).expect("memory");
    let block = driver.allocate(0, 3, 77);
    driver.notice(9, 1, -4);
    let block = driver.reallocate(block, 20, 64, 2);
    driver.free(block);
    driver.free(0);
    let seen = model.with(|state| state.seen.clone());
    assert_eq!(seen, [(0, 0, 3, 77), (0, 9, 1, -4), (16, 20, 64, 2), (64, 0, 0, -1), (0, 0, 0, -1)]);
    let me = current_thread();
    assert_eq!(
        lines(&recorder),
        [
            format!("a,{me},3,1,0,3,77"),
            format!("i,{me},3,9,1,-4"),
            format!("b,{me},3,1"),
            format!("r,{me},3,1,2,20,64,2"),
            format!("f,{me},3,2"),
            format!("f,{me},3,0"),
            "z,8".to_owned(),
        ]
    );
    recorder.close().expect("nothing is live");
}

#[test]
fn v1_v4_missing_functions_stay_missing_and_notices_are_heard_anyway() {
    let memory = system();
    let recorder = Recorder::new(&memory).expect("memory");
    let none = RawCallbacks {
        p_user_data: ptr::null_mut(),
        pfn_allocation: None,
        pfn_reallocation: None,
        pfn_free: None,
        pfn_internal_allocation: None,
        pfn_internal_free: None,
    };
    let driver = tap(&recorder, 1, none).expect("memory");
    let raw = driver.0.raw();
    assert!(raw.pfn_allocation.is_none() && raw.pfn_reallocation.is_none() && raw.pfn_free.is_none());
    driver.notice(64, 0, 1);
    let me = current_thread();
    let seen = |what| format!("s,{me},1,0,{what}");
    let lacks = [seen("no-pfnAllocation"), seen("no-pfnReallocation"), seen("no-pfnFree")];
    let [first, second, third] = lacks;
    assert_eq!(lines(&recorder), [first, second, third, format!("i,{me},1,64,0,1"), "z,6".to_owned()]);
}

#[test]
fn a_recorder_with_live_blocks_does_not_close() {
    let (model, memory) = (RecorderModel::default(), RecordingAllocator::system());
    let recorder = Recorder::new(&memory).expect("memory");
    let one = tap(&recorder, 1, model.callbacks()).expect("memory");
    let two = tap(&recorder, 2, model.callbacks()).expect("memory");
    let block = one.allocate(8, 8, 1);
    let in_use = recorder.close().expect_err("a block is live");
    assert_eq!(in_use.value.live_blocks(), 1);
    let recorder = in_use.value;
    two.free(block); // through a compatible tap
    recorder.close().expect("nothing is live");
    memory.assert_empty("after close");

    let memory = RecordingAllocator::system();
    let recorder = Recorder::new(&memory).expect("memory");
    tap(&recorder, 1, model.callbacks()).expect("memory").allocate(8, 8, 1);
    // SAFETY: the tap is not called any more.
    unsafe { recorder.close_anyway() };
    memory.assert_empty("after close_anyway");
}

#[test]
#[cfg(not(miri))] // it leaks on purpose, which miri reports
fn a_recorder_dropped_with_live_blocks_stays_callable() {
    let (model, memory) = (RecorderModel::default(), RecordingAllocator::system());
    let recorder = Recorder::new(&memory).expect("memory");
    let tap_of = tap(&recorder, 1, model.callbacks()).expect("memory");
    let block = tap_of.allocate(8, 8, 1);
    drop(recorder);
    assert!(memory.total().live_bytes > 0, "leaked, so that the tap stays callable");
    tap_of.free(block);
}
