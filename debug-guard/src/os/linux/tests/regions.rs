//! What every back end promises of a region.

use std::{format, println};

use super::super::maps::count_mappings;
use super::super::memory::readable;
use super::super::{install_fault_handler, page_size};
use super::{alone, judge, offered, pass_on, peek, poke, provide, region, revoke, status, stopped};
use crate::mode::BackEnd;

#[test]
fn an_access_is_stopped_at_its_byte_and_told_as_what_it_is() {
    alone(
        "regions::an_access_is_stopped_at_its_byte_and_told_as_what_it_is",
        || {
            install_fault_handler(judge).expect("a handler");
            for back_end in offered() {
                let (region, page) = (region(back_end, 9), page_size());
                provide(region, 1, 1);
                provide(region, 4, 2);
                let [first, two] = [region.address_of(1), region.address_of(4)];
                for (inside, value) in [
                    (first, 1),
                    (first + page - 1, 2),
                    (two, 3),
                    (two + 2 * page - 1, 4),
                ] {
                    assert_eq!(
                        stopped(|| poke(inside, value)),
                        stopped(|| ()),
                        "{back_end}: a provided page is accessible"
                    );
                    assert_eq!(peek(inside), value);
                }
                // Reads and writes on pages that never were, in front and behind.
                let behind = first + page + 5;
                assert_eq!(
                    stopped(|| assert_eq!(peek(behind), 0)),
                    (1, 0, behind),
                    "{back_end}: a read behind"
                );
                assert_eq!(
                    stopped(|| poke(first - 1, 7)),
                    (1, 1, first - 1),
                    "{back_end}: a write in front"
                );
                assert_eq!(peek(first - 1), 7, "{back_end}: it landed");
                // And on one that is dead.
                revoke(region, 1, 1);
                assert_eq!(
                    stopped(|| assert_eq!(peek(first + 9), 0)),
                    (1, 0, first + 9),
                    "{back_end}: a read after the end"
                );
                revoke(region, 1, 1);
                assert_eq!(
                    stopped(|| poke(first + 17, 1)),
                    (1, 1, first + 17),
                    "{back_end}: a write after the end"
                );
                // What landed is provided anew like any other.
                revoke(region, 1, 1);
                provide(region, 1, 1);
                assert_eq!(
                    (peek(two), peek(two + 2 * page - 1)),
                    (3, 4),
                    "{back_end}: nobody touched the others"
                );
                println!("{back_end}: stopped, told, landed");
            }
        },
    );
}

#[test]
fn an_access_far_beyond_what_is_open_is_stopped_too() {
    alone(
        "regions::an_access_far_beyond_what_is_open_is_stopped_too",
        || {
            install_fault_handler(judge).expect("a handler");
            for back_end in offered() {
                let region = region(back_end, 1 << 20);
                provide(region, 1, 1);
                let far = region.address_of((1 << 20) - 1) + 3;
                assert_eq!(stopped(|| poke(far, 1)), (1, 1, far), "{back_end}");
                assert_eq!(peek(far), 1, "{back_end}");
                // The page was let through before its stretch was open.
                let last = region.pages() - 1;
                revoke(region, last, 1);
                provide(region, last, 1);
                assert_eq!(peek(far), 0x5A, "{back_end}");
            }
        },
    );
}

#[test]
fn the_kernel_answers_efault() {
    alone("regions::the_kernel_answers_efault", || {
        for back_end in offered() {
            let region = region(back_end, 4);
            provide(region, 1, 1);
            let [live, dead] = [1, 2].map(|page| region.address_of(page));
            let mut ends = [0; 2];
            // SAFETY: makes two descriptors.
            assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
            let [from, to] = ends;
            let answer = |address: usize, reads: bool| {
                let bytes = core::ptr::with_exposed_provenance_mut(address);
                let done = if reads {
                    // SAFETY: the page is of nobody's, or the kernel refuses it.
                    unsafe { libc::read(from, bytes, 8) }
                } else {
                    // SAFETY: as above.
                    unsafe { libc::write(to, bytes, 8) }
                };
                (
                    done,
                    if done == -1 {
                        super::super::memory::errno()
                    } else {
                        0
                    },
                )
            };
            assert_eq!(answer(live, false), (8, 0), "{back_end}");
            assert_eq!(
                answer(dead, false),
                (-1, libc::EFAULT),
                "{back_end}: write(2) from a page that is not there"
            );
            assert_eq!(
                answer(dead, true),
                (-1, libc::EFAULT),
                "{back_end}: read(2) into one"
            );
        }
    });
}

#[test]
fn content_goes_along_when_a_page_is_passed_on() {
    alone(
        "regions::content_goes_along_when_a_page_is_passed_on",
        || {
            for back_end in offered() {
                let region = region(back_end, 8);
                provide(region, 1, 1);
                poke(region.address_of(1) + 77, 0xEE);
                let passed = pass_on(region, 1, 3);
                assert_eq!(passed, back_end == BackEnd::UserfaultfdMove, "{back_end}");
                let at = if passed { 3 } else { 1 };
                assert!(
                    !passed || !readable(region.address_of(1)),
                    "{back_end}: the old place is out of reach"
                );
                assert_eq!(
                    (
                        peek(region.address_of(at) + 77),
                        peek(region.address_of(at) + 78)
                    ),
                    (0xEE, 0x5A),
                    "{back_end}"
                );
                // A page on which an access landed stands in the way: told, and nothing changed.
                assert!(region.land(5, false));
                assert!(!pass_on(region, at, 5), "{back_end}");
                assert_eq!(peek(region.address_of(at) + 77), 0xEE, "{back_end}");
            }
        },
    );
}

