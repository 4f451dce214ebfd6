//! T15 to T21: what was given back is used, or given back again.

use std::ptr::NonNull;
use std::sync::Barrier;
use std::thread;

use alloc_core::{HostAllocator, Scope};
use debug_guard::Mode;

use crate::common::{Lab, On, SeenByChild, each, each_with, layout, loads, note, note_pointer, stores};

/// Freed blocks wait: what is written to them meanwhile is found, what is read is not.
const WAITING: On = On::FENCE.and(On::COOKIE);

const POISON: u8 = 0xDD;

/// A pointer that another thread may have.
#[derive(Clone, Copy)]
struct SentBlock(*mut u8);
// SAFETY: an address; what is done with it is the case's affair.
unsafe impl Send for SentBlock {}
// SAFETY: an address; the case answers for its use.
unsafe impl Sync for SentBlock {}

impl SentBlock {
    fn get(self) -> *mut u8 {
        self.0
    }
}

const LARGE: usize = 300 << 10;

#[test]
fn t15_a_read_after_the_free() {
    fn small(lab: &Lab) {
        read_after_free(lab, 64);
    }
    fn large(lab: &Lab) {
        read_after_free(lab, LARGE);
    }
    fn read_after_free(lab: &Lab, size: usize) {
        let block = lab.block(size, 16);
        stores(block.wrapping_add(5), 0x41);
        lab.give(block, size, 16);
        note("read", loads(block.wrapping_add(5)).into());
    }
    let verdict = |size: usize| {
        move |seen: &SeenByChild| {
            let block = seen.note("block");
            if seen.config.mode == Mode::Strict {
                assert!(!seen.noted("read"));
                let told = seen.of("use-after-free", size, 16);
                told.offset(5).stopped("read", block + 5).touched_in("loads");
                told.taken_in_case().given_in_case().aged(0);
            } else {
                // It reads what tells a programmer enough.
                seen.quiet(1);
                assert_eq!(seen.note("read"), usize::from(POISON), "{}", seen.config.name());
            }
        }
    };
    each(On::ALL, small, verdict(64));
    // The memory of large blocks goes back at once where pages can be taken away.
    each(On::PAGES, large, |seen| {
        let block = seen.note("block");
        assert!(!seen.noted("read"));
        let told = seen.of("use-after-free", LARGE, 16);
        told.offset(5).stopped("read", block + 5);
        told.taken_in_case().given_in_case();
    });
}

#[test]
fn t16_a_write_after_the_free() {
    fn checked(lab: &Lab) {
        let block = lab.block(64, 16);
        lab.give(block, 64, 16);
        stores(block.wrapping_add(5), 0x41);
        lab.guard.check_all();
    }
    each(On::ALL, checked, |seen| {
        let block = seen.note("block");
        let told = seen.of("use-after-free", 64, 16);
        told.offset(5).taken_in_case().given_in_case();
        if seen.config.mode == Mode::Strict {
            told.stopped("write", block + 5).touched_in("stores");
        } else {
            told.found("check").changed(block + 5, &[0x41]).expected(&[POISON]);
        }
    });

    fn evicted(lab: &Lab) {
        let block = lab.block(64, 16);
        lab.give(block, 64, 16);
        stores(block.wrapping_add(5), 0x41);
        for _ in 0..100 {
            let other = lab.take(64, 16);
            lab.give(other, 64, 16);
        }
    }
    each_with(
        WAITING,
        |options| options.quarantine(50, 1 << 20),
        evicted,
        |seen| {
            let block = seen.note("block");
            let told = seen.of("use-after-free", 64, 16);
            told.offset(5).taken_in_case().given_in_case().changed(block + 5, &[0x41]);
            told.found("eviction").expected(&[POISON]);
        },
    );
}

