//! One physical device on its way into the group.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use ash::vk;
use gpu_suballoc::group::{DeviceCapabilities, Edge, GroupDevice, LinkClass, MembershipCell};

use super::nvml::Nvml;
use super::pci;

/// These devices refuse nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silent {}

impl fmt::Display for Silent {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for Silent {}

/// What all devices share while they are compared.
pub(super) struct Sources {
    pub(super) sys: PathBuf,
    pub(super) nvml: Option<Nvml>,
    /// Who told of the link from one device to another.
    pub(super) told: RefCell<BTreeMap<(usize, usize), &'static str>>,
}

/// A physical device, as a `VkDevice` with all its extensions for external memory and semaphores would be.
pub(super) struct Shown<'s> {
    pub(super) index: usize,
    pub(super) physical: vk::PhysicalDevice,
    pub(super) says: DeviceCapabilities,
    pub(super) path: Option<PathBuf>,
    pub(super) seat: MembershipCell,
    pub(super) sources: &'s Sources,
}

impl Shown<'_> {
    fn report_row(&self, other: &Self, who: &'static str) {
        self.sources
            .told
            .borrow_mut()
            .insert((self.index, other.index), who);
    }

    /// What the vendor's library and the path on the bus say of a link that Vulkan has no word for.
    fn link(&self, other: &Self) -> Option<(LinkClass, &'static str)> {
        let (one, two) = (self.says.pci?, other.says.pci?);
        if self
            .sources
            .nvml
            .as_ref()
            .and_then(|nvml| nvml.has_link(one, two))
            == Some(true)
        {
            return Some((LinkClass::PeerLink, "NVML"));
        }
        let link = pci::link_between(self.path.as_deref()?, other.path.as_deref()?)?;
        Some((link, "PCI path"))
    }
}

impl GroupDevice for Shown<'_> {
    type Error = Silent;

    fn membership_cell(&self) -> &MembershipCell {
        &self.seat
    }

    fn capabilities(&self) -> Result<DeviceCapabilities, Silent> {
        Ok(self.says)
    }

    fn refine(&self, other: &Self, edge: &mut Edge) -> Result<(), Silent> {
        if edge.link != LinkClass::Unknown {
            self.report_row(other, "Vulkan");
        } else if let Some((link, who)) = self.link(other) {
            edge.link = link;
            self.report_row(other, who);
        }
        if let (None, Some(from), Some(to)) = (
            edge.numa_distance,
            self.says.numa_node,
            other.says.numa_node,
        ) {
            edge.numa_distance = pci::numa_distance(Path::new(&self.sources.sys), from, to);
        }
        Ok(())
    }
}
