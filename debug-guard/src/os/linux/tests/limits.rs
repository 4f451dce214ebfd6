//! What a program does to memory behind the guard's back, and what it runs out of.

use std::{println, vec};

use super::super::memory::readable;
use super::super::page_size;
use super::{alone, offered, pass_on, pattern, peek, poke, provide, region, revoke};
use crate::mode::BackEnd;
use crate::os::{BackEnds, OsRefusal};

#[test]
fn locked_pages_come_out_of_reach_like_others() {
    alone("limits::locked_pages_come_out_of_reach_like_others", || {
        for back_end in offered() {
            let region = region(back_end, 64);
            provide(region, 1, 1);
            provide(region, 3, 1);
            let page = core::ptr::with_exposed_provenance(region.address_of(1));
            // SAFETY: changes nothing of what is in the page.
            assert_eq!(unsafe { libc::mlock(page, page_size()) }, 0, "{back_end}");
            if !pass_on(region, 1, 5) {
                revoke(region, 1, 1);
            }
            assert!(!readable(region.address_of(1)), "{back_end}");
            // All of it.
            assert_eq!(
                // SAFETY: changes nothing of what is in memory.
                unsafe { libc::mlockall(libc::MCL_CURRENT) },
                0,
                "{back_end}"
            );
            assert_eq!(
                [0, 1, 2, 4, 7].map(|page| readable(region.address_of(page))),
                [false; 5],
                "{back_end}: locked, and not there"
            );
            assert_eq!(peek(region.address_of(3)), 0x5A, "{back_end}");
            provide(region, 9, 1);
            revoke(region, 3, 1);
            revoke(region, 9, 1);
            assert!(!readable(region.address_of(3)) && !readable(region.address_of(9)), "{back_end}");
            // SAFETY: changes nothing of what is in memory.
            assert_eq!(unsafe { libc::munlockall() }, 0);
        }
    });
}

#[test]
fn a_region_made_after_everything_to_come_was_locked_takes_no_memory() {
    alone("limits::a_region_made_after_everything_to_come_was_locked_takes_no_memory", || {
        let offered = offered();
        // SAFETY: changes nothing of what is in memory.
        assert_eq!(unsafe { libc::mlockall(libc::MCL_FUTURE) }, 0);
        for back_end in offered {
            let before = super::status("VmRSS");
            let region = region(back_end, 1 << 20);
            provide(region, 1, 1);
            revoke(region, 1, 1);
            assert!(!readable(region.address_of(1)), "{back_end}");
            let after = super::status("VmRSS");
            assert!(after < before + 8192, "{back_end}: {before} KiB, then {after}");
        }
    });
}

/// Pins one page as a driver does: io_uring keeps registered buffers. The descriptor, which holds them.
fn pin(address: usize) -> Option<std::os::fd::OwnedFd> {
    use std::os::fd::{AsRawFd, FromRawFd};
    let mut parameters = [0_u32; 30];
    // SAFETY: the structure that the call takes has 120 bytes.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
    let ring = i32::try_from(ring).ok().filter(|&ring| ring >= 0)?;
    // SAFETY: a descriptor that nobody else has.
    let ring = unsafe { std::os::fd::OwnedFd::from_raw_fd(ring) };
    let buffer = libc::iovec { iov_base: core::ptr::with_exposed_provenance_mut(address), iov_len: page_size() };
    // SAFETY: one buffer, of the test's own.
    let answer = unsafe { libc::syscall(libc::SYS_io_uring_register, ring.as_raw_fd(), 0, &raw const buffer, 1) };
    (answer == 0).then_some(ring)
}

#[test]
fn gv26_a_pinned_page_is_not_passed_on_and_comes_out_of_reach_all_the_same() {
    alone("limits::gv26_a_pinned_page_is_not_passed_on_and_comes_out_of_reach_all_the_same", || {
        for back_end in offered() {
            let region = region(back_end, 8);
            provide(region, 1, 1);
            let Some(ring) = pin(region.address_of(1)) else {
                return testkit::skip("io_uring", "gv26", "a pinned page: no io_uring here");
            };
            assert!(!pass_on(region, 1, 3), "{back_end}: pinned");
            revoke(region, 1, 1);
            provide(region, 3, 1);
            assert!(!readable(region.address_of(1)), "{back_end}");
            drop(ring);
        }
    });
}

#[test]
fn where_the_system_counts_what_it_promises_a_region_asks_for_little_at_a_time() {
    alone("limits::where_the_system_counts_what_it_promises_a_region_asks_for_little_at_a_time", || {
        let offered = offered();
        let room = 512 << 20;
        let limit = libc::rlimit { rlim_cur: room, rlim_max: room };
        // Counts writable private memory as vm.overcommit_memory=2 does, for this process alone.
        assert_eq!(
            // SAFETY: reads the limit.
            unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) },
            0
        );
        for back_end in offered {
            if usize::BITS < 64 {
                return;
            }
            let region = region(back_end, 1 << 26);
            provide(region, 1, 1);
            let per = (64 << 20) / page_size();
            let mut refused = vec![];
            for segment in 0..16 {
                // SAFETY: each page is provided once.
                let answer = unsafe { region.provide(segment * per + 2, 1, pattern()) };
                refused.extend(answer.err());
            }
            match back_end {
                BackEnd::Mprotect => assert_eq!(refused, [], "asks for a page at a time"),
                _ => assert!(
                    matches!(refused.first(), Some(OsRefusal::Call { errno: libc::ENOMEM, .. })) && refused.len() < 16,
                    "{back_end}: {refused:?}"
                ),
            }
            poke(region.address_of(1), 3);
            // SAFETY: the test's own pages, which nobody uses any more.
            unsafe { super::super::memory::unmap(region.base(), region.pages() * page_size()) };
        }
    });
}

#[test]
fn probing_is_done_once_and_names_the_best() {
    let found = BackEnds::probe();
    for &back_end in BackEnd::ALL {
        match found.refusal(back_end) {
            None => println!("{back_end}: offered"),
            Some(refusal) => println!("{back_end}: {refusal}"),
        }
        assert_eq!(found.offers(back_end), found.refusal(back_end).is_none());
    }
    assert!(found.offers(BackEnd::Cookies) && found.offers(BackEnd::Mprotect));
    let best = BackEnd::ALL.iter().copied().find(|&back_end| found.offers(back_end));
    assert_eq!(Some(found.best()), best);
}
