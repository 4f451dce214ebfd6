//! The recorder's own memory, refused.

use debug_guard::{FailingAllocator, Fault};

use super::*;

type Failing = FailingAllocator<RecordingAllocator>;

fn failing(fault: Fault) -> Failing {
    FailingAllocator::new(RecordingAllocator::system(), fault)
}

#[test]
fn v9_a_recorder_without_memory_loses_events_and_refuses_the_driver_nothing() {
    let steps = if cfg!(miri) { 60 } else { 4_000 };
    let calm = {
        let (app, memory) = (App::default(), system());
        let recorder = Recorder::new(&memory).expect("memory");
        let driver = tap(&recorder, 1, app.callbacks()).expect("memory");
        let swap = Mutex::new(Vec::new());
        churn(driver, 9, steps, &swap);
        drain(driver, &swap);
        let (text, written) = trace(&recorder);
        assert_eq!(written.lost, 0);
        (told(&app), written.events, sums(&text))
    };
    let mut lossy = 0;
    for (refuse, for_ever) in (0..if cfg!(miri) { 4 } else { 20 }).flat_map(|refuse| [(refuse, false), (refuse, true)])
    {
        let app = App::default();
        let memory = failing(if for_ever { Fault::From(refuse) } else { Fault::Nth(refuse) });
        let Ok(recorder) = Recorder::new(&memory) else {
            assert_eq!(refuse, 0);
            memory.inner().assert_empty("after a refused recorder");
            continue;
        };
        let Ok(driver) = tap(&recorder, 1, app.callbacks()) else {
            assert_eq!(refuse, 1);
            drop(recorder);
            memory.inner().assert_empty("after a refused tap");
            continue;
        };
        let swap = Mutex::new(Vec::new());
        churn(driver, 9, steps, &swap);
        drain(driver, &swap);
        assert_eq!(told(&app), calm.0, "refused {refuse}");
        let mut text = String::new();
        match recorder.write("model", &mut text) {
            Ok(written) => {
                assert_eq!(written.events + written.lost, calm.1, "refused {refuse}");
                let sums = sums(&text);
                assert_eq!(sums.lost, written.lost);
                if written.lost == 0 {
                    assert_eq!(sums, calm.2);
                } else {
                    lossy += 1;
                }
            }
            // The numbering found no memory: said so, and the next try does it.
            Err(error) => {
                assert!(matches!(error, CallbackError::Host(_)), "{error}");
                if !for_ever {
                    let mut text = String::new();
                    let written = recorder.write("model", &mut text).expect("memory again");
                    assert_eq!((written.events, written.lost), (calm.1, 0));
                    assert_eq!(sums(&text), calm.2);
                }
            }
        }
        recorder.close().expect("nothing is live");
        memory.inner().assert_empty("after close");
    }
    assert!(lossy >= 2, "{lossy}: a chunk must have been refused, or this proves nothing");
}

struct Panics;

// SAFETY: gives nothing out.
unsafe impl HostAllocator for Panics {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        assert!(layout.size() < 4096, "a chunk");
        system().allocate(layout, scope)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: this function's contract: the block is the system's.
        unsafe { system().deallocate(block, layout, scope) }
    }
}

#[test]
fn v8_a_panic_in_the_recorders_memory_does_not_reach_the_driver() {
    let model = RecorderModel::default();
    let recorder = Recorder::new(&Panics).expect("memory");
    let driver = tap(&recorder, 1, model.callbacks()).expect("memory");
    let block = driver.allocate(8, 8, 1);
    assert_eq!(block, 16);
    driver.free(block);
    let (text, written) = trace(&recorder);
    assert_eq!((written.events, written.lost), (0, 2));
    assert_eq!(text, "# steward host trace 2\n# driver: model\nx,2\nz,3\n");
    recorder.close().expect("nothing is live");
}

/// Two threads need the first chunk at once: one of them gives his back, and that panics.
struct Race {
    inner: RecordingAllocator,
    both: std::sync::Barrier,
    chunks: AtomicU64,
    panics: AtomicU64,
}

const FIRST_TWO: u64 = 2;

// SAFETY: blocks are the witness's own and go back to it as they came.
unsafe impl HostAllocator for Race {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let block = self.inner.allocate(layout, scope);
        if layout.size() >= 4096 && self.chunks.fetch_add(1, SeqCst) < FIRST_TWO {
            self.both.wait();
        }
        block
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: this function's contract: the block is the witness's.
        unsafe { self.inner.deallocate(block, layout, scope) };
        if layout.size() >= 4096 && self.panics.fetch_add(1, SeqCst) == 0 {
            panic!("a chunk that was not needed");
        }
    }
}

