//! Random programs: the trace against what the driver knows.

use super::*;

#[derive(Clone, Copy, Debug)]
enum RecorderOp {
    Allocate {
        tap: usize,
        size: usize,
        scope: i32,
    },
    /// `pick` chooses among the addresses ever seen, live or not.
    Reallocate {
        tap: usize,
        pick: usize,
        size: usize,
        taken_meanwhile: bool,
    },
    Free {
        tap: usize,
        pick: usize,
        other_thread: bool,
    },
    FreeUnknown {
        at: usize,
    },
    Refuse(bool),
    Command(i32),
}

fn op() -> impl Strategy<Value = RecorderOp> {
    let tap = || 0..2_usize;
    prop_oneof![
        4 => (tap(), 0..100_usize, 0..5_i32).prop_map(|(tap, size, scope)| RecorderOp::Allocate { tap, size, scope }),
        3 => (tap(), any::<usize>(), prop_oneof![Just(0_usize), 1..200_usize], any::<bool>())
            .prop_map(|(tap, pick, size, taken_meanwhile)| RecorderOp::Reallocate { tap, pick, size, taken_meanwhile }),
        3 => (tap(), any::<usize>(), prop::bool::weighted(0.1))
            .prop_map(|(tap, pick, other_thread)| RecorderOp::Free { tap, pick, other_thread }),
        1 => (1..4_usize).prop_map(|n| RecorderOp::FreeUnknown { at: 0xf_0000 + n }),
        1 => any::<bool>().prop_map(RecorderOp::Refuse),
        1 => any::<i32>().prop_map(RecorderOp::Command),
    ]
}

/// What the trace must say, from what the driver knows: written beside the recorder, shares nothing with it.
#[derive(Default)]
struct Expected {
    events: Vec<TraceEvent<'static>>,
    live: std::collections::BTreeSet<usize>,
    at: BTreeMap<usize, Pointer>,
    given: u64,
    unknown: u64,
    seen: Vec<usize>,
}

impl Expected {
    fn given(&mut self, at: usize) -> Pointer {
        if at == 0 {
            return Pointer::Null;
        }
        // An address that is given while its block is live is that block given again.
        if !self.live.insert(at) {
            return self.at[&at];
        }
        self.given += 1;
        self.at.insert(at, Pointer::Block(self.given));
        self.seen.push(at);
        Pointer::Block(self.given)
    }
    /// What goes now: it is freed, or a reallocation of it begins.
    fn known(&mut self, at: usize) -> Pointer {
        if at == 0 {
            return Pointer::Null;
        }
        self.live.remove(&at);
        *self.at.entry(at).or_insert_with(|| {
            self.unknown += 1;
            Pointer::Unknown(self.unknown)
        })
    }
    /// NULL now and then.
    fn pick(&self, pick: usize) -> usize {
        match pick % (self.seen.len() + 1) {
            0 => 0,
            n => self.seen[n - 1],
        }
    }
}

fn run(ops: &[RecorderOp]) {
    let (model, memory) = (RecorderModel::default(), RecordingAllocator::system());
    let recorder = Recorder::new(&memory).expect("memory");
    let drivers =
        [tap(&recorder, 1, model.callbacks()), tap(&recorder, 2, model.callbacks())].map(|tap| tap.expect("memory"));
    let me = current_thread();
    let mut expected = Expected::default();
    let by = |tap: usize, thread| Caller { thread, owner: tap as u64 + 1 };
    for op in ops {
        match *op {
            RecorderOp::Allocate { tap, size, scope } => {
                let at = drivers[tap].allocate(size, 8, scope);
                let block = expected.given(at);
                let asked = Request { size: size as u64, align: 8, scope };
                expected.events.push(TraceEvent::Allocate { by: by(tap, me), block, asked });
            }
            RecorderOp::Reallocate { tap, pick, size, taken_meanwhile } => {
                let at = expected.pick(pick);
                let was_live = expected.live.contains(&at);
                let old = expected.known(at);
                expected.events.push(TraceEvent::ReallocateBegin { by: by(tap, me), old });
                let (send, receive) = std::sync::mpsc::channel();
                if taken_meanwhile {
                    let driver = drivers[1 - tap];
                    let meanwhile = move || {
                        send.send(driver.allocate(1, 8, 0)).expect("the test waits");
                    };
                    *model.meanwhile.lock().expect("no panic") = Some(Box::new(meanwhile));
                }
                let new = drivers[tap].reallocate(at, size, 8, 1);
                if let Ok(theirs) = receive.try_recv() {
                    let block = expected.given(theirs);
                    let asked = Request { size: 1, align: 8, scope: 0 };
                    expected.events.push(TraceEvent::Allocate { by: by(1 - tap, me), block, asked });
                }
                if new == 0 && size > 0 && was_live && expected.at[&at] == old {
                    expected.live.insert(at);
                }
                let new = expected.given(new);
                let asked = Request { size: size as u64, align: 8, scope: 1 };
                expected.events.push(TraceEvent::Reallocate { by: by(tap, me), old, new, asked });
            }
            RecorderOp::Free { tap, pick, other_thread } => {
                let at = expected.pick(pick);
                let block = expected.known(at);
                let free = move || {
                    drivers[tap].free(at);
                    current_thread()
                };
                let thread = if other_thread { std::thread::spawn(free).join().expect("no panic") } else { free() };
                expected.events.push(TraceEvent::Free { by: by(tap, thread), block });
            }
            RecorderOp::FreeUnknown { at } => {
                drivers[0].free(at);
                let block = expected.known(at);
                expected.events.push(TraceEvent::Free { by: by(0, me), block });
            }
            RecorderOp::Refuse(refuse) => model.with(|state| state.refuse = refuse),
            RecorderOp::Command(result) => {
                recorder.enter("vkX");
                recorder.leave(result);
                let by = Caller { thread: me, owner: 0 };
                expected.events.extend([TraceEvent::Enter { by, command: "vkX" }, TraceEvent::Leave { by, result }]);
            }
        }
    }
    let (text, written) = trace(&recorder);
    let read: Vec<_> = TraceReader::new(&text).expect("own header").map(|item| item.expect("own lines").1).collect();
    assert_eq!(read, expected.events);
    assert_eq!(written.events, read.len() as u64);
    sums(&text);
    // SAFETY: the program is over.
    unsafe { recorder.close_anyway() };
    memory.assert_empty("after the recorder");
}

proptest! {
    #[test]
    fn the_trace_says_what_the_driver_did(ops in prop::collection::vec(op(), 0..60)) {
        run(&ops);
    }
}
