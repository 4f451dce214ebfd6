//! Reports of hand-made cases: what they say, in words and in JSON, and who gets them.

mod delivery;
mod headline;
#[cfg(all(any(target_os = "linux", all(windows, target_arch = "x86_64")), not(miri)))]
mod traps;

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};
use std::string::{String, ToString};
use std::sync::Mutex;
use std::vec::Vec;

use alloc_core::{ContextId, Scope};
use serde_json::Value;

use super::*;
use crate::block::{BlockMark, BlockState, GuardFinding, Known, SiteId, StoppedAccess};
use crate::call_sites::{RequesterInfo, SiteView};
use crate::changed::Changed;
use crate::mode::{BackEnd, Mode};
use crate::modules::{self, Module};
use crate::os::{Access, Handled, Trap};
use crate::report_kind::ReportKind;
use crate::{CommandMark, os};

/// A guard that knows two sites and keeps one range of addresses.
struct Fake {
    number: u64,
    on_report: OnReport,
    fd: i32,
    json: bool,
    range: core::ops::Range<usize>,
    stopped: StoppedAccess,
    land: fn(usize) -> bool,
    reported: AtomicU32,
    lost: AtomicU32,
}

static TAKEN: [usize; 3] = [0x1000, 0x2000, 0x3000];
static GIVEN: [usize; 2] = [0x4000, 0x5000];

impl Fake {
    fn new(number: u64, on_report: OnReport) -> Self {
        Self {
            number,
            on_report,
            fd: 2,
            json: true,
            range: 0..0,
            stopped: StoppedAccess { kind: ReportKind::Overflow, block: None, other: None },
            land: |_| true,
            reported: AtomicU32::new(0),
            lost: AtomicU32::new(0),
        }
    }
}

impl ReportingGuard for Fake {
    fn name(&self) -> &'static str {
        if self.number == 2 { "second" } else { "first \"one\"" }
    }
    fn number(&self) -> u64 {
        self.number
    }
    fn back_end(&self) -> BackEnd {
        BackEnd::GuardMarkers
    }
    fn on_report(&self) -> OnReport {
        self.on_report
    }
    fn report_to(&self) -> i32 {
        self.fd
    }
    fn json(&self) -> bool {
        self.json
    }
    fn clock(&self) -> u64 {
        100
    }
    fn site(&self, id: SiteId) -> Option<SiteView<'_>> {
        match id.0 {
            1 => Some(SiteView {
                context: ContextId::from_raw(7),
                name: if self.number == 2 { "seconds" } else { "textures" },
                label: Some("level 3"),
                front: 0,
                command: Some("vkCreateImage"),
                frames: &TAKEN,
                whole: true,
                modules: 0,
            }),
            2 => Some(SiteView {
                context: ContextId::from_raw(8),
                name: "cleaner",
                label: None,
                front: 0,
                command: Some("vkDestroyImage"),
                frames: &GIVEN,
                whole: false,
                modules: 0,
            }),
            // Through a C bridge with a header of 16 bytes.
            3 => Some(SiteView { front: 16, ..self.site(SiteId(1))? }),
            _ => None,
        }
    }
    fn command(&self) -> Option<CommandMark> {
        Some(CommandMark { name: "vkQueueSubmit", serial: 43, stack: 0 })
    }
    fn covers(&self, address: usize) -> bool {
        self.range.contains(&address)
    }
    fn classify_access(&self, _: usize) -> StoppedAccess {
        StoppedAccess { kind: self.stopped.kind, block: self.stopped.block, other: self.stopped.other }
    }
    fn land(&self, address: usize) -> bool {
        (self.land)(address)
    }
    fn claims(&self, _: usize) -> Option<Known> {
        None
    }
    fn at_exit(&self) -> Option<i32> {
        None
    }
    fn reported(&self, lost: bool) {
        let count = if lost { &self.lost } else { &self.reported };
        count.fetch_add(1, Relaxed);
    }
}

fn block(site: u32, state: BlockState) -> Known {
    Known {
        start: 0x7f00_0000_0fc0,
        size: 64,
        align: 16,
        scope: Scope::Object,
        state,
        allocated: BlockMark { site: SiteId(site), thread: 4_000_001, serial: 17 },
        freed: BlockMark { site: SiteId(2), thread: 4_000_002, serial: 60 },
        mode: Mode::Strict,
        back_end: BackEnd::UserfaultfdMove,
    }
}

fn finding(kind: ReportKind, block: Option<Known>, address: usize) -> GuardFinding {
    GuardFinding { kind, block, address, changed: None, owner: None }
}

