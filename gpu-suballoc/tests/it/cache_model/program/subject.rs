//! The cache as the list sees it, on a host allocator of which one request can be refused.

use super::*;

type Numbers = Arc<Mutex<BTreeSet<u64>>>;

/// A shader that is in the set for as long as it exists.
struct SubjectShader {
    number: u64,
    exist: Numbers,
}

impl Drop for SubjectShader {
    fn drop(&mut self) {
        assert_eq!(alloc_core::held_state_locks(), 0, "no destructor runs with a lock held");
        assert!(self.exist.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number), "destroyed once");
        AROUND.with_borrow(|cache| cache.as_ref().map(|cache| look_from_within(cache, self)));
    }
}

thread_local! {
    /// The cache that destructors look at from within its calls.
    static AROUND: RefCell<Option<ShaderCache<SubjectShader, ()>>> = const { RefCell::new(None) };
}

/// How often a destructor or a compiler called back.
pub static TIMES: AtomicU64 = AtomicU64::new(0);

/// From a destructor, in the middle of a call of the cache: takes no memory and changes nothing.
fn look_from_within(cache: &ShaderCache<SubjectShader, ()>, dying: &SubjectShader) {
    TIMES.fetch_add(1, Relaxed);
    let removed = cache.delete_where(|_, shader| {
        assert_ne!(shader.number, dying.number, "what is being destroyed is found by nobody");
        false
    });
    assert_eq!(removed, RemovalCounts::default());
    let stats = cache.stats();
    assert!(stats.bytes < u64::MAX / 2 && stats.entries < 1 << 20 && stats.dead < 1 << 20, "{stats:?}");
}

/// From a compiler: all that an owner may do, and nothing of it stays.
fn use_from_within(owner: &CacheOwner<SubjectShader, ()>, key: ShaderKey, exist: &Numbers) {
    TIMES.fetch_add(1, Relaxed);
    let cache = owner.cache();
    assert!(owner.in_use() > 0, "it is being compiled for");
    assert!(owner.held_keys().all(|held| held.device() == owner.device()));
    let there = exist.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(found) = cache.get(key) {
        assert!(there.contains(&found.number));
    }
    // Another owner, of a device of its own, which compiles in vain and goes.
    let device = CacheDevice::new_unique();
    if let Ok(other) = cache.owner(device, owner.memory().clone()) {
        let failed = other.get_or_compile(ShaderKey::kernel(device, 1), || {
            assert!(cache.get(ShaderKey::kernel(device, 1)).is_none());
            Err(())
        });
        let failed = failed.map(|made| made.number);
        assert!(matches!(failed, Err(CacheError::Compile(()) | CacheError::Host(_))));
        assert_eq!(other.release(), RemovalCounts::default());
    }
    assert_eq!(cache.release_device(device), RemovalCounts::default());
    assert_eq!(cache.delete_where(|_, shader| !there.contains(&shader.number)), RemovalCounts::default());
}

static MEMORY: FailingAllocator<FromGlobalAlloc<System>> = FailingAllocator::new(FromGlobalAlloc::SYSTEM, Fault::Never);

/// One subject at a time: what is refused is refused to whoever asks.
static ALONE: Mutex<()> = Mutex::new(());

/// The subject. Once it is dropped, all host memory was given back.
pub struct CacheSubject {
    holds: [Option<WorkRef<SubjectShader, ()>>; 32],
    owners: [Option<CacheOwner<SubjectShader, ()>>; 6],
    devices: [CacheDevice; 3],
    cache: Option<ShaderCache<SubjectShader, ()>>,
    exist: Numbers,
    root: Option<Context>,
    _alone: MutexGuard<'static, ()>,
}

impl CacheSubject {
    /// An empty cache for three devices.
    pub fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let root = Context::root_static(&MEMORY, ContextOptions::new("cache")).expect("memory of the system");
        let cache = ShaderCache::new(root.handle(), CacheLimits::NONE).expect("memory of the system");
        AROUND.set(Some(cache.clone()));
        Self {
            holds: [const { None }; 32],
            owners: [const { None }; 6],
            devices: [(); 3].map(|()| CacheDevice::new_unique()),
            cache: Some(cache),
            exist: Numbers::default(),
            root: Some(root),
            _alone: alone,
        }
    }

    fn cache(&self) -> &ShaderCache<SubjectShader, ()> {
        self.cache.as_ref().expect("there until the end")
    }

    fn key(&self, sought: ShaderQuery) -> ShaderKey {
        let device = self.devices[sought.0];
        match sought.1 {
            even if even % 2 == 0 => ShaderKey::kernel(device, even),
            odd => ShaderKey::content(device, ContentHash::from_raw(u128::from(odd))),
        }
    }
}

impl Drop for CacheSubject {
    fn drop(&mut self) {
        self.holds.iter_mut().for_each(|hold| drop(hold.take()));
        self.owners.iter_mut().for_each(|owner| drop(owner.take()));
        AROUND.take();
        drop(self.cache.take());
        let closed = self.root.take().expect("there until the end").close_root();
        assert!(closed.is_ok() || std::thread::panicking(), "host memory was not given back");
    }
}

const fn both(removed: RemovalCounts) -> (u64, u64) {
    (removed.destroyed, removed.held)
}

