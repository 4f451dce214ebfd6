//! T22 to T27, T36: what is given back is no block, or not this guard's.

use std::alloc::{GlobalAlloc, System};
use std::ptr::NonNull;

use alloc_core::{HostAllocator, Scope};

use crate::common::{Lab, On, each, each_with, gives, layout, note, note_pointer};
use crate::system::{STACK, on_a_stack};

static A_STATIC: [u64; 8] = [7; 8];

#[test]
fn t22_a_pointer_into_a_block() {
    fn small(lab: &Lab) {
        let block = lab.block(64, 16);
        lab.give(block.wrapping_add(16), 48, 16);
    }
    fn large(lab: &Lab) {
        let block = lab.block(300 << 10, 16);
        lab.give(block.wrapping_add(8192), 64, 16);
    }
    each(On::ALL, small, |seen| {
        let told = seen.of("interior-free", 64, 16);
        told.offset(16).taken_in_case().found_in("small");
    });
    each(On::PAGES, large, |seen| {
        seen.of("interior-free", 300 << 10, 16).offset(8192).taken_in_case();
    });
}

#[test]
fn t23_a_pointer_to_something_else() {
    fn stack(lab: &Lab) {
        stray(lab, on_a_stack());
    }
    fn fixed(lab: &Lab) {
        stray(lab, A_STATIC.as_ptr().cast_mut().cast());
    }
    fn nonsense(lab: &Lab) {
        stray(lab, std::ptr::without_provenance_mut(1));
    }
    fn stray(lab: &Lab, pointer: *mut u8) {
        lab.give(lab.take(64, 8), 64, 8);
        note_pointer("stray", pointer);
        lab.give(pointer, 64, 1);
    }
    for_each_stray(stack, STACK);
    for_each_stray(fixed, Some("matrix"));
    for_each_stray(nonsense, None);

    fn for_each_stray<C: Fn(&Lab)>(case: C, mapping: Option<&str>) {
        each(On::ALL, case, |seen| {
            let told = seen.aborted();
            told.kind("foreign-free").without_block().found_in("stray");
            assert_eq!(told.address(), seen.note("stray"));
            if let Some(mapping) = mapping {
                told.mapping(mapping);
            }
        });
    }
}

#[test]
fn t24_a_pointer_far_into_the_guards_own_addresses() {
    const FAR: usize = 1 << 30;
    fn case(lab: &Lab) {
        let block = lab.block(64, 16);
        lab.give(block.wrapping_add(FAR), 64, 16);
    }
    each(On::PAGES, case, |seen| {
        let told = seen.aborted();
        told.kind("foreign-free").without_block().mapping("the guard's own pages").found_in("case");
        assert_eq!(told.address(), seen.note("block") + FAR);
        assert!(seen.finished.stderr.contains(" but lies in the guard's own pages, at free"), "{}", seen.finished);
    });
}

#[test]
fn t25_a_pointer_into_the_page_behind() {
    fn case(lab: &Lab) {
        let block = lab.block(64, 16);
        let end_of_page = block.wrapping_add(64).map_addr(|end| end.next_multiple_of(4096));
        note_pointer("given", end_of_page.wrapping_add(128));
        lab.give(end_of_page.wrapping_add(128), 64, 16);
    }
    each(On::PAGES, case, |seen| {
        // Found by the free itself, not by a fault within it.
        let told = seen.aborted();
        let (block, given) = (seen.note("block"), seen.note("given"));
        told.kind("foreign-free").mapping("the guard's own pages").found_in("case");
        told.block(block, 64, 16).offset_past_end(given - block - 64).taken_in_case();
        assert_eq!(told.address(), given);
        let said = format!(" but lies in the guard's own pages, {} bytes past the end of ", given - block - 64);
        assert!(seen.finished.stderr.contains(&said), "no{said}: {}", seen.finished);
    });
}

