//! Passes that move regions.

use gpu_suballoc::allocator::{DefragmentationOptions, MoveOutcome, MoveResult};
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{
    BufferInfo, BufferUsage, ImageInfo, ImageUsage, PoolOptions, RegionId, RegionOptions,
};
use testkit::{MemoryUse, Stage};

use super::facade::{over, seen};
use super::{GpuOperation, operation};

const COPIED: BufferUsage =
    BufferUsage::from_raw(BufferUsage::TRANSFER_SRC.as_raw() | BufferUsage::TRANSFER_DST.as_raw());

pub(super) fn table<S: Stage>() -> Vec<GpuOperation<S>> {
    vec![
        operation(
            &[
                "GpuAllocator::defragment",
                "DefragmentationOptions::filter",
                "DefragmentationOptions::max_bytes_per_pass",
                "DefragmentationOptions::max_moves_per_pass",
                "DefragmentationOptions::move_bare_regions",
                "DefragmentationOptions::new",
                "DefragmentationOptions::pool",
                "Defragmentation::skipped",
                "Defragmentation::totals",
            ],
            "of a pool, as a plan",
            MemoryUse::Memory,
            |stage| plan(stage),
        ),
        operation(
            &[
                "Defragmentation::next_pass",
                "DefragmentationPass::finish",
                "DefragmentationPass::is_empty",
                "DefragmentationPass::make_buffer",
                "DefragmentationPass::make_image",
                "DefragmentationPass::moves",
                "DefragmentationPass::set_outcome",
                "DefragmentationPass::set_outcomes",
                "GpuAllocator::refresh",
                "RegionMove::from",
                "RegionMove::new_buffer",
                "RegionMove::new_image",
                "RegionMove::old_buffer",
                "RegionMove::old_image",
                "RegionMove::region",
                "RegionMove::size",
                "RegionMove::tag",
                "RegionMove::to",
            ],
            "that moves buffers and an image",
            MemoryUse::MemoryOrLess("a block is given up where memory for its moves is refused"),
            |stage| passes(stage),
        ),
    ]
}

fn shared() -> RegionOptions<'static> {
    RegionOptions::new().dedicated(DedicatedPolicy::Never)
}

fn plan<S: Stage>(stage: &S) {
    over(stage, |_, allocator| {
        let options = PoolOptions {
            block_size: Some(1 << 20),
            ..PoolOptions::new(0)
        };
        let pool = allocator.create_pool(&options).expect("sound");
        let within = shared().pool(pool);
        // No vector: nothing here may touch the global allocator.
        let mut all: [_; 64] = std::array::from_fn(|_| {
            let info = BufferInfo::new(1 << 16, COPIED);
            Some(allocator.create_buffer(&info, &within).expect("room"))
        });
        for (_, region) in all
            .iter_mut()
            .enumerate()
            .filter(|(index, _)| index % 4 != 0)
        {
            allocator.free(region.take().expect("there")).expect("live");
        }
        let may_move = |_: RegionId, tag: u64| tag == 0;
        let run = stage.attempt(
            || seen::<S>(allocator),
            || {
                allocator.defragment(
                    DefragmentationOptions::new()
                        .pool(pool)
                        .filter(&may_move)
                        .max_bytes_per_pass(1 << 20)
                        .max_moves_per_pass(10)
                        .move_bare_regions(),
                )
            },
        );
        assert_eq!(run.totals().planned_blocks, 2);
        assert_eq!(run.skipped(), Default::default());
        drop(run);
        for region in all.into_iter().flatten() {
            allocator.free(region).expect("live");
        }
        allocator.destroy_pool(pool).expect("empty");
    });
}

fn passes<S: Stage>(stage: &S) {
    over(stage, |_, allocator| {
        let options = PoolOptions {
            block_size: Some(1 << 20),
            ..PoolOptions::new(0)
        };
        let pool = allocator.create_pool(&options).expect("sound");
        let within = shared().pool(pool).tag(5);
        let usage = ImageUsage::from_raw(COPIED.as_raw());
        let image = ImageInfo::new_2d(37, 64, 64, usage);
        let mut all: [_; 64] = std::array::from_fn(|index| {
            let info = BufferInfo::new(1 << 16, COPIED);
            Some(if index % 8 == 0 {
                allocator.create_image(&image, &within).expect("room")
            } else {
                allocator.create_buffer(&info, &within).expect("room")
            })
        });
        for (_, region) in all
            .iter_mut()
            .enumerate()
            .filter(|(index, _)| index % 4 != 0)
        {
            allocator.free(region.take().expect("there")).expect("live");
        }
        let options = DefragmentationOptions::new().pool(pool);
        let mut run = allocator.defragment(options).expect("refused nothing");
        // A block whose moves were refused is given up, and the next call goes on.
        let mut refused = false;
        let moves = stage.attempt(
            || (),
            || {
                let mut pass = match run.next_pass() {
                    Ok(pass) => pass,
                    Err(error) => {
                        refused = true;
                        return Err(error);
                    }
                };
                assert!(refused || !pass.is_empty());
                for index in 0..pass.moves().len() {
                    let one = pass.moves()[index];
                    assert!(one.tag() == 5 && one.size() > 0 && one.from() != one.to());
                    if one.old_image().is_some() {
                        pass.make_image(index, &image)
                            .expect("the device refuses nothing");
                    } else {
                        assert!(one.old_buffer().is_some());
                        pass.make_buffer(index).expect("the device refuses nothing");
                    }
                    let one = &pass.moves()[index];
                    assert!(one.new_buffer().is_some() || one.new_image().is_some());
                    assert!(allocator.info(one.region()).is_ok());
                    pass.set_outcome(index, MoveOutcome::Copied).expect("there");
                }
                pass.set_outcomes(MoveOutcome::Copied);
                let mut moves = 0;
                pass.finish(|_, result| moves += u32::from(result == MoveResult::Moved));
                Ok(moves)
            },
        );
        assert!(refused || moves > 0);
        drop(run);
        for mut region in all.into_iter().flatten() {
            allocator.refresh(&mut region).expect("live");
            allocator.free(region).expect("live");
        }
        allocator.destroy_pool(pool).expect("empty");
    });
}
