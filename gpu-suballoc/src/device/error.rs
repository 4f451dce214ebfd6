#![forbid(unsafe_code)]

use core::fmt;

/// A `VkResult` of a memory command that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceError {
    /// `VK_ERROR_OUT_OF_HOST_MEMORY`: the driver found no host memory.
    OutOfHostMemory,
    /// `VK_ERROR_OUT_OF_DEVICE_MEMORY`: the heap is full.
    OutOfDeviceMemory,
    /// `VK_ERROR_TOO_MANY_OBJECTS`: `maxMemoryAllocationCount` is reached.
    TooManyObjects,
    /// `VK_ERROR_MEMORY_MAP_FAILED`: no address range was left.
    MapFailed,
    /// `VK_ERROR_DEVICE_LOST`: nothing more can be done with the device.
    DeviceLost,
    /// `VK_ERROR_INVALID_EXTERNAL_HANDLE`: the imported handle is not of the named type.
    InvalidExternalHandle,
    /// `VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS`: the requested address is in use.
    InvalidOpaqueCaptureAddress,
    /// Any other `VkResult`.
    Other(i32),
}

impl DeviceError {
    /// From a `VkResult` other than a success.
    #[must_use]
    pub const fn from_raw(result: i32) -> Self {
        match result {
            -1 => Self::OutOfHostMemory,
            -2 => Self::OutOfDeviceMemory,
            -4 => Self::DeviceLost,
            -5 => Self::MapFailed,
            -10 => Self::TooManyObjects,
            -1_000_072_003 => Self::InvalidExternalHandle,
            -1_000_257_000 => Self::InvalidOpaqueCaptureAddress,
            other => Self::Other(other),
        }
    }

    /// The `VkResult`.
    #[must_use]
    pub const fn as_raw(self) -> i32 {
        match self {
            Self::OutOfHostMemory => -1,
            Self::OutOfDeviceMemory => -2,
            Self::DeviceLost => -4,
            Self::MapFailed => -5,
            Self::TooManyObjects => -10,
            Self::InvalidExternalHandle => -1_000_072_003,
            Self::InvalidOpaqueCaptureAddress => -1_000_257_000,
            Self::Other(other) => other,
        }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfHostMemory => {
                f.write_str("the driver found no host memory: free some, or raise the host allocator's limit")
            }
            Self::OutOfDeviceMemory => {
                f.write_str("the device's heap is full: free memory, trim, or accept another memory type")
            }
            Self::TooManyObjects => {
                f.write_str("the device allows no more memory objects: free some, or share larger blocks")
            }
            Self::MapFailed => f.write_str("the driver could not map the memory: unmap some, or use smaller blocks"),
            Self::DeviceLost => f.write_str("the device is lost: abandon the allocator and make a new device"),
            Self::InvalidExternalHandle => {
                f.write_str("the external handle is not of the type that was named: pass the right one")
            }
            Self::InvalidOpaqueCaptureAddress => {
                f.write_str("the capture address is not free: replay before anything else is allocated")
            }
            Self::Other(result) => {
                write!(f, "the driver answered VkResult {result}: see the command's list of results")
            }
        }
    }
}

impl core::error::Error for DeviceError {}

#[cfg(test)]
mod tests {
    use super::DeviceError;

    #[test]
    fn a_result_goes_through_unchanged() {
        for raw in [-1, -2, -4, -5, -10, -13, -1_000_072_003, -1_000_257_000, 5, i32::MIN] {
            assert_eq!(DeviceError::from_raw(raw).as_raw(), raw);
        }
        assert_eq!(DeviceError::from_raw(-13), DeviceError::Other(-13));
        assert_eq!(DeviceError::from_raw(-2), DeviceError::OutOfDeviceMemory);
    }
}
