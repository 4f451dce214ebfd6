//! Destructors of shaders that unwind: what was counted is counted out, and the others go all the same.

use super::*;

/// Counts its end, and unwinds at it if it is told to.
struct Wild<'c> {
    ended: &'c AtomicU64,
    unwinds: bool,
}

impl Drop for Wild<'_> {
    fn drop(&mut self) {
        self.ended.fetch_add(1, SeqCst);
        if self.unwinds {
            // Quietly: no hook is run.
            resume_unwind(Box::new("planted"));
        }
    }
}

type Cache<'c> = ShaderCache<Wild<'c>, ()>;

fn make<'c>(owner: &CacheOwner<Wild<'c>, ()>, ended: &'c AtomicU64, number: u64, unwinds: bool) {
    let compile = || Ok(CompiledShader { value: Wild { ended, unwinds }, bytes: 10 });
    drop(owner.get_or_compile(key(owner.device(), number), compile).expect("it compiles"));
}

fn unwinds(work: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(work)).is_err()
}

#[test]
fn a_destructor_that_unwinds_leaves_the_sums_right() {
    let (contexts, ended) = (Contexts::new(), AtomicU64::new(0));
    let cache = Cache::new(contexts.shared.handle(), CacheLimits::NONE).expect("memory");
    let device = CacheDevice::new_unique();
    let owner = own(&cache, device, &contexts.a);
    (0..5).for_each(|number| make(&owner, &ended, number, number == 2));
    // Released all at once, by deleting, by the last hold, by a limit: the one in the middle unwinds.
    assert!(unwinds(|| assert_eq!(cache.release_device(device).destroyed, 5, "not reached")));
    let stats = cache.stats();
    assert_eq!((ended.load(SeqCst), stats.entries, stats.dead, stats.bytes), (5, 0, 0, 0));
    make(&owner, &ended, 7, true);
    let hold = cache.get(key(device, 7)).expect("it is there");
    assert_eq!(cache.delete_where(|_, _| true).held, 1);
    assert!(unwinds(|| drop(hold)));
    make(&owner, &ended, 8, true);
    cache.set_limits(CacheLimits { bytes: 15, ..CacheLimits::NONE });
    assert!(unwinds(|| make(&owner, &ended, 9, false)));
    let stats = cache.stats();
    assert_eq!((ended.load(SeqCst), stats.entries, stats.dead, stats.bytes, owner.in_use()), (7, 1, 0, 10, 0));
    assert_eq!(owner.release().destroyed, 1, "the compile's own hold went with the unwinding");
    assert_eq!(contexts.bytes()[0], 0);
    drop(cache);
    contexts.end();
}

#[test]
fn a_destructor_that_unwinds_at_the_end_of_all_loses_nothing() {
    let (contexts, ended) = (Contexts::new(), AtomicU64::new(0));
    let cache = Cache::new(contexts.shared.handle(), CacheLimits::NONE).expect("memory");
    let owner = own(&cache, CacheDevice::new_unique(), &contexts.a);
    (0..5).for_each(|number| make(&owner, &ended, number, number == 2 || number == 3));
    drop(cache);
    let last = owner.get_or_compile(key(owner.device(), 3), || Err(())).expect("it is there").into_work_ref();
    assert!(unwinds(|| drop(owner)));
    assert_eq!(ended.load(SeqCst), 4);
    assert!(contexts.bytes()[2] > 0, "the work keeps it");
    let ends = move || drop(last);
    assert!(thread::scope(|threads| threads.spawn(ends).join().is_err()));
    assert_eq!(ended.load(SeqCst), 5);
    contexts.end();
}