impl CacheSubject {
    /// An owner for a device; false where host memory was refused.
    pub fn begin(&mut self, owner: usize, device: usize) -> bool {
        let root = self.root.as_ref().expect("there until the end");
        let begun = self.cache().owner(self.devices[device], root.handle());
        self.owners[owner] = begun.ok();
        self.owners[owner].is_some()
    }

    /// The owner goes: how many were destroyed, how many are held. `strict`: only if none is held, or `None`.
    pub fn end(&mut self, owner: usize, strict: bool) -> Option<(u64, u64)> {
        let ending = self.owners[owner].take().expect("the program ends what it began");
        if !strict {
            return Some(both(ending.release()));
        }
        match ending.release_unused() {
            Ok(removed) => Some(both(removed)),
            Err((back, held)) => {
                assert!(held > 0);
                self.owners[owner] = Some(back);
                None
            }
        }
    }

    pub fn get_or_compile(
        &mut self,
        owner: usize,
        sought: ShaderQuery,
        compile: Compile,
        hold: Option<usize>,
    ) -> CompileOutcome {
        let (key, exist) = (self.key(sought), &self.exist);
        let asked = self.owners[owner].as_ref().expect("the program asks those that it began");
        let compiled = Cell::new(false);
        let makes = || {
            compiled.set(true);
            assert_eq!(alloc_core::held_state_locks(), 0, "no compile runs with a lock held");
            use_from_within(asked, key, exist);
            match compile {
                Compile::Makes { number, bytes } => {
                    exist.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
                    Ok(CompiledShader { value: SubjectShader { number, exist: Arc::clone(exist) }, bytes })
                }
                Compile::Fails => Err(()),
                // Quietly: no hook is run.
                Compile::Unwinds => resume_unwind(Box::new("planted")),
                Compile::Recurses => {
                    let again = asked.get_or_compile(key, || Err(()));
                    assert_eq!(again.err(), Some(CacheError::Recursive));
                    Err(())
                }
            }
        };
        let answer = catch_unwind(AssertUnwindSafe(|| asked.get_or_compile(key, makes)));
        let held = match answer {
            Ok(Ok(held)) => held,
            Ok(Err(CacheError::Host(_))) if !compiled.get() => return CompileOutcome::Host,
            Ok(Err(CacheError::OtherDevice)) if !compiled.get() => {
                return CompileOutcome::OtherDevice;
            }
            Ok(Err(CacheError::Compile(()))) => return CompileOutcome::Failed,
            Ok(Err(error)) => panic!("{error:?}"),
            Err(unwound) if unwound.downcast_ref() == Some(&"planted") => {
                return CompileOutcome::Failed;
            }
            Err(unwound) => resume_unwind(unwound),
        };
        let answer = if compiled.get() { CompileOutcome::Compiled } else { CompileOutcome::Found(held.number) };
        if let Some(hold) = hold {
            self.holds[hold] = Some(held.into_work_ref());
        }
        answer
    }

    pub fn find(&mut self, sought: ShaderQuery, hold: Option<usize>) -> Option<u64> {
        let key = self.key(sought);
        let cache = self.cache.as_ref().expect("there until the end");
        let found = cache.get(key)?;
        let number = found.number;
        if let Some(hold) = hold {
            self.holds[hold] = Some(found.into_work_ref());
        }
        Some(number)
    }

    pub fn held_shader(&self, hold: usize) -> u64 {
        self.holds[hold].as_ref().expect("the program holds it").number
    }

    pub fn release(&mut self, hold: usize) {
        // No memory is taken for it: the next request would be refused.
        MEMORY.arm(Fault::From(0));
        self.holds[hold] = None;
        assert_eq!(MEMORY.requests(), 0, "letting go took memory");
        MEMORY.disarm();
    }

    pub fn delete_where(&mut self, unwanted: &dyn Fn(u64) -> bool) -> (u64, u64) {
        both(self.cache().delete_where(|_, shader| {
            assert_eq!(alloc_core::held_state_locks(), 0);
            unwanted(shader.number)
        }))
    }

    pub fn release_device(&mut self, device: usize) -> (u64, u64) {
        both(self.cache().release_device(self.devices[device]))
    }

    pub fn limit(&mut self, bytes: u64, entries: u64) {
        self.cache().set_limits(CacheLimits { bytes, entries });
    }

    pub fn sums(&self) -> CacheSums {
        let stats = self.cache().stats();
        // An owner that is gone, and whose shaders are held, counts in the cache alone.
        let owners = self.owners.iter().flatten().map(CacheOwner::stats);
        let (entries, dead, bytes) = owners.fold((0, 0, 0), |(entries, dead, bytes), owner| {
            (entries + owner.entries, dead + owner.dead, bytes + owner.bytes)
        });
        assert_eq!(entries, stats.entries);
        assert!(dead <= stats.dead && bytes <= stats.bytes);
        assert_eq!(stats.compiling, 0);
        CacheSums { live: stats.entries, dead: stats.dead, bytes: stats.bytes, compiled: stats.compiled }
    }

    pub fn exist(&self) -> BTreeSet<u64> {
        self.exist.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn refuse_host(&mut self, nth: Option<u64>) {
        MEMORY.arm(nth.map_or(Fault::Never, Fault::Nth));
    }
}
