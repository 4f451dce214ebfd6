#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// Callback coverage of a driver, measured twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// With the loader, as applications run; its own memory counts as the driver's.
    pub with_loader: Option<CoverageRun>,
    /// The driver's library opened directly.
    pub without_loader: Option<CoverageRun>,
    /// Why it could not be measured, in one sentence; none where it was.
    pub absent: Option<String>,
}

/// One measurement. Calls are requests for new or larger blocks; bytes are requested bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageRun {
    /// Requests through callbacks.
    pub callback_calls: u64,
    /// Bytes through callbacks.
    pub callback_bytes: u64,
    /// Calls of malloc and its kin inside of Vulkan commands, on the thread that called them.
    pub in_command_calls: u64,
    /// Bytes of those.
    pub in_command_bytes: u64,
    /// Calls of malloc and its kin on threads that never issued a Vulkan command: the driver's own.
    pub never_issued_calls: u64,
    /// Bytes of those.
    pub never_issued_bytes: u64,
    /// Bytes that the application allocated between commands.
    pub application_bytes: u64,
    /// Bytes that the callbacks allocated to serve the driver: counted as callback bytes already.
    pub in_callback_bytes: u64,
    /// Bytes mapped directly (`mmap`): device memory may be among them, so they are in no ratio.
    pub mapped_bytes: u64,
    /// Calls of malloc and its kin while the driver's library was opened, before any command: in no ratio. The loader
    /// opens it within commands, so with the loader this is 0, and they are among those in commands.
    #[serde(default)]
    pub opening_calls: u64,
    /// Bytes of those.
    #[serde(default)]
    pub opening_bytes: u64,
    /// Bytes mapped directly meanwhile, the library's own file not among them.
    #[serde(default)]
    pub opening_mapped_bytes: u64,
}

impl Coverage {
    /// The leading figure: of the driver alone if that was measured, else with the loader; and whether it is of the
    /// driver alone.
    #[must_use]
    pub fn leading(&self) -> Option<(&CoverageRun, bool)> {
        match (&self.without_loader, &self.with_loader) {
            (Some(run), _) => Some((run, true)),
            (None, Some(run)) => Some((run, false)),
            (None, None) => None,
        }
    }
}

impl CoverageRun {
    /// Bytes past the callbacks.
    #[must_use]
    pub const fn past_bytes(&self) -> u64 {
        self.in_command_bytes.saturating_add(self.never_issued_bytes)
    }

    /// The share of bytes through callbacks, from 0 to 1; `None` without any bytes.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let all = self.callback_bytes as f64 + self.in_command_bytes as f64 + self.never_issued_bytes as f64;
        (all > 0.0).then(|| self.callback_bytes as f64 / all)
    }
}
