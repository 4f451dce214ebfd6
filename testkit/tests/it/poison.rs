//! The Mesa RFC's "poison malloc" (row M39), probed: a crate that breaks the rule in every way, under the repository's
//! own clippy.toml and a library's own deny list.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{denied, root, text};
use cargo_metadata::Message;

/// Lines that end with `// refused` must be refused, every other line must not be.
const PROBE: &str = r#"
extern crate std;
pub fn a() { let _: std::vec::Vec<u8>; } // refused
pub fn b() { let _ = std::boxed::Box::new(1_u8); } // refused
pub fn c() { let _ = std::vec![1_u8]; } // refused
pub fn d() { let _ = std::format!("{}", 1); } // refused
pub fn e() { let _ = std::string::String::new(); } // refused
pub fn f() { let _ = std::sync::Arc::new(1_u8); } // refused
pub fn g() { let _ = std::rc::Rc::new(1_u8); } // refused
pub fn h() { let _: std::collections::HashMap<u8, u8>; } // refused
pub fn i() { let _: std::collections::BTreeMap<u8, u8>; } // refused
pub fn j() { let _: std::collections::VecDeque<u8>; } // refused
pub fn k() { let _: allocator_api2::vec::Vec<u8>; } // refused
pub fn k1() { let _: std::ffi::CString; } // refused
pub fn k2() { let _: std::ffi::OsString; } // refused
pub fn k3() { let _: std::path::PathBuf; } // refused
pub fn k4() { let _: std::collections::BTreeSet<u8>; } // refused
pub fn k5(x: &str) { let _ = std::string::ToString::to_string(x); } // refused
pub fn k6(x: &str) { let _ = std::borrow::ToOwned::to_owned(x); } // refused
pub fn k7() { let _ = std::env::var_os("x"); } // refused
pub fn k8() { let _ = std::thread::spawn(|| ()); } // refused
pub fn l() { let _: allocator_api2::boxed::Box<u8>; } // refused
pub fn m() { let _: allocator_api2::alloc::Global; } // refused
pub fn n() { let _: hashbrown::HashMap<u8, u8>; } // refused
pub fn o() { let _: hashbrown::HashTable<u8>; } // refused
pub fn p() { let _: hashbrown::HashSet<u8>; } // refused
pub fn q(l: core::alloc::Layout) { std::alloc::handle_alloc_error(l); } // refused
pub unsafe fn r(l: core::alloc::Layout) -> *mut u8 { unsafe { std::alloc::alloc(l) } } // refused
pub fn s(x: Option<u8>) -> u8 { x.unwrap() } // refused
pub fn t(x: Option<u8>) -> u8 { x.expect("there") } // refused
pub fn u(x: &[u8]) -> u8 { x[0] } // refused
pub fn v() { core::panic!("no") } // refused
pub fn w() { core::todo!() } // refused
pub fn x() { core::unimplemented!() } // refused
pub fn y<A: allocator_api2::alloc::Allocator>(a: A) -> usize { size_of_val(&a) }
#[expect(clippy::disallowed_types, reason = "a file that implements the C interface says why it may")]
pub fn z() -> std::boxed::Box<u8> { third_party() }
#[expect(clippy::disallowed_types, reason = "as above")]
fn third_party() -> std::boxed::Box<u8> { Default::default() }
"#;

#[test]
fn m39_poisoned_allocation_is_refused_by_clippy() {
    const NAME: &str = "m39_poisoned_allocation_is_refused_by_clippy";
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    if !Command::new(&cargo).args(["clippy", "--version"]).output().is_ok_and(|output| output.status.success()) {
        return testkit::skip("clippy", NAME, "cargo clippy is not installed");
    }
    let crate_dir = tempfile::tempdir().expect("a temporary directory");
    let lints = denied(&text("alloc-core/src/lib.rs")).join(", ");
    let source = format!("#![no_std] #![deny({lints})] #![allow(deprecated, missing_docs)]{PROBE}");
    fs::create_dir(crate_dir.path().join("src")).expect("writable");
    fs::write(crate_dir.path().join("src/lib.rs"), &source).expect("writable");
    fs::write(crate_dir.path().join("Cargo.toml"), manifest()).expect("writable");
    fs::copy(root().join("Cargo.lock"), crate_dir.path().join("Cargo.lock")).expect("writable");

    let output = Command::new(&cargo)
        .args(["clippy", "--offline", "--message-format=json"])
        .current_dir(crate_dir.path())
        .env("CLIPPY_CONF_DIR", root())
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("poison"))
        .output()
        .expect("cargo clippy runs");
    let mut refused = BTreeSet::new();
    for message in Message::parse_stream(output.stdout.as_slice()) {
        if let Ok(Message::CompilerMessage(message)) = message
            && let Some(code) = &message.message.code
        {
            assert!(code.code.starts_with("clippy::"), "the probe itself is wrong: {}", message.message);
            refused.extend(message.message.spans.iter().filter(|span| span.is_primary).map(|span| span.line_start));
        }
    }
    let expected: BTreeSet<usize> = source
        .lines()
        .enumerate()
        .filter(|(_, line)| line.ends_with("// refused"))
        .map(|(index, _)| index + 1)
        .collect();
    let lines = |numbers: &BTreeSet<usize>, others: &BTreeSet<usize>| -> Vec<String> {
        numbers.difference(others).filter_map(|number| source.lines().nth(number - 1)).map(str::to_owned).collect()
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(lines(&expected, &refused), Vec::<String>::new(), "these pass: {stderr}");
    assert_eq!(lines(&refused, &expected), Vec::<String>::new(), "these are refused and should not be: {stderr}");
}

fn manifest() -> String {
    let workspace: toml::Table = text("Cargo.toml").parse().expect("the workspace's manifest is TOML");
    let dependency = |name: &str| workspace["workspace"]["dependencies"][name].to_string();
    format!(
        "[package]\nname = \"probe\"\nedition = \"2024\"\n[workspace]\n[dependencies]\nallocator-api2 = {}\nhashbrown = {}\n",
        dependency("allocator-api2"),
        dependency("hashbrown"),
    )
}
