const MIB: u64 = 1 << 20;

/// Sizes of shared blocks: 4 to 256 MiB, in whole 4 MiB. An allocation that is larger than half
/// of the largest has a memory object of its own.
#[derive(Clone, Copy, Debug)]
pub struct AllocationSizes {
    pub(crate) device: (u64, u64),
    pub(crate) host: (u64, u64),
}

impl AllocationSizes {
    /// Blocks of fixed size, for memory that the host does not see, and for memory that it sees.
    pub fn new(device_memblock_size: u64, host_memblock_size: u64) -> Self {
        let (device, host) = (whole(device_memblock_size), whole(host_memblock_size));
        Self { device: (device, device), host: (host, host) }
    }

    /// Blocks grow up to this size.
    pub fn with_max_device_memblock_size(mut self, size: u64) -> Self {
        self.device.1 = whole(size).max(self.device.0);
        self
    }

    /// Blocks that the host sees grow up to this size.
    pub fn with_max_host_memblock_size(mut self, size: u64) -> Self {
        self.host.1 = whole(size).max(self.host.0);
        self
    }
}

impl Default for AllocationSizes {
    fn default() -> Self {
        Self::new(256 * MIB, 64 * MIB)
    }
}

fn whole(size: u64) -> u64 {
    let given = size.clamp(4 * MIB, 256 * MIB);
    let size = given.next_multiple_of(4 * MIB);
    if size != given {
        log::warn!("block sizes are whole 4 MiB: {} MiB it is", size / MIB);
    }
    size
}