#[test]
fn v8_a_panic_while_a_chunk_is_given_back_does_not_reach_the_driver() {
    let memory = Race {
        inner: RecordingAllocator::system(),
        both: std::sync::Barrier::new(2),
        chunks: AtomicU64::new(0),
        panics: AtomicU64::new(0),
    };
    let app = App::default();
    let recorder = Recorder::new(&memory).expect("memory");
    let driver = tap(&recorder, 1, app.callbacks()).expect("memory");
    // A panic that passed the tap's functions would end the process.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(move || driver.free(driver.allocate(8, 8, 1)));
        }
    });
    assert_eq!((memory.chunks.load(SeqCst), memory.panics.load(SeqCst)), (2, 1), "there was no race");
    let (_, written) = trace(&recorder);
    assert_eq!((written.events, written.lost), (4, 0));
    recorder.close().expect("nothing is live");
    memory.inner.assert_empty("after close");
}

#[test]
fn an_output_that_fails_is_an_error_and_the_log_stays() {
    struct Full(usize);
    impl std::fmt::Write for Full {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0 = self.0.checked_sub(text.len()).ok_or(std::fmt::Error)?;
            Ok(())
        }
    }
    let memory = RecordingAllocator::system();
    let recorder = Recorder::new(&memory).expect("memory");
    recorder.phase("one");
    let whole = trace(&recorder).0.len();
    for room in 0..whole {
        assert_eq!(recorder.write("model", &mut Full(room)), Err(CallbackError::Output), "{room} bytes");
    }
    assert_eq!(recorder.write("model", &mut Full(whole)).map(|written| written.events), Ok(1));
    recorder.close().expect("nothing is live");
    memory.assert_empty("after close");
}

#[test]
fn v9_losses_stand_where_the_events_would() {
    // The requests are the recorder's own, the first chunk of its log, the list of chunks, the second chunk: that is
    // refused, once.
    let memory = failing(Fault::Nth(3));
    let recorder = Recorder::new(&memory).expect("memory");
    let count = || (0..2000).for_each(|owner| recorder.owner(owner + 1, 0, "VkBuffer"));
    count();
    let mut text = String::new();
    let written = recorder.write("d", &mut text).expect("memory");
    let lost: Vec<_> = text.lines().enumerate().filter(|(_, line)| line.starts_with("x,")).map(|(at, _)| at).collect();
    assert_eq!((written.lost, lost.len()), (1, 1));
    let [before, behind] = [lost[0] - 1, lost[0] + 1].map(|at| text.lines().nth(at).expect("a line").to_owned());
    assert!(before.starts_with("o,") && behind.starts_with("o,"), "{before}, {behind}");
    let owner = |line: &str| line.split(',').nth(1).and_then(|owner| owner.parse::<u64>().ok()).expect("an owner");
    assert_eq!(owner(&behind), owner(&before) + 2, "{before}, {behind}");
    recorder.close().map_err(|in_use| in_use.error).expect("nothing is live");
    memory.inner().assert_empty("closed");
}

#[test]
fn v8_a_block_whose_free_was_lost_is_not_the_one_that_has_its_address_next() {
    let mut lost_frees = 0;
    // One more event before the calls: where the last one was an allocation that is lost, it is a free now.
    for before in 0..2 {
        // Behind the recorder's own, the tap's, and those of the first chunk and the list: the second chunk.
        let memory = failing(Fault::Nth(4));
        let model = RecorderModel::default();
        let recorder = Recorder::new(&memory).expect("memory");
        let driver = tap(&recorder, 1, model.callbacks()).expect("memory");
        (0..before).for_each(|_| recorder.phase("one more"));
        for _ in 0..1000 {
            let block = driver.allocate(8, 8, 1);
            driver.free(block);
        }
        let lines = lines(&recorder);
        let lost = lines.iter().position(|line| line.starts_with("x,"));
        let lost = lost.expect("a chunk was refused");
        let [before, behind] = [&lines[lost - 1], &lines[lost + 1]];
        if before.starts_with("a,") {
            lost_frees += 1;
            assert!(behind.starts_with("a,") && behind != before, "{before}, {behind}");
        }
        recorder.close().map_err(|in_use| in_use.error).expect("nothing is live");
        memory.inner().assert_empty("closed");
    }
    assert_eq!(lost_frees, 1);
}

#[test]
fn v9_a_log_uses_the_memory_that_there_is_in_small_pieces() {
    let many = |fault| {
        let memory = failing(fault);
        let recorder = Recorder::new(&memory).expect("memory");
        (0..20_000).for_each(|owner| recorder.owner(owner + 1, 0, "VkBuffer"));
        let used = memory.live_bytes();
        let mut text = String::new();
        let written = recorder.write("d", &mut text).expect("memory");
        assert_eq!(written.events + written.lost, 20_000);
        // In order, over all chunks.
        let owners = text.lines().filter_map(|line| line.strip_prefix("o,"));
        let owners = owners.filter_map(|line| line.split(',').next()?.parse::<u64>().ok());
        assert!(owners.eq(1..=written.events));
        drop(recorder);
        memory.inner().assert_empty("dropped");
        (used, written.lost)
    };
    let (used, lost) = many(Fault::LiveBytes(1 << 18));
    assert!(lost > 0 && used > (1 << 18) - (1 << 15), "{used} B used");
    assert_eq!(many(Fault::SizeAbove(1 << 15)).1, 0);
}
