//! H70: a compile is nobody's lock, and one for all who ask.

use super::*;

const THREADS: u64 = 16;

/// Sixteen threads ask for one shader at once; whoever compiles waits until all others wait for it. Their answers;
/// `Err` of one that unwound.
fn sixteen_ask<'c>(
    owners: &[Owner<'c>],
    compile: impl Fn(u64) -> Result<CompiledShader<Shader<'c>>, Broken> + Sync,
) -> Vec<Result<Result<u64, CacheError<Broken>>, ()>> {
    let (arrived, ran) = (Barrier::new(THREADS as usize), AtomicU64::new(0));
    let (compile, arrived, ran) = (&compile, &arrived, &ran);
    thread::scope(|threads| {
        let asks = owners.iter().cycle().take(THREADS as usize).map(|owner| {
            threads.spawn(move || {
                arrived.wait();
                let asked = catch_unwind(AssertUnwindSafe(|| {
                    let first = || {
                        let before = ran.fetch_add(1, SeqCst);
                        while before == 0 && owner.cache().stats().joined < THREADS - 1 {
                            thread::yield_now();
                        }
                        compile(before)
                    };
                    let held = owner.get_or_compile(key(owner.device(), 9), first);
                    held.map(|held| held.number)
                }));
                asked.map_err(drop)
            })
        });
        let asks = Vec::from_iter(asks);
        asks.into_iter().map(|ask| ask.join().expect("no panic")).collect()
    })
}

#[test]
fn h70_sixteen_threads_compile_once_and_have_its_result_or_its_error_or_another_compile() {
    for end in ["compiles", "fails", "unwinds"] {
        cache_scene!(contexts, counts, cache);
        let device = CacheDevice::new_unique();
        let owners = [&contexts.a, &contexts.b].map(|context| own(&cache, device, context));
        let ran = AtomicU64::new(0);
        let answers = sixteen_ask(&owners, |before| {
            ran.fetch_add(1, SeqCst);
            match end {
                "fails" => Err(Broken(3)),
                // Quietly: no hook is run.
                "unwinds" if before == 0 => resume_unwind(Box::new("planted")),
                _ => counts.make(9),
            }
        });
        let of = |wanted| answers.iter().filter(|answer| **answer == wanted).count();
        let came = (of(Ok(Ok(9))), of(Ok(Err(CacheError::Compile(Broken(3))))));
        let stats = cache.stats();
        let (expected, compiles, failed, made) = match end {
            "fails" => ((0, 16), 1, 1, 0),
            "unwinds" => ((15, 0), 2, 0, 1),
            _ => ((16, 0), 1, 0, 1),
        };
        assert_eq!(came, expected, "{end}: {answers:?}");
        let seen = (ran.load(SeqCst), stats.failed, stats.compiled, counts.now());
        assert_eq!(seen, (compiles, failed, made, (made, made)), "{end}");
        // Who finds the first compile gone joins the second.
        let joined = if end == "unwinds" { THREADS - 1..u64::MAX } else { THREADS - 1..THREADS };
        assert!(joined.contains(&stats.joined), "{end}: {stats:?}");
        assert_eq!((stats.compiling, stats.entries), (0, made), "{end}");
        assert_eq!(owners[0].in_use() + owners[1].in_use(), 0, "{end}");
        drop(get(&owners[0], &counts, 9));
    }
}

/// The owner goes while the compile runs: those who asked may use what was made, nobody else finds it.
#[test]
fn h70_a_release_in_flight_leaves_nothing_behind() {
    for whose in ["owner", "device"] {
        cache_scene!(contexts, counts, cache);
        let device = CacheDevice::new_unique();
        let a = own(&cache, device, &contexts.a);
        let b = own(&cache, device, &contexts.b);
        let (flying, go_on) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|threads| {
            let leader = threads.spawn(|| {
                let compile = || {
                    flying.wait();
                    go_on.wait();
                    counts.make(1)
                };
                let work = a.get_or_compile(key(device, 1), compile).expect("it compiles").into_work_ref();
                (work.number, work)
            });
            flying.wait();
            let waiter = threads.spawn(|| get(&b, &counts, 1).number);
            while cache.stats().joined == 0 {
                thread::yield_now();
            }
            // By reference to the cache: the owner itself is borrowed by the leader.
            if whose == "device" {
                cache.release_device(device);
            }
            go_on.wait();
            let (number, work) = leader.join().expect("no panic");
            assert_eq!((number, waiter.join().expect("no panic")), (1, 1));
            if whose == "device" {
                assert!(cache.get(key(device, 1)).is_none(), "nobody finds it");
            }
            drop(work);
        });
        drop(a);
        assert_eq!((counts.now(), cache.stats().entries, cache.stats().dead), ((1, 0), 0, 0), "{whose}");
        drop(b);
        drop(cache);
        contexts.end();
    }
}