#[test]
fn pages_take_memory_while_they_are_provided_and_mappings_only_under_mprotect() {
    alone(
        "regions::pages_take_memory_while_they_are_provided_and_mappings_only_under_mprotect",
        || {
            const BLOCKS: usize = 4000;
            for back_end in offered() {
                let region = region(back_end, 2 * BLOCKS + 1);
                provide(region, 1, 1);
                revoke(region, 1, 1);
                let (memory, mappings) = (status("VmRSS"), count_mappings());
                assert!(mappings > 5, "the list can be read");
                for block in 0..BLOCKS {
                    provide(region, 2 * block + 1, 1);
                }
                let (filled, cut) = (status("VmRSS"), count_mappings());
                for block in 0..BLOCKS {
                    revoke(region, 2 * block + 1, 1);
                }
                let (emptied, whole) = (status("VmRSS"), count_mappings());
                let page = page_size() / 1024;
                assert!(
                    filled - memory >= BLOCKS * page * 9 / 10,
                    "{back_end}: {memory} KiB, then {filled}"
                );
                assert!(
                    emptied < memory + BLOCKS * page / 10,
                    "{back_end}: {memory} KiB, {filled}, then {emptied}"
                );
                if back_end == BackEnd::Mprotect {
                    assert!(
                        (2 * BLOCKS - 10..=2 * BLOCKS + 10).contains(&(cut - mappings)),
                        "{mappings}, then {cut}"
                    );
                } else {
                    assert!(cut <= mappings + 2, "{back_end}: {mappings}, then {cut}");
                }
                assert!(
                    whole <= mappings + 2,
                    "{back_end}: {mappings}, {cut}, then {whole}: they merge again"
                );
                println!(
                    "{back_end}: {BLOCKS} blocks take {} mappings and {} KiB, of which {} KiB stay",
                    cut - mappings,
                    filled - memory,
                    emptied.saturating_sub(memory)
                );
            }
        },
    );
}

#[test]
fn long_runs_are_zero_and_take_memory_when_they_are_touched() {
    alone(
        "regions::long_runs_are_zero_and_take_memory_when_they_are_touched",
        || {
            for back_end in offered() {
                let (region, page) = (region(back_end, 5000), page_size());
                for _ in 0..2 {
                    let before = status("VmRSS");
                    // SAFETY: pages of the test, not provided.
                    unsafe { region.provide(1, 4096, None) }.expect("pages");
                    assert!(
                        status("VmRSS") < before + 4096 * page / 1024 / 2,
                        "{back_end}: memory comes later"
                    );
                    assert_eq!(
                        [0, page * 4096 - 1, page * 77 + 5]
                            .map(|at| peek(region.address_of(1) + at)),
                        [0; 3],
                        "{back_end}"
                    );
                    assert!(
                        !readable(region.address_of(4097)) && !readable(region.base()),
                        "{back_end}"
                    );
                    poke(region.address_of(100), 1);
                    revoke(region, 1, 4096);
                    assert!(
                        !readable(region.address_of(100)) && !readable(region.address_of(4096)),
                        "{back_end}"
                    );
                }
                provide(region, 1, 40);
                revoke(region, 1, 40);
            }
        },
    );
}

#[test]
fn what_a_landed_access_wrote_is_gone_when_its_page_is_provided() {
    alone(
        "regions::what_a_landed_access_wrote_is_gone_when_its_page_is_provided",
        || {
            for back_end in offered() {
                let region = region(back_end, 64);
                provide(region, 1, 1);
                assert!(region.land(5, false), "{back_end}");
                let start = core::ptr::with_exposed_provenance_mut::<u8>(region.address_of(5));
                // SAFETY: landed just now.
                unsafe { start.write_bytes(0xEE, page_size()) };
                // Finds what it provides.
                provide(region, 5, 1);
            }
        },
    );
}

#[test]
fn a_region_that_goes_gives_its_addresses_back() {
    alone(
        "regions::a_region_that_goes_gives_its_addresses_back",
        || {
            for back_end in offered() {
                let before = count_mappings();
                // More than there are places in any list.
                for _ in 0..600 {
                    let region = super::reserve(back_end, 64)
                        .unwrap_or_else(|refusal| panic!("{back_end}: {refusal}"));
                    provide(&region, 1, 1);
                    revoke(&region, 1, 1);
                }
                assert!(count_mappings() <= before + 1, "{back_end}");
            }
            let message = format!(
                "{}",
                super::reserve(BackEnd::Cookies, 4)
                    .map(|_| ())
                    .expect_err("no pages")
            );
            assert!(message.contains("cookies"), "{message}");
            for pages in [0, usize::MAX, usize::MAX / page_size()] {
                assert!(
                    super::reserve(BackEnd::Mprotect, pages).is_err(),
                    "{pages} pages"
                );
            }
        },
    );
}
