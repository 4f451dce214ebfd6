//! What a caller did that Vulkan, or a law of this house, forbids.

#![forbid(unsafe_code)]

use core::fmt;

macro_rules! closed_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$item_doc])* $item,)*
        }

        impl $name {
            /// Each of them, once.
            pub const ALL: &[Self] = &[$(Self::$item,)*];

            /// In words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$item => $text,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.text())
            }
        }
    };
}

closed_enum! {
    /// An entry point of a [`MockDevice`](super::MockDevice).
    MockCall {
        /// `allocate`.
        Allocate = "allocate",
        /// `free`.
        Free = "free",
        /// `map`.
        Map = "map",
        /// `unmap`.
        Unmap = "unmap",
        /// `flush`.
        Flush = "flush",
        /// `invalidate`.
        Invalidate = "invalidate",
        /// `create_buffer`.
        CreateBuffer = "create_buffer",
        /// `destroy_buffer`.
        DestroyBuffer = "destroy_buffer",
        /// `buffer_requirements`.
        BufferRequirements = "buffer_requirements",
        /// `bind_buffer`.
        BindBuffer = "bind_buffer",
        /// `create_image`.
        CreateImage = "create_image",
        /// `destroy_image`.
        DestroyImage = "destroy_image",
        /// `image_requirements`.
        ImageRequirements = "image_requirements",
        /// `bind_image`.
        BindImage = "bind_image",
        /// `buffer_address`.
        BufferAddress = "buffer_address",
        /// `commitment`.
        Commitment = "commitment",
        /// `budget`.
        Budget = "budget",
        /// `properties`.
        Properties = "properties",
        /// `copy_buffer`, `fill_buffer` and `read_buffer`: what a queue would do.
        Queue = "a command of the queue",
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
        StateLockHeld = "called while a lock that guards state is held",
        /// Two threads at once on an object that Vulkan wants externally synchronised.
        ConcurrentUse = "two threads use an externally synchronised object at once",
        /// Never given by this device, or of another kind.
        UnknownHandle = "a handle that this device never gave",
        /// Freed or destroyed before.
        StaleHandle = "a handle that was freed or destroyed",
        /// VUID-VkMemoryAllocateInfo-allocationSize-07897 and kin.
        SizeZero = "size 0",
        /// VUID-vkAllocateMemory-pAllocateInfo-01714.
        NoSuchMemoryType = "a memory type index that the device does not have",
        /// VUID-vkAllocateMemory-pAllocateInfo-01713.
        OverHeap = "more than the whole heap",
        /// VUID-vkAllocateMemory-maxMemoryAllocationCount-04101.
        OverMaxAllocationCount = "more memory objects than maxMemoryAllocationCount",
        /// A structure, flag or memory type whose extension or feature is not enabled.
        FeatureNotEnabled = "needs a feature that is not enabled",
        /// VUID-VkMemoryPriorityAllocateInfoEXT-priority-02602.
        PriorityOutOfRange = "a priority below 0 or above 1",
        /// VUID-VkMemoryDedicatedAllocateInfo-image-02964, -buffer-02965: or the resource is bound.
        DedicatedMismatch = "a dedicated memory object that does not fit its resource, or is used for another",
        /// Memory of its own was required (`requiresDedicatedAllocation`).
        NotDedicated = "the resource requires a dedicated memory object",
        /// Freed while a resource that is not destroyed is bound to it: legal only if that is never used again.
        FreedUnderResource = "memory freed under a resource that is not destroyed",
        /// VUID-vkGetDeviceMemoryCommitment-memory-00690.
        NotLazilyAllocated = "commitment of memory that is not lazily allocated",
        /// VUID-vkMapMemory-memory-00682.
        NotHostVisible = "map of memory that is not host-visible",
        /// VUID-vkMapMemory-memory-00678.
        AlreadyMapped = "map of memory that is mapped",
        /// VUID-vkUnmapMemory-memory-00689, VUID-VkMappedMemoryRange-memory-00684.
        NotMapped = "memory that is not mapped",
        /// VUID-vkMapMemory-offset-00679, -size-00681.
        MapOutOfRange = "map of nothing, or past the end",
        /// VUID-VkMappedMemoryRange-size-00685.
        RangeOutsideMapping = "a range outside of what is mapped",
        /// VUID-VkMappedMemoryRange-offset-00687, -size-01390.
        RangeMisaligned = "a range that is no multiple of nonCoherentAtomSize",
        /// VUID-VkBufferCreateInfo-None-09500 and -flags-00915 and kin; the same for images.
        BadCreateInfo = "a create info that the device does not accept",
        /// VUID-VkBufferCreateInfo-size-06409.
        OverMaxBufferSize = "more than maxBufferSize",
        /// VUID-vkBindBufferMemory-buffer-07459.
        AlreadyBound = "bind of a resource that is bound",
        /// VUID-vkBindBufferMemory-None-10739.
        BindMisaligned = "bind at an offset that the resource's alignment does not divide",
        /// VUID-vkBindBufferMemory-memoryOffset-01031, -None-10741.
        BindOutOfRange = "bind past the end of the memory",
        /// VUID-vkBindBufferMemory-memory-01035.
        BindWrongType = "bind to a memory type that the resource does not accept",
        /// Two live resources share bytes; Vulkan calls it aliasing, an allocator may not do it unasked.
        Overlap = "two live resources share bytes",
        /// `bufferImageGranularity`: a linear and an optimal resource share a page.
        GranularityConflict = "a linear and an optimal resource share a page of bufferImageGranularity",
        /// VUID-vkBindBufferMemory-bufferDeviceAddress-03339, VUID-VkBufferDeviceAddressInfo-buffer-02601.
        NoDeviceAddress = "a buffer with an address, and memory without, or an address of neither",
        /// VUID-vkBindBufferMemory-memory-02726.
        ExternalMismatch = "memory for export, and a resource that names none of its handle types",
        /// Commands of a queue need bound resources and ranges within them.
        QueueMisuse = "a copy between buffers that are not bound, lack the usage, overlap, or are too short",
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

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} (object {:#x})",
            self.call, self.breach, self.object
        )
    }
}

/// As many violations as are kept; the rest are counted.
const MAX_RECORDED: usize = 32;

/// What was broken so far: the first ones in order, and how many in all.
#[derive(Clone, Copy)]
pub struct Violations {
    kept: [Option<Violation>; MAX_RECORDED],
    count: u64,
}

impl Violations {
    pub(super) const NONE: Self = Self {
        kept: [None; MAX_RECORDED],
        count: 0,
    };

    pub(super) fn note(&mut self, violation: Violation) {
        if let Some(place) = usize::try_from(self.count)
            .ok()
            .and_then(|at| self.kept.get_mut(at))
        {
            *place = Some(violation);
        }
        self.count = self.count.saturating_add(1);
    }

    /// How many, those that were not kept among them.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
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
        self.iter()
            .try_for_each(|violation| write!(f, "; {violation}"))
    }
}

impl fmt::Debug for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