#[test]
fn t17_a_write_long_after_the_free() {
    const CHURN: usize = 100_000;
    /// More than any quarantine holds.
    const PAST_QUARANTINE: usize = 10_000;
    fn churn(lab: &Lab, times: usize) {
        for _ in 0..times {
            let other = lab.take(64, 16);
            lab.give(other, 64, 16);
        }
    }
    fn afterwards(lab: &Lab) {
        let block = lab.block(64, 16);
        lab.give(block, 64, 16);
        churn(lab, CHURN);
        note("churned", 1);
        stores(block.wrapping_add(5), 0x41);
    }
    each(On::STRICT, afterwards, |seen| {
        let block = seen.note("block");
        seen.note("churned");
        let told = seen.of("use-after-free", 64, 16);
        told.offset(5).stopped("write", block + 5).touched_in("stores").aged(CHURN);
        told.taken_in("afterwards").given_in("afterwards");
    });

    // A limit: out of reach it stays, but once the addresses have come round it is told as the block that was there
    // last.
    fn come_round(lab: &Lab) {
        afterwards(lab);
    }
    let few = |options: debug_guard::GuardOptions| options.pages(4096);
    each_with(On::STRICT, few, come_round, |seen| {
        let block = seen.note("block");
        let told = seen.aborted();
        told.kind("use-after-free").stopped("write", block + 5).touched_in("stores").younger_than(CHURN);
        told.block(block, 64, 16).offset(5).taken_in("churn").given_in("churn");
    });

    fn before(lab: &Lab) {
        let block = lab.block(64, 16);
        lab.give(block, 64, 16);
        stores(block.wrapping_add(5), 0x41);
        churn(lab, PAST_QUARANTINE);
    }
    each(WAITING, before, |seen| {
        let block = seen.note("block");
        let told = seen.of("use-after-free", 64, 16);
        told.offset(5).taken_in_case().given_in_case().changed(block + 5, &[0x41]);
        told.found("eviction");
    });
}

/// What `Vec` and `Box` do when they grow.
fn grows(lab: &Lab, block: *mut u8, old: usize, new: usize) -> *mut u8 {
    let block = NonNull::new(block).expect("a block");
    // SAFETY: a live block of that layout.
    let moved = unsafe { lab.guard.resize(block, layout(old, 16), layout(new, 16), Scope::Object) };
    moved.expect("memory").as_ptr()
}

#[test]
fn t18_a_pointer_kept_over_a_reallocation() {
    fn case(lab: &Lab) {
        let block = lab.block(64, 16);
        stores(block.wrapping_add(63), 0x42);
        let moved = grows(lab, block, 64, 8192);
        note_pointer("moved", moved);
        assert_eq!(loads(moved.wrapping_add(63)), 0x42);
        assert_ne!(block, moved, "it had to move");
        stores(block.wrapping_add(5), 0x41);
        lab.guard.check_all();
    }
    each(On::ALL, case, |seen| {
        let (block, moved) = (seen.note("block"), seen.note("moved"));
        let told = seen.of("use-after-free", 64, 16);
        told.offset(5).taken_in_case().given_in_case().moved_to(moved);
        if seen.config.mode == Mode::Strict {
            told.stopped("write", block + 5);
        } else {
            told.changed(block + 5, &[0x41]);
        }
    });
}

#[test]
fn t19_used_on_another_thread_than_it_was_freed_on() {
    fn case(lab: &Lab) {
        let block = SentBlock(lab.block(64, 16));
        let (freed, wait) = (&Barrier::new(2), &Barrier::new(2));
        thread::scope(|scope| {
            let freeing = thread::Builder::new().name("the-freeing".to_owned());
            let gives = move || {
                lab.give(block.get(), 64, 16);
                freed.wait();
                // Threads that are gone have no names.
                wait.wait();
            };
            freeing.spawn_scoped(scope, gives).expect("a thread");
            freed.wait();
            let using = thread::Builder::new().name("the-using".to_owned());
            let using = using.spawn_scoped(scope, || stores(block.get(), 0x41)).expect("a thread");
            using.join().expect("it ends");
            lab.guard.check_all();
            wait.wait();
        });
    }
    each(On::ALL, case, |seen| {
        let block = seen.note("block");
        let told = seen.of("use-after-free", 64, 16);
        told.given_in_case();
        let (taken, given) = told.threads();
        assert_ne!(taken, given, "the thread that freed it is another one");
        assert_eq!(told.given_thread_name(), "the-freeing");
        if seen.config.mode == Mode::Strict {
            told.stopped("write", block);
            assert!(told.thread() != taken && told.thread() != given, "{told:?}");
            assert_eq!(told.thread_name(), "the-using");
        } else {
            told.changed(block, &[0x41]);
        }
    });
}