/// What `realloc` would be called with.
#[inline(never)]
fn regrows(lab: &Lab, block: *mut u8, old: usize) {
    let block = NonNull::new(block).expect("not null");
    // SAFETY: broken on purpose: the guard must notice, and touches nothing then.
    let grown = unsafe { lab.guard.resize(block, layout(old, 16), layout(256, 16), Scope::Object) };
    note("answered", usize::from(grown.is_ok()));
}

#[test]
fn t26_a_reallocation_of_what_is_no_block() {
    fn freed(lab: &Lab) {
        let block = lab.block(64, 16);
        lab.give(block, 64, 16);
        regrows(lab, block, 64);
    }
    fn interior(lab: &Lab) {
        let block = lab.block(64, 16);
        regrows(lab, block.wrapping_add(16), 48);
    }
    fn foreign(lab: &Lab) {
        let mut local = [[0_u8; 64]; 4];
        let within = local.as_mut_ptr().cast::<u8>();
        note_pointer("block", within);
        lab.give(lab.take(64, 16), 64, 16);
        regrows(lab, within, 64);
        std::hint::black_box(local);
    }
    let aborted = |kind: &'static str| {
        move |seen: &crate::common::SeenByChild| {
            assert!(!seen.noted("answered"));
            let told = seen.aborted();
            told.kind(kind).found("reallocation").found_in("regrows");
            if kind != "foreign-free" {
                told.block(seen.note("block"), 64, 16).taken_in_case();
            }
        }
    };
    each(On::ALL, freed, aborted("double-free"));
    each(On::ALL, interior, aborted("interior-free"));
    each(On::ALL, foreign, aborted("foreign-free"));

    // Where the program goes on it gets an error, and what was there is as it was.
    fn goes_on(lab: &Lab) {
        let block = lab.block(64, 16);
        regrows(lab, block.wrapping_add(16), 48);
        lab.give(block, 64, 16);
    }
    each_with(
        On::ALL,
        |options| options.on_report(debug_guard::OnReport::Log),
        goes_on,
        |seen| {
            seen.ended();
            assert_eq!(seen.note("answered"), 0);
            seen.only().kind("interior-free").block(seen.note("block"), 64, 16);
        },
    );
}

#[test]
fn t27_asked_about_what_is_no_block() {
    #[inline(never)]
    fn asks(lab: &Lab, pointer: *mut u8) {
        let size = lab.guard.usable_size(NonNull::new(pointer).expect("not null"));
        note("answered", size.unwrap_or(usize::MAX));
    }
    fn live(lab: &Lab) {
        asks(lab, lab.block(61, 16));
    }
    each(On::ALL, live, |seen| {
        seen.quiet(1);
        assert_eq!(seen.note("answered"), 61);
    });

    fn freed(lab: &Lab) {
        let block = lab.block(64, 16);
        lab.give(block, 64, 16);
        asks(lab, block);
    }
    each(On::ALL, freed, |seen| {
        assert!(!seen.noted("answered"));
        let told = seen.of("use-after-free", 64, 16);
        told.found("query").found_in("asks").given_in_case();
    });

    fn interior(lab: &Lab) {
        asks(lab, lab.block(64, 16).wrapping_add(3));
    }
    each(On::ALL, interior, |seen| {
        assert!(!seen.noted("answered"));
        seen.of("interior-free", 64, 16).offset(3).found("query").found_in("asks");
    });
}

#[test]
fn t36_blocks_of_the_c_library() {
    fn given_to_the_guard(lab: &Lab) {
        // SAFETY: the size is not 0.
        let block = unsafe { System.alloc(layout(64, 16)) };
        note_pointer("stray", block);
        gives(&lab.guard, block, 64, 16);
    }
    each(On::ALL, given_to_the_guard, |seen| {
        let told = seen.aborted();
        told.kind("foreign-free").without_block().found_in("given_to_the_guard");
        assert_eq!(told.address(), seen.note("stray"));
    });
}
