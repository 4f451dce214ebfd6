//! Random op programs, see the included file.
#![no_main]
#[path = "../../vk-callbacks/tests/it/common/mod.rs"]
mod common;
#[path = "../../vk-callbacks/tests/it/callback_stream/program.rs"]
mod program;

use common::Driver;
use program::{Stream, callback_stream};
use vk_callbacks::bridge::BareBridge;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let bridges = [(); 3]
        .map(|()| Box::pin(BareBridge::new(testkit::HookedAllocator::new(testkit::RecordingAllocator::system()))));
    let streams =
        bridges.each_ref().map(|bridge| Stream(Driver(bridge.as_ref().raw()), bridge.backing().inner().clone()));
    callback_stream(data, &streams);
});
