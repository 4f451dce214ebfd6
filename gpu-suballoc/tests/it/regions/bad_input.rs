//! What nobody should ask, asked of every call: a typed error, and an allocator that is as it was.

use super::*;

#[test]
fn options_that_are_none_are_refused() {
    nvidia(|s| {
        let refused = |options: &RegionOptions<'_>| s.allocate(&bytes(64), options).unwrap_err();
        for priority in [-0.1, 1.1, f32::NAN, f32::INFINITY] {
            assert_eq!(refused(&RegionOptions { priority: Some(priority), ..any() }), BadPriority.into());
        }
        let pool = s.pool(1);
        let other = over(s.mock, RecordingAllocator::system());
        let theirs = other.create_pool(&PoolOptions::new(1)).unwrap();
        let in_pool = |pool: PoolId| any().pool(pool);
        assert_eq!(refused(&in_pool(theirs)), NoSuchPool.into());
        assert_eq!(s.destroy_pool(theirs), refusal(NoSuchPool));
        s.must_destroy_pool(pool);
        assert_eq!(s.destroy_pool(pool), refusal(NoSuchPool));
        assert_eq!(refused(&in_pool(pool)), NoSuchPool.into());
    });
}

#[test]
fn a_batch_is_taken_whole_or_not_at_all() {
    nvidia(|s| {
        let mut out: Vec<Option<Region>> = (0..100).map(|_| None).collect();
        s.allocate_batch(&bytes(300), &any(), &mut out).unwrap();
        assert_eq!(s.allocate_batch(&bytes(300), &any(), &mut out), refusal(Held), "they would be lost");
        // One has a crop: it stays, the others go.
        let crop = s.must_crop(out[41].as_ref().unwrap(), 0, 4, 4);
        let refused = s.free_batch(&mut out).unwrap_err();
        assert_eq!((refused.index, refused.error), (41, HasCrops.into()));
        assert_eq!(out.iter().flatten().count(), 1);
        s.free(crop);
        s.free_batch(&mut out).unwrap();
        assert!(out.iter().all(Option::is_none));

        // A mixed one: buffers, wraps, crops, strangers.
        let foreign = s.foreign(4096, 1);
        let root = s.buffer(64);
        let crop = s.must_crop(&root, 0, 4, 4);
        let wrapped = s.must_wrap(&WrapInfo::new(foreign.buffer, 64));
        let bare = s.take(64, &any());
        let mut mixed = [Some(crop), None, Some(root), Some(wrapped), Some(bare)];
        s.free_batch(&mut mixed).unwrap();
        assert_eq!(mixed, [const { None }; 5]);
    });
}

#[test]
fn closing_with_something_left_gives_the_allocator_back() {
    nvidia(|s| {
        let host = RecordingAllocator::system();
        let gpu = over(s.mock, host.clone());
        let region = gpu.allocate(&bytes(100), &any()).unwrap();
        let foreign = s.foreign(4096, 1);
        let wrapped = gpu.wrap(&WrapInfo::new(foreign.buffer, 64)).unwrap();
        let crop = gpu.crop(&wrapped, 0, 4, 4).unwrap();
        let Rejected { value: gpu, error: outstanding } = gpu.close().err().unwrap();
        assert_eq!((outstanding.regions, outstanding.wrapped, outstanding.crops), (1, 1, 1));
        gpu.free(crop).unwrap();
        gpu.free(wrapped).unwrap();
        let refused = gpu.close().err().unwrap();
        assert_eq!(refused.to_string(), "1 region of the allocator is in use: free it, or call free_all");
        let gpu = refused.value;
        gpu.free(region).unwrap();
        let kept = gpu.create_buffer(&copied(64), &any()).unwrap();
        gpu.release(kept).unwrap();
        gpu.close().expect("what is kept is in nobody's way");
        host.assert_empty("by a closed allocator");
    });
}