fn text(case: &ReportContext<'_>) -> String {
    let guard = Fake::new(1, OnReport::Log);
    Report::new(&guard, Some(&guard), case, "").to_string()
}

fn headline(case: &ReportContext<'_>) -> String {
    text(case).lines().next().expect("a line").to_string()
}

fn json(case: &ReportContext<'_>) -> Value {
    let guard = Fake::new(1, OnReport::Log);
    let mut line = String::new();
    Report::new(&guard, Some(&guard), case, "/usr/lib/\"odd\"\n.so").write_json(&mut line).expect("a string takes all");
    assert!(!line.contains('\n'), "{line}");
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Each of these places in a line of JSON says that.
fn assert_says(line: &Value, said: &[(&str, &str)]) {
    for (at, said) in said {
        let there = line.pointer(at).map(Value::to_string);
        assert_eq!(there.as_deref(), Some(*said), "{at}");
    }
}

const BLOCK: &str =
    "block 0x7f0000000fc0 (64 bytes, align 16, scope object, of \"textures\" \"level 3\", taken in vkCreateImage)";

#[test]
fn the_line_of_json_holds_the_same() {
    let dead = block(1, BlockState::MovedTo(0x1234_5670));
    let changed = Changed { first: dead.start - 2, span: 40, expected: [0xa1; 16], actual: [0; 16] };
    let case = ReportContext {
        access: Some(Access::Write),
        free_args: Some(FreeArgs { size: 72, align: 16, scope: None }),
        other: Some(block(9, BlockState::Live)),
        ..ReportContext::new(
            GuardFinding { changed: Some(changed), ..finding(ReportKind::Underflow, Some(dead), dead.start - 2) },
            DetectedAt::Check,
        )
    };
    let line = json(&case);
    assert_says(
        &line,
        &[
            ("/debug_guard", "1"),
            ("/kind", r#""underflow""#),
            ("/detected_at", r#""check""#),
            ("/access", r#""write""#),
            ("/address", r#""0x7f0000000fbe""#),
            ("/place", r#""before""#),
            ("/bytes", "2"),
            ("/guard", r#""first \"one\"""#),
            ("/mode", r#""strict""#),
            ("/back_end", r#""userfaultfd-move""#),
            ("/mapping", r#""/usr/lib/\"odd\"\n.so""#),
            ("/block/address", r#""0x7f0000000fc0""#),
            ("/block/size", "64"),
            ("/block/align", "16"),
            ("/block/scope", r#""object""#),
            ("/block/state", r#""moved""#),
            ("/block/moved_to", r#""0x12345670""#),
            ("/block/taken/thread", "4000001"),
            ("/block/taken/serial", "17"),
            ("/block/taken/age", "83"),
            ("/block/taken/owner", r#""textures""#),
            ("/block/taken/label", r#""level 3""#),
            ("/block/taken/context", "7"),
            ("/block/taken/command", r#""vkCreateImage""#),
            ("/block/taken/whole", "true"),
            ("/block/taken/frames/0/address", r#""0x1000""#),
            ("/block/taken/frames/2/address", r#""0x3000""#),
            ("/block/given/owner", r#""cleaner""#),
            ("/block/given/label", "null"),
            ("/by/command", r#""vkQueueSubmit""#),
            ("/by/command_serial", "43"),
            ("/free_args/size", "72"),
            ("/free_args/scope", "null"),
            ("/changed/place", r#""before""#),
            ("/changed/bytes", "2"),
            ("/changed/span", "40"),
            ("/neighbour/taken/owner", r#""""#),
            ("/neighbour_distance", "2"),
            ("/refused", "[]"),
        ],
    );
    assert_eq!(line["process"], std::process::id());
    let bytes = &line["changed"];
    assert_eq!(bytes["expected"], "a1".repeat(16));
    assert_eq!(bytes["found"], "00".repeat(16));
    let far = Known { start: dead.start + (1 << 20), ..block(9, BlockState::Live) };
    let far = json(&ReportContext { other: Some(far), ..case });
    assert!(far["neighbour"].is_null() && far["neighbour_distance"].is_null(), "too far to be told");
    // Nobody doubts which block was meant by who went two bytes too far.
    let other = Known { start: dead.start + 8192, ..block(9, BlockState::Live) };
    let sure = json(&ReportContext { other: Some(other), ..case });
    assert!(sure["neighbour"].is_null(), "much farther than the block itself");
}

#[test]
fn a_leak_is_a_line_for_people_and_one_of_json() {
    let guard = Fake::new(1, OnReport::Log);
    let first = BlockInfo::new(block(1, BlockState::Live), |id| guard.site(id));
    let mut text = String::new();
    let leak = Leak { block: first, blocks: 3, bytes: 192 };
    leak.write(("main", true), &mut text).expect("a string takes all");
    let (words, line) = text.trim_end().rsplit_once('\n').expect("more than one line");
    let headline = std::format!("debug-guard: leak: 3 blocks, 192 bytes, not given back: as {BLOCK}, guard \"main\"");
    let stack = "\n  stack of the allocation:\n    #0  0x1000\n    #1  0x2000\n    #2  0x3000";
    assert_eq!(words, std::format!("{headline}{stack}"));
    let mut alone = String::new();
    leak.write(("main", false), &mut alone).expect("a string takes all");
    assert_eq!(alone.trim_end(), words, "the text alone");
    // As a program prints one itself.
    let one = Leak { blocks: 1, bytes: 1, ..leak }.to_string();
    assert_eq!(one, std::format!("1 block, 1 byte, not given back: {BLOCK}{stack}\n{}", os::NAMES.trim_end()));
    let line: Value = serde_json::from_str(line).expect("JSON");
    assert_says(
        &line,
        &[
            ("/kind", r#""leak""#),
            ("/blocks", "3"),
            ("/bytes", "192"),
            ("/block/taken/serial", "17"),
            ("/block/taken/age", "null"),
            ("/block/given", "null"),
            ("/block/moved_to", "null"),
        ],
    );
}

#[test]
fn every_kind_at_every_moment_can_be_told() {
    use ReportKind::*;
    let kinds = [
        Overflow,
        Underflow,
        UseAfterFree,
        ZeroSizeAccess,
        WildAccess,
        DoubleFree,
        InteriorFree,
        ForeignFree,
        WrongGuard,
        WrongOwner,
        SizeMismatch,
        AlignmentMismatch,
        ScopeMismatch,
        HeaderDamaged,
        HeaderMoved,
    ];
    let times = [
        DetectedAt::Instruction,
        DetectedAt::Free,
        DetectedAt::Reallocation,
        DetectedAt::Eviction,
        DetectedAt::Query,
        DetectedAt::Check,
        DetectedAt::Exit,
    ];
    for kind in kinds {
        for detected_at in times {
            for known in [None, Some(block(1, BlockState::Live)), Some(block(0, BlockState::Freed))] {
                let case = ReportContext::new(finding(kind, known, 0x7f00_0000_0fd0), detected_at);
                let said = headline(&case);
                assert!(said.starts_with(&std::format!("debug-guard: {}: ", kind.name())), "{said}");
                let line = json(&case);
                assert_eq!((&line["kind"], &line["detected_at"]), (&kind.name().into(), &detected_at.name().into()));
                assert_eq!(line["block"].is_null(), known.is_none());
            }
        }
    }
}

#[test]
fn frames_lie_in_files_that_symbols_are_found_for() {
    let here = frames_lie_in_files_that_symbols_are_found_for as fn() as usize;
    assert_eq!(modules::find(here, 0), None);
    let noted = modules::note(&[here, 8]);
    if cfg!(miri) {
        return assert_eq!(modules::find(here, noted), None);
    }
    let module = modules::find(here, noted).expect("this code is in a file");
    let (path, offset) = module.place(here);
    assert!(path.contains("debug_guard"), "{path}");
    let mut name = [0; 1024];
    let now = Module::at(here, &mut name).expect("it is mapped");
    assert_eq!((now.path(), now.build_id()), (path, module.build_id()));
    assert_eq!(modules::find(8, noted), None);
    if cfg!(windows) {
        // Offsets are those of the module, which `nm` does not list.
        return assert!(offset < here && offset % 0x1000 == here % 0x1000);
    }
    // What the file's own symbol table says.
    let mut base = [0; 256];
    let mapping = os::mapping_at(here, &mut base).expect("it is mapped");
    assert_ne!(here - mapping.start + mapping.offset as usize, 0);
    let nm = std::process::Command::new("nm").arg(path).output();
    let Ok(nm) = nm else {
        return testkit::skip("nm", "frames_lie_in_files_that_symbols_are_found_for", "no nm");
    };
    let wanted = std::format!("{offset:016x} ");
    let names = String::from_utf8_lossy(&nm.stdout).into_owned();
    let line = names
        .lines()
        .find(|line| line.starts_with(&wanted))
        .unwrap_or_else(|| panic!("nothing at {offset:#x} in {path}"));
    assert!(line.contains("frames_lie_in_files") || line.contains("call_once"), "{line}");
}
