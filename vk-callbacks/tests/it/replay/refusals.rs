//! Traces that break off, and memory that is refused.

use super::*;

#[test]
fn a_trace_that_breaks_off_keeps_what_was_counted_and_leaves_nothing_behind() {
    let text = "# steward host trace 2\na,1,0,1,24,8,1\nf,1\n";
    let mut ears = ListeningTarget::new();
    let mut replay = Replay::new(memory());
    let error = replay
        .run(TraceReader::new(text).expect("a header"), &mut ears)
        .expect_err("line 3 is short");
    assert_eq!(
        error,
        CallbackError::Trace(TraceError {
            line: 3,
            fault: TraceFault::MissingField("owner")
        })
    );
    assert_eq!(replay.totals().all().live_bytes, 24);
    assert_eq!(ears.sink.total().live_bytes, 24);
    drop(replay);
    ears.sink.assert_empty("after a broken trace");
}

/// Refuses every request from the `after`-th on, while armed.
struct Short {
    inner: RecordingAllocator,
    left: Cell<Option<u32>>,
}

impl Short {
    fn refuses(&self) -> bool {
        match self.left.get() {
            None => false,
            Some(0) => true,
            Some(left) => {
                self.left.set(Some(left - 1));
                false
            }
        }
    }
}

// SAFETY: blocks are the witness's own and go back to it as they came.
unsafe impl HostAllocator for Short {
    fn traits(&self) -> AllocatorTraits {
        self.inner.traits()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if self.refuses() {
            Err(AllocError)
        } else {
            self.inner.allocate(layout, scope)
        }
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: forwarded.
        unsafe { self.inner.deallocate(block, layout, scope) }
    }
}

#[test]
fn a_map_without_memory_is_an_error_and_every_step_can_be_tried_again() {
    let lines: Vec<String> = (1..200)
        .flat_map(|id| {
            [
                format!("a,1,0,{id},{},8,1", id * 8),
                format!("r,1,0,{id},{},{},8,1", id + 1000, id * 9),
            ]
        })
        .collect();
    let text = trace(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let short = Short {
        inner: RecordingAllocator::system(),
        left: Cell::new(None),
    };
    let mut calm = ListeningTarget::new();
    let expected = Replay::new(memory())
        .run(TraceReader::new(&text).expect("a header"), &mut calm)
        .expect("whole");
    let mut refused = 0;
    for requests in 0.. {
        short.left.set(Some(requests));
        let mut ears = ListeningTarget::new();
        let mut replay = Replay::new(Scoped::new(&short, Scope::Object));
        let mut this_time = 0;
        for item in TraceReader::new(&text).expect("a header") {
            let (line, event) = item.expect("a line");
            let before = *replay.totals();
            if let Err(error) = replay.step(line, event, &mut ears) {
                assert!(
                    matches!(error, HostError::OutOfHostMemory { .. }),
                    "{error}"
                );
                assert_eq!(*replay.totals(), before);
                this_time += 1;
                short.left.set(None);
                replay.step(line, event, &mut ears).expect("memory again");
            }
        }
        let totals = replay.finish(&mut ears).or_else(|_| {
            this_time += 1;
            short.left.set(None);
            replay.finish(&mut ears)
        });
        assert_eq!(totals, Ok(expected));
        assert_eq!(ears.findings, calm.findings);
        drop(replay);
        ears.sink
            .assert_empty("after a replay that was short of memory");
        short.inner.assert_empty("of the replay itself");
        refused += this_time;
        if this_time == 0 {
            break;
        }
    }
    assert!(refused > 3, "the map grew {refused} times only");
}

#[test]
fn a_sink_without_memory_is_a_finding_and_the_trace_goes_on() {
    struct Stingy(Short);
    impl<'s> ReplayTarget for &'s Stingy {
        type Sink = &'s Short;
        fn sink(&mut self, _: u64) -> &'s Short {
            &self.0
        }
    }
    let text = trace(&[
        "a,1,0,1,24,8,1",
        "a,1,0,2,24,8,1",
        "r,1,0,1,3,80,8,1",
        "f,1,0,2",
        "f,1,0,3",
    ]);
    let stingy = Stingy(Short {
        inner: RecordingAllocator::system(),
        left: Cell::new(Some(1)),
    });
    let totals = Replay::new(memory())
        .run(TraceReader::new(&text).expect("a header"), &mut &stingy)
        .expect("a sink is no error");
    assert_eq!(
        (
            totals.findings,
            totals.all().peak_bytes,
            totals.all().live_blocks
        ),
        (2, 104, 0)
    );
    stingy.0.inner.assert_empty("after refusals");
}
