//! Functions by address: the parent runs the same program as its child, only elsewhere in memory.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Mutex;

/// Where this process has the program: the address of one function of it.
#[inline(never)]
pub(crate) fn anchor() -> usize {
    anchor as *const () as usize
}

/// The name of the function that holds `address` of a process whose [`anchor`] is at `there`; empty if nobody knows.
pub(crate) fn name_of(address: usize, there: usize) -> String {
    static KNOWN: Mutex<Option<HashMap<usize, String>>> = Mutex::new(None);
    let here = address.wrapping_sub(there).wrapping_add(anchor());
    let mut known = KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    known.get_or_insert_default().entry(here).or_insert_with(|| resolve(here)).clone()
}

fn resolve(address: usize) -> String {
    let mut name = String::new();
    backtrace::resolve(std::ptr::without_provenance_mut::<c_void>(address), |symbol| {
        if let Some(found) = symbol.name() {
            // Of inlined functions all are told; the plain form leaves out the compiler's hash.
            name.push_str(&format!("{found:#} "));
        }
    });
    name
}
