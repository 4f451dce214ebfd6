//! What every back end promises of a region.

use std::{format, println};

use super::super::maps::count_mappings;
use super::super::memory::readable;
use super::super::page_size;
use super::{alone, offered, pass_on, peek, poke, provide, region, revoke, status};
use crate::mode::BackEnd;

#[test]
fn content_goes_along_when_a_page_is_passed_on() {
    alone("regions::content_goes_along_when_a_page_is_passed_on", || {
        for back_end in offered() {
            let region = region(back_end, 8);
            provide(region, 1, 1);
            poke(region.address_of(1) + 77, 0xEE);
            let passed = pass_on(region, 1, 3);
            assert_eq!(passed, back_end == BackEnd::UserfaultfdMove, "{back_end}");
            let at = if passed { 3 } else { 1 };
            assert!(!passed || !readable(region.address_of(1)), "{back_end}: the old place is out of reach");
            assert_eq!(
                (peek(region.address_of(at) + 77), peek(region.address_of(at) + 78)),
                (0xEE, 0x5A),
                "{back_end}"
            );
            // A page on which an access landed stands in the way: told, and nothing changed.
            assert!(region.land(5, false));
            assert!(!pass_on(region, at, 5), "{back_end}");
            assert_eq!(peek(region.address_of(at) + 77), 0xEE, "{back_end}");
        }
    });
}

#[test]
fn pages_take_memory_while_they_are_provided_and_mappings_only_under_mprotect() {
    alone("regions::pages_take_memory_while_they_are_provided_and_mappings_only_under_mprotect", || {
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
            assert!(filled - memory >= BLOCKS * page * 9 / 10, "{back_end}: {memory} KiB, then {filled}");
            assert!(emptied < memory + BLOCKS * page / 10, "{back_end}: {memory} KiB, {filled}, then {emptied}");
            if back_end == BackEnd::Mprotect {
                assert!((2 * BLOCKS - 10..=2 * BLOCKS + 10).contains(&(cut - mappings)), "{mappings}, then {cut}");
            } else {
                assert!(cut <= mappings + 2, "{back_end}: {mappings}, then {cut}");
            }
            assert!(whole <= mappings + 2, "{back_end}: {mappings}, {cut}, then {whole}: they merge again");
            println!(
                "{back_end}: {BLOCKS} blocks take {} mappings and {} KiB, of which {} KiB stay",
                cut - mappings,
                filled - memory,
                emptied.saturating_sub(memory)
            );
        }
    });
}

#[test]
fn long_runs_are_zero_and_take_memory_when_they_are_touched() {
    alone("regions::long_runs_are_zero_and_take_memory_when_they_are_touched", || {
        for back_end in offered() {
            let (region, page) = (region(back_end, 5000), page_size());
            for _ in 0..2 {
                let before = status("VmRSS");
                // SAFETY: pages of the test, not provided.
                unsafe { region.provide(1, 4096, None) }.expect("pages");
                assert!(status("VmRSS") < before + 4096 * page / 1024 / 2, "{back_end}: memory comes later");
                assert_eq!(
                    [0, page * 4096 - 1, page * 77 + 5].map(|at| peek(region.address_of(1) + at)),
                    [0; 3],
                    "{back_end}"
                );
                assert!(!readable(region.address_of(4097)) && !readable(region.base()), "{back_end}");
                poke(region.address_of(100), 1);
                revoke(region, 1, 4096);
                assert!(!readable(region.address_of(100)) && !readable(region.address_of(4096)), "{back_end}");
            }
            provide(region, 1, 40);
            revoke(region, 1, 40);
        }
    });
}

#[test]
fn what_a_landed_access_wrote_is_gone_when_its_page_is_provided() {
    alone("regions::what_a_landed_access_wrote_is_gone_when_its_page_is_provided", || {
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
    });
}

#[test]
fn a_region_that_goes_gives_its_addresses_back() {
    alone("regions::a_region_that_goes_gives_its_addresses_back", || {
        for back_end in offered() {
            let before = count_mappings();
            // More than there are places in any list.
            for _ in 0..600 {
                let region = super::reserve(back_end, 64).unwrap_or_else(|refusal| panic!("{back_end}: {refusal}"));
                provide(&region, 1, 1);
                revoke(&region, 1, 1);
            }
            assert!(count_mappings() <= before + 1, "{back_end}");
        }
        let message = format!("{}", super::reserve(BackEnd::Cookies, 4).map(|_| ()).expect_err("no pages"));
        assert!(message.contains("cookies"), "{message}");
        for pages in [0, usize::MAX, usize::MAX / page_size()] {
            assert!(super::reserve(BackEnd::Mprotect, pages).is_err(), "{pages} pages");
        }
    });
}
