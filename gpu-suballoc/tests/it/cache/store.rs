//! H73: shaders that outlive the program, in a file that is refused as a whole if anything in it is not right.

use super::*;

const IDENTITY: StoreIdentity = StoreIdentity {
    vendor: 0x10005,
    device: 0,
    driver_version: 1,
    format: 7,
    pipeline_cache_uuid: [3; 16],
    device_uuid: [4; 16],
};

type Cache = ShaderCache<Vec<u8>, Broken>;

fn cache(contexts: &Contexts) -> (Cache, CacheOwner<Vec<u8>, Broken>) {
    let cache = ShaderCache::new(contexts.shared.handle(), CacheLimits::NONE).expect("memory");
    let owner = cache.owner(CacheDevice::new_unique(), contexts.a.handle()).expect("memory");
    (cache, owner)
}

fn compiled(binary: &[u8]) -> Result<CompiledShader<Vec<u8>>, Broken> {
    Ok(CompiledShader { value: binary.to_vec(), bytes: binary.len() as u64 })
}

/// Three shaders: by number, and by hashes.
fn fill(owner: &CacheOwner<Vec<u8>, Broken>) {
    let device = owner.device();
    drop(owner.get_or_compile(ShaderKey::kernel(device, 5), || compiled(b"five")).expect("it compiles"));
    let hash = ShaderKey::content(device, ContentHash::of(b"source"));
    drop(owner.get_or_compile(hash, || compiled(b"")).expect("it compiles"));
    let other = ShaderKey::content(device, ContentHash::of(b"other source"));
    drop(owner.get_or_compile(other, || compiled(b"other binary")).expect("it compiles"));
}

fn saved(cache: &Cache, device: CacheDevice, memory: ContextHandle) -> Result<TryVec<u8, ContextHandle>, HostError> {
    let mut file = TryVec::new_in(memory);
    let mut writer = StoreWriter::new(&mut file, &IDENTITY)?;
    cache.save(device, &mut writer, |_, binary| Some(binary))?;
    let (count, length) = writer.finish()?;
    assert_eq!((count, length), (3, file.len() as u64));
    Ok(file)
}

#[test]
fn h73_shaders_come_back_as_they_were() {
    let contexts = Contexts::new();
    let file = {
        let (cache, owner) = cache(&contexts);
        fill(&owner);
        // Another device's are not in it.
        let other = cache.owner(CacheDevice::new_unique(), contexts.b.handle()).expect("memory");
        drop(other.get_or_compile(ShaderKey::kernel(other.device(), 9), || compiled(b"nine")).expect("it compiles"));
        saved(&cache, owner.device(), contexts.b.handle()).expect("memory")
    };
    let (cache, owner) = cache(&contexts);
    let stored = StoredShaders::open(&file, &IDENTITY).expect("it is whole");
    assert_eq!(stored.count(), 3);
    let restored = owner.restore(&stored, |_, binary| compiled(binary));
    assert_eq!(restored.map(|counts| counts.restored), Ok(3));
    let found = |key| cache.get(key).map(|hold| hold.to_vec());
    let device = owner.device();
    assert_eq!(found(ShaderKey::kernel(device, 5)), Some(b"five".to_vec()));
    assert_eq!(found(ShaderKey::content(device, ContentHash::of(b"source"))), Some(Vec::new()));
    let other = Some(b"other binary".to_vec());
    assert_eq!(found(ShaderKey::content(device, ContentHash::of(b"other source"))), other);
    // A binary that cannot be loaded is counted, and those behind it are loaded.
    let (again, owner) = self::cache(&contexts);
    let restored =
        owner.restore(&stored, |_, binary| if binary.is_empty() { Err(Broken(1)) } else { compiled(binary) });
    let restored = restored.expect("memory");
    assert_eq!((restored.restored, restored.refused), (2, 1));
    assert_eq!((again.stats().entries, again.stats().failed), (2, 1));
    // The refused one is compiled when it is asked for.
    let hash = ShaderKey::content(owner.device(), ContentHash::of(b"source"));
    assert!(again.get(hash).is_none());
    let made = owner.get_or_compile(hash, || compiled(b"anew"));
    assert_eq!(made.expect("it compiles").as_slice(), b"anew");
}

#[test]
fn h73_every_flipped_bit_and_every_truncation_is_refused() {
    let contexts = Contexts::new();
    let (cache, owner) = cache(&contexts);
    fill(&owner);
    let file = saved(&cache, owner.device(), contexts.b.handle()).expect("memory");
    assert!(StoredShaders::open(&file, &IDENTITY).is_ok());
    for bit in 0..file.len() * 8 {
        let mut flipped = file.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(StoredShaders::open(&flipped, &IDENTITY).is_err(), "bit {bit}");
    }
    for length in 0..file.len() {
        let refused = StoredShaders::open(&file[..length], &IDENTITY).expect_err("it is not whole");
        assert!(matches!(refused, StoreError::Truncated | StoreError::Damaged), "{length}: {refused}");
    }
    let mut longer = file.to_vec();
    longer.push(0);
    assert!(StoredShaders::open(&longer, &IDENTITY).is_err());
}

#[test]
fn h73_another_device_driver_or_version_is_refused() {
    let contexts = Contexts::new();
    let (cache, owner) = cache(&contexts);
    fill(&owner);
    let file = saved(&cache, owner.device(), contexts.b.handle()).expect("memory");
    let others = [
        StoreIdentity { vendor: 1, ..IDENTITY },
        StoreIdentity { device: 1, ..IDENTITY },
        StoreIdentity { driver_version: 2, ..IDENTITY },
        StoreIdentity { format: 8, ..IDENTITY },
        StoreIdentity { pipeline_cache_uuid: [0; 16], ..IDENTITY },
        StoreIdentity { device_uuid: [0; 16], ..IDENTITY },
    ];
    for other in others {
        let refused = StoredShaders::open(&file, &other).expect_err("another one's");
        assert_eq!(
            refused.to_string(),
            "the file of shaders is another device's, or driver's: compile again, and write it anew"
        );
    }
    assert_eq!(StoredShaders::open(b"SHADSTEW and more", &IDENTITY).err(), Some(StoreError::NotAStore));
    for version in [1, 3] {
        let mut other = file.to_vec();
        other[8] = version;
        assert_eq!(
            StoredShaders::open(&other, &IDENTITY).err(),
            Some(StoreError::OtherVersion { version: u32::from(version) })
        );
    }
}

/// A file whose writer was wrong, and whose hash is right: it ends early, and nothing beyond it is read.
#[test]
fn a_file_with_lengths_that_lie_ends_early() {
    let contexts = Contexts::new();
    let (cache, owner) = cache(&contexts);
    fill(&owner);
    let good = saved(&cache, owner.device(), contexts.b.handle()).expect("memory").to_vec();
    for (at, width) in [(64 + 24, 8), (good.len() - 48, 8)] {
        let mut file = good.clone();
        file[at..at + width].fill(0xFF);
        let end = file.len() - 32;
        let hash = blake3::hash(&file[..end]);
        file[end..].copy_from_slice(hash.as_bytes());
        let stored = StoredShaders::open(&file, &IDENTITY).expect("the hash is right");
        let entries = stored.iter(owner.device()).count();
        assert!(entries <= 3, "{entries}");
        assert_eq!(entries, if at < 100 { 0 } else { 3 });
    }
}
