//! Traces inside the program, for machines without a driver.

#![forbid(unsafe_code)]

/// A recorded run inside the program.
#[derive(Clone, Copy, Debug)]
pub struct BundledTrace {
    /// Its name in reports and for `steward replay NAME`.
    pub name: &'static str,
    /// The trace, gzip-compressed.
    pub compressed: &'static [u8],
}

/// All bundled traces.
pub const TRACES: [BundledTrace; 4] = [
    BundledTrace { name: "lavapipe-workload", compressed: include_bytes!("../../traces/lavapipe-workload.trace.gz") },
    BundledTrace {
        name: "nvidia-580-workload",
        compressed: include_bytes!("../../traces/nvidia-580-workload.trace.gz"),
    },
    BundledTrace { name: "lavapipe-22.3", compressed: include_bytes!("../../traces/lavapipe-22.3.trace.gz") },
    BundledTrace { name: "nvidia-580-h200", compressed: include_bytes!("../../traces/nvidia-580-h200.trace.gz") },
];

/// The bundled trace of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static BundledTrace> {
    TRACES.iter().find(|trace| trace.name == name)
}
