//! An edge has one direction: `from` uses what `to` owns, through handles that `to` exports and `from` imports.

use super::capabilities::{CapabilityFlags, DeviceCapabilities, HandleTypes};

/// One direction between two devices, or a device and itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Waiting on a semaphore.
    pub wait: UseMode,
    /// Signalling a semaphore.
    pub signal: UseMode,
    /// Reading the device's memory.
    pub read: UseMode,
    /// Writing the device's memory.
    pub write: UseMode,
    /// Flags of both.
    pub flags: CapabilityFlags,
    /// Handles through which `from` gets semaphores of `to`.
    pub semaphores: HandleTypes,
    /// Handles through which `from` gets memory of `to`.
    pub buffers: HandleTypes,
    /// Their link.
    pub link: LinkClass,
}

impl Edge {
    /// The edge of a device to itself: native, with the flags of the device.
    #[must_use]
    pub const fn to_itself(device: &DeviceCapabilities) -> Self {
        Self {
            wait: UseMode::Native,
            signal: UseMode::Native,
            read: UseMode::Native,
            write: UseMode::Native,
            flags: device.flags.without(CapabilityFlags::ISOLATED).union(CapabilityFlags::SAME_DRIVER),
            semaphores: HandleTypes::NATIVE,
            buffers: HandleTypes::NATIVE,
            link: LinkClass::SameDevice,
        }
    }

    /// The edge that follows from the capabilities of two different devices. `None` if one of them is isolated.
    #[must_use]
    pub fn between(from: &DeviceCapabilities, to: &DeviceCapabilities) -> Option<Self> {
        if (from.flags | to.flags).contains(CapabilityFlags::ISOLATED) {
            return None;
        }
        let (same_driver, same_hardware) = (from.is_same_driver(to), from.is_same_hardware(to));
        let fits = |handles: HandleTypes| {
            let mut unknown = HandleTypes::NONE;
            if !from.shares_opaque_handles(to) {
                unknown = unknown.union(HandleTypes::OPAQUE);
            }
            if !same_driver {
                unknown = unknown.union(HandleTypes::NATIVE);
            }
            handles.without(unknown)
        };
        let semaphores = fits(from.semaphore_import & to.semaphore_export);
        let buffers = fits(from.buffer_import & to.buffer_export);
        let both = from.flags & to.flags;
        let sync = reached(semaphores);
        let addressable = same_driver && both.contains(CapabilityFlags::PEER_ADDRESSABLE);
        let memory = if addressable { UseMode::Native } else { reached(buffers) };
        Some(Self {
            wait: sync,
            signal: sync,
            read: memory,
            write: memory,
            flags: CapabilityFlags::of_pair(both, same_driver),
            semaphores,
            buffers,
            link: if same_hardware { LinkClass::SameDevice } else { LinkClass::Unknown },
        })
    }

    /// Whether copies avoid the host.
    #[must_use]
    pub const fn is_peer_to_peer(&self) -> bool {
        let by_copy =
            self.flags.contains(CapabilityFlags::PEER_COPY) && self.flags.contains(CapabilityFlags::SAME_DRIVER);
        !matches!(self.link, LinkClass::HostStaged) && (by_copy || matches!(self.read, UseMode::Native))
    }

    /// Whether its fields can all be true: what is imported has a handle, and nothing is native over a link that only
    /// the host bridges.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        let is_named = |mode: UseMode, handles: HandleTypes| {
            mode != UseMode::Import || !handles.without(HandleTypes::NATIVE).is_empty()
        };
        is_named(self.wait, self.semaphores)
            && is_named(self.signal, self.semaphores)
            && is_named(self.read, self.buffers)
            && is_named(self.write, self.buffers)
            && (self.link != LinkClass::HostStaged || self.read != UseMode::Native)
    }
}

const fn reached(handles: HandleTypes) -> UseMode {
    if handles.contains(HandleTypes::NATIVE) {
        UseMode::Native
    } else if handles.is_empty() {
        UseMode::Copy
    } else {
        UseMode::Import
    }
}

impl CapabilityFlags {
    /// Flags that only a refinement may set are left out.
    const fn of_pair(both: Self, same_driver: bool) -> Self {
        let both = both.without(Self::REFINED).without(Self::SAME_DRIVER);
        if same_driver { both.union(Self::SAME_DRIVER) } else { both.without(Self::PEER_COHERENT) }
    }
}

/// How a device uses a semaphore or a buffer of another one. The smaller, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum UseMode {
    /// As its own: the same handle works.
    Native,
    /// After the owner exported it and the user imported it.
    Import,
    /// Only through the host: a copy of the bytes, a wait by a thread.
    Copy,
    /// Not at all.
    None,
}

/// The link between two devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LinkClass {
    /// One piece of hardware.
    SameDevice,
    /// A link of their own: NVLink, xGMI.
    PeerLink,
    /// PCI Express, below one root port or switch.
    PcieSameRoot,
    /// PCI Express, through the host bridges of one machine.
    PcieCrossRoot,
    /// Only through host memory.
    HostStaged,
    /// A network between machines.
    Fabric,
    /// Any other link.
    Other,
    /// Not known: Vulkan does not report links, and none is guessed.
    #[default]
    Unknown,
}
