//! Images that move.

use super::*;

#[test]
fn df5_images_move_with_an_image_of_the_same_info() {
    scene(AmdSmallBar, small_blocks(), |scene| {
        let usage = ImageUsage::from_raw(ImageUsage::TRANSFER_SRC.as_raw() | ImageUsage::TRANSFER_DST.as_raw());
        let info = ImageInfo::new_2d(37, 128, 128, usage);
        let images = times(40, || scene.create_image(&info, &shared()).unwrap());
        let blocks = scene.total().blocks;
        assert!(blocks > 2, "{blocks}");
        let (mut left, mut freed) = (Vec::new(), Vec::new());
        for (index, image) in images.into_iter().enumerate() {
            if index % 5 == 0 { &mut left } else { &mut freed }.push(image);
        }
        scene.free_each(freed);
        let mut run = scene.must_defragment(all_moves());
        let mut pass = run.next_pass().unwrap();
        assert!(!pass.is_empty());
        assert!(pass.make_buffer(0).is_err(), "it is an image");
        let other = ImageInfo::new_2d(37, 256, 256, usage);
        assert!(pass.make_image(0, &other).is_err(), "too large for the place");
        // Depth of as many bytes at the same alignment, which may lie in other memory types.
        let other = ImageInfo::new_2d(126, 128, 128, usage);
        assert!(pass.make_image(0, &other).is_err(), "another image");
        let other = ImageInfo::new_2d(37, 8, 8, usage);
        assert_eq!(pass.make_image(0, &other), refusal(WrongPlace), "a smaller one");
        for index in 0..pass.moves().len() {
            let image = pass.make_image(index, &info).unwrap();
            assert!(pass.make_image(index, &info).is_err(), "made already");
            assert_eq!(pass.moves()[index].new_image(), Some(image));
            assert!(pass.moves()[index].old_image().is_some());
        }
        all_moved(pass);
        drop(run);
        assert!(scene.total().blocks < blocks);
        assert_eq!(scene.mock.live_counts().images, left.len() as u64);
        for mut image in left {
            scene.refresh(&mut image).unwrap();
            let bound = scene.mock.image_bound(image.image().unwrap());
            assert_eq!(bound, image.memory().map(|memory| (memory, image.offset())));
            scene.free(image);
        }
    });
}
