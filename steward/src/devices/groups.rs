//! `vkEnumeratePhysicalDeviceGroups`, and the peer memory features within a group.

use ash::vk;

use super::report::{GroupRow, PeerMemoryRow};
use super::survey::names;
use super::surveyed_device::SurveyedDevice;

/// All groups, in the loader's order.
pub(super) fn rows(
    instance: &ash::Instance,
    devices: &[SurveyedDevice<'_>],
) -> Result<Vec<GroupRow>, vk::Result> {
    // SAFETY: the instance is live, and of 1.1 at least.
    let count = unsafe { instance.enumerate_physical_device_groups_len() }?;
    let mut groups = vec![vk::PhysicalDeviceGroupProperties::default(); count];
    // SAFETY: as above.
    unsafe { instance.enumerate_physical_device_groups(&mut groups) }?;
    let number = |physical: &vk::PhysicalDevice| {
        devices
            .iter()
            .find(|device| device.physical == *physical)
            .map(|device| device.index)
    };
    Ok(groups
        .iter()
        .map(|group| {
            let members = group.physical_devices_as_slice();
            GroupRow {
                devices: members.iter().filter_map(number).collect(),
                subset_allocation: group.subset_allocation != vk::FALSE,
                peer_memory: if members.len() < 2 {
                    Some(Vec::new())
                } else {
                    peers(instance, members, &number)
                },
            }
        })
        .collect())
}

/// Creates a device from all members, queries it and destroys it. `None` if it cannot be created.
fn peers(
    instance: &ash::Instance,
    members: &[vk::PhysicalDevice],
    number: &dyn Fn(&vk::PhysicalDevice) -> Option<usize>,
) -> Option<Vec<PeerMemoryRow>> {
    let queues = [vk::DeviceQueueCreateInfo::default()
        .queue_family_index(0)
        .queue_priorities(&[1.0])];
    let mut group = vk::DeviceGroupDeviceCreateInfo::default().physical_devices(members);
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .push_next(&mut group);
    // SAFETY: all members are of one group of the instance; every device has a queue family 0.
    let device = unsafe { instance.create_device(*members.first()?, &info, None) }.ok()?;
    // SAFETY: the device is of the instance.
    let heaps = unsafe { instance.get_physical_device_memory_properties(*members.first()?) }
        .memory_heap_count;
    let mut rows = Vec::new();
    for heap in 0..heaps {
        for (local, one) in members.iter().enumerate() {
            for (remote, other) in members
                .iter()
                .enumerate()
                .filter(|(remote, _)| *remote != local)
            {
                // SAFETY: two different devices of the group, a heap of theirs.
                let features = unsafe {
                    device.get_device_group_peer_memory_features(heap, local as u32, remote as u32)
                };
                let (Some(local), Some(remote)) = (number(one), number(other)) else {
                    continue;
                };
                rows.push(PeerMemoryRow {
                    heap,
                    local,
                    remote,
                    features: feature_names(features),
                });
            }
        }
    }
    // SAFETY: created above without callbacks; it has no objects.
    unsafe { device.destroy_device(None) };
    Some(rows)
}

fn feature_names(features: vk::PeerMemoryFeatureFlags) -> Vec<String> {
    use vk::PeerMemoryFeatureFlags as Peer;
    let all = [
        (Peer::COPY_SRC, "COPY_SRC"),
        (Peer::COPY_DST, "COPY_DST"),
        (Peer::GENERIC_SRC, "GENERIC_SRC"),
        (Peer::GENERIC_DST, "GENERIC_DST"),
    ];
    names(&all, |flag| features.contains(flag))
}
