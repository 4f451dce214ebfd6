//! In a child with the meter preloaded: the same run by the meter's flags, by return addresses, and by the layer's
//! accounts.

use VkLayer_steward_memory::in_process::Observation;
use vk_callbacks::check::Opened;
use vk_report::report::{CoverageRun, Report};
use vk_steward::callback_coverage::meter::{self, CallbackCoverage, ThreadActivity};
use vk_steward::drivers;
use vk_steward::workload::{self, Options};

use crate::by_address;

/// How far two methods may be apart: one in a hundred.
const APART: u64 = 100;
/// What a driver allocates while its functions are looked up, which is in no command: SwiftShader 18 KB.
const LOOK_UPS: u64 = 32 << 10;

pub(super) fn on() {
    by_address::begin();
    let driver = crate::opened::opened();
    let options = Options { seed: 7, rounds: 3, ..Options::default() };
    let folder = tempfile::tempdir().expect("a folder");
    let json: &'static str = folder.path().join("layer.json").display().to_string().leak();
    let settings = [("json", json), ("check", "false"), ("brackets", "all"), ("meter", "true")];
    let observation =
        Observation { opened: driver.opened(), stacks: None, records: false, settings: Box::leak(Box::new(settings)) };
    let chained = drivers::chained(&driver, observation).expect("the first chain");
    meter::this_thread_is_application();
    // The layer starts with the first instance, and the C library allocates for it.
    let first = Options { rounds: 0, ..options };
    workload::run(&chained, &first, &|_| {}).expect("it runs");
    let [calls, bytes, taken] = through_callbacks(json);
    let coverage = CallbackCoverage::begin().expect("preloaded");
    let before = by_address::read();
    workload::run(&chained, &options, &|_| {}).expect("it runs");
    let run = coverage.run().expect("preloaded");
    let seen = by_address::read().since(before);
    let through = through_callbacks(json);
    let charged = through[2] - taken;
    let run = CoverageRun { callback_calls: through[0] - calls, callback_bytes: through[1] - bytes, ..run };

    agree("bytes past callbacks, by flags and by addresses", run.past_bytes(), seen.others.1);
    agree(
        "calls past callbacks, by flags and by addresses",
        run.in_command_calls + run.never_issued_calls,
        seen.others.0,
    );
    let program = run.application_bytes + run.in_callback_bytes;
    let what = "bytes of the program, by flags and by addresses";
    println!("    {what}: {program} and {}", seen.program.1);
    assert!(
        apart(program, seen.program.1) <= seen.program.1 / APART + LOOK_UPS,
        "{what}: {program} and {}",
        seen.program.1
    );
    agree("all bytes, by flags and by addresses", program + run.past_bytes(), seen.program.1 + seen.others.1);
    let asked = run.callback_bytes + 16 * run.callback_calls;
    agree("bytes within callbacks, and asked of them with 16 a block", run.in_callback_bytes, asked);
    if matches!(driver.opened(), Opened::Directly) {
        agree("bytes asked of callbacks with 16 a block, and by the accounts", asked, charged);
    } else {
        // The loader resizes blocks: the accounts take the difference, the meter the whole.
        println!("    bytes by the accounts, which count a block that grows by its growth: {charged}");
        assert!(charged < asked && asked - charged < asked / 20, "{asked} and {charged}");
    }
    // What is compared is not next to nothing.
    assert!(
        run.past_bytes() > 10 << 20 && run.callback_bytes > 64 << 10 && run.never_issued_bytes > 1 << 20,
        "{run:?}"
    );

    // Without the layer the flags say nothing of commands, and the addresses say the same as before: they would have
    // told.
    let (flags, addresses) = (meter::read().expect("preloaded"), by_address::read());
    workload::run(&driver, &options, &|_| {}).expect("it runs");
    let (flags, addresses) = (meter::read().expect("preloaded").since(&flags), by_address::read().since(addresses));
    let past = flags.of(ThreadActivity::InCommand).bytes + flags.of(ThreadActivity::NeverIssued).bytes;
    assert!(apart(past, addresses.others.1) > addresses.others.1 / APART, "{past} bytes, and {addresses:?}");
    println!("agree");
}

/// Calls and bytes through callbacks by the layer's last report, and the bytes of its accounts.
fn through_callbacks(json: &str) -> [u64; 3] {
    let layer = std::fs::read_to_string(json).expect("the layer's report");
    let layer: Report = serde_json::from_str(&layer).expect("a layer's report");
    let kinds = layer.contexts.iter().filter(|row| !row.group);
    let charged = kinds.map(|row| row.total_bytes).sum();
    let coverage = layer.callback_coverage;
    let run = coverage.and_then(|coverage| coverage.with_loader).expect("measured");
    [run.callback_calls, run.callback_bytes, charged]
}

fn apart(a: u64, b: u64) -> u64 {
    a.abs_diff(b)
}

fn agree(what: &str, a: u64, b: u64) {
    println!("    {what}: {a} and {b}, {} apart", apart(a, b));
    assert!(apart(a, b) <= b / APART, "{what}: {a} and {b}");
}
