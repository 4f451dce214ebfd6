//! `steward symbols` over what a guard of this very program writes: the functions that are named stand here.

#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]

use std::alloc::{Layout, System};
use std::ptr::NonNull;
use std::sync::Mutex;

use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};
use debug_guard::{Guard, GuardOptions, LeakMark, Mode, OnReport, Report};
use serde_json::Value;
use testkit::{Child, Finished};

type Under = Guard<FromGlobalAlloc<System>>;

/// What was reported, text and line.
static TOLD: Mutex<String> = Mutex::new(String::new());

fn hears(report: &Report<'_>) {
    let mut told = TOLD.lock().expect("no panic");
    told.push_str(&report.to_string());
    report.write_json(&mut *told).expect("a string takes all");
    told.push('\n');
}

fn guard() -> Under {
    let options = GuardOptions::new(Mode::Cookie).on_report(OnReport::Call(hears));
    Guard::new(FromGlobalAlloc::SYSTEM, options).expect("a guard")
}

#[inline(never)]
fn takes_a_block(guard: &Under) -> NonNull<u8> {
    std::hint::black_box(guard.allocate(Layout::new::<[u64; 5]>(), Scope::Object).expect("memory"))
}

#[inline(never)]
fn gives_it_back(guard: &Under, block: NonNull<u8>) {
    // SAFETY: live the first time; the second one is broken on purpose, and the guard frees no block twice.
    unsafe { guard.deallocate(block, Layout::new::<[u64; 5]>(), Scope::Object) };
    std::hint::black_box(());
}

/// What the program makes of a file with this in it.
fn symbols(text: &str, more: &[&str]) -> Finished {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("written");
    std::fs::write(&file, text).expect("a file");
    let done =
        Child::new(env!("CARGO_BIN_EXE_steward")).args(["symbols", file.to_str().expect("UTF-8")]).args(more).run();
    done.assert_code(0);
    done
}

/// The first function that is told below the heading.
fn first_below<'t>(text: &'t str, heading: &str) -> &'t str {
    let mut lines = text.lines().skip_while(|line| !line.trim_start().starts_with(heading));
    lines.find(|line| line.starts_with("         ")).unwrap_or_else(|| panic!("nothing below {heading}: {text}"))
}

#[test]
fn a_stack_begins_where_the_program_called_and_the_json_has_all_of_it() {
    let guard = guard();
    let block = takes_a_block(&guard);
    gives_it_back(&guard, block);
    gives_it_back(&guard, block);
    let told = std::mem::take(&mut *TOLD.lock().expect("no panic"));
    assert!(told.contains("double-free"), "{told}");

    let named = symbols(&told, &[]).stdout;
    for (heading, function) in [
        ("stack of the allocation", "takes_a_block"),
        ("stack of the free", "gives_it_back"),
        ("stack of this free", "gives_it_back"),
    ] {
        let first = first_below(&named, heading);
        assert!(first.contains(function) && first.contains("symbols.rs:"), "{heading}: {first}\n{named}");
    }
    assert_eq!(named.matches(": the guard and what called it, ").count(), 3, "{named}");
    assert_eq!(named.matches(": the runtime\n").count(), 3, "{named}");
    assert!(
        told.contains("names of functions: steward symbols FILE") && !named.contains("names of functions: "),
        "{named}"
    );

    // The line has every frame, and says how many of them the text leaves out.
    let line = |text: &str| -> Value {
        let line = text.lines().find(|line| line.starts_with('{')).expect("a line of JSON");
        serde_json::from_str(line).expect("JSON")
    };
    let (before, after) = (line(&told), line(&named));
    for (deed, function) in
        [("/block/taken", "takes_a_block"), ("/block/given", "gives_it_back"), ("/by", "gives_it_back")]
    {
        let [before, deed] = [&before, &after].map(|line| line.pointer(deed).expect("a deed"));
        let frames = |deed: &Value| deed["frames"].as_array().expect("frames").len();
        assert_eq!(frames(before), frames(deed));
        let trimmed = deed["trimmed"].as_u64().expect("a number") as usize;
        assert!(trimmed > 0, "{deed}");
        let name = |frame: usize| deed["frames"][frame]["functions"].to_string();
        assert!(name(trimmed).contains(function) && !name(trimmed - 1).contains(function), "{deed}");
    }

    // As it is asked for, the text has them too.
    let whole = symbols(&told, &["--all-frames"]).stdout;
    assert!(first_below(&whole, "stack of the allocation").contains("debug_guard::"), "{whole}");
    let again = symbols(&named, &[]).stdout;
    assert_eq!(again.matches("\"trimmed\":").count(), 3, "{again}");
}

#[test]
fn a_leak_s_text_has_a_stack_that_can_be_named() {
    let guard = guard();
    let block = takes_a_block(&guard);
    let mut told = String::new();
    guard.leaks(LeakMark::default(), guard.mark(), &mut |leak| told.push_str(&format!("{leak}\n")));
    gives_it_back(&guard, block);
    assert!(told.starts_with("1 block, 40 bytes, not given back: block 0x"), "{told}");
    let named = symbols(&told, &[]).stdout;
    assert!(first_below(&named, "stack of the allocation").contains("takes_a_block"), "{named}");
}

#[test]
fn files_that_are_gone_or_younger_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, program) = (folder.path().join("written"), folder.path().join("program"));
    let steward = || Child::new(env!("CARGO_BIN_EXE_steward")).args(["symbols", file.to_str().expect("UTF-8")]).run();
    std::fs::write(&file, format!("    #0  0x1000 {}+0x1000\n", program.display())).expect("a file");
    let gone = steward();
    assert!(gone.assert_code(0).stderr.contains("program cannot be read: its functions are not named"), "{gone}");
    std::fs::copy(std::env::current_exe().expect("a path"), &program).expect("a copy");
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(10);
    std::fs::File::options()
        .write(true)
        .open(&program)
        .and_then(|copy| copy.set_modified(later))
        .expect("a file of ours");
    let younger = steward();
    assert!(younger.assert_code(0).stderr.contains("program is younger than /"), "{younger}");
    std::fs::File::options().write(true).open(&file).and_then(|text| text.set_modified(later)).expect("a file of ours");
    assert_eq!(steward().assert_code(0).stderr, "");
    std::fs::write(&file, "nothing\n").expect("a file");
    let nothing = steward();
    assert!(
        nothing.assert_code(0).stderr.contains("no stack of a guard in /") && nothing.stdout == "nothing\n",
        "{nothing}"
    );
}
