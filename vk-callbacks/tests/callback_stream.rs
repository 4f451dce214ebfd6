//! The bridge as a wild driver meets it: committed seeds and random streams of callbacks, three bridges at once, compared with
//! a model and with the witness under each. `fuzz/fuzz_targets/callback_stream.rs` runs the same programs for longer.

use std::pin::Pin;

use testkit::Witness;
use testkit::programs::{Ran, Stream, callback_stream, replay};
use vk_callbacks::BareBridge;

fn stream(bridge: Pin<&BareBridge<Witness>>) -> Stream {
    let raw = bridge.raw();
    // SAFETY: the address of a C struct of callbacks.
    unsafe { Stream::new((&raw const raw).cast(), bridge.get_ref().backing().clone()) }
}

fn run(bytes: &[u8]) -> Ran {
    let bridges = [(); 3].map(|()| Box::pin(BareBridge::new(Witness::system())));
    let streams = bridges.each_ref().map(|bridge| stream(bridge.as_ref()));
    // SAFETY: the bridges stay where they are until all callbacks have been made, and nobody else uses them.
    unsafe { callback_stream(bytes, &streams) }
}

#[test]
fn streams_of_callbacks_equal_the_model() {
    replay("callback_stream", 1000, run);
}
