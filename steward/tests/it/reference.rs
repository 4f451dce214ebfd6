//! The program's own driver in this process: each of its requests is refused once.

#[allow(dead_code, reason = "another test uses the rest")]
#[path = "../support/bridges.rs"]
mod bridges;
#[path = "../support/driver_shim.rs"]
mod driver_shim;
#[path = "../live_sweep/refusing.rs"]
mod refusing;

use debug_guard::Fault;
use vk_steward::drivers;
use vk_steward::workload::{self, Options};

use bridges::Bridges;
use refusing::Refusing;

/// A refusal anywhere is out of host memory, or is survived; nothing is left, and the next run is right.
#[test]
fn rd8_rd9_each_request_refused_leaves_nothing_behind() {
    let selected = drivers::reference().expect("it is part of the program");
    let selected = driver_shim::shimmed(&selected);
    let backing: &'static Refusing = Box::leak(Box::new(Refusing::new()));
    let (mut refused, mut while_recording, mut done) = (0, 0, false);
    for request in 0.. {
        // SAFETY: the backing lives for ever.
        let bridges = unsafe { Bridges::new(backing, None) };
        backing.arm(Fault::Nth(request));
        let ran = driver_shim::watched(&bridges, || workload::run(&selected, &Options::default(), &|_| {}));
        done = backing.requests() <= request;
        match ran {
            Ok(report) => assert!(report.comparisons == 20220, "request {request}"),
            Err(error) => {
                assert!(error.is_out_of_host_memory() && !done, "request {request}: {error}");
                while_recording += u32::from(error.to_string().contains("vkEndCommandBuffer"));
            }
        }
        assert_eq!(backing.given().live_blocks, 0, "request {request}");
        assert_eq!(bridges.close(), 0, "request {request}");
        if done {
            break;
        }
        refused += 1;
    }
    assert!(done && refused > 50 && while_recording > 0, "{refused} requests, {while_recording} while recording");
}
