//! T43 to T45: many blocks, no mappings left, many threads.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use debug_guard::{BackEnd, BackEnds, Mode, Stacks};

use crate::common::{Lab, On, each, each_of, each_with, is_child, note, stores};

/// Mappings of this process.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").expect("proc").lines().count()
}

/// Most mappings that a process may have.
fn most_mappings() -> usize {
    std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("proc").trim().parse().expect("a number")
}

/// Mappings that are left to the guard of T44, and most that a test uses up to have no more left.
const ROOM: usize = 40_000;
const MOST_WORTH_USING: usize = 2_000_000;

/// Leaves `room` mappings to this process: every other page of one reservation gets another protection, and so two
/// mappings each.
fn uses_up_mappings(room: usize) {
    let pairs = most_mappings().saturating_sub(mappings() + room) / 2;
    let (flags, size) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, pairs * 2 * 4096);
    // SAFETY: a new mapping, wherever the kernel likes.
    let pages = unsafe { libc::mmap(std::ptr::null_mut(), size.max(4096), libc::PROT_NONE, flags, -1, 0) };
    assert_ne!(pages, libc::MAP_FAILED);
    for pair in 0..pairs {
        assert_eq!(
            // SAFETY: a page of the mapping above, which nobody uses.
            unsafe { libc::mprotect(pages.wrapping_byte_add(pair * 8192), 4096, libc::PROT_READ) },
            0
        );
    }
    assert!(most_mappings() - mappings() < room + 100, "used up as meant");
}

/// What the machine can spare.
fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("proc");
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Takes so many blocks at once, writes to each, and gives them all back; notes what that cost in mappings.
fn holds(lab: &Lab, count: usize) {
    let before = mappings();
    let blocks: Vec<_> = (0..count).map(|i| (lab.take(1 + i % 64, 1), 1 + i % 64)).collect();
    blocks.iter().for_each(|(block, size)| stores(block.wrapping_add(size - 1), 0x41));
    note("mappings", mappings().saturating_sub(before));
    note("live", lab.guard.stats().live_blocks as usize);
    blocks.iter().for_each(|(block, size)| lab.give(*block, *size, 1));
    note("left", lab.guard.stats().live_blocks as usize);
}

#[test]
fn t43_a_hundred_thousand_and_a_million_blocks_at_once() {
    const MANY: usize = 100_000;
    const MORE: usize = 1_000_000;
    fn many(lab: &Lab) {
        holds(lab, MANY);
    }
    fn more(lab: &Lab) {
        holds(lab, MORE);
    }
    let options = |options: debug_guard::GuardOptions| options.stacks(Stacks::Off).max_guarded_bytes(8 << 30);
    let verdict = |blocks: usize| {
        move |seen: &crate::common::SeenByChild| {
            seen.ended();
            assert!(seen.reports.is_empty(), "{}", seen.finished);
            assert_eq!((seen.note("live"), seen.note("left")), (blocks, 0), "{}", seen.config.name());
            if seen.config.back_end == Some(BackEnd::Mprotect) {
                // Two mappings a block: see T44. What gets none gets a cookie.
                assert_eq!(seen.note("guarded") + seen.note("unguarded"), blocks, "{}", seen.finished);
                return;
            }
            seen.quiet(blocks);
            assert!(seen.note("mappings") < 100, "{}: {} mappings more", seen.config.name(), seen.note("mappings"));
            println!("T43 {}: {blocks} live, {} mappings more", seen.config.name(), seen.note("mappings"));
        }
    };
    each_with(On::STRICT_RIGHT.and(On::COOKIE), options, many, verdict(MANY));
    // Four gigabytes: once, on the best back end.
    let available = available_memory();
    if !is_child() && available < 6 << 30 {
        return testkit::skip("memory", "t43, a million blocks", &format!("only {} MiB available", available >> 20));
    }
    let best = On::STRICT_RIGHT.configs().into_iter().take(1).collect();
    each_of(best, options, more, verdict(MORE));
}

