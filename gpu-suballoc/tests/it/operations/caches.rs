//! The shader cache, and its file.

use super::*;

/// A root over the stage's memory, which ends after what is made in it.
pub fn with_root<S: Stage>(stage: &S, run: impl FnOnce(&Context)) {
    // SAFETY: the stage's memory outlives the root.
    let root = unsafe { Context::root(stage.host(), ContextOptions::new("root")) }.expect("refused nothing");
    run(&root);
    root.close_root().map_err(|refused| refused.error).unwrap();
}

/// A file in an array.
struct File {
    bytes: [u8; 512],
    length: usize,
}

impl StoreSink for File {
    type Error = ();

    fn write(&mut self, bytes: &[u8]) -> Result<(), ()> {
        let place = self.bytes.get_mut(self.length..self.length + bytes.len()).ok_or(())?;
        place.copy_from_slice(bytes);
        self.length += bytes.len();
        Ok(())
    }
}

pub const IDENTITY: StoreIdentity = StoreIdentity {
    vendor: 1,
    device: 2,
    driver_version: 3,
    format: 4,
    pipeline_cache_uuid: [5; 16],
    device_uuid: [6; 16],
};

pub const CALLS: &str = "CacheDevice::new_unique CacheOwner::cache CacheOwner::device CacheOwner::get_or_compile \
    CacheOwner::in_use CacheOwner::held_keys CacheOwner::memory CacheOwner::release \
    CacheOwner::release_unused CacheOwner::restore CacheOwner::stats CacheRef::key ContentHash::of \
    ShaderCache::delete_where ShaderCache::get ShaderCache::new ShaderCache::owner \
    ShaderCache::release_device ShaderCache::save ShaderCache::set_limits ShaderCache::stats \
    ShaderCache::trim ShaderKey::content ShaderKey::kernel ShaderRef::into_work_ref StoreSink::write \
    StoreWriter::add StoreWriter::finish StoreWriter::new StoredShaders::count StoredShaders::iter \
    StoredShaders::open";

pub fn cache<S: Stage>(stage: &S, _: usize) {
    let compiled = |value: u64| Ok::<_, u8>(CompiledShader { value, bytes: 8 });
    with_root(stage, |root| {
        let cache = stage.attempt(|| (), || ShaderCache::<u64, u8>::new(root.handle(), CacheLimits::NONE));
        let devices = [CacheDevice::new_unique(), CacheDevice::new_unique()];
        let owner = stage.attempt(|| cache.stats(), || cache.owner(devices[0], root.handle()));
        let key = ShaderKey::kernel(devices[0], 7);
        let entries = || cache.stats().entries;
        let work = stage.attempt(entries, || owner.get_or_compile(key, || compiled(9))).into_work_ref();
        assert_eq!((*work, work.key()), (9, key));
        // Into a file, and out of it into another cache: how many tables there are follows from the keys.
        let mut file = File { bytes: [0; 512], length: 0 };
        stage.attempt_without_memory(|| {
            for is_saved in [true, false] {
                file.length = 0;
                let mut writer = StoreWriter::new(&mut file, &IDENTITY).unwrap();
                if is_saved {
                    let saved = cache.save(devices[0], &mut writer, |_, _| Some(b"binary"));
                    saved.unwrap();
                } else {
                    let key = ShaderKey::content(devices[0], ContentHash::of(b"source"));
                    writer.add(key, b"more").unwrap();
                }
                assert_eq!(writer.finish().map(|(count, _)| count), Ok(1));
            }
        });
        let stored = StoredShaders::open(&file.bytes[..file.length], &IDENTITY).expect("whole");
        assert_eq!((stored.count(), stored.iter(devices[1]).count()), (1, 1));
        let second = ShaderCache::new(root.handle(), CacheLimits::NONE).expect("refused nothing");
        let other = second.owner(devices[1], root.handle()).expect("refused nothing");
        let entries = || second.stats().entries;
        let restored = stage.attempt(entries, || other.restore(&stored, |_, _| compiled(1)));
        assert_eq!((restored.restored, restored.refused), (1, 0));
        let mut owners = Some((owner, other));
        let mut work = Some(work);
        stage.attempt_without_memory(|| {
            let Some((owner, other)) = owners.take() else {
                return;
            };
            assert_eq!((owner.stats().entries, owner.in_use(), cache.stats().entries), (1, 1, 1));
            assert!(owner.held_keys().eq([key]) && owner.memory().id() == root.id() && owner.device() == devices[0]);
            assert_eq!(owner.cache().get(key).map(|hold| *hold), Some(9));
            let (owner, held) = owner.release_unused().expect_err("held");
            assert_eq!(held, 1);
            drop(work.take());
            cache.set_limits(CacheLimits::NONE);
            assert_eq!(cache.delete_where(|_, _| true).destroyed, 1);
            assert_eq!(cache.release_device(devices[1]).destroyed, 0);
            assert!(cache.trim() > 0);
            assert_eq!((owner.release().destroyed, other.release().destroyed), (0, 1));
        });
    });
}
