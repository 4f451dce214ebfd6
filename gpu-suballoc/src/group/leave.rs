//! How devices leave: all of them, also where one unwinds.

#![forbid(unsafe_code)]

use super::device::GroupDevice;
use super::membership::{GroupId, Membership};

/// Those that joined; dropped, they leave, the last one first.
pub(super) struct JoinedDevices<'d, T: GroupDevice> {
    pub(super) devices: &'d [T],
    pub(super) group: GroupId,
    /// The first so many of them.
    pub(super) count: usize,
}

impl<T: GroupDevice> Drop for JoinedDevices<'_, T> {
    fn drop(&mut self) {
        let Some((device, before)) = self.devices.get(..self.count).and_then(<[T]>::split_last)
        else {
            return;
        };
        // Where this one unwinds the others leave all the same.
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

/// Devices whose seats are taken; dropped, they are in no group.
pub(super) struct ReservedMemberships<'d, T: GroupDevice>(pub(super) &'d [T]);

impl<T: GroupDevice> Drop for ReservedMemberships<'_, T> {
    fn drop(&mut self) {
        for device in self.0 {
            device.membership_cell().clear();
        }
    }
}
