//! Virtual blocks and transient pages.

use gpu_suballoc::virtual_block::{VirtualAllocationOptions, VirtualBlockError};
use gpu_suballoc::{BlockAlgorithm, VirtualBlock};
use testkit::{MemoryUse, Stage};

use super::{GpuOperation, operation};

const BACK: MemoryUse = MemoryUse::Nothing("what there is goes back, or is looked at");

fn block<S: Stage>(stage: &S) -> VirtualBlock<&S::Host> {
    VirtualBlock::new(stage.host(), 1 << 20, 256).expect("a block takes nothing yet")
}

pub(super) fn table<S: Stage>() -> Vec<GpuOperation<S>> {
    vec![
        operation(
            &[
                "VirtualBlock::new",
                "VirtualBlock::allocate",
                "VirtualBlock::statistics",
                "VirtualBlock::memory_bytes",
            ],
            "the first range",
            MemoryUse::Memory,
            |stage| {
                let mut block = block(stage);
                let block = std::cell::RefCell::new(&mut block);
                let seen = || (block.borrow().statistics(), block.borrow().is_empty());
                let range = stage.attempt(seen, || block.borrow_mut().allocate(1000, 512));
                assert_eq!((range.offset, range.size), (0, 1024));
                assert!(block.borrow().memory_bytes() >= 4096);
            },
        ),
        operation(
            &[
                "VirtualBlock::allocate_with",
                "VirtualAllocationOptions::new",
            ],
            "at the upper end, the first range",
            MemoryUse::Memory,
            |stage| {
                let mut block = block(stage);
                let options = VirtualAllocationOptions {
                    upper_address: true,
                    ..VirtualAllocationOptions::new(256, 1)
                };
                let range = stage.attempt(|| (), || block.allocate_with(&options));
                assert_eq!(range.offset, (1 << 20) - 256);
            },
        ),
        operation(
            &["VirtualBlock::reserve"],
            "for 1000 ranges, which then take nothing",
            MemoryUse::Memory,
            |stage| {
                let mut block = block(stage);
                stage.attempt(|| (), || block.reserve(1000));
                let before = block.memory_bytes();
                for _ in 0..1000 {
                    block.allocate(256, 1).expect("reserved");
                }
                assert_eq!(block.memory_bytes(), before);
            },
        ),
        operation(
            &[
                "VirtualBlock::free",
                "VirtualBlock::clear",
                "VirtualBlock::info",
                "VirtualBlock::set_user_data",
                "VirtualBlock::is_empty",
                "VirtualBlock::largest_free",
                "VirtualBlock::for_each",
            ],
            "with a few hundred ranges live",
            BACK,
            |stage| {
                let mut block = block(stage);
                let ranges =
                    [(); 400].map(|()| block.allocate(256, 1).expect("refused nothing").allocation);
                stage.attempt_plainly(|| {
                    assert!(!block.is_empty());
                    block.set_user_data(ranges[0], 7).expect("live");
                    assert_eq!(
                        block
                            .info(ranges[0])
                            .map(|info| (info.offset, info.user_data)),
                        Ok((0, 7))
                    );
                    block.free(ranges[0]).expect("live");
                    assert_eq!(block.free(ranges[0]), Err(VirtualBlockError::Stale));
                    for range in &ranges[1..300] {
                        block.free(*range).expect("live");
                    }
                    assert_eq!(block.largest_free(), (1 << 20) - 400 * 256);
                    let mut pieces = 0;
                    block.for_each(|_| pieces += 1);
                    assert_eq!(pieces, 102);
                    block.clear();
                    assert!(block.is_empty());
                });
            },
        ),
        operation(
            &["VirtualBlock::allocate_at"],
            "the first range",
            MemoryUse::Memory,
            |stage| {
                let block = VirtualBlock::new(stage.host(), 1 << 20, 256)
                    .expect("a block takes nothing yet");
                let block = std::cell::RefCell::new(block);
                let options = VirtualAllocationOptions::new(1000, 256);
                let range = stage.attempt(
                    || block.borrow().statistics(),
                    || block.borrow_mut().allocate_at(4096, &options),
                );
                assert_eq!(range.offset, 4096);
            },
        ),
        operation(
            &["VirtualBlock::with_algorithm"],
            "the first range of a double stack's upper end",
            MemoryUse::Memory,
            |stage| {
                let algorithm = BlockAlgorithm::DoubleStack;
                let block = VirtualBlock::with_algorithm(stage.host(), 1 << 20, 256, algorithm)
                    .expect("a block takes nothing yet");
                let block = std::cell::RefCell::new(block);
                let options = VirtualAllocationOptions {
                    upper_address: true,
                    ..VirtualAllocationOptions::new(1000, 256)
                };
                let range = stage.attempt(
                    || block.borrow().statistics(),
                    || block.borrow_mut().allocate_with(&options),
                );
                assert_eq!(range.offset, (1 << 20) - 1024);
                assert!(block.borrow_mut().allocate(1000, 256).is_ok());
            },
        ),
    ]
}
