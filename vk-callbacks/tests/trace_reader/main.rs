//! Seeds and made-up traces through the program that the fuzz target `trace_reader` runs.

mod program;

use program::trace_reader;
use testkit::programs::replay;

#[test]
fn traces_are_read_written_and_judged_alike() {
    let ran = replay("trace_reader", if cfg!(miri) { 3 } else { 1000 }, trace_reader);
    assert!(ran.compared > ran.operations / 2, "{ran:?}");
}

#[test]
fn damage_is_seen() {
    // Shows that the comparison above can fail: what is broken is not compared.
    let whole = b"# steward host trace 2\n# driver: d\nf,1,0,?1\nz,3\n";
    assert_eq!(trace_reader(whole).compared, 2);
    assert_eq!(trace_reader(&whole[..whole.len() - 4]).compared, 0);
    let seed = |name: &str| std::fs::read(format!("{}/../testkit/seeds/trace_reader/{name}", env!("CARGO_MANIFEST_DIR")));
    for (name, whole) in [("format-1", true), ("format-2", true), ("control-characters", true), ("cut-off", false)] {
        assert_eq!(trace_reader(&seed(name).expect("a seed")).compared > 0, whole, "{name}");
    }
}
