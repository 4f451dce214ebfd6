//! Law 2 over every public operation: none asks for memory, so there is nothing to refuse (`no_global.rs`, `dhat_heap.rs`).
//! A public function that the table lacks fails here.

mod operations;

use std::path::Path;

use testkit::public_api;

#[test]
fn the_table_names_every_public_function() {
    assert_eq!(public_api(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")), operations::TABLE);
    operations::run();
}
