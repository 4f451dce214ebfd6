//! Failures that are planted, and the log of what was asked.

#![forbid(unsafe_code)]

use super::violation::MockCall;
use crate::device::DeviceError;

/// A failure to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MockFault {
    call: Option<MockCall>,
    skip: u64,
    times: u64,
    error: Option<DeviceError>,
}

impl MockFault {
    /// The `n`-th call from now that can fail does; 1 is the next one.
    #[must_use]
    pub const fn nth(n: u64) -> Self {
        Self {
            call: None,
            skip: n.saturating_sub(1),
            times: 1,
            error: None,
        }
    }

    /// Every call from now on that can fail does.
    #[must_use]
    pub const fn always() -> Self {
        Self {
            call: None,
            skip: 0,
            times: u64::MAX,
            error: None,
        }
    }

    /// Only calls of this entry point count and fail.
    #[must_use]
    pub const fn of(self, call: MockCall) -> Self {
        Self {
            call: Some(call),
            ..self
        }
    }

    /// So many calls in a row fail.
    #[must_use]
    pub const fn times(self, times: u64) -> Self {
        Self { times, ..self }
    }

    /// With this answer. Without: `MapFailed` of `map`, `OutOfDeviceMemory` of all others.
    #[must_use]
    pub const fn with(self, error: DeviceError) -> Self {
        Self {
            error: Some(error),
            ..self
        }
    }

    fn meets(&mut self, call: MockCall) -> Option<DeviceError> {
        if self.call.is_some_and(|only| only != call) || self.times == 0 {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.times = if self.times == u64::MAX {
            u64::MAX
        } else {
            self.times - 1
        };
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
    pub(super) const NONE: Self = Self {
        planted: [None; FAULTS],
    };

    /// False when there are four already.
    pub(super) fn plant(&mut self, fault: MockFault) -> bool {
        let place = self
            .planted
            .iter_mut()
            .find(|place| place.is_none_or(|fault| fault.times == 0));
        place.map(|place| *place = Some(fault)).is_some()
    }

    pub(super) fn meet(&mut self, call: MockCall) -> Option<DeviceError> {
        // Each counts every call, also when another one fails it.
        self.planted
            .iter_mut()
            .flatten()
            .fold(None, |first, fault| first.or(fault.meets(call)))
    }
}

/// A call that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedCall {
    /// The entry point.
    pub call: MockCall,
    /// Vulkan's number of the object, 0 for one that was to be made.
    pub object: u64,
    /// Bytes, where the call has a size or ranges.
    pub size: u64,
    /// Offset, or the memory type index of an `allocate`.
    pub offset: u64,
}

const LOG_LEN: usize = 64;

/// How often each entry point was called, and the last calls.
pub(super) struct CallLog {
    counts: [u64; MockCall::ALL.len()],
    last: [Option<LoggedCall>; LOG_LEN],
    next: usize,
    can_fail: u64,
}

impl CallLog {
    pub(super) const EMPTY: Self = Self {
        counts: [0; MockCall::ALL.len()],
        last: [None; LOG_LEN],
        next: 0,
        can_fail: 0,
    };

    pub(super) fn note(&mut self, logged: LoggedCall) {
        if let Some(count) = self.counts.get_mut(logged.call as usize) {
            *count += 1;
        }
        self.can_fail += u64::from(logged.call.can_fail());
        if let Some(place) = self.last.get_mut(self.next) {
            *place = Some(logged);
        }
        self.next = (self.next + 1) % LOG_LEN;
    }

    pub(super) fn count(&self, call: MockCall) -> u64 {
        self.counts.get(call as usize).copied().unwrap_or(0)
    }

    pub(super) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(super) const fn can_fail(&self) -> u64 {
        self.can_fail
    }

    /// The call that was `back` calls ago, 0 the last one.
    pub(super) fn ago(&self, back: usize) -> Option<LoggedCall> {
        let at = self
            .next
            .checked_add(LOG_LEN)?
            .checked_sub(back.checked_add(1)?)?;
        if back >= LOG_LEN {
            None
        } else {
            self.last.get(at % LOG_LEN).copied().flatten()
        }
    }
}
