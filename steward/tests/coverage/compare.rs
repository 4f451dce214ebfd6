//! In a child with the meter preloaded: the same run by the meter's flags, by return addresses, and by the accounts.

use std::alloc::System;

use alloc_core::FromGlobalAlloc;
use vk_accounts::accounting::{Accounts, Watching};
use vk_steward::callback_coverage::meter::{self, ThreadActivity};
use vk_steward::callback_coverage::{Way, under_the_meter};
use vk_steward::drivers;
use vk_steward::workload::{self, Options};

use crate::by_address;

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// How far two methods may be apart: one in a hundred.
const APART: u64 = 100;

pub(super) fn on(driver: &str, way: Way) {
    by_address::begin();
    // SAFETY: the only thread of our own. The drivers that CI installs keep no thread that reads the environment.
    let mut driver = unsafe { drivers::select(Some(driver)) }.expect("the parent looked");
    if way == Way::Direct {
        // SAFETY: the driver that the loader just ran.
        driver = unsafe { drivers::directly(driver.info().clone()) }
            .expect("it has what the loader needs");
    }
    let options = Options {
        seed: 7,
        rounds: 3,
        ..Options::default()
    };
    // SAFETY: the backing lives for ever.
    let accounts =
        unsafe { Accounts::new(&SYSTEM, Watching::default()) }.expect("the system has memory");
    let before = by_address::read();
    let run = under_the_meter(&driver, &accounts, &options).expect("it runs");
    let seen = by_address::read().since(before);
    let charged = accounts.total().total().total_bytes;
    accounts.finish().expect("the system has memory");

    agree(
        "bytes past callbacks, by flags and by addresses",
        run.past_bytes(),
        seen.others.1,
    );
    agree(
        "calls past callbacks, by flags and by addresses",
        run.in_command_calls + run.never_issued_calls,
        seen.others.0,
    );
    let program = run.application_bytes + run.in_callback_bytes;
    agree(
        "bytes of the program, by flags and by addresses",
        program,
        seen.program.1,
    );
    agree(
        "all bytes, by flags and by addresses",
        program + run.past_bytes(),
        seen.program.1 + seen.others.1,
    );
    let asked = run.callback_bytes + 16 * run.callback_calls;
    agree(
        "bytes within callbacks, and asked of them with 16 a block",
        run.in_callback_bytes,
        asked,
    );
    if way == Way::Direct {
        agree(
            "bytes asked of callbacks with 16 a block, and by the accounts",
            asked,
            charged,
        );
    } else {
        // The loader resizes blocks: the accounts take the difference, the meter the whole.
        println!(
            "    bytes by the accounts, which count a block that grows by its growth: {charged}"
        );
        assert!(
            charged < asked && asked - charged < asked / 20,
            "{asked} and {charged}"
        );
    }
    // What is compared is not next to nothing.
    assert!(
        run.past_bytes() > 10 << 20
            && run.callback_bytes > 64 << 10
            && run.never_issued_bytes > 1 << 20,
        "{run:?}"
    );

    // Without brackets the flags say nothing of commands, and the addresses say the same as before: they would have told.
    // SAFETY: as above.
    let accounts =
        unsafe { Accounts::new(&SYSTEM, Watching::default()) }.expect("the system has memory");
    let (flags, addresses) = (meter::read().expect("preloaded"), by_address::read());
    workload::run(&driver, &accounts, &options).expect("it runs");
    let (flags, addresses) = (
        meter::read().expect("preloaded").since(&flags),
        by_address::read().since(addresses),
    );
    let past =
        flags.of(ThreadActivity::InCommand).bytes + flags.of(ThreadActivity::NeverIssued).bytes;
    assert!(
        apart(past, addresses.others.1) > addresses.others.1 / APART,
        "{past} bytes, and {addresses:?}"
    );
    println!("agree");
}

fn apart(a: u64, b: u64) -> u64 {
    a.abs_diff(b)
}

fn agree(what: &str, a: u64, b: u64) {
    println!("    {what}: {a} and {b}, {} apart", apart(a, b));
    assert!(apart(a, b) <= b / APART, "{what}: {a} and {b}");
}
