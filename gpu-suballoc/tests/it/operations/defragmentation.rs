//! Passes that move regions.

use super::*;

use super::allocator::{Over, over};
use super::asks::seen;

const COPIED: BufferUsage =
    BufferUsage::from_raw(BufferUsage::TRANSFER_SRC.as_raw() | BufferUsage::TRANSFER_DST.as_raw());
const IMAGE: ImageInfo = ImageInfo::new_2d(37, 64, 64, ImageUsage::from_raw(COPIED.as_raw()));

/// A pool with four full blocks, of which every fourth region stays: buffers, and some images.
fn sparse<S: Stage>(stage: &S, run: impl FnOnce(&Over<'_, S>, PoolId)) {
    over(stage, |_, gpu| {
        let options = PoolOptions { block_size: Some(1 << 20), ..PoolOptions::new(0) };
        let pool = gpu.create_pool(&options).unwrap();
        let within = RegionOptions::new().dedicated(DedicatedPolicy::Never).pool(pool).tag(5);
        let info = BufferInfo::new(1 << 16, COPIED);
        let mut all: [Option<Region>; 64] = std::array::from_fn(|index| match index % 8 {
            0 => gpu.create_image(&IMAGE, &within).ok(),
            _ => gpu.create_buffer(&info, &within).ok(),
        });
        for (_, region) in all.iter_mut().enumerate().filter(|(index, _)| index % 4 != 0) {
            gpu.free(region.take().unwrap()).unwrap();
        }
        run(gpu, pool);
        for mut region in all.into_iter().flatten() {
            gpu.refresh(&mut region).unwrap();
            gpu.free(region).unwrap();
        }
        gpu.destroy_pool(pool).unwrap();
    });
}

pub const PLAN_CALLS: &str = "GpuAllocator::defragment Defragmentation::skipped Defragmentation::totals";

pub fn plan<S: Stage>(stage: &S, _: usize) {
    sparse(stage, |gpu, pool| {
        let may_move = |_: RegionId, tag: u64| tag == 5;
        let options = DefragmentationOptions::new().pool(pool).filter(&may_move).max_bytes_per_pass(1 << 20);
        let run = stage.attempt(|| seen(gpu), || gpu.defragment(options.max_moves_per_pass(10).move_bare_regions()));
        assert!(run.totals().planned_blocks > 0);
        assert_eq!(run.skipped(), Default::default());
    });
}

pub const MOVE_CALLS: &str = "Defragmentation::next_pass DefragmentationPass::finish DefragmentationPass::is_empty \
    DefragmentationPass::make_buffer DefragmentationPass::make_image DefragmentationPass::moves \
    DefragmentationPass::set_outcome DefragmentationPass::set_outcomes GpuAllocator::refresh";

pub fn moves<S: Stage>(stage: &S, _: usize) {
    sparse(stage, |gpu, pool| {
        let mut run = gpu.defragment(DefragmentationOptions::new().pool(pool)).expect("refused nothing");
        // A block whose moves were refused is given up, and the next call goes on.
        let mut refused = false;
        let moves = stage.attempt(
            || (),
            || {
                let mut pass = run.next_pass().inspect_err(|_| refused = true)?;
                assert!(refused || !pass.is_empty());
                for index in 0..pass.moves().len() {
                    let one = pass.moves()[index];
                    assert!(one.tag() == 5 && one.size() > 0 && one.from() != one.to());
                    assert!(gpu.info(one.region()).is_ok());
                    if one.old_image().is_some() {
                        pass.make_image(index, &IMAGE).expect("the device refuses nothing");
                    } else {
                        pass.make_buffer(index).expect("the device refuses nothing");
                    }
                    pass.set_outcome(index, MoveOutcome::Copied).unwrap();
                }
                pass.set_outcomes(MoveOutcome::Copied);
                let mut moves = 0;
                pass.finish(|_, result| moves += u32::from(result == MoveResult::Moved));
                Ok::<u32, GpuError>(moves)
            },
        );
        assert!(refused || moves > 0);
    });
}
