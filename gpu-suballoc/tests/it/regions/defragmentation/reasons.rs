//! What keeps a block as it is, reason by reason.

use super::*;
use gpu_suballoc::{
    BufferUsage, ImageInfo, ImageUsage, Lifetime, ResourceRequirements, SkippedRegions,
};

/// Two blocks; what `put` adds lies in the one with less in it, so that this one would be emptied.
fn pinned(
    profile: MockProfile,
    put: impl Fn(&Scene<'_>) -> Vec<Region>,
    options: DefragmentationOptions<'_>,
) -> SkippedRegions {
    let mut skipped = SkippedRegions::default();
    scene(profile, small_blocks(), |scene| {
        let first: Vec<_> = (0..12).map(|_| (1, scene.piece(1, &shared()))).collect();
        let added = put(&scene);
        let second: Vec<_> = (0..19).map(|n| (n, scene.piece(n, &shared()))).collect();
        assert_eq!(scene.gpu.stats().total.blocks, 2);
        let mut left = Vec::new();
        for (number, region) in first.into_iter().chain(second) {
            if number % 4 == 0 {
                left.push((number, region));
            } else {
                scene.free(region);
            }
        }
        let run = scene.gpu.defragment(options).unwrap();
        skipped = run.skipped();
        drop(run);
        scene.check(&mut left);
        scene.free_all(left);
        for region in added {
            scene.free(region);
        }
    });
    skipped
}

fn one(profile: MockProfile, put: impl Fn(&Scene<'_>) -> Vec<Region>) -> SkippedRegions {
    pinned(profile, put, DefragmentationOptions::new())
}

#[test]
fn df5_each_reason_keeps_its_block_and_is_counted() {
    let none = SkippedRegions::default();
    let nvidia = MockProfile::Nvidia;
    assert_eq!(one(nvidia, |_| Vec::new()), none, "nothing is in the way");

    let buffer = |usage| {
        move |scene: &Scene<'_>| {
            let info = BufferInfo::new(PIECE, usage);
            vec![scene.gpu.create_buffer(&info, &shared()).unwrap()]
        }
    };
    let skipped = one(nvidia, buffer(BufferUsage::TRANSFER_SRC));
    assert_eq!(
        skipped,
        SkippedRegions {
            no_transfer: 1,
            ..none
        }
    );
    let address =
        BufferUsage::from_raw(COPIED.as_raw() | BufferUsage::SHADER_DEVICE_ADDRESS.as_raw());
    let skipped = one(nvidia, buffer(address));
    assert_eq!(
        skipped,
        SkippedRegions {
            device_address: 1,
            ..none
        }
    );

    let bare = |scene: &Scene<'_>| {
        let needs = ResourceRequirements::new(PIECE, 256);
        vec![scene.gpu.allocate(&needs, &shared()).unwrap()]
    };
    assert_eq!(one(nvidia, bare), SkippedRegions { bare: 1, ..none });
    let options = DefragmentationOptions::new().move_bare_regions();
    assert_eq!(pinned(nvidia, bare, options), none);

    let slab = |scene: &Scene<'_>| {
        let needs = ResourceRequirements::new(256, 256);
        let options = shared().lifetime(Lifetime::Persistent);
        vec![scene.gpu.allocate(&needs, &options).unwrap()]
    };
    assert_eq!(one(nvidia, slab), SkippedRegions { pages: 1, ..none });

    let tagged = |scene: &Scene<'_>| vec![scene.piece(1, &shared().tag(77))];
    let may_move = |_, tag| tag != 77;
    let options = DefragmentationOptions::new().filter(&may_move);
    assert_eq!(
        pinned(nvidia, tagged, options),
        SkippedRegions { filter: 1, ..none }
    );
    let may_move = |_, _| true;
    let options = DefragmentationOptions::new().filter(&may_move);
    assert_eq!(pinned(nvidia, tagged, options), none);
}

#[test]
fn df5_a_mapped_region_keeps_its_block() {
    scene(MockProfile::IntelUma, small_blocks(), |scene| {
        let mut left = scene.sparse_with(2, 4, &mappable());
        let mapping = scene.gpu.map(&left[0].1).unwrap();
        let run = scene.gpu.defragment(DefragmentationOptions::new()).unwrap();
        assert_eq!((run.skipped().mapped, run.totals().planned_blocks), (1, 1));
        drop(run);
        let (_, totals) = defragment(&scene, DefragmentationOptions::new());
        assert_eq!(totals.moves, 4, "the other block's");
        drop(mapping);
        scene.check(&mut left);
        scene.free_all(left);
    });
}

#[test]
fn df5_images_move_with_an_image_of_the_same_info() {
    scene(MockProfile::AmdSmallBar, small_blocks(), |scene| {
        let usage = ImageUsage::from_raw(
            ImageUsage::TRANSFER_SRC.as_raw() | ImageUsage::TRANSFER_DST.as_raw(),
        );
        let info = ImageInfo::new_2d(37, 128, 128, usage);
        let images: Vec<_> = (0..40)
            .map(|_| scene.gpu.create_image(&info, &shared()).unwrap())
            .collect();
        let blocks = scene.gpu.stats().total.blocks;
        assert!(blocks > 2, "{blocks}");
        let (mut left, mut freed) = (Vec::new(), Vec::new());
        for (index, image) in images.into_iter().enumerate() {
            if index % 5 == 0 {
                &mut left
            } else {
                &mut freed
            }
            .push(image);
        }
        freed.into_iter().for_each(|image| scene.free(image));
        let mut run = scene.gpu.defragment(DefragmentationOptions::new()).unwrap();
        let mut pass = run.next_pass().unwrap();
        assert!(!pass.is_empty());
        assert!(pass.make_buffer(0).is_err(), "it is an image");
        let other = ImageInfo::new_2d(37, 256, 256, usage);
        assert!(
            pass.make_image(0, &other).is_err(),
            "too large for the place"
        );
        for index in 0..pass.moves().len() {
            let image = pass.make_image(index, &info).unwrap();
            assert!(pass.make_image(index, &info).is_err(), "made already");
            assert_eq!(pass.moves()[index].new_image(), Some(image));
            assert!(pass.moves()[index].old_image().is_some());
        }
        pass.set_outcomes(MoveOutcome::Copied);
        pass.finish(|_, result| assert_eq!(result, MoveResult::Moved));
        drop(run);
        assert!(scene.gpu.stats().total.blocks < blocks);
        assert_eq!(scene.mock.live_counts().images, left.len() as u64);
        for mut image in left {
            scene.gpu.refresh(&mut image).unwrap();
            let bound = scene.mock.image_bound(image.image().unwrap());
            assert_eq!(bound, image.memory().map(|memory| (memory, image.offset())));
            scene.free(image);
        }
    });
}
