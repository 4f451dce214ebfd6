//! Growth that neither callbacks nor device memory account for is `malloc`'s.

#![forbid(unsafe_code)]

use crate::accounts::{INSTANCES, all_usage};
use crate::os::anonymous_bytes;
use crate::per_process::PerProcess;

const WORTH_TELLING: u64 = 8 << 20;

static AT_START: PerProcess<u64> = PerProcess::new();

pub(crate) fn start() {
    AT_START.get_or_make(anonymous_bytes);
}

pub(crate) fn after_fork() {
    AT_START.forget();
}

pub(crate) fn unseen_bytes() -> Option<u64> {
    let grown = anonymous_bytes()?.saturating_sub(*AT_START.get()?);
    let of_callbacks = all_usage().map_or(0, |all| all.live_bytes);
    let devices = INSTANCES.iter().flat_map(|instance| instance.devices.iter());
    let types = devices.flat_map(|device| &device.device_memory.types);
    let of_devices = types.map(|memory| memory.numbers()[0]).fold(0, u64::saturating_add);
    let seen = of_callbacks.saturating_add(of_devices);
    Some(grown.saturating_sub(seen)).filter(|unseen| *unseen >= WORTH_TELLING)
}
