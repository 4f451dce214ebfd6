//! Regions that move so that blocks become empty, with copies on the mock device: its memory has contents, and it says
//! what is wrong.

mod figures;
mod hostile;
mod images;
mod meanwhile;
mod passes;
mod pays;
mod pinned;
mod reasons;
mod refusals;
mod unwinding;
mod values;

use super::*;

/// Sixteen fill a block.
const PIECE: u64 = 64 * KIB;

/// Blocks of 1 MiB.
fn small_blocks() -> AllocatorOptions {
    with_memory(blocks_of(MIB))
}

fn small(body: impl FnOnce(Scene<'_>)) {
    scene(Nvidia, small_blocks(), body);
}

fn mappable() -> RegionOptions<'static> {
    visible().dedicated(Never)
}

impl Scene<'_> {
    /// A buffer of one piece, in which each byte is `byte`.
    fn piece(&self, byte: u8, options: &RegionOptions<'_>) -> Region {
        let info = copied(PIECE);
        let region = self.gpu.create_buffer(&info, options).unwrap();
        let buffer = region.buffer().unwrap();
        assert!(self.mock.fill_buffer(buffer, 0, PIECE, byte));
        region
    }

    /// So many full blocks, of which every `stride`-th piece stays: with its number as its contents.
    fn sparse(&self, blocks: u8, stride: usize) -> Vec<(u8, Region)> {
        self.sparse_with(blocks, stride, &shared())
    }

    fn sparse_with(&self, blocks: u8, stride: usize, options: &RegionOptions<'_>) -> Vec<(u8, Region)> {
        let before = self.total().blocks;
        let all =
            Vec::from_iter((0..16 * u16::from(blocks)).map(|number| (number as u8, self.piece(number as u8, options))));
        assert_eq!(self.total().blocks - before, u64::from(blocks));
        let mut left = Vec::new();
        for (index, (number, region)) in all.into_iter().enumerate() {
            if index % stride == 0 {
                left.push((number, region));
            } else {
                self.free(region);
            }
        }
        left
    }

    /// Contents are the region's number, also after its value was refreshed.
    fn check(&self, regions: &mut [(u8, Region)]) {
        for (number, region) in regions {
            let id = region.id();
            self.gpu.refresh(region).unwrap();
            assert_eq!(region.id(), id, "the name stays");
            assert_eq!(self.read(region, PIECE as usize), vec![*number; PIECE as usize]);
            let bound = self.mock.buffer_bound(region.buffer().unwrap());
            assert_eq!(bound, region.memory().map(|memory| (memory, region.offset())));
        }
    }

    fn check_and_free(&self, mut regions: Vec<(u8, Region)>) {
        self.check(&mut regions);
        self.free_all(regions);
    }

    fn free_all(&self, regions: Vec<(u8, Region)>) {
        regions.into_iter().for_each(|(_, region)| self.free(region));
    }
}

/// Makes the second buffers and copies, as a user's commands would.
fn copy<D: DeviceMemory, A: HostAllocator>(mock: &Mock, pass: &mut DefragmentationPass<'_, '_, D, A>) {
    for index in 0..pass.moves().len() {
        let new = pass.make_buffer(index).unwrap();
        let one = &pass.moves()[index];
        let old = one.old_buffer().unwrap();
        assert_eq!(one.new_buffer(), Some(new));
        assert!(mock.copy_buffer(old, 0, new, 0, one.size()));
        assert!(pass.set_outcome(index, MoveOutcome::Copied).is_ok());
    }
}

/// All passes: how many moves each had.
fn defragment(scene: &Scene<'_>, options: DefragmentationOptions<'_>) -> (Vec<usize>, DefragmentationTotals) {
    let mut run = scene.must_defragment(options);
    let mut passes = Vec::new();
    each_pass(&mut run, |mut pass| {
        passes.push(pass.moves().len());
        copy(scene.mock, &mut pass);
        let moves = Vec::from_iter(pass.moves().iter().map(|one| one.region()));
        let mut reported = Vec::new();
        pass.finish(|one, result| {
            assert_eq!(result, MoveResult::Moved);
            reported.push(one.region());
        });
        assert_eq!(reported, moves, "in the order of the moves");
    });
    let totals = run.totals();
    (passes, totals)
}
