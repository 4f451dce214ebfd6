//! Stacks through libraries that are unloaded when they are reported.

#![cfg(all(target_os = "linux", not(miri)))]

use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::NonNull;

use alloc_core::{FromGlobalAlloc, HostAllocator as _, Scope};
use debug_guard::{Guard, GuardOptions, LeakMark, Mode};
use testkit::skip;

type SystemGuard = Guard<FromGlobalAlloc<std::alloc::System>>;

fn compile(folder: &Path, name: &str) -> Option<PathBuf> {
    let path = folder.join(format!("{name}.so"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plugin.c");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-shared", "-fPIC", &format!("-DPLUGIN={name}"), "-o"]);
    let compiled = cc.args([path.as_path(), Path::new(source)]).output().ok()?;
    assert!(compiled.status.success(), "{compiled:?}");
    Some(path)
}

const LAYOUT: std::alloc::Layout = std::alloc::Layout::new::<[u8; 48]>();

struct AllocationCall<'g> {
    guard: &'g SystemGuard,
    block: Option<NonNull<u8>>,
}

unsafe extern "C" fn allocate(call: *mut c_void) {
    // SAFETY: the test's own struct, which it does not use meanwhile.
    let call = unsafe { &mut *call.cast::<AllocationCall<'_>>() };
    call.block = call.guard.allocate(LAYOUT, Scope::Object).ok();
}

/// Allocates a block through the plugin's function, and unloads the plugin. Returns the block and the function's
/// address.
#[inline(never)]
fn allocate_through(plugin: &Path, name: &str, guard: &SystemGuard) -> (NonNull<u8>, usize) {
    let path = CString::new(plugin.to_str().expect("a name")).expect("no zero");
    let name = CString::new(name).expect("no zero");
    // SAFETY: a library of ours without constructors.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null());
    // SAFETY: just opened.
    let function = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!function.is_null());
    type Through = unsafe extern "C" fn(unsafe extern "C" fn(*mut c_void), *mut c_void);
    // SAFETY: the function has this signature.
    let through = unsafe { std::mem::transmute::<*mut c_void, Through>(function) };
    let mut call = AllocationCall { guard, block: None };
    // SAFETY: the struct lives as long as the call.
    unsafe { through(allocate, (&raw mut call).cast()) };
    // SAFETY: nothing of it is used any more.
    assert_eq!(unsafe { libc::dlclose(library) }, 0);
    (call.block.expect("memory"), function.addr())
}

/// The stacks of all leaks, as text.
fn leaks(guard: &SystemGuard) -> Vec<String> {
    let mut texts = Vec::new();
    let now = guard.mark();
    guard.leaks(LeakMark::default(), now, &mut |leak| texts.push(leak.to_string()));
    texts
}

#[test]
fn a_leak_of_an_unloaded_library_has_its_name_and_another_one_there_has_its_own() {
    let test = "a_leak_of_an_unloaded_library_has_its_name_and_another_one_there_has_its_own";
    let folder = tempfile::tempdir().expect("a folder");
    let Some(first) = compile(folder.path(), "first_plugin") else {
        return skip("cc", test, "there is no compiler for C");
    };
    let second = compile(folder.path(), "second_plugin").expect("a compiler");
    let guard = Guard::new(FromGlobalAlloc::SYSTEM, GuardOptions::new(Mode::Cookie));
    let guard = guard.expect("a guard");
    // At the same address: if not, the test shows less than it means to. Other tests map memory meanwhile.
    let loaded = (0..100).find_map(|_| {
        let (one, first_at) = allocate_through(&first, "first_plugin", &guard);
        let (other, second_at) = allocate_through(&second, "second_plugin", &guard);
        if first_at == second_at {
            return Some((one, other));
        }
        for block in [one, other] {
            // SAFETY: live blocks of this guard.
            unsafe { guard.deallocate(block, LAYOUT, Scope::Object) };
        }
        None
    });
    let (one, other) = loaded.expect("the address of the first library");
    let texts = leaks(&guard);
    for file in [&first, &second] {
        let frame = format!(" {}+0x", file.display());
        let with = texts.iter().filter(|text| text.contains(&frame)).count();
        assert_eq!(with, 1, "{frame}: {texts:#?}");
    }
    let hint = "\n  names of functions: steward symbols FILE, with all of this in FILE";
    assert!(texts.iter().all(|text| text.ends_with(hint)), "{texts:#?}");
    for block in [one, other] {
        // SAFETY: live blocks of this guard.
        unsafe { guard.deallocate(block, LAYOUT, Scope::Object) };
    }
    assert_eq!(leaks(&guard), [""; 0]);
}
