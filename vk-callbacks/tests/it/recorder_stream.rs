//! A recorder between a wild driver and three bridges: the driver's model and the witnesses notice nothing, and the
//! trace adds up to what passed.

use alloc_core::{FromGlobalAlloc, Scope, Scoped};
use testkit::RecordingAllocator;
use testkit::programs::{Ran, replay};
use vk_callbacks::bridge::BareBridge;
use vk_callbacks::check::FindingKind;
use vk_callbacks::{CheckOptions, Judge, Recorder, TraceReader};

use crate::callback_stream::program::{Stream, callback_stream};
use crate::common::{Driver, sums};

/// Of what a wild driver does, only these can be found in a trace: it is wild with its arguments, and tidy with its
/// blocks.
fn judged(text: &str) {
    use FindingKind::{
        BadAlignment, BadScope, InternalLeft, InternalNegative, InternalType, NullFree, OtherAlignment, OtherScope,
        SizeZero,
    };
    let system = FromGlobalAlloc::SYSTEM;
    let mut judge = Judge::new(&system, CheckOptions::default());
    judge.run(TraceReader::new(text).expect("own header")).expect("own lines");
    let found = judge.findings(Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Object)).expect("memory");
    for found in found.iter() {
        let wild = [
            BadAlignment,
            BadScope,
            InternalLeft,
            InternalNegative,
            InternalType,
            NullFree,
            OtherAlignment,
            OtherScope,
            SizeZero,
        ];
        assert!(wild.contains(&found.kind), "{found}");
    }
}

fn run(bytes: &[u8]) -> Ran {
    let memory = RecordingAllocator::system();
    let bridges = [(); 3].map(|()| Box::pin(BareBridge::new(RecordingAllocator::system())));
    let recorder = Recorder::new(&memory).expect("memory");
    let streams = [0, 1, 2].map(|index| {
        let bridge = bridges[index].as_ref();
        // SAFETY: the bridges outlive the recorder, and all callbacks are made before it is closed.
        let tap = unsafe { recorder.tap(index as u64 + 1, bridge.raw()) }.expect("memory");
        Stream(Driver(*tap.raw()), bridge.get_ref().backing().clone())
    });
    let ran = callback_stream(bytes, &streams);

    let mut text = String::new();
    let written = recorder.write("callback stream", &mut text).expect("memory");
    assert_eq!(written.lost, 0);
    judged(&text);
    let sums = sums(&text);
    assert_eq!((sums.live.len(), sums.running, sums.lost), (0, 0, 0));
    // A block of 0 bytes is one of 16 behind the bridge, so blocks are compared and not bytes.
    let given: u64 = streams.iter().map(|stream| stream.1.total().allocations).sum();
    assert!(sums.blocks >= given, "{} blocks in the trace, {given} behind the bridges", sums.blocks);
    recorder.close().expect("the program frees all it took");
    memory.assert_empty("after close");
    ran
}

#[test]
fn a_recorder_in_a_stream_of_callbacks_changes_nothing_and_misses_nothing() {
    replay("callback_stream", 300, run);
}
