//! Images that move.

use super::*;

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
        scene.free_each(freed);
        let mut run = scene.gpu.defragment(DefragmentationOptions::new()).unwrap();
        let mut pass = run.next_pass().unwrap();
        assert!(!pass.is_empty());
        assert!(pass.make_buffer(0).is_err(), "it is an image");
        let other = ImageInfo::new_2d(37, 256, 256, usage);
        assert!(
            pass.make_image(0, &other).is_err(),
            "too large for the place"
        );
        // Depth of as many bytes at the same alignment, which may lie in other memory types.
        let other = ImageInfo::new_2d(126, 128, 128, usage);
        assert!(pass.make_image(0, &other).is_err(), "another image");
        let other = ImageInfo::new_2d(37, 8, 8, usage);
        assert_eq!(
            pass.make_image(0, &other).unwrap_err(),
            GpuMisuse::WrongPlace.into(),
            "a smaller one"
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
