//! The bridge as a wild driver meets it: committed seeds and random streams of callbacks, three bridges at once, compared with
//! a model and with the witness under each. `fuzz/fuzz_targets/callback_stream.rs` runs the same programs for longer.

use std::pin::Pin;

use alloc_core::HostAllocator;
use testkit::programs::{Ran, Stream, callback_stream, replay};
use testkit::{HookedAllocator, RecordingAllocator};
use vk_callbacks::bridge::BareBridge;

fn stream<A: HostAllocator + Sync>(
    bridge: Pin<&BareBridge<A>>,
    witness: RecordingAllocator,
) -> Stream {
    let raw = bridge.raw();
    // SAFETY: the address of a C struct of callbacks.
    unsafe { Stream::new((&raw const raw).cast(), witness) }
}

/// Runs the program on three bridges over `backing`.
fn run<A: HostAllocator + Sync>(bytes: &[u8], backing: impl Fn(RecordingAllocator) -> A) -> Ran {
    let witnesses = [(); 3].map(|()| RecordingAllocator::system());
    let bridges = witnesses
        .each_ref()
        .map(|witness| Box::pin(BareBridge::new(backing(witness.clone()))));
    let streams = [0, 1, 2].map(|n| stream(bridges[n].as_ref(), witnesses[n].clone()));
    // SAFETY: the bridges do not move until all callbacks have been made, and nothing else uses them.
    unsafe { callback_stream(bytes, &streams) }
}

#[test]
fn streams_of_callbacks_equal_the_model() {
    replay("callback_stream", 1000, |bytes| {
        run(bytes, |witness| witness)
    });
}

#[test]
fn streams_of_callbacks_equal_the_model_while_the_backing_calls_them() {
    let ran = replay("callback_stream", 1000, |bytes| {
        run(bytes, HookedAllocator::new)
    });
    assert!(ran.reentered > ran.operations, "{ran:?}");
}
