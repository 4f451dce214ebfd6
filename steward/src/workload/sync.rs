use ash::vk;

use super::device::Device;
use super::error::WorkloadError;
use super::object::Guard;

pub(super) struct Sync<'d> {
    pub(super) samples: Guard<'d, vk::QueryPool>,
    /// Signalled between the fill and the dispatch that reads it.
    pub(super) filled: Guard<'d, vk::Event>,
    /// Orders the second submit behind the first.
    pub(super) computed: Guard<'d, vk::Semaphore>,
    pub(super) second_done: Guard<'d, vk::Fence>,
    pub(super) first_done: Guard<'d, vk::Fence>,
}

impl<'d> Sync<'d> {
    pub(super) fn new(device: &'d Device<'d>) -> Result<Self, WorkloadError> {
        // SAFETY: no flags, no chain.
        let first_done = unsafe { device.create(&vk::FenceCreateInfo::default()) }?;
        // SAFETY: no flags, no chain.
        let second_done = unsafe { device.create(&vk::FenceCreateInfo::default()) }?;
        // SAFETY: no flags, no chain.
        let computed = unsafe { device.create(&vk::SemaphoreCreateInfo::default()) }?;
        // SAFETY: no flags, no chain.
        let filled = unsafe { device.create(&vk::EventCreateInfo::default()) }?;
        let one = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::OCCLUSION).query_count(1);
        // SAFETY: occlusion queries need no feature, and there is one.
        let samples = unsafe { device.create(&one) }?;
        Ok(Self { samples, filled, computed, second_done, first_done })
    }

    /// Call it after the work is done.
    pub(super) fn was_filled(&self, device: &Device<'_>) -> Result<bool, WorkloadError> {
        // SAFETY: the event lives while `self` does.
        unsafe { device.get_event_status(*self.filled) }.map_err(WorkloadError::of("vkGetEventStatus"))
    }

    /// Without `occlusionQueryPrecise` the result is 0 for none and anything else for some.
    pub(super) fn samples_passed(&self, device: &Device<'_>) -> Result<u32, WorkloadError> {
        let (mut answer, wait) = ([0u32], vk::QueryResultFlags::WAIT);
        // SAFETY: one 32-bit result; the query's submit has ended.
        unsafe { device.get_query_pool_results(*self.samples, 0, &mut answer, wait) }
            .map_err(WorkloadError::of("vkGetQueryPoolResults"))?;
        let [answer] = answer;
        Ok(answer)
    }
}
