//! The kinds of Vulkan objects in accounts, and their parents.

#![forbid(unsafe_code)]

use std::fmt;

/// Declares the enum, Vulkan's name and the parent of each kind from one list, so that none of the three can be forgotten.
macro_rules! object_kinds {
    ($($(#[$doc:meta])* $kind:ident <- $parent:expr;)*) => {
        /// A kind of Vulkan object, by Vulkan's own name without the prefix.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum ObjectKind { $($(#[$doc])* $kind,)* }

        impl ObjectKind {
            /// Every kind; a parent comes before its children.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$kind,)*];
            /// How many kinds there are.
            pub const COUNT: usize = [$(stringify!($kind),)*].len();

            /// Vulkan's name of the type, such as `VkDescriptorUpdateTemplate`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => concat!("Vk", stringify!($kind)),)* }
            }

            /// The kind of object that this one is created from and ends with; `None` for the instance.
            #[must_use]
            pub const fn parent(self) -> Option<Self> {
                match self { $(Self::$kind => $parent,)* }
            }
        }
    };
}

object_kinds! {
    /// The connection to the loader and its drivers.
    Instance <- None;
    /// It is enumerated, not created, and takes no callbacks.
    PhysicalDevice <- Some(Self::Instance);
    /// Receives the validation layer's findings; created only with validation.
    DebugUtilsMessengerEXT <- Some(Self::Instance);
    /// A logical device.
    Device <- Some(Self::Instance);
    /// Comes with its device: it takes no callbacks.
    Queue <- Some(Self::Device);
    /// Memory of the device.
    DeviceMemory <- Some(Self::Device);
    /// Linear data.
    Buffer <- Some(Self::Device);
    /// Typed access to a buffer.
    BufferView <- Some(Self::Device);
    /// Texels.
    Image <- Some(Self::Device);
    /// Access to an image.
    ImageView <- Some(Self::Device);
    /// How an image is read.
    Sampler <- Some(Self::Device);
    /// How luma and chroma become red, green and blue.
    SamplerYcbcrConversion <- Some(Self::Device);
    /// The shape of a descriptor set.
    DescriptorSetLayout <- Some(Self::Device);
    /// The interface of a pipeline.
    PipelineLayout <- Some(Self::Device);
    /// Where descriptor sets come from.
    DescriptorPool <- Some(Self::Device);
    /// Its memory belongs to the pool: it takes no callbacks.
    DescriptorSet <- Some(Self::DescriptorPool);
    /// A recipe for writing descriptors.
    DescriptorUpdateTemplate <- Some(Self::Device);
    /// Code.
    ShaderModule <- Some(Self::Device);
    /// Results of compilations.
    PipelineCache <- Some(Self::Device);
    /// Compute and graphics pipelines alike.
    Pipeline <- Some(Self::Device);
    /// How attachments are used.
    RenderPass <- Some(Self::Device);
    /// The attachments themselves.
    Framebuffer <- Some(Self::Device);
    /// Where command buffers come from.
    CommandPool <- Some(Self::Device);
    /// Its memory belongs to the pool: it takes no callbacks.
    CommandBuffer <- Some(Self::CommandPool);
    /// Tells the host that work is done.
    Fence <- Some(Self::Device);
    /// Orders work between submits.
    Semaphore <- Some(Self::Device);
    /// Orders work inside a command buffer.
    Event <- Some(Self::Device);
    /// Where queries put their answers.
    QueryPool <- Some(Self::Device);
}

impl ObjectKind {
    /// The kind's position in [`ObjectKind::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether Vulkan's create command for this kind takes a `pAllocator`.
    #[must_use]
    pub const fn takes_callbacks(self) -> bool {
        !matches!(
            self,
            Self::PhysicalDevice | Self::Queue | Self::DescriptorSet | Self::CommandBuffer
        )
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_vulkans_name_and_a_parent_that_comes_before_it() {
        for (index, kind) in ObjectKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), index);
            assert_eq!(kind.name(), format!("Vk{kind:?}"));
            match kind.parent() {
                Some(parent) => assert!(parent < kind, "{kind} before its parent {parent}"),
                None => assert_eq!(kind, ObjectKind::Instance),
            }
        }
        assert_eq!(
            ObjectKind::CommandBuffer.parent(),
            Some(ObjectKind::CommandPool)
        );
        assert_eq!(
            ObjectKind::DescriptorUpdateTemplate.name(),
            "VkDescriptorUpdateTemplate"
        );
    }
}
