//! Law 2: every call of the device may fail: an error or a way round it, everything as before, and the next try
//! succeeds.

use super::*;

/// Asks that call no driver.
const QUIET: [&str; 4] = ["wrap", "crops", "picture", "name"];

#[test]
fn h86_h107_every_device_refusal_is_undone() {
    let count = asks::<&Mock, RecordingAllocator>().len();
    for number in 0..count {
        let name = asks::<&Mock, RecordingAllocator>()[number].name;
        let mut all = 0;
        for profile in MockProfile::ALL {
            for error in [OutOfDeviceMemory, OutOfHostMemory, TooManyObjects] {
                // The n-th call alone, which an allocator often gets over, and all from there on.
                for times in [1, u64::MAX] {
                    let tried = (1..).map(|nth| {
                        let fault = MockFault::nth(nth).times(times).with(error);
                        attempt(profile, number, fault, nth)
                    });
                    all += tried.take_while(|(met, _)| *met).filter(|(_, refused)| *refused).count();
                }
            }
        }
        println!("{name}: {all} refusals");
        assert_eq!(all > 0, !QUIET.contains(&name), "{name}: {all}");
    }
}

/// One ask with one fault, which strikes at the `nth` call: whether it was met, and whether the ask was refused for it.
fn attempt(profile: MockProfile, number: usize, fault: MockFault, nth: u64) -> (bool, bool) {
    let (mut met, mut was_refused) = (false, false);
    on(profile, |s| {
        let ask = &asks()[number];
        let buffer = ask.buffer(s.gpu);
        let (before, calls) = (seen(s.gpu), s.mock.calls_that_can_fail());
        assert!(s.mock.plant(fault));
        let result = ask.run(s.gpu, &buffer);
        met = s.mock.calls_that_can_fail() - calls >= nth;
        s.mock.clear_faults();
        was_refused = result.is_err();
        let held = result.unwrap_or_else(|refused| {
            assert!(met, "{profile:?}, {fault:?}: {refused}");
            assert_eq!(seen(s.gpu), before, "{profile:?}, {fault:?}");
            ask.run(s.gpu, &buffer).unwrap_or_else(|error| panic!("the next try succeeds: {error}"))
        });
        held.free(s.gpu);
        s.free_batch(&mut [buffer]).expect("nothing holds it any more");
    });
    (met, was_refused)
}
