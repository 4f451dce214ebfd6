//! Seeds and made-up traces through the program that the fuzz target `trace_reader` runs.

mod program;

use std::cell::Cell;

use program::trace_reader;
use testkit::programs::replay;
use testkit::with_hook;

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
    let seed =
        |name: &str| std::fs::read(format!("{}/../testkit/seeds/trace_reader/{name}", env!("CARGO_MANIFEST_DIR")));
    for (name, whole) in [("whole", true), ("control-characters", true), ("cut-off", false)] {
        assert_eq!(trace_reader(&seed(name).expect("a seed")).compared > 0, whole, "{name}");
    }
}

#[test]
fn traces_are_judged_alike_though_the_memory_reenters_other_judges() {
    let times = Cell::new(0_usize);
    let hook = |_| {
        times.set(times.get() + 1);
        if times.get().is_multiple_of(64) {
            trace_reader(b"# steward host trace 2\n# driver: d\no,1,0,VkBuffer\ne,1,1,vkCreateBuffer\na,1,1,1,8,8,0\nl,1,0\nf,2,1,1\nz,7\n");
        }
    };
    with_hook(1, &hook, || replay("trace_reader", if cfg!(miri) { 1 } else { 200 }, trace_reader));
    assert!(times.get() > 64, "{times:?}");
}
