//! A cache with contexts, and shaders that say when they are destroyed.

use super::*;

pub(crate) static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// A compiler's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) u32);

/// A shader that counts itself.
#[derive(Debug)]
pub(crate) struct Shader<'c> {
    pub(crate) number: u64,
    alive: &'c AtomicU64,
}

impl Drop for Shader<'_> {
    fn drop(&mut self) {
        assert_eq!(
            alloc_core::held_state_locks(),
            0,
            "no destructor runs with a lock held"
        );
        self.alive.fetch_sub(1, SeqCst);
    }
}

pub(crate) type Cache<'c> = ShaderCache<Shader<'c>, Broken>;
pub(crate) type Owner<'c> = CacheOwner<Shader<'c>, Broken>;

/// How many were compiled, how many are alive.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) compiled: AtomicU64,
    pub(crate) alive: AtomicU64,
}

impl Counts {
    pub(crate) fn make(&self, number: u64) -> Result<CompiledShader<Shader<'_>>, Broken> {
        assert_eq!(
            alloc_core::held_state_locks(),
            0,
            "no compile runs with a lock held"
        );
        self.compiled.fetch_add(1, SeqCst);
        self.alive.fetch_add(1, SeqCst);
        Ok(CompiledShader {
            value: Shader {
                number,
                alive: &self.alive,
            },
            bytes: 100,
        })
    }

    pub(crate) fn now(&self) -> (u64, u64) {
        (self.compiled.load(SeqCst), self.alive.load(SeqCst))
    }
}

/// A root, a context for the cache, one for each of two owners.
pub(crate) struct Contexts {
    pub(crate) a: Context,
    pub(crate) b: Context,
    pub(crate) shared: Context,
    root: Option<Context>,
}

impl Contexts {
    pub(crate) fn new() -> Self {
        let root = Context::root_static(&SYSTEM, ContextOptions::new("root"))
            .expect("memory of the system");
        let child = |name| root.child(name).expect("memory of the system");
        Self {
            a: child("a"),
            b: child("b"),
            shared: child("cache"),
            root: Some(root),
        }
    }

    pub(crate) fn cache<'c>(&self) -> Cache<'c> {
        ShaderCache::new(self.shared.handle(), CacheLimits::NONE).expect("memory of the system")
    }

    /// Live bytes of `a`, `b`, and the cache's context.
    pub(crate) fn bytes(&self) -> [u64; 3] {
        [&self.a, &self.b, &self.shared].map(|context| context.usage().total().live_bytes)
    }

    /// Everything went back.
    pub(crate) fn end(mut self) {
        assert_eq!(self.bytes(), [0, 0, 0]);
        let root = self.root.take();
        drop((self.a, self.b, self.shared));
        root.expect("it is there")
            .close_root()
            .expect("nothing is left");
    }
}

pub(crate) fn key(device: CacheDevice, number: u64) -> ShaderKey {
    ShaderKey::kernel(device, number)
}

/// The shader `number`, compiled if need be.
#[track_caller]
pub(crate) fn get<'o, 'c>(
    owner: &'o Owner<'c>,
    counts: &'c Counts,
    number: u64,
) -> ShaderRef<'o, Shader<'c>, Broken> {
    let hold = owner
        .get_or_compile(key(owner.device(), number), || counts.make(number))
        .expect("it compiles");
    assert_eq!(hold.number, number);
    hold
}
