//! Virtual blocks.

use super::*;

pub const CALLS: &str = "VirtualBlock::allocate VirtualBlock::allocate_at VirtualBlock::allocate_with VirtualBlock::clear \
    VirtualBlock::for_each VirtualBlock::free VirtualBlock::free_noted VirtualBlock::info \
    VirtualBlock::is_empty VirtualBlock::largest_free VirtualBlock::memory_bytes VirtualBlock::new \
    VirtualBlock::reserve VirtualBlock::set_user_data VirtualBlock::statistics VirtualBlock::with_algorithm";

pub fn ranges<S: Stage>(stage: &S, _: usize) {
    const SIZE: u64 = 1 << 20;
    let plain = VirtualAllocationOptions::new(1000, 512);
    let upper = VirtualAllocationOptions { upper_address: true, ..plain };
    let with =
        |algorithm| VirtualBlock::with_algorithm(stage.host(), SIZE, 256, algorithm).expect("it takes nothing yet");
    // The first range of each way.
    for (way, algorithm, offset) in [
        (0, BlockAlgorithm::General, 0),
        (1, BlockAlgorithm::General, SIZE - 1024),
        (2, BlockAlgorithm::General, 4096),
        (1, BlockAlgorithm::DoubleStack, SIZE - 1024),
    ] {
        let block = RefCell::new(with(algorithm));
        let take = || {
            let mut block = block.borrow_mut();
            match way {
                0 => block.allocate(1000, 512),
                1 => block.allocate_with(&upper),
                _ => block.allocate_at(4096, &plain),
            }
        };
        let range = stage.attempt(|| block.borrow().statistics(), take);
        assert_eq!((range.offset, range.size), (offset, 1024));
    }
    let mut block = VirtualBlock::new(stage.host(), SIZE, 256).expect("it takes nothing yet");
    stage.attempt(|| (), || block.reserve(400));
    stage.attempt_without_memory(|| {
        let ranges = [(); 400].map(|()| block.allocate(256, 1).expect("reserved").allocation);
        block.set_user_data(ranges[0], 7).unwrap();
        assert_eq!(block.info(ranges[0]).map(|info| (info.offset, info.user_data)), Ok((0, 7)));
        block.free(ranges[0]).unwrap();
        assert_eq!(block.free(ranges[0]), Err(VirtualBlockError::Stale));
        block.free_noted(ranges[299], 1, u32::max).unwrap();
        ranges[1..299].iter().for_each(|range| block.free(*range).unwrap());
        assert!(block.largest_free() == SIZE - 400 * 256 && block.memory_bytes() >= 4096);
        let mut pieces = 0;
        block.for_each(|_| pieces += 1);
        assert_eq!(pieces, 102);
        block.clear();
        assert!(block.is_empty());
    });
}
