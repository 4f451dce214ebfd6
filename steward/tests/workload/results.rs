//! What the workload computes, divides and leaves, on each driver.

use vk_report::report::DeviceMemory;
use vk_steward::drivers::OpenDriver;
use vk_steward::workload::{self, Options, WorkloadError};

use super::commands::{Counting, phases, seed};
use super::driver_shim::{shimmed, watched};
use super::{Outcome, REFERENCE};

/// Words of eight buffers of 8 KiB.
const MOVED_WORDS: u64 = 8 * (8 << 10) / 4;

pub(crate) fn every_result_is_right_in_every_round(driver: &OpenDriver) -> Outcome {
    let options = Options { seed: seed(), rounds: 3, ..Options::default() };
    let report =
        workload::run(driver, &options, &|_| {}).unwrap_or_else(|error| panic!("seed {}: {error}", options.seed));
    assert_eq!(report.rounds, 3);
    // The fill, both dispatches, the drawn image, event and query; what came through the sub-allocator's buffers, and
    // the odd bytes; once what a defragmentation moved.
    assert_eq!(report.comparisons, 3 * (1024 + 2048 + 256 + 2 + 1024 / 4 + 1000 / 4) + MOVED_WORDS);
    let version = &report.driver_version;
    match driver.info().driver_id.as_str() {
        "MESA_LLVMPIPE" => assert!(report.driver_name == "llvmpipe" && version.starts_with("Mesa "), "{version}"),
        _ if driver.info().stem == REFERENCE => assert_eq!(version, "0.1.0"),
        _ => assert!(report.driver_name == "SwiftShader driver" && version.contains('.'), "{version}"),
    }
    println!("    {} {}, {}", report.driver_name, report.driver_version, report.device_name);
    Ok(())
}

/// What a round has of the sub-allocator is in its figures, and nothing is left.
pub(crate) fn device_memory_is_what_the_sub_allocator_says(driver: &OpenDriver) -> Outcome {
    let report = workload::run(driver, &Options { seed: seed(), ..Options::default() }, &|_| {})
        .unwrap_or_else(|error| panic!("{error}"));
    let memory = report.device_memory.expect("a round ran");
    println!("{memory}");
    assert_eq!((memory.regions, memory.wrapped, memory.wrapped_bytes, memory.crops), (4, 1, 3000, 5));
    let requested = 4096 + 3000 + 1000 + 4096;
    assert!(memory.region_bytes >= requested && memory.block_bytes >= memory.region_bytes, "{memory:?}");
    assert!(memory.block_count > 0 && memory.host_bytes > 0, "{memory:?}");
    let none = workload::run(driver, &Options { rounds: 0, ..Options::default() }, &|_| {})
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((none.device_memory, none.defragmentation), (None, None));
    Ok(())
}

/// Blocks that are a sixth full are gathered on the device; every word that moved was compared.
pub(crate) fn df12_a_defragmentation_frees_blocks_and_keeps_contents(driver: &OpenDriver) -> Outcome {
    let options = Options { seed: seed(), rounds: 2, ..Options::default() };
    let run = |options| workload::run(driver, &options, &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    let report = run(options);
    let moved = report.defragmentation.expect("a round ran");
    println!("{moved}");
    let state = |memory: &DeviceMemory| (memory.regions, memory.free_bytes_in_use > 0);
    assert_eq!(state(&moved.before), (9, true), "eight and where they come from");
    assert_eq!(state(&moved.after), (9, true));
    assert!(moved.passes >= 2 && moved.moves >= 4 && moved.freed_blocks >= 2, "{moved}");
    assert_eq!(moved.moved_bytes, moved.moves * (8 << 10));
    assert!(moved.most_moving_bytes > 0 && moved.most_moving_bytes < moved.moved_bytes);
    let freed = moved.before.block_bytes - moved.after.block_bytes;
    assert_eq!(freed, moved.freed_bytes);
    assert_eq!(moved.before.peak_block_bytes, moved.after.peak_block_bytes, "nothing was added");
    assert!(moved.after.reserved_percent < moved.before.reserved_percent);
    // Once a run, however many rounds.
    let one = run(Options { rounds: 1, ..options });
    assert_eq!(report.comparisons - MOVED_WORDS, 2 * (one.comparisons - MOVED_WORDS), "each word was compared");
    Ok(())
}

pub(crate) fn a_wrong_seed_is_a_mismatch_and_everything_is_destroyed(driver: &OpenDriver) -> Outcome {
    let seed = seed();
    let counting = Counting::default();
    let options = Options { seed, rounds: 1, expected_seed: Some(!seed) };
    let (phases, ran) = watched(&counting, || phases(&shimmed(driver), &options));
    let error = ran.expect_err("another seed gives other results");
    assert!(matches!(error, WorkloadError::Mismatch { what: "fill", round: 0, index: 0, .. }), "{error}");
    assert_eq!(phases.last(), Some(&"shutdown"));
    counting.assert_all_destroyed();
    Ok(())
}
