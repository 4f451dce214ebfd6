//! A process that has no memory left.

use std::ptr;

use testkit::Child;
use vk_callbacks::raw::RawCallbacks;

use crate::driver::Layer;

const NONE: *const RawCallbacks = ptr::null();

/// What the report is made with ends a process that has no memory for it: the layer asks for it before.
#[test]
fn ly7_without_memory_for_a_report_the_program_goes_on_without_it() {
    let test = "ly7_without_memory_for_a_report_the_program_goes_on_without_it";
    if Child::is_child(test) {
        let limit_memory = |bytes| {
            let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: the call reads the limit.
            let failed = unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) };
            assert_eq!(failed, 0);
        };
        let layer = Layer::new();
        let instance = layer.create_instance(NONE).expect("an instance");
        // No mapping, and no growth of one, from here on. (0 is no limit of data.)
        limit_memory(4096);
        layer.destroy_instance(instance, NONE);
        limit_memory(libc::RLIM_INFINITY);
        let instance = layer.create_instance(NONE).expect("the next instance");
        return layer.destroy_instance(instance, NONE);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let child = Child::this_test(test).env("VK_STEWARD_MEMORY_JSON", folder.path().join("%n.json")).run();
    child.assert_code(0);
    assert_eq!(child.stderr.matches("no report: ").count(), 1, "{child}");
    let names = std::fs::read_dir(folder.path()).expect("a folder");
    assert_eq!(names.count(), 1, "the report of the next instance");
}
