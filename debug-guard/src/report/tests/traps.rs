//! Real traps on pages of a region, each case in a process of its own.

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::boxed::Box;
use std::process::{Command, ExitStatus};
use std::string::String;
use std::vec::Vec;
use std::{eprintln, format, println};

use serde_json::Value;
use testkit::Crash;

use super::*;
use crate::os::{BackEnds, Region, install_fault_handler, page_calls, page_size};

const CHILD: &str = "STEWARD_REPORT_TEST";

struct Ended {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl Ended {
    /// The lines of JSON that it wrote.
    fn reports(&self) -> Vec<Value> {
        let lines = self
            .stderr
            .lines()
            .filter(|line| line.starts_with("{\"debug_guard\":1,"));
        lines
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
            })
            .collect()
    }

    fn went_on(&self) -> &Self {
        assert!(
            self.status.success() && self.stdout.contains("went on"),
            "{}\n{}\n{}",
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }

    fn died_of(&self, crash: Crash) -> &Self {
        assert!(
            crash.ended(self.status),
            "{}\n{}\n{}",
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }
}

/// Runs `body` in a process of its own: this binary once more, for this one test.
fn child(test: &str, body: impl FnOnce()) -> Option<Ended> {
    if std::env::var(CHILD).is_ok_and(|named| named == test) {
        body();
        println!("went on");
        return None;
    }
    let name = format!("report::tests::traps::{test}");
    let program = std::env::current_exe().expect("a path");
    let ended = Command::new(program)
        .args([&name, "--exact", "--nocapture"])
        .env(CHILD, test)
        .output()
        .expect("it starts");
    let [stdout, stderr] =
        [ended.stdout, ended.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    Some(Ended {
        status: ended.status,
        stdout,
        stderr,
    })
}

static REGION: AtomicPtr<Region> = AtomicPtr::new(core::ptr::null_mut());

fn land(address: usize) -> bool {
    // SAFETY: null, or a region that stays.
    let region = unsafe { REGION.load(Ordering::Acquire).as_ref() };
    region.is_some_and(|region| {
        region
            .page_of(address)
            .is_some_and(|page| region.land(page, false))
    })
}

/// A guard of a region of 64 pages, none accessible, that classifies every access as an overflow; the handler stands.
fn guard(on_report: OnReport) -> (&'static Fake, usize) {
    let calls = page_calls(BackEnds::probe().best()).expect("a back end");
    let region = Box::leak(Box::new(Region::reserve(calls, 64).expect("a region")));
    REGION.store(region, Ordering::Release);
    let base = region.base();
    let known = Known {
        start: base + page_size() - 64,
        ..block(1, BlockState::Live)
    };
    let guard = Box::leak(Box::new(Fake {
        range: base..base + 64 * page_size(),
        stopped: StoppedAccess {
            kind: ReportKind::Overflow,
            block: Some(known),
            other: None,
        },
        land,
        ..Fake::new(5, on_report)
    }));
    let entry = Box::leak(Box::new(GuardEntry::new(guard)));
    // SAFETY: both stay for good.
    let _seat = unsafe { REGISTRY.enter(entry) }.expect("a slot");
    install_fault_handler(on_trap).expect("a handler");
    (guard, base + page_size())
}

fn poke(address: usize) {
    // SAFETY: stopped, or let land on a page of nobody's.
    unsafe { core::ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(1) };
}

fn peek(address: usize) -> u8 {
    // SAFETY: as for `poke`.
    unsafe { core::ptr::with_exposed_provenance::<u8>(address).read_volatile() }
}

#[test]
fn a_stopped_write_is_told_and_the_process_aborted() {
    let Some(ended) = child("a_stopped_write_is_told_and_the_process_aborted", || {
        poke(guard(OnReport::Abort).1)
    }) else {
        return;
    };
    ended.died_of(Crash::Abort);
    assert!(
        ended
            .stderr
            .contains("debug-guard: overflow: write 0 bytes past the end of block 0x"),
        "{}",
        ended.stderr
    );
    let [report] = ended.reports().try_into().expect("one report");
    assert_eq!(
        (&report["kind"], &report["access"], &report["moment"]),
        (&"overflow".into(), &"write".into(), &"instruction".into())
    );
    assert_eq!(
        (&report["place"], &report["bytes"]),
        (&"past".into(), &0.into())
    );
    assert_eq!(
        report["by"]["thread_name"]
            .as_str()
            .map(|name| name.starts_with("report::tests")),
        Some(true),
        "{report}"
    );
    // The first frame is the instruction itself, in this very file.
    let frame = &report["by"]["frames"][0];
    assert!(
        frame["module"]
            .as_str()
            .is_some_and(|path| path.contains("debug_guard"))
            && frame["offset"].is_string(),
        "{frame}"
    );
}

#[test]
fn a_panic_asked_for_is_an_abort_in_a_handler_and_says_so() {
    let Some(ended) = child(
        "a_panic_asked_for_is_an_abort_in_a_handler_and_says_so",
        || {
            peek(guard(OnReport::Panic).1 + 1);
        },
    ) else {
        return;
    };
    ended.died_of(Crash::Abort);
    assert_eq!(ended.reports().len(), 1);
    assert!(
        ended.stderr.contains("read 1 byte past the end of")
            && ended.stderr.contains("nothing can unwind"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_panic_asked_for_unwinds_where_it_can() {
    let guard = Fake {
        fd: -1,
        ..Fake::new(6, OnReport::Panic)
    };
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        deliver(
            &guard,
            &ReportContext::new(finding(ReportKind::DoubleFree, None, 16), DetectedAt::Free),
        );
    }));
    let text = caught
        .expect_err("it unwinds")
        .downcast::<String>()
        .expect("a formatted text");
    assert_eq!(*text, "debug-guard: double-free: the report is above");
    assert_eq!(guard.reported.load(Relaxed), 1);
}

#[test]
fn what_is_logged_goes_on() {
    let Some(ended) = child("what_is_logged_goes_on", || {
        let (guard, end) = guard(OnReport::Log);
        poke(end);
        assert_eq!(peek(end), 1, "it landed");
        assert_eq!(guard.reported.load(Relaxed), 1);
        assert_eq!(peek(end + page_size()), peek(end + page_size()));
        assert_eq!(
            (guard.reported.load(Relaxed), guard.lost.load(Relaxed)),
            (2, 0)
        );
    }) else {
        return;
    };
    assert_eq!(ended.went_on().reports().len(), 2);
}

#[test]
fn threads_that_are_stopped_at_once_are_all_told() {
    let Some(ended) = child("threads_that_are_stopped_at_once_are_all_told", || {
        let (guard, end) = guard(OnReport::Log);
        std::thread::scope(|threads| {
            for thread in 0..4 {
                threads.spawn(move || {
                    (0..8).for_each(|page| poke(end + (thread * 8 + page) * page_size()))
                });
            }
        });
        assert_eq!(
            (guard.reported.load(Relaxed), guard.lost.load(Relaxed)),
            (32, 0)
        );
    }) else {
        return;
    };
    assert_eq!(ended.went_on().reports().len(), 32, "each a whole line");
}

#[test]
fn an_access_stopped_within_a_report_is_not_told_and_loops_not() {
    static OTHER: AtomicUsize = AtomicUsize::new(0);
    fn careless(_: &Report<'_>) {
        poke(OTHER.load(Relaxed));
    }
    let Some(ended) = child(
        "an_access_stopped_within_a_report_is_not_told_and_loops_not",
        || {
            let (guard, end) = guard(OnReport::Call(careless));
            OTHER.store(end + page_size(), Relaxed);
            poke(end);
            assert_eq!(
                (guard.reported.load(Relaxed), guard.lost.load(Relaxed)),
                (1, 1)
            );
        },
    ) else {
        return;
    };
    ended.went_on();
    assert_eq!(
        ended
            .stderr
            .matches("something else went wrong within a report")
            .count(),
        1,
        "{}",
        ended.stderr
    );
}

#[test]
fn t41_what_is_not_the_guard_s_is_left_to_who_was_there_before() {
    let Some(ended) = child(
        "t41_what_is_not_the_guard_s_is_left_to_who_was_there_before",
        || {
            let (guard, end) = guard(OnReport::Log);
            poke(end);
            assert_eq!(
                guard.reported.load(Relaxed),
                1,
                "the guard would have told of its own"
            );
            eprintln!("now the other");
            poke(core::hint::black_box(8));
        },
    ) else {
        return;
    };
    ended.died_of(Crash::AccessViolation);
    let (_, later) = ended
        .stderr
        .split_once("now the other")
        .expect("it came so far");
    assert!(!later.contains("debug-guard"), "{later}");
}

/// On Windows: `os/windows/tests.rs`.
#[test]
#[cfg(unix)]
fn t41_an_overflow_of_the_stack_is_told_by_the_runtime() {
    #[expect(unconditional_recursion, reason = "that is the point")]
    fn deeper(n: usize) -> usize {
        let room = core::hint::black_box([n; 64]);
        deeper(n + 1) + room[n % 64]
    }
    let Some(ended) = child(
        "t41_an_overflow_of_the_stack_is_told_by_the_runtime",
        || {
            guard(OnReport::Log);
            deeper(0);
        },
    ) else {
        return;
    };
    ended.died_of(Crash::StackOverflow);
    assert!(
        ended.stderr.contains("stack overflow") && !ended.stderr.contains("debug-guard: "),
        "{}",
        ended.stderr
    );
}

/// That it takes no memory either is seen by `tests/no_global.rs`.
#[test]
fn a_report_fits_a_small_signal_stack() {
    /// As the handler's alternate stack, where none larger can be had.
    const SMALL: usize = 32 << 10;
    let Some(ended) = child("a_report_fits_a_small_signal_stack", || {
        let (guard, end) = guard(OnReport::Log);
        let used = depth(|| {
            let trap = Trap {
                address: end,
                access: None,
                pc: 0,
                frame: 0,
                stack: 0,
            };
            assert_eq!(on_trap(&trap), Handled::Resume);
        });
        assert_eq!(guard.reported.load(Relaxed), 1);
        // The lower bound: that so much was measured at all.
        assert!((1 << 10..SMALL).contains(&used), "{used} bytes of stack");
    }) else {
        return;
    };
    ended.went_on();
}

/// How much stack `f` uses.
#[inline(never)]
fn depth(f: impl FnOnce()) -> usize {
    const ROOM: usize = 64 << 10;
    const PAINT: u8 = 0xa7;
    #[inline(never)]
    fn paint() -> usize {
        let mut room = [0_u8; ROOM];
        core::hint::black_box(&mut room).fill(PAINT);
        room.as_ptr().expose_provenance()
    }
    let start = paint();
    f();
    // What was never reached is still painted: from the far end on.
    let untouched = (start..start + ROOM)
        .take_while(|address| peek(*address) == PAINT)
        .count();
    ROOM - untouched
}
