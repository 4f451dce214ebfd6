//! Random op programs, see `testkit::programs::callback_stream`.
#![no_main]
use testkit::programs::{Stream, callback_stream};
use vk_callbacks::bridge::BareBridge;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let bridges = [(); 3].map(|()| {
        Box::pin(BareBridge::new(testkit::HookedAllocator::new(
            testkit::RecordingAllocator::system(),
        )))
    });
    let streams = bridges.each_ref().map(|bridge| {
        // SAFETY: the address of a C struct of callbacks.
        unsafe {
            Stream::new(
                std::ptr::from_ref(&bridge.as_ref().raw()).cast(),
                bridge.backing().inner().clone(),
            )
        }
    });
    // SAFETY: the bridges stay where they are until all callbacks have been made.
    unsafe { callback_stream(data, &streams) };
});
