//! A cache with contexts, and shaders that say when they are destroyed.

use super::*;

pub static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// A compiler's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken(pub u32);

/// A shader that counts itself.
#[derive(Debug)]
pub struct Shader<'c> {
    pub number: u64,
    alive: &'c AtomicU64,
}

impl Drop for Shader<'_> {
    fn drop(&mut self) {
        assert_eq!(alloc_core::held_state_locks(), 0, "no destructor runs with a lock held");
        self.alive.fetch_sub(1, SeqCst);
    }
}

pub type Cache<'c> = ShaderCache<Shader<'c>, Broken>;
pub type Owner<'c> = CacheOwner<Shader<'c>, Broken>;

/// How many were compiled, how many are alive.
#[derive(Default)]
pub struct Counts {
    pub compiled: AtomicU64,
    pub alive: AtomicU64,
}

impl Counts {
    pub fn make(&self, number: u64) -> Result<CompiledShader<Shader<'_>>, Broken> {
        assert_eq!(alloc_core::held_state_locks(), 0, "no compile runs with a lock held");
        self.compiled.fetch_add(1, SeqCst);
        self.alive.fetch_add(1, SeqCst);
        Ok(CompiledShader { value: Shader { number, alive: &self.alive }, bytes: 100 })
    }

    pub fn now(&self) -> (u64, u64) {
        (self.compiled.load(SeqCst), self.alive.load(SeqCst))
    }
}

/// A root, a context for the cache, one for each of two owners.
pub struct Contexts {
    pub a: Context,
    pub b: Context,
    pub shared: Context,
    root: Option<Context>,
}

impl Contexts {
    pub fn new() -> Self {
        let root = Context::root_static(&SYSTEM, ContextOptions::new("root")).expect("memory of the system");
        let child = |name| root.child(name).expect("memory of the system");
        Self { a: child("a"), b: child("b"), shared: child("cache"), root: Some(root) }
    }

    pub fn cache<'c>(&self) -> Cache<'c> {
        ShaderCache::new(self.shared.handle(), CacheLimits::NONE).expect("memory of the system")
    }

    /// Live bytes of `a`, `b`, and the cache's context.
    pub fn bytes(&self) -> [u64; 3] {
        [&self.a, &self.b, &self.shared].map(|context| context.usage().total().live_bytes)
    }

    /// Everything went back.
    pub fn end(mut self) {
        assert_eq!(self.bytes(), [0, 0, 0]);
        let root = self.root.take();
        drop((self.a, self.b, self.shared));
        root.expect("it is there").close_root().expect("nothing is left");
    }
}

pub fn key(device: CacheDevice, number: u64) -> ShaderKey {
    ShaderKey::kernel(device, number)
}

/// The shader `number`, compiled if need be.
#[track_caller]
pub fn get<'o, 'c>(owner: &'o Owner<'c>, counts: &'c Counts, number: u64) -> ShaderRef<'o, Shader<'c>, Broken> {
    let hold = owner.get_or_compile(key(owner.device(), number), || counts.make(number)).expect("it compiles");
    assert_eq!(hold.number, number);
    hold
}

pub fn get_each<'c>(owner: &Owner<'c>, counts: &'c Counts, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| drop(get(owner, counts, number)));
}

pub fn own<T, E>(cache: &ShaderCache<T, E>, device: CacheDevice, memory: &Context) -> CacheOwner<T, E> {
    cache.owner(device, memory.handle()).expect("memory")
}
