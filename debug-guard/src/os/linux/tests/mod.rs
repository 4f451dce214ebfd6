//! Each on the real kernel, in a process of its own: they take signals, lock memory, use up mappings, fork.

mod faults;
mod forks;
mod limits;
mod regions;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::boxed::Box;
use std::string::String;
use std::vec::Vec;
use std::{format, println};

use testkit::{Child, Finished};

use super::page_size;
use crate::mode::BackEnd;
use crate::os::{Access, BackEnds, Content, Handled, OsRefusal, Region, Trap, page_calls};

const CASE: &str = "STEWARD_OS_CASE";

/// Runs `body` in a process of its own: this binary once more, for this one test.
fn alone(test: &str, body: impl FnOnce()) {
    Child::alone(&named(test), body);
}

fn named(test: &str) -> String {
    format!("os::system::tests::{test}")
}

/// Starts it; the child reads its case from the environment.
fn with_case(test: &str, case: &str) -> Finished {
    Child::this_test(&named(test)).env(CASE, case).run()
}

/// Every back end that the kernel offers; the others are printed.
fn offered() -> Vec<BackEnd> {
    let found = BackEnds::probe();
    let mut offered = Vec::new();
    for back_end in BackEnd::ALL.iter().copied().filter(|&back_end| back_end != BackEnd::Cookies) {
        match found.refusal(back_end) {
            None => offered.push(back_end),
            Some(refusal) => println!("NOT OFFERED {back_end}: {refusal}"),
        }
    }
    assert!(!offered.is_empty(), "every Linux has mprotect");
    offered
}

fn reserve(back_end: BackEnd, pages: usize) -> Result<Region, OsRefusal> {
    Region::reserve(page_calls(back_end).ok_or(OsRefusal::Unavailable)?, pages)
}

/// A region that lives as long as the test, and that [`judge`] knows.
fn region(back_end: BackEnd, pages: usize) -> &'static Region {
    let region =
        Box::leak(Box::new(reserve(back_end, pages).unwrap_or_else(|refusal| panic!("{back_end}: {refusal}"))));
    REGION.store(region, Ordering::Release);
    region
}

/// A page of 0x5A.
fn pattern() -> Option<NonNull<u8>> {
    #[repr(align(65536))]
    struct Page([u8; 65536]);
    static PAGE: Page = Page([0x5A; 65536]);
    Some(NonNull::from(&PAGE.0).cast())
}

/// Provides the pages and fills them with 0x5A.
fn provide(region: &Region, first: usize, count: usize) {
    // SAFETY: the tests use a page for one thing at a time; the pattern is a page.
    let content = unsafe { region.provide(first, count, pattern()) }.unwrap_or_else(|refusal| panic!("{refusal}"));
    let length = count * page_size();
    for at in (0..length).step_by(page_size() / 4) {
        assert_eq!(peek(region.address_of(first) + at), if content == Content::Pattern { 0x5A } else { 0 });
    }
    let start = core::ptr::with_exposed_provenance_mut::<u8>(region.address_of(first));
    // SAFETY: just provided.
    unsafe { start.write_bytes(0x5A, length) };
}

fn revoke(region: &Region, first: usize, count: usize) {
    // SAFETY: the tests touch it afterwards only to be stopped.
    unsafe { region.revoke(first, count) }.unwrap_or_else(|refusal| panic!("{refusal}"));
}

fn pass_on(region: &Region, from: usize, to: usize) -> bool {
    // SAFETY: as for `revoke`.
    unsafe { region.pass_on(from, to) }.unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn peek(address: usize) -> u8 {
    // SAFETY: accessible, or stopped and let land by `judge`; bytes of nobody's.
    unsafe { core::ptr::with_exposed_provenance::<u8>(address).read_volatile() }
}

fn poke(address: usize, value: u8) {
    // SAFETY: as for `peek`.
    unsafe { core::ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(value) };
}

static REGION: AtomicPtr<Region> = AtomicPtr::new(core::ptr::null_mut());
static TRAPS: AtomicUsize = AtomicUsize::new(0);
static LAST: AtomicUsize = AtomicUsize::new(0);
static WRITES: AtomicUsize = AtomicUsize::new(0);

/// Notes what was stopped and lets it land.
fn judge(trap: &Trap) -> Handled {
    // SAFETY: null, or a region that stays.
    let Some(region) = (unsafe { REGION.load(Ordering::Acquire).as_ref() }) else {
        return Handled::No;
    };
    let Some(page) = region.page_of(trap.address) else {
        return Handled::No;
    };
    TRAPS.fetch_add(1, Ordering::Relaxed);
    LAST.store(trap.address, Ordering::Relaxed);
    WRITES.fetch_add(usize::from(trap.access == Some(Access::Write)), Ordering::Relaxed);
    let told = trap.pc != 0 && trap.stack != 0;
    if told && region.land(page, false) { Handled::Resume } else { Handled::No }
}

/// How many accesses `f` was stopped at, how many of them were writes, and where the last was.
fn stopped(f: impl FnOnce()) -> (usize, usize, usize) {
    let before = (TRAPS.load(Ordering::Relaxed), WRITES.load(Ordering::Relaxed));
    f();
    (TRAPS.load(Ordering::Relaxed) - before.0, WRITES.load(Ordering::Relaxed) - before.1, LAST.load(Ordering::Relaxed))
}

/// A number of `/proc/self/status`, in KiB.
fn status(key: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").expect("a process has a status");
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).expect("the key");
    line.split_whitespace().next().expect("a number").parse().expect("a number")
}
