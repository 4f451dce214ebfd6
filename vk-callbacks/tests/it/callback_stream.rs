//! The bridge as a wild driver meets it: committed seeds and random streams of callbacks, three bridges at once,
//! compared with a model and with the witness under each. `fuzz/fuzz_targets/callback_stream.rs` runs the same programs
//! for longer.

pub(crate) mod program;

use alloc_core::HostAllocator;
use testkit::programs::{Ran, replay};
use testkit::{HookedAllocator, RecordingAllocator};
use vk_callbacks::bridge::BareBridge;

use crate::common::Driver;
use program::{Stream, callback_stream};

/// Runs the program on three bridges over `backing`.
fn run<A: HostAllocator + Sync>(bytes: &[u8], backing: impl Fn(RecordingAllocator) -> A) -> Ran {
    let witnesses = [(); 3].map(|()| RecordingAllocator::system());
    let bridges = witnesses.each_ref().map(|witness| Box::pin(BareBridge::new(backing(witness.clone()))));
    let streams = [0, 1, 2].map(|n| Stream(Driver(bridges[n].as_ref().raw()), witnesses[n].clone()));
    callback_stream(bytes, &streams)
}

#[test]
fn streams_of_callbacks_equal_the_model() {
    replay("callback_stream", 1000, |bytes| run(bytes, |witness| witness));
}

#[test]
fn streams_of_callbacks_equal_the_model_while_the_backing_calls_them() {
    let ran = replay("callback_stream", 1000, |bytes| run(bytes, HookedAllocator::new));
    assert!(ran.reentered > ran.operations, "{ran:?}");
}
