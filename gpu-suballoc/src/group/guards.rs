//! Leaving a group: every device leaves, also if one unwinds.

#![forbid(unsafe_code)]

use super::device::GroupDevice;
use super::membership::{GroupId, Membership};

/// Devices that joined. Dropping it lets them leave, the last one first.
pub(super) struct JoinedDevices<'d, T: GroupDevice> {
    pub(super) devices: &'d [T],
    pub(super) group: GroupId,
    /// The first `count` devices have joined.
    pub(super) count: usize,
}

impl<T: GroupDevice> Drop for JoinedDevices<'_, T> {
    fn drop(&mut self) {
        let Some((device, before)) = self.devices.get(..self.count).and_then(<[T]>::split_last)
        else {
            return;
        };
        // The others leave even if this one unwinds.
        let _before = JoinedDevices {
            devices: before,
            group: self.group,
            count: before.len(),
        };
        device.leave(Membership {
            group: self.group,
            index: before.len(),
        });
    }
}

/// Devices with a reserved membership. Dropping it clears their memberships.
pub(super) struct ReservedMemberships<'d, T: GroupDevice>(pub(super) &'d [T]);

impl<T: GroupDevice> Drop for ReservedMemberships<'_, T> {
    fn drop(&mut self) {
        for device in self.0 {
            device.membership_cell().clear();
        }
    }
}