/// As above, in two caches that know nothing of one another. What waits for ever fails here instead.
#[test]
fn ge12_compiles_of_two_caches_that_want_each_other_do_not_wait_for_ever() {
    compile_each_in_the_other([0, 1]);
}

#[test]
fn h70_compiles_of_one_cache_that_want_each_other_do_not_wait_for_ever() {
    compile_each_in_the_other([0, 0]);
}

/// Two compiles, of owners in these two caches, each of which wants the other's result.
fn compile_each_in_the_other(of: [usize; 2]) {
    // Left behind where it fails: threads that wait for ever are not joined.
    let (contexts, counts): (&Contexts, &Counts) = (Box::leak(Box::new(Contexts::new())), Box::leak(Box::default()));
    let caches: &[Cache<'static>; 2] = Box::leak(Box::new([contexts.cache(), contexts.cache()]));
    let device = CacheDevice::new_unique();
    let owner = |cache: &Cache<'static>| own(cache, device, &contexts.a);
    let owners: &[Owner<'static>; 2] = Box::leak(Box::new(of.map(|number| owner(&caches[number]))));
    let both: &Barrier = Box::leak(Box::new(Barrier::new(2)));
    let (ended, ends) = channel();
    for (mine, other) in [(0, 1), (1, 0)] {
        let ended = ended.clone();
        thread::spawn(move || {
            let mut inside = None;
            let made = owners[mine].get_or_compile(key(device, mine as u64), || {
                both.wait();
                let asked = owners[other].get_or_compile(key(device, other as u64), || counts.make(other as u64));
                inside = Some(asked.map(drop));
                counts.make(mine as u64)
            });
            assert_eq!(made.expect("it compiles").number, mine as u64);
            ended.send(inside.expect("it was compiled")).expect("somebody listens");
        });
    }
    drop(ended);
    let next = || ends.recv_timeout(Duration::from_secs(20));
    let mut came = [next(), next()].map(|end| match end {
        Err(RecvTimeoutError::Timeout) => panic!("two compiles wait for one another"),
        end => end.expect("no panic"),
    });
    came.sort_by_key(Result::is_err);
    assert_eq!(came, [Ok(()), Err(CacheError::Recursive)], "the one that asked last is told");
    assert_eq!((counts.now(), caches.each_ref().map(|cache| cache.stats().compiling)), ((2, 2), [0, 0]));
    // Nobody waits any more, so nobody is in a circle.
    assert!((0..2).all(|number| get(&owners[number], counts, number as u64).number == number as u64));
}

/// The leader unwinds, the one that waited leads now, and the first asks again: it waits, for that one waits for nobody
/// any more.
#[test]
fn ge12_who_leads_after_waiting_is_waited_for() {
    cache_scene!(contexts, counts, cache, owner);
    let wanted = key(owner.device(), 1);
    let (second, answered) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|threads| {
        threads.spawn(|| {
            let unwinds = || {
                while cache.stats().joined < 1 {
                    thread::yield_now();
                }
                // Quietly: no hook is run.
                resume_unwind(Box::new("planted"))
            };
            assert!(catch_unwind(AssertUnwindSafe(|| owner.get_or_compile(wanted, unwinds).map(drop))).is_err());
            while second.load(SeqCst) == 0 {
                thread::yield_now();
            }
            let again = owner.get_or_compile(wanted, || Err(Broken(1))).map(|hold| hold.number);
            answered.store(1, SeqCst);
            assert_eq!(again, Ok(1));
        });
        threads.spawn(|| {
            while cache.stats().compiling == 0 {
                thread::yield_now();
            }
            let made = owner.get_or_compile(wanted, || {
                second.store(1, SeqCst);
                while cache.stats().joined < 2 && answered.load(SeqCst) == 0 {
                    thread::yield_now();
                }
                counts.make(1)
            });
            assert_eq!(made.map(|hold| hold.number), Ok(1));
        });
    });
    assert_eq!((counts.now(), cache.stats().joined), ((1, 1), 2));
}