#[test]
fn t20_given_back_twice() {
    fn at_once(lab: &Lab) {
        let block = lab.block(64, 16);
        lab.give(block, 64, 16);
        again(lab, block, 64);
    }
    fn later(lab: &Lab) {
        let block = lab.block(64, 16);
        lab.give(block, 64, 16);
        for size in 1..200 {
            let other = lab.take(size, 16);
            lab.give(other, size, 16);
        }
        again(lab, block, 64);
    }
    fn elsewhere(lab: &Lab) {
        let block = SentBlock(lab.block(64, 16));
        thread::scope(|scope| {
            scope.spawn(|| lab.give(block.get(), 64, 16));
        });
        again(lab, block.get(), 64);
    }
    fn large(lab: &Lab) {
        let block = lab.block(LARGE, 16);
        lab.give(block, LARGE, 16);
        again(lab, block, LARGE);
    }
    #[inline(never)]
    fn again(lab: &Lab, block: *mut u8, size: usize) {
        lab.give(block, size, 16);
    }
    let verdict = |size: usize| {
        move |seen: &SeenByChild| {
            let told = seen.of("double-free", size, 16);
            told.given_in_case();
            // The stack of the second free is where it was found; that of the first one stands with the block.
            told.found_in("again").given_not_in("again");
        }
    };
    each(On::ALL, at_once, verdict(64));
    each(On::ALL, later, verdict(64));
    each(On::ALL, elsewhere, |seen| {
        verdict(64)(seen);
        let (taken, given) = seen.only().threads();
        assert_ne!(taken, given);
    });
    each(On::PAGES, large, verdict(LARGE));
}

/// An address may be given again once its block has waited long enough: until then the free of the older block is told
/// from that of a newer one.
#[test]
fn t21_given_back_twice_while_others_of_its_size_came() {
    const OTHERS: usize = 1000;
    fn case(lab: &Lab) {
        let block = lab.block(64, 16);
        lab.give(block, 64, 16);
        let others: Vec<_> = (0..OTHERS).map(|_| lab.take(64, 16)).collect();
        note("reused", usize::from(others.contains(&block)));
        lab.give(block, 64, 16);
    }
    each(On::ALL, case, |seen| {
        assert_eq!(seen.note("reused"), 0);
        seen.of("double-free", 64, 16).given_in_case();
    });

    // A limit: once the address is another block's, the older pointer is that block's too, and frees it. Who gives it
    // back then hears of the block that there was last.
    fn given_again(lab: &Lab) {
        let block = lab.block(64, 16);
        lab.give(block, 64, 16);
        let newer = takes_until(lab, block);
        lab.give(block, 64, 16);
        note("passed", 1);
        lab.give(newer, 64, 16);
        note("passed twice", 1);
    }
    #[inline(never)]
    fn takes_until(lab: &Lab, block: *mut u8) -> *mut u8 {
        for _ in 0..100_000 {
            let newer = lab.take(64, 16);
            if newer == block {
                return newer;
            }
            lab.give(newer, 64, 16);
        }
        panic!("the address never came back");
    }
    let small = |options: debug_guard::GuardOptions| options.quarantine(0, 0).pages(4096);
    each_with(On::ALL, small, given_again, |seen| {
        seen.note("passed");
        assert!(!seen.noted("passed twice"));
        let told = seen.aborted();
        if seen.config.has_pages() {
            told.kind("double-free").block(seen.note("block"), 64, 16).taken_in("takes_until").given_in_case();
        } else {
            // Without a quarantine its memory is the allocator's behind again, and nobody's block.
            told.kind("foreign-free").without_block().found_in("given_again");
        }
    });
}
