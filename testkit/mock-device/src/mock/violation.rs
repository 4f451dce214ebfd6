//! What a caller did that Vulkan, or a law of this house, forbids.

#![forbid(unsafe_code)]

use core::fmt;

macro_rules! closed_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$item_doc])* $item,)*
        }

        impl $name {
            /// Each of them, once.
            pub const ALL: &[Self] = &[$(Self::$item,)*];
        }
    };
}

closed_enum! {
    /// An entry point of a [`MockDevice`](super::MockDevice).
    MockCall {
        /// `allocate`.
        Allocate,
        /// `free`.
        Free,
        /// `map`.
        Map,
        /// `unmap`.
        Unmap,
        /// `flush`.
        Flush,
        /// `invalidate`.
        Invalidate,
        /// `create_buffer`.
        CreateBuffer,
        /// `destroy_buffer`.
        DestroyBuffer,
        /// `buffer_requirements`.
        BufferRequirements,
        /// `bind_buffer`.
        BindBuffer,
        /// `create_image`.
        CreateImage,
        /// `destroy_image`.
        DestroyImage,
        /// `image_requirements`.
        ImageRequirements,
        /// `bind_image`.
        BindImage,
        /// `buffer_address`.
        BufferAddress,
        /// `commitment`.
        Commitment,
        /// `budget`.
        Budget,
        /// `properties`.
        Properties,
        /// `copy_buffer`, `fill_buffer` and `read_buffer`: what a queue would do.
        Queue,
    }
}

impl MockCall {
    /// The ones that may answer with an error, hence take part in fault injection.
    #[must_use]
    pub const fn can_fail(self) -> bool {
        matches!(
            self,
            Self::Allocate
                | Self::Map
                | Self::Flush
                | Self::Invalidate
                | Self::CreateBuffer
                | Self::BindBuffer
                | Self::CreateImage
                | Self::BindImage
        )
    }
}

closed_enum! {
    /// One rule that a caller broke.
    Breach {
        /// Law 5 of this house.
        StateLockHeld,
        /// Two threads at once on an object that Vulkan wants externally synchronised.
        ConcurrentUse,
        /// Never given by this device, or of another kind.
        UnknownHandle,
        /// Freed or destroyed before.
        StaleHandle,
        /// VUID-VkMemoryAllocateInfo-allocationSize-07897 and kin.
        SizeZero,
        /// VUID-vkAllocateMemory-pAllocateInfo-01714.
        NoSuchMemoryType,
        /// VUID-vkAllocateMemory-pAllocateInfo-01713.
        OverHeap,
        /// VUID-vkAllocateMemory-maxMemoryAllocationCount-04101.
        OverMaxAllocationCount,
        /// A structure, flag or memory type whose extension or feature is not enabled.
        FeatureNotEnabled,
        /// VUID-VkMemoryPriorityAllocateInfoEXT-priority-02602.
        PriorityOutOfRange,
        /// VUID-VkMemoryDedicatedAllocateInfo-image-02964, -buffer-02965: or the resource is bound.
        DedicatedMismatch,
        /// Memory of its own was required (`requiresDedicatedAllocation`).
        NotDedicated,
        /// Freed while a resource that is not destroyed is bound to it: legal only if that is never used again.
        FreedUnderResource,
        /// VUID-vkGetDeviceMemoryCommitment-memory-00690.
        NotLazilyAllocated,
        /// VUID-vkMapMemory-memory-00682.
        NotHostVisible,
        /// VUID-vkMapMemory-memory-00678.
        AlreadyMapped,
        /// VUID-vkUnmapMemory-memory-00689, VUID-VkMappedMemoryRange-memory-00684.
        NotMapped,
        /// VUID-vkMapMemory-offset-00679, -size-00681.
        MapOutOfRange,
        /// VUID-VkMappedMemoryRange-size-00685.
        RangeOutsideMapping,
        /// VUID-VkMappedMemoryRange-offset-00687, -size-01390.
        RangeMisaligned,
        /// VUID-VkBufferCreateInfo-None-09500 and -flags-00915 and kin; the same for images.
        BadCreateInfo,
        /// VUID-VkBufferCreateInfo-size-06409.
        OverMaxBufferSize,
        /// VUID-vkBindBufferMemory-buffer-07459.
        AlreadyBound,
        /// VUID-vkBindBufferMemory-None-10739.
        BindMisaligned,
        /// VUID-vkBindBufferMemory-memoryOffset-01031, -None-10741.
        BindOutOfRange,
        /// VUID-vkBindBufferMemory-memory-01035.
        BindWrongType,
        /// Two live resources share bytes; Vulkan calls it aliasing, an allocator may not do it unasked.
        Overlap,
        /// `bufferImageGranularity`: a linear and an optimal resource share a page.
        GranularityConflict,
        /// VUID-vkBindBufferMemory-bufferDeviceAddress-03339, VUID-VkBufferDeviceAddressInfo-buffer-02601.
        NoDeviceAddress,
        /// VUID-vkBindBufferMemory-memory-02726.
        ExternalMismatch,
        /// Commands of a queue need bound resources and ranges within them.
        QueueMisuse,
    }
}

/// A rule that was broken, and by which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub breach: Breach,
    /// The call that broke it.
    pub call: MockCall,
    /// Vulkan's number of the first object in question, 0 where there is none.
    pub object: u64,
}

/// As many violations as are kept; the rest are counted.
const MAX_RECORDED: usize = 32;

/// What was broken so far: the first ones in order, and how many in all.
#[derive(Clone, Copy, Debug)]
pub struct Violations {
    kept: [Option<Violation>; MAX_RECORDED],
    count: u64,
}

impl Violations {
    pub(super) const NONE: Self = Self { kept: [None; MAX_RECORDED], count: 0 };

    pub(super) fn note(&mut self, violation: Violation) {
        if let Some(place) = usize::try_from(self.count).ok().and_then(|at| self.kept.get_mut(at)) {
            *place = Some(violation);
        }
        self.count = self.count.saturating_add(1);
    }

    /// None was seen.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The first 32, in order.
    pub fn iter(&self) -> impl Iterator<Item = Violation> {
        self.kept.iter().filter_map(|kept| *kept)
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} violations", self.count)?;
        self.iter().try_for_each(|violation| write!(f, "; {violation:?}"))
    }
}
