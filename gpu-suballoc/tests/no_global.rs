//! Law 1: no public operation reaches the global allocator, which refuses here.

mod operations;

use testkit::Refusing;

#[global_allocator]
static GLOBAL: Refusing = Refusing;

fn main() {
    GLOBAL.assert_it_would_notice();
    GLOBAL.inside(operations::run);
    assert_eq!(GLOBAL.refused(), 0);
}
