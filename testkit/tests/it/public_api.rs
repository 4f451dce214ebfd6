//! The lister of public functions, on a made-up crate and on a real one.

use std::fs;
use std::path::Path;

use testkit::public_api;

#[test]
fn lists_what_is_offered_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| {
        let file = dir.path().join(name);
        fs::create_dir_all(file.parent().expect("inside the directory")).expect("writable");
        fs::write(file, text).expect("writable");
    };
    write(
        "lib.rs",
        "mod a; mod glob; pub mod open; #[cfg(test)] mod tests; #[cfg(feature = \"testing\")] pub mod fake;
         #[cfg(feature = \"other\")] mod offer; #[cfg(feature = \"other\")] pub use offer::*; pub use a::{Thing, free, deep::Face}; pub use glob::*;",
    );
    write(
        "a.rs",
        "pub mod deep; pub struct Thing; pub struct Inner; pub fn free() {} pub fn kept() {}
         impl Thing { pub fn one(&self) {} pub unsafe fn two() {} fn three() {} pub(crate) fn four() {} #[cfg(test)] pub fn five() {} }
         impl<'a, T: ?Sized> Thing<'a, T> { pub const fn six() {} }
         impl Inner { pub fn seven() {} }
         impl Clone for Thing { fn clone(&self) -> Self { Thing } }",
    );
    write(
        "a/deep.rs",
        "pub unsafe trait Face { fn eight(&self); unsafe fn nine(&self) {} } pub trait Hidden { fn ten(); }",
    );
    write("glob/mod.rs", "pub fn eleven() {} fn twelve() {}");
    write("open.rs", "pub fn thirteen() {}");
    write("tests.rs", "pub fn fourteen() {}");
    write("fake.rs", "pub fn fifteen() {}");
    write("offer.rs", "pub fn sixteen() {}");
    assert_eq!(
        public_api(dir.path()),
        [
            "Face::eight",
            "Face::nine",
            "Thing::one",
            "Thing::six",
            "Thing::two",
            "eleven",
            "free",
            "sixteen",
            "thirteen"
        ]
    );
}

#[test]
fn reads_a_real_crate() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../alloc-core/src");
    let found = public_api(&src);
    for name in ["HostAllocator::allocate", "Scope::from_raw", "Scoped::new", "move_block"] {
        assert!(found.iter().any(|found| found == name), "{name} is not in {found:?}");
    }
}
