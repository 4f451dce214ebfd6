//! The shader cache, and its file.

use alloc_core::{Context, ContextOptions};
use gpu_suballoc::ShaderCache;
use gpu_suballoc::cache::{
    CacheDevice, CacheError, CacheLimits, CacheOwner, CompiledShader, ContentHash, ShaderKey,
    StoreIdentity, StoreSink, StoreWriter, StoredShaders,
};
use testkit::{MemoryUse, Stage};

use super::{GpuOperation, NONE, operation};

type Cache = ShaderCache<u64, u8>;
type Owner = CacheOwner<u64, u8>;

/// A root over the stage's memory, which ends after what is made in it.
fn with_root<S: Stage>(stage: &S, run: impl FnOnce(&Context)) {
    // SAFETY: the stage's memory outlives the root.
    let root = unsafe { Context::root(stage.host(), ContextOptions::new("shaders")) }
        .expect("refused nothing");
    run(&root);
    root.close_root()
        .map_err(|refused| refused.error)
        .expect("everything was given back");
}

fn with_owner<S: Stage>(stage: &S, run: impl FnOnce(&Cache, Owner)) {
    with_root(stage, |root| {
        let cache = Cache::new(root.handle(), CacheLimits::NONE).expect("refused nothing");
        let owner = cache
            .owner(CacheDevice::new_unique(), root.handle())
            .expect("refused nothing");
        run(&cache, owner);
    });
}

fn compiled(value: u64) -> Result<CompiledShader<u64>, u8> {
    Ok(CompiledShader { value, bytes: 8 })
}

/// A file in an array.
struct File {
    bytes: [u8; 512],
    length: usize,
}

impl StoreSink for File {
    type Error = ();

    fn write(&mut self, bytes: &[u8]) -> Result<(), ()> {
        let place = self
            .bytes
            .get_mut(self.length..self.length + bytes.len())
            .ok_or(())?;
        place.copy_from_slice(bytes);
        self.length += bytes.len();
        Ok(())
    }
}

const IDENTITY: StoreIdentity = StoreIdentity {
    vendor: 1,
    device: 2,
    driver_version: 3,
    format: 4,
    pipeline_cache_uuid: [5; 16],
    device_uuid: [6; 16],
};