#[test]
fn t44_without_mappings_blocks_get_cookies_and_one_notice() {
    if !is_child()
        && let Some(refusal) = BackEnds::probe().refusal(BackEnd::Mprotect)
    {
        return testkit::skip("mprotect", "t44", &refusal.to_string());
    }
    if !is_child() && most_mappings() > MOST_WORTH_USING {
        return testkit::skip(
            "map-budget",
            "t44",
            &format!("{} mappings would take too long to use up", most_mappings()),
        );
    }
    const MANY: usize = 30_000;
    fn case(lab: &Lab) {
        note("most", most_mappings());
        let blocks: Vec<_> = (0..MANY).map(|i| (lab.take(1 + i % 64, 1), 1 + i % 64)).collect();
        note("mapped", mappings());
        blocks.iter().for_each(|(block, size)| stores(block.wrapping_add(size - 1), 0x41));
        let stats = lab.guard.stats();
        note("guarded then", stats.guarded as usize);
        note("unguarded then", stats.unguarded as usize);
        note("cookies then", stats.cookies as usize);
        note("notices", stats.notices as usize);
        // Those that got cookies are looked after by these.
        let (last, size) = blocks[MANY - 1];
        note("block", last.addr());
        note("size", size);
        stores(last.wrapping_add(size), 0xFF);
        blocks[..MANY - 1].iter().for_each(|(block, size)| lab.give(*block, *size, 1));
        // What came back can be had again.
        lab.give(lab.take(64, 1), 64, 1);
        note("again", lab.guard.stats().guarded as usize);
        lab.give(last, size, 1);
    }
    // The child asks the kernel nothing before its mappings are used up: what the guards may have is counted then.
    let mut configs = if is_child() { Vec::new() } else { On::STRICT_RIGHT.and(On::FENCE_RIGHT).configs() };
    configs.retain(|config| config.back_end == Some(BackEnd::Mprotect));
    each_of(
        configs,
        |options| {
            uses_up_mappings(ROOM);
            options.stacks(Stacks::Off)
        },
        case,
        |seen| {
            let (guarded, unguarded) = (seen.note("guarded then"), seen.note("unguarded then"));
            println!("T44 {}: {guarded} in pages, {unguarded} with cookies", seen.config.name());
            assert_eq!(guarded + unguarded, MANY, "{}", seen.finished);
            assert_eq!(unguarded, seen.note("cookies then"));
            assert!(guarded > 10_000 && unguarded > 5_000, "{guarded} {unguarded}");
            assert!(seen.note("mapped") < seen.note("most") - 4096, "others need mappings too");
            assert_eq!(seen.note("notices"), 1, "{}", seen.finished);
            assert_eq!(seen.note("again"), guarded + 1);
            let (block, size) = (seen.note("block"), seen.note("size"));
            seen.aborted().kind("overflow").block_under(Mode::Cookie, block, size, 1).changed(block + size, &[0xFF]);
        },
    );
}

#[test]
fn t45_eight_threads_give_back_what_others_took() {
    const THREADS: usize = 8;
    const EACH: usize = 2_000;
    struct SentBlock(*mut u8, usize);
    // SAFETY: a block that its receiver alone uses.
    unsafe impl Send for SentBlock {}

    fn case(lab: &Lab) {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| sync_channel::<SentBlock>(EACH)).unzip();
        let found = thread::scope(|scope| {
            let run = |(number, receiver): (usize, Receiver<SentBlock>)| {
                let next = senders[(number + 1) % THREADS].clone();
                scope.spawn(move || {
                    let mut random = testkit::Rng::new(number as u64);
                    for _ in 0..EACH {
                        let size = 1 + random.below(200) as usize;
                        let block = lab.take(size, 1);
                        stores(block, 0x41);
                        stores(block.wrapping_add(size - 1), 0x41);
                        if random.below(2) == 0 {
                            lab.give(block, size, 1);
                        } else {
                            next.send(SentBlock(block, size)).expect("the other receives");
                        }
                        while let Ok(SentBlock(block, size)) = receiver.try_recv() {
                            lab.give(block, size, 1);
                        }
                    }
                    drop(next);
                    for SentBlock(block, size) in receiver {
                        lab.give(block, size, 1);
                    }
                })
            };
            let threads: Vec<_> = receivers.into_iter().enumerate().map(run).collect();
            drop(senders);
            // Somebody looks at all blocks meanwhile.
            let mut found = 0;
            while !threads.iter().all(|thread| thread.is_finished()) {
                found += lab.guard.check_all();
            }
            found
        });
        note("found", found + lab.guard.check_all());
        note("live", lab.guard.stats().live_blocks as usize);
    }
    each(On::ALL, case, |seen| {
        seen.quiet(THREADS * EACH);
        assert_eq!((seen.note("found"), seen.note("live")), (0, 0), "{}", seen.config.name());
    });

    // The same, and one of the threads writes too far.
    fn one_mistake(lab: &Lab) {
        thread::scope(|scope| {
            for number in 0..THREADS {
                scope.spawn(move || {
                    for round in 0..EACH {
                        let block = lab.take(64, 1);
                        if (number, round) == (5, EACH / 2) {
                            note("block", block.addr());
                            stores(block.wrapping_add(64), 0xFF);
                        }
                        lab.give(block, 64, 1);
                    }
                });
            }
        });
    }
    each(On::ALL, one_mistake, |seen| {
        seen.aborted().kind("overflow").block(seen.note("block"), 64, 1).taken_in_case();
    });
}
