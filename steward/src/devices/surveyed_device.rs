//! A physical device as a member of the group.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};

use ash::vk;
use gpu_suballoc::group::{DeviceCapabilities, Edge, GroupDevice, LinkClass, MembershipCell};

use super::nvml::Nvml;
use super::pci;

/// The sources of links, shared by all devices.
pub(super) struct Sources {
    pub(super) sys: PathBuf,
    pub(super) nvml: Option<Nvml>,
    /// The source of the link from one device to another.
    pub(super) link_sources: RefCell<BTreeMap<(usize, usize), &'static str>>,
}

/// A physical device, as a `VkDevice` with all its extensions for external memory and semaphores would be.
pub(super) struct SurveyedDevice<'s> {
    pub(super) index: usize,
    pub(super) physical: vk::PhysicalDevice,
    pub(super) capabilities: DeviceCapabilities,
    pub(super) path: Option<PathBuf>,
    pub(super) membership: MembershipCell,
    pub(super) sources: &'s Sources,
}

impl SurveyedDevice<'_> {
    fn set_link_source(&self, other: &Self, source: &'static str) {
        self.sources
            .link_sources
            .borrow_mut()
            .insert((self.index, other.index), source);
    }

    /// A link that Vulkan cannot express, from the vendor's library or the PCI path, with its source.
    fn link(&self, other: &Self) -> Option<(LinkClass, &'static str)> {
        let (one, two) = (self.capabilities.pci?, other.capabilities.pci?);
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

impl GroupDevice for SurveyedDevice<'_> {
    type Error = Infallible;

    fn membership_cell(&self) -> &MembershipCell {
        &self.membership
    }

    fn capabilities(&self) -> Result<DeviceCapabilities, Infallible> {
        Ok(self.capabilities)
    }

    fn refine(&self, other: &Self, edge: &mut Edge) -> Result<(), Infallible> {
        if edge.link != LinkClass::Unknown {
            self.set_link_source(other, "Vulkan");
        } else if let Some((link, source)) = self.link(other) {
            edge.link = link;
            self.set_link_source(other, source);
        }
        if let (None, Some(from), Some(to)) = (
            edge.numa_distance,
            self.capabilities.numa_node,
            other.capabilities.numa_node,
        ) {
            edge.numa_distance = pci::numa_distance(Path::new(&self.sources.sys), from, to);
        }
        Ok(())
    }
}
