#![forbid(unsafe_code)]

/// `None` for kinds that are created without a `pAllocator`, or not known.
pub(crate) fn object_kind(object_type: i32) -> Option<&'static str> {
    let found = KINDS.iter().find(|(number, _)| *number == object_type);
    found.map(|(_, kind)| *kind)
}

const KINDS: [(i32, &str); 39] = [
    (1, "VkInstance"),
    (3, "VkDevice"),
    (5, "VkSemaphore"),
    (7, "VkFence"),
    (8, "VkDeviceMemory"),
    (9, "VkBuffer"),
    (10, "VkImage"),
    (11, "VkEvent"),
    (12, "VkQueryPool"),
    (13, "VkBufferView"),
    (14, "VkImageView"),
    (15, "VkShaderModule"),
    (16, "VkPipelineCache"),
    (17, "VkPipelineLayout"),
    (18, "VkRenderPass"),
    (19, "VkPipeline"),
    (20, "VkDescriptorSetLayout"),
    (21, "VkSampler"),
    (22, "VkDescriptorPool"),
    (24, "VkFramebuffer"),
    (25, "VkCommandPool"),
    (1_000_156_000, "VkSamplerYcbcrConversion"),
    (1_000_085_000, "VkDescriptorUpdateTemplate"),
    (1_000_295_000, "VkPrivateDataSlot"),
    (1_000_000_000, "VkSurfaceKHR"),
    (1_000_001_000, "VkSwapchainKHR"),
    (1_000_002_001, "VkDisplayModeKHR"),
    (1_000_011_000, "VkDebugReportCallbackEXT"),
    (1_000_023_000, "VkVideoSessionKHR"),
    (1_000_023_001, "VkVideoSessionParametersKHR"),
    (1_000_029_000, "VkCuModuleNVX"),
    (1_000_029_001, "VkCuFunctionNVX"),
    (1_000_128_000, "VkDebugUtilsMessengerEXT"),
    (1_000_150_000, "VkAccelerationStructureKHR"),
    (1_000_160_000, "VkValidationCacheEXT"),
    (1_000_165_000, "VkAccelerationStructureNV"),
    (1_000_268_000, "VkDeferredOperationKHR"),
    (1_000_396_000, "VkMicromapEXT"),
    (1_000_482_000, "VkShaderEXT"),
];

#[cfg(test)]
mod tests {
    use vk_callbacks::CommandRow;

    #[test]
    fn every_kind_is_one_that_some_command_creates() {
        for (_, kind) in super::KINDS {
            assert!(CommandRow::all().iter().any(|row| row.object == kind), "{kind}");
        }
        assert_eq!(super::object_kind(9), Some("VkBuffer"));
        assert_eq!(super::object_kind(23), None, "descriptor sets have no pAllocator");
    }
}