pub(super) fn table<S: Stage>() -> Vec<GpuOperation<S>> {
    vec![
        operation(&["ShaderCache::new"], "", MemoryUse::Memory, |stage| {
            with_root(stage, |root| {
                let cache = stage.attempt(|| (), || Cache::new(root.handle(), CacheLimits::NONE));
                assert_eq!(cache.stats().entries, 0);
            });
        }),
        operation(
            &["ShaderCache::owner", "CacheDevice::new_unique"],
            "the first",
            MemoryUse::Memory,
            |stage| {
                with_root(stage, |root| {
                    let cache =
                        Cache::new(root.handle(), CacheLimits::NONE).expect("refused nothing");
                    let device = CacheDevice::new_unique();
                    let owner =
                        stage.attempt(|| cache.stats(), || cache.owner(device, root.handle()));
                    assert_eq!(owner.device(), device);
                });
            },
        ),
        operation(
            &[
                "CacheOwner::get_or_compile",
                "ShaderKey::kernel",
                "CacheRef::key",
            ],
            "a miss",
            MemoryUse::Memory,
            |stage| {
                with_owner(stage, |cache, owner| {
                    let key = ShaderKey::kernel(owner.device(), 7);
                    let hold = stage.attempt(
                        || cache.stats().entries,
                        || owner.get_or_compile(key, || compiled(9)),
                    );
                    assert_eq!((*hold, hold.key()), (9, key));
                });
            },
        ),
        operation(
            &[
                "CacheOwner::restore",
                "StoredShaders::open",
                "StoredShaders::count",
                "StoredShaders::iter",
            ],
            "of a file of one",
            MemoryUse::Memory,
            |stage| {
                with_owner(stage, |cache, owner| {
                    let file = written(owner.device());
                    let stored =
                        StoredShaders::open(&file.bytes[..file.length], &IDENTITY).expect("whole");
                    assert_eq!(
                        (stored.count(), stored.iter(owner.device()).count()),
                        (1, 1)
                    );
                    let restored = stage.attempt(
                        || cache.stats().entries,
                        || owner.restore(&stored, |_, _| compiled(1)),
                    );
                    assert_eq!((restored.restored, restored.refused), (1, 0));
                });
            },
        ),
        operation(
            &["ShaderCache::trim"],
            "with an owner whose shaders are gone",
            MemoryUse::Nothing("of an empty table nothing is kept"),
            |stage| {
                with_root(stage, |root| {
                    let cache =
                        Cache::new(root.handle(), CacheLimits::NONE).expect("refused nothing");
                    let device = CacheDevice::new_unique();
                    let owner = cache.owner(device, root.handle()).expect("refused nothing");
                    let key = ShaderKey::kernel(device, 7);
                    drop(
                        owner
                            .get_or_compile(key, || compiled(9))
                            .expect("refused nothing"),
                    );
                    assert_eq!(cache.delete_where(|_, _| true).destroyed, 1);
                    stage.attempt_plainly(|| {
                        assert!(cache.trim() > 0);
                    });
                });
            },
        ),
        operation(
            &[
                "CacheOwner::cache",
                "CacheOwner::device",
                "CacheOwner::memory",
                "CacheOwner::release",
                "CacheOwner::release_unused",
                "CacheOwner::stats",
                "ShaderRef::into_work_ref",
                "ShaderCache::delete_where",
                "ShaderCache::get",
                "ShaderCache::release_device",
                "ShaderCache::set_limits",
                "ShaderCache::stats",
            ],
            "with a shader that is there",
            MemoryUse::Nothing("a hit, and an end, take no memory"),
            |stage| {
                with_owner(stage, |cache, owner| {
                    let key = ShaderKey::kernel(owner.device(), 7);
                    drop(
                        owner
                            .get_or_compile(key, || compiled(9))
                            .expect("it compiles"),
                    );
                    let mut owner = Some(owner);
                    stage.attempt_plainly(|| {
                        let mine = owner.take().expect("once");
                        assert_eq!((mine.stats().entries, cache.stats().entries), (1, 1));
                        assert_eq!(mine.cache().get(key).map(|hold| *hold), Some(9));
                        assert_eq!(mine.memory().id(), mine.memory().id());
                        let work = cache.get(key).expect("there").into_work_ref();
                        assert_eq!(work.key(), key);
                        let (mine, held) = mine.release_unused().expect_err("held");
                        assert_eq!(held, 1);
                        drop(work);
                        cache.set_limits(CacheLimits::NONE);
                        assert_eq!(cache.delete_where(|_, _| false).destroyed, 0);
                        assert_eq!(cache.release_device(CacheDevice::new_unique()).destroyed, 0);
                        assert_eq!(mine.release().destroyed, 1);
                    });
                });
            },
        ),
        operation(
            &[
                "ShaderCache::save",
                "StoreWriter::new",
                "StoreWriter::add",
                "StoreWriter::finish",
                "StoreSink::write",
            ],
            "into an array",
            MemoryUse::Nothing("it goes where it goes, piece by piece"),
            |stage| {
                with_owner(stage, |cache, owner| {
                    let key = ShaderKey::kernel(owner.device(), 7);
                    drop(
                        owner
                            .get_or_compile(key, || compiled(9))
                            .expect("it compiles"),
                    );
                    stage.attempt_plainly(|| {
                        let mut file = File {
                            bytes: [0; 512],
                            length: 0,
                        };
                        let mut writer = StoreWriter::new(&mut file, &IDENTITY).expect("room");
                        cache
                            .save(owner.device(), &mut writer, |_, _| Some(b"binary"))
                            .expect("room");
                        assert_eq!(writer.finish().map(|(count, _)| count), Ok(1));
                    });
                });
            },
        ),
        operation(
            &[
                "ContentHash::as_raw",
                "ContentHash::from_raw",
                "ContentHash::of",
                "ShaderKey::content",
                "ShaderKey::device",
            ],
            "",
            NONE,
            |stage| {
                stage.attempt_plainly(|| {
                    let device = CacheDevice::new_unique();
                    let hash = ContentHash::of(b"source");
                    assert_eq!(ContentHash::from_raw(hash.as_raw()), hash);
                    assert_eq!(ShaderKey::content(device, hash).device(), device);
                    assert_ne!(CacheError::<u8>::Recursive, CacheError::OtherDevice);
                });
            },
        ),
    ]
}

fn written(device: CacheDevice) -> File {
    let mut file = File {
        bytes: [0; 512],
        length: 0,
    };
    let mut writer = StoreWriter::new(&mut file, &IDENTITY).expect("room");
    writer
        .add(ShaderKey::kernel(device, 1), b"binary")
        .expect("room");
    assert_eq!(writer.finish().map(|(count, _)| count), Ok(1));
    file
}
