use std::ffi::{OsString, c_void};
use std::path::Path;

use vk_report::state_file::{self, REPORT_REQUEST};

const STATE: &str = "VK_STEWARD_MEMORY_STATE";

/// The setting of a child by which it can request reports of itself: there are no signals.
pub(crate) fn report_requests(folder: &Path) -> (&'static str, OsString) {
    (STATE, folder.join("state").into())
}

pub(crate) fn request_report() {
    let state = std::env::var_os(STATE).expect("the setting");
    state_file::request(Path::new(&state), REPORT_REQUEST).expect("the state of this process");
}

/// `PROCESS_MEMORY_COUNTERS`.
#[repr(C)]
#[derive(Default)]
struct MemoryCounters {
    length: u32,
    faults: u32,
    most_resident: usize,
    resident: usize,
    others: [usize; 6],
}

#[link(name = "kernel32")]
unsafe extern "system" {
    fn GetCurrentProcess() -> *mut c_void;
    fn K32GetProcessMemoryInfo(process: *mut c_void, counters: *mut MemoryCounters, bytes: u32) -> i32;
}

pub(crate) fn resident_kilobytes() -> u64 {
    let mut counters = MemoryCounters::default();
    let room = size_of::<MemoryCounters>() as u32;
    // SAFETY: asks for a constant that stands for this process.
    let process = unsafe { GetCurrentProcess() };
    // SAFETY: so much room.
    let known = unsafe { K32GetProcessMemoryInfo(process, &raw mut counters, room) };
    assert_ne!(known, 0);
    counters.resident as u64 / 1024
}
