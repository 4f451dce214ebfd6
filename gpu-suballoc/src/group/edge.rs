//! Edges: how one device uses objects of another, derived from the capabilities of both, then refined.
//!
//! An edge has one direction: `from` uses, `to` owns. `from` waits on and signals semaphores of `to`, and reads and writes memory of `to`,
//! through handles that `to` exports and `from` imports. The opposite direction is another edge.

use super::capabilities::{CapabilityFlags, DeviceCapabilities, HandleTypes};
use core::fmt;

/// One direction between two devices, or a device and itself.
///
/// Costs have no unit: 0 is free, and of two ways the smaller is the better. They predict no time.
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
    /// Reading memory that is coherent for both.
    pub coherent_read: UseMode,
    /// Writing such memory.
    pub coherent_write: UseMode,
    /// Flags of both.
    pub flags: CapabilityFlags,
    /// Handles through which `from` gets semaphores of `to`.
    pub semaphores: HandleTypes,
    /// Handles through which `from` gets memory of `to`.
    pub buffers: HandleTypes,
    /// Their link.
    pub link: LinkClass,
    /// The cost of a wait.
    pub wait_cost: u8,
    /// The cost of a signal.
    pub signal_cost: u8,
    /// The cost of a copy, if it is known.
    pub copy_cost: Option<u8>,
    /// The latency of the first byte, if it is known.
    pub latency: Option<u8>,
    /// The distance of their nearest NUMA nodes, if it is known.
    pub numa_distance: Option<u8>,
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
            coherent_read: UseMode::Native,
            coherent_write: UseMode::Native,
            flags: device
                .flags
                .without(CapabilityFlags::ISOLATED)
                .union(CapabilityFlags::SAME_DRIVER),
            semaphores: HandleTypes::NATIVE,
            buffers: HandleTypes::NATIVE,
            link: LinkClass::SameDevice,
            wait_cost: 0,
            signal_cost: 0,
            copy_cost: Some(0),
            latency: Some(0),
            numa_distance: Some(0),
        }
    }

    /// The edge that follows from the capabilities of two different devices. `None` if one of them is isolated.
    ///
    /// Nothing is guessed: the link is known if both are one piece of hardware, and otherwise [`LinkClass::Unknown`] until it is
    /// [refined](super::GroupDevice::refine).
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
        let memory = if addressable {
            UseMode::Native
        } else {
            reached(buffers)
        };
        let coherent = if both.contains(CapabilityFlags::UNIFIED_MEMORY) {
            UseMode::Native
        } else {
            memory
        };
        let direct = memory.is_direct() || same_driver && both.contains(CapabilityFlags::PEER_COPY);
        Some(Self {
            wait: sync,
            signal: sync,
            read: memory,
            write: memory,
            coherent_read: coherent,
            coherent_write: coherent,
            flags: CapabilityFlags::of_pair(both, same_driver),
            semaphores,
            buffers,
            link: if same_hardware {
                LinkClass::SameDevice
            } else {
                LinkClass::Unknown
            },
            wait_cost: sync_cost(sync, 0),
            signal_cost: sync_cost(sync, 1),
            // Free if the bytes need not move: one piece of hardware, and a handle or a native access.
            copy_cost: (same_hardware && direct).then_some(0),
            latency: same_hardware.then_some(0),
            numa_distance: from
                .numa_node
                .filter(|_| from.numa_node == to.numa_node)
                .map(|_| 0),
        })
    }

    /// Whether copies avoid the host.
    #[must_use]
    pub const fn is_peer_to_peer(&self) -> bool {
        let by_copy = self.flags.contains(CapabilityFlags::PEER_COPY)
            && self.flags.contains(CapabilityFlags::SAME_DRIVER);
        !matches!(self.link, LinkClass::HostStaged)
            && (by_copy || matches!(self.read, UseMode::Native))
    }

    /// A contradiction between fields, if there is one.
    #[must_use]
    pub fn contradiction(&self) -> Option<Contradiction> {
        let named = |mode: UseMode, handles: HandleTypes| {
            mode != UseMode::Import || !handles.without(HandleTypes::NATIVE).is_empty()
        };
        if !named(self.wait, self.semaphores) || !named(self.signal, self.semaphores) {
            Some(Contradiction::SemaphoreImportWithoutHandle)
        } else if ![self.read, self.write]
            .iter()
            .all(|mode| named(*mode, self.buffers))
        {
            Some(Contradiction::BufferImportWithoutHandle)
        } else if self.copy_cost == Some(0) && !self.read.is_direct() && !self.is_peer_to_peer() {
            Some(Contradiction::FreeCopyThroughHost)
        } else if self.link == LinkClass::HostStaged && self.read == UseMode::Native {
            Some(Contradiction::NativeThroughHost)
        } else {
            None
        }
    }
}

/// Two fields of an edge that cannot both be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// Semaphores are imported, and there is no handle for it.
    SemaphoreImportWithoutHandle,
    /// Memory is imported, and there is no handle for it.
    BufferImportWithoutHandle,
    /// A copy costs nothing and goes through the host.
    FreeCopyThroughHost,
    /// Memory is reached as it is, over a link that only the host bridges.
    NativeThroughHost,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SemaphoreImportWithoutHandle => "semaphores are imported through no handle",
            Self::BufferImportWithoutHandle => "memory is imported through no handle",
            Self::FreeCopyThroughHost => "a copy through the host costs nothing",
            Self::NativeThroughHost => "memory behind the host is reached as it is",
        })
    }
}

/// The best mode for these handle types.
const fn reached(handles: HandleTypes) -> UseMode {
    if handles.contains(HandleTypes::NATIVE) {
        UseMode::Native
    } else if handles.is_empty() {
        UseMode::Copy
    } else {
        UseMode::Import
    }
}

/// Waiting and signalling by a thread of the host costs much more than a handle.
const fn sync_cost(mode: UseMode, native: u8) -> u8 {
    match mode {
        UseMode::Native => native,
        UseMode::Import => 3,
        UseMode::Copy | UseMode::None => 10,
    }
}

impl CapabilityFlags {
    /// The flags of an edge between two devices, without those that only a refinement may set.
    const fn of_pair(both: Self, same_driver: bool) -> Self {
        let both = both.without(Self::REFINED).without(Self::SAME_DRIVER);
        if same_driver {
            both.union(Self::SAME_DRIVER)
        } else {
            both.without(Self::PEER_COHERENT)
        }
    }
}

/// How a device uses a semaphore or a buffer of another one. The smaller, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

impl UseMode {
    /// True if the object itself is used, not a copy of it.
    #[must_use]
    pub const fn is_direct(self) -> bool {
        matches!(self, Self::Native | Self::Import)
    }
}

/// The link between two devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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

impl fmt::Display for UseMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Native => "native",
            Self::Import => "import",
            Self::Copy => "copy",
            Self::None => "none",
        })
    }
}

impl fmt::Display for LinkClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::SameDevice => "same device",
            Self::PeerLink => "peer link",
            Self::PcieSameRoot => "PCIe, same root",
            Self::PcieCrossRoot => "PCIe, across roots",
            Self::HostStaged => "host-staged",
            Self::Fabric => "fabric",
            Self::Other => "other",
            Self::Unknown => "unknown",
        })
    }
}
