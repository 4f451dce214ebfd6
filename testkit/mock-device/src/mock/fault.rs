//! Planted failures.

#![forbid(unsafe_code)]

use super::violation::MockCall;
use crate::device::DeviceError;

/// A planned failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MockFault {
    call: Option<MockCall>,
    skip: u64,
    times: u64,
    error: Option<DeviceError>,
}

impl MockFault {
    /// The `n`-th call that can fail fails; 1 is the next one.
    #[must_use]
    pub const fn nth(n: u64) -> Self {
        Self { skip: n.saturating_sub(1), times: 1, ..Self::always() }
    }

    /// Every call that can fail fails.
    #[must_use]
    pub const fn always() -> Self {
        Self { call: None, skip: 0, times: u64::MAX, error: None }
    }

    /// Only calls of this entry point count and fail.
    #[must_use]
    pub const fn of(self, call: MockCall) -> Self {
        Self { call: Some(call), ..self }
    }

    /// `times` calls in a row fail.
    #[must_use]
    pub const fn times(self, times: u64) -> Self {
        Self { times, ..self }
    }

    /// With this error; the default is `MapFailed` for `map`, `OutOfDeviceMemory` for all others.
    #[must_use]
    pub const fn with(self, error: DeviceError) -> Self {
        Self { error: Some(error), ..self }
    }

    fn meets(&mut self, call: MockCall) -> Option<DeviceError> {
        if self.call.is_some_and(|only| only != call) || self.times == 0 {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.times = if self.times == u64::MAX { u64::MAX } else { self.times - 1 };
        Some(self.error.unwrap_or(match call {
            MockCall::Map => DeviceError::MapFailed,
            _ => DeviceError::OutOfDeviceMemory,
        }))
    }
}

const FAULTS: usize = 4;

/// Up to four failures at once.
pub(super) struct MockFaults {
    planted: [Option<MockFault>; FAULTS],
}

impl MockFaults {
    pub(super) const NONE: Self = Self { planted: [None; FAULTS] };

    /// False if there are four already.
    pub(super) fn plant(&mut self, fault: MockFault) -> bool {
        let place = self.planted.iter_mut().find(|place| place.is_none_or(|fault| fault.times == 0));
        place.map(|place| *place = Some(fault)).is_some()
    }

    pub(super) fn meet(&mut self, call: MockCall) -> Option<DeviceError> {
        // Each counts every call, also a call that another one fails.
        self.planted.iter_mut().flatten().fold(None, |first, fault| first.or(fault.meets(call)))
    }
}
