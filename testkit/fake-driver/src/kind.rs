//! The objects of the fake driver: their kinds, commands and memory.

#![forbid(unsafe_code)]

use alloc_core::Scope;

/// A kind of object of the fake driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FakeKind {
    /// `VkInstance`
    Instance,
    /// `VkDevice`
    Device,
    /// `VkDeviceMemory`
    Memory,
    /// `VkBuffer`
    Buffer,
    /// `VkImage`; never has callbacks of its own.
    Image,
    /// `VkFence`
    Fence,
    /// `VkDescriptorSetLayout`
    SetLayout,
    /// `VkPipelineLayout`
    PipelineLayout,
    /// `VkDescriptorUpdateTemplate`
    Template,
    /// `VkDescriptorPool`
    DescriptorPool,
    /// `VkCommandPool`
    CommandPool,
    /// `VkPipelineCache`
    PipelineCache,
    /// `VkPipeline`
    Pipeline,
    /// `VkDeferredOperationKHR`
    Deferred,
    /// `VkDescriptorSet`, from a pool.
    Set,
    /// `VkCommandBuffer`, from a pool.
    CommandBuffer,
}

/// A block of an object: bytes and alignment.
pub(crate) type Part = (usize, usize);

impl FakeKind {
    /// The kinds with callbacks of their own.
    pub const WITH_CALLBACKS: [Self; 13] = [
        Self::Instance,
        Self::Device,
        Self::Memory,
        Self::Buffer,
        Self::Fence,
        Self::SetLayout,
        Self::PipelineLayout,
        Self::Template,
        Self::DescriptorPool,
        Self::CommandPool,
        Self::PipelineCache,
        Self::Pipeline,
        Self::Deferred,
    ];

    /// The specification's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.words().0
    }

    pub(crate) const fn create(self) -> &'static str {
        self.words().1
    }

    pub(crate) const fn destroy(self) -> &'static str {
        self.words().2
    }

    const fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Instance => ("VkInstance", "vkCreateInstance", "vkDestroyInstance"),
            Self::Device => ("VkDevice", "vkCreateDevice", "vkDestroyDevice"),
            Self::Memory => ("VkDeviceMemory", "vkAllocateMemory", "vkFreeMemory"),
            Self::Buffer => ("VkBuffer", "vkCreateBuffer", "vkDestroyBuffer"),
            Self::Image => ("VkImage", "vkCreateImage", "vkDestroyImage"),
            Self::Fence => ("VkFence", "vkCreateFence", "vkDestroyFence"),
            Self::SetLayout => ("VkDescriptorSetLayout", "vkCreateDescriptorSetLayout", "vkDestroyDescriptorSetLayout"),
            Self::PipelineLayout => ("VkPipelineLayout", "vkCreatePipelineLayout", "vkDestroyPipelineLayout"),
            Self::Template => {
                ("VkDescriptorUpdateTemplate", "vkCreateDescriptorUpdateTemplate", "vkDestroyDescriptorUpdateTemplate")
            }
            Self::DescriptorPool => ("VkDescriptorPool", "vkCreateDescriptorPool", "vkDestroyDescriptorPool"),
            Self::CommandPool => ("VkCommandPool", "vkCreateCommandPool", "vkDestroyCommandPool"),
            Self::PipelineCache => ("VkPipelineCache", "vkCreatePipelineCache", "vkDestroyPipelineCache"),
            Self::Pipeline => ("VkPipeline", "vkCreateComputePipelines", "vkDestroyPipeline"),
            Self::Deferred => {
                ("VkDeferredOperationKHR", "vkCreateDeferredOperationKHR", "vkDestroyDeferredOperationKHR")
            }
            Self::Set => ("VkDescriptorSet", "vkAllocateDescriptorSets", "vkFreeDescriptorSets"),
            Self::CommandBuffer => ("VkCommandBuffer", "vkAllocateCommandBuffers", "vkFreeCommandBuffers"),
        }
    }

    /// The scope of its memory.
    pub(crate) const fn scope(self) -> Scope {
        match self {
            Self::Instance => Scope::Instance,
            Self::Device => Scope::Device,
            Self::PipelineCache => Scope::Cache,
            _ => Scope::Object,
        }
    }

    /// Its blocks besides its state.
    pub(crate) const fn parts(self) -> &'static [Part] {
        match self {
            Self::Instance => &[(1000, 8), (64, 16)],
            Self::Device => &[(4096, 64), (300, 8), (24, 4)],
            Self::SetLayout | Self::PipelineLayout | Self::Template => &[(96, 8)],
            Self::PipelineCache | Self::Pipeline => &[(2000, 8), (40, 1)],
            Self::DescriptorPool | Self::CommandPool => &[(512, 32)],
            _ => &[],
        }
    }

    /// Bytes of executable memory that the driver maps for it and notifies.
    pub(crate) const fn executable(self) -> usize {
        match self {
            Self::Pipeline => 4096,
            Self::Device => 65536,
            _ => 0,
        }
    }
}
