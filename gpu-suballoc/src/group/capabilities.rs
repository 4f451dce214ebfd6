use crate::flags::flags;

/// Capabilities of one device. Two `VkDevice`s on one GPU are two devices, with equal UUIDs.
///
/// What is not known is `None`, or no bit, and never equal to another device's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCapabilities {
    /// `VkPhysicalDeviceDriverProperties::driverID`. Devices of one driver may share objects without a standard handle.
    pub driver: Option<u32>,
    /// `VkPhysicalDeviceIDProperties::deviceUUID`: equal for all devices of one piece of hardware.
    pub device_uuid: Option<[u8; 16]>,
    /// `VkPhysicalDeviceIDProperties::driverUUID`: equal for driver builds with compatible opaque handles.
    pub driver_uuid: Option<[u8; 16]>,
    /// Flags.
    pub flags: CapabilityFlags,
    /// Handle types of semaphores that it can import.
    pub semaphore_import: HandleTypes,
    /// Handle types of semaphores that it can export.
    pub semaphore_export: HandleTypes,
    /// Handle types of memory that it can import.
    pub buffer_import: HandleTypes,
    /// Handle types of memory that it can export.
    pub buffer_export: HandleTypes,
}

impl DeviceCapabilities {
    pub(super) fn is_same_hardware(&self, other: &Self) -> bool {
        self.device_uuid.is_some() && self.device_uuid == other.device_uuid
    }

    pub(super) fn is_same_driver(&self, other: &Self) -> bool {
        self.driver.is_some() && self.driver == other.driver
    }

    /// Opaque handles need equal and known device and driver UUIDs (`VkExternalMemoryHandleTypeFlagBits`,
    /// `VkExternalSemaphoreHandleTypeFlagBits`).
    pub(super) fn shares_opaque_handles(&self, other: &Self) -> bool {
        self.is_same_hardware(other) && self.driver_uuid.is_some() && self.driver_uuid == other.driver_uuid
    }
}

flags! {
    /// A set of [`DeviceCapabilities::flags`] or of an edge's.
    CapabilityFlags(u16) {
        /// Of an edge: both devices have one driver.
        SAME_DRIVER = 0;
        /// Memory is the host's.
        UNIFIED_MEMORY = 1;
        /// Peers see what it writes, without flushes.
        PEER_COHERENT = 2;
        /// Copies to and from a peer's memory without the host.
        PEER_COPY = 3;
        /// Reached over a network. Only a refinement says so.
        REMOTE_DMA = 4;
        /// One address means the same everywhere. Only a refinement says so; it does not make memory unified.
        SHARED_VIRTUAL_ADDRESS = 5;
        /// Memory can be addressed by peers of the same driver.
        PEER_ADDRESSABLE = 6;
        /// A peer needs a grant before it accesses memory. Only a refinement says so.
        PEER_ACCESS_NEEDS_GRANT = 7;
        /// Isolated from all others by its owner (MIG, SR-IOV): it has no edges.
        ISOLATED = 8;
    }
}

impl CapabilityFlags {
    /// Flags that only a refinement may set for two devices.
    pub(super) const REFINED: Self =
        Self::REMOTE_DMA.union(Self::SHARED_VIRTUAL_ADDRESS).union(Self::PEER_ACCESS_NEEDS_GRANT).union(Self::ISOLATED);
}

flags! {
    /// Handle types for sharing an object between devices.
    HandleTypes(u8) {
        /// The runtime's own handle. Never set for two `VkDevice`s.
        NATIVE = 0;
        /// `OPAQUE_FD`: device and driver UUIDs must match.
        OPAQUE_FD = 1;
        /// `OPAQUE_WIN32`: device and driver UUIDs must match.
        OPAQUE_WIN32 = 2;
        /// `DMA_BUF_EXT`.
        DMA_BUF = 3;
        /// `SYNC_FD`, for semaphores.
        SYNC_FD = 4;
        /// `HOST_ALLOCATION_EXT`, for memory.
        HOST_ALLOCATION = 5;
        /// An `IOSurface` or shared event of Metal's.
        METAL = 6;
        /// `ANDROID_HARDWARE_BUFFER_ANDROID`.
        ANDROID_HARDWARE_BUFFER = 7;
    }
}

impl HandleTypes {
    pub(super) const OPAQUE: Self = Self::OPAQUE_FD.union(Self::OPAQUE_WIN32);
}

#[cfg(test)]
mod tests {
    use std::format;

    use super::*;

    #[test]
    fn sets_are_written_by_name_and_every_bit_has_one() {
        assert_eq!(format!("{:?}", CapabilityFlags::NONE), "none");
        assert_eq!(format!("{:?}", CapabilityFlags::ISOLATED | CapabilityFlags::SAME_DRIVER), "SAME_DRIVER | ISOLATED");
        assert_eq!(format!("{:?}", CapabilityFlags((1 << 9) - 1)).split(" | ").count(), 9);
        assert_eq!(format!("{:?}", HandleTypes(u8::MAX)).split(" | ").count(), 8);
    }
}
