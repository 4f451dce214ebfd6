//! A report in which nothing is empty, and one in which everything is.

use vk_report::report::{
    ActiveLayer, ByScope, CallSite, CallSites, CheckLimits, CourseRow, Courses, Coverage, CoverageRun, Defragmentation,
    DeviceAccounts, DeviceMemory, DiskCache, DriverMemory, FailRun, FindingRow, GuardReport, GuardRun,
    InstanceAccounts, KindAccounts, KnownFindings, LeakFrame, LeakObject, LeakPeak, LeakStack, Leaks, Leftover,
    LiveAndPeak, LoaderFile, PeakStack, ProgramAccounts, Refusal, Report, RunEnvironment, Source, Unjudged,
    VulkanMemory, VulkanMemoryRow,
};
use vk_steward::replay::bundled::BundledTrace;
use vk_steward::replay::{self, TraceFile};

/// The report of a replay.
pub(crate) fn of_trace(trace: &BundledTrace) -> Report {
    let file = TraceFile::open(trace.name).expect("a whole trace");
    replay::replay(&file).expect("a whole trace")
}

/// The report of a trace without a request.
pub(crate) fn empty() -> Report {
    let file = TraceFile { name: "empty".into(), bytes: b"# steward host trace 2\n# driver: nobody\nz,2\n".to_vec() };
    replay::replay(&file).expect("a whole trace")
}

/// As of a driver, with findings of all levels, callback coverage and leftovers.
pub(crate) fn full(trace: &BundledTrace) -> Report {
    let mut report = of_trace(trace);
    report.source = Source::Driver {
        name: "a driver".into(),
        version: "1.2".into(),
        device: "a device".into(),
        seed: 7,
        rounds: 1,
        commands: 303,
        comparisons: 12,
        objects: vec![("VkBuffer".into(), 4), ("VkImage".into(), 2)],
    };
    let finding = |rule: &str, level: &str, count: u64| FindingRow {
        rule: rule.into(),
        kind: "FreedOnForeignThread".into(),
        level: level.into(),
        sentence: format!("what {rule} is about"),
        owner: "VkFence".into(),
        command: "vkQueueSubmit".into(),
        scope: "object".into(),
        count,
        bytes: count * 100,
        first_serial: 3,
        thread: Some(2),
        known: None,
    };
    report.findings = vec![
        finding("V30", FindingRow::NOTE, 2),
        finding("V22", FindingRow::VIOLATION, 12_345),
        finding("V29", FindingRow::SUSPECT, 1),
    ];
    let run = CoverageRun {
        callback_calls: 100,
        callback_bytes: 4_000,
        in_command_calls: 200,
        in_command_bytes: 12_000,
        never_issued_calls: 50,
        never_issued_bytes: 4_000,
        application_bytes: 77,
        in_callback_bytes: 88,
        mapped_bytes: 1 << 20,
        opening_calls: 30,
        opening_bytes: 10_000,
        opening_mapped_bytes: 1 << 20,
    };
    let with_loader =
        CoverageRun { opening_calls: 0, opening_bytes: 0, opening_mapped_bytes: 0, in_command_bytes: 32_000, ..run };
    let row = VulkanMemoryRow {
        index: 1,
        live_bytes: 4096,
        live_blocks: 1,
        peak_bytes: 8192,
        total_bytes: 8192,
        total_blocks: 2,
        refusals: 1,
        size: 1 << 20,
        budget: 1 << 19,
    };
    report.vulkan_memory = Some(vec![VulkanMemory {
        device: "instance 1, device 1".into(),
        heaps: vec![row],
        types: vec![row],
        uses: [("mapped".to_owned(), row)].into(),
        driver: Some(DriverMemory { kinds: vec![("VkBuffer".into(), row)], ..DriverMemory::default() }),
        lost_blocks: 1,
    }]);
    report.call_sites = Some(CallSites {
        frames: vec![LeakFrame { functions: vec!["f".to_owned()], ..LeakFrame::default() }],
        stacks: vec![vec![0]],
        sites: vec![CallSite { stack: Some(0), ..CallSite::default() }],
        ..CallSites::default()
    });
    report.leaks = Some(Leaks {
        stacks: vec![LeakStack {
            oldest: vec![LeakObject::default()],
            frames: vec![LeakFrame {
                build_id: "0af1".to_owned(),
                is_replaced: true,
                functions: vec!["main".into()],
                ..LeakFrame::default()
            }],
            rules: vec!["V41".to_owned()],
            ..LeakStack::default()
        }],
        peaks: vec![LeakPeak {
            stacks: vec![PeakStack {
                frames: vec![LeakFrame { functions: vec!["load".into()], ..LeakFrame::default() }],
                ..PeakStack::default()
            }],
            ..LeakPeak::default()
        }],
        ..Leaks::default()
    });
    report.known_findings = Some(known_findings());
    report.environment = Some(RunEnvironment {
        loader: Some(LoaderFile { file: "/usr/lib/libvulkan.so.1".into(), version: "1.3.239".into() }),
        layers: vec![ActiveLayer { name: "VK_LAYER_X".into(), file: "/usr/lib/libx.so".into() }],
        driver_files: vec!["/usr/lib/libdriver.so".into()],
        disk_cache: Some(DiskCache { variable: "MESA_SHADER_CACHE_DISABLE".into(), on: true, on_in_coverage: false }),
    });
    report.callback_coverage =
        Some(Coverage { with_loader: Some(with_loader), without_loader: Some(run), absent: None });
    let by_scope = ByScope { object: 224, ..ByScope::default() };
    report.leftovers = vec![Leftover { context: "VkBuffer".into(), blocks: 2, bytes: 224, by_scope }];
    let told = GuardReport {
        kind: "an overflow".into(),
        owner: "VkBuffer".into(),
        scope: "object".into(),
        command: "vkCreateBuffer".into(),
        found_in: "vkBindBufferMemory".into(),
        text: "an overflow\n  of a block".into(),
    };
    report.guard = Some(GuardRun {
        mode: "fence".into(),
        back_end: "guard-markers".into(),
        not_offered: vec!["userfaultfd-move: it is denied".into()],
        callback_blocks: 654_321,
        guarded: 654_321,
        own_blocks: 12,
        reports: 1,
        told: vec![told],
        mappings_before: Some(40),
        mappings_after: Some(41),
        ..GuardRun::default()
    });
    let refusal = Refusal {
        command: "vkCreateImage".into(),
        serial: 7,
        owner: "VkImage".into(),
        scope: "object".into(),
        bytes: 99,
    };
    report.fail = Some(FailRun {
        plan: "nth=3".into(),
        requests: 4,
        refused: 1,
        first: vec![refusal],
        asked: vec!["VkBuffer (object)".into()],
        ended: Some("it ended".into()),
    });
    report.device_memory = Some(device_memory());
    report.defragmentation = Some(defragmentation());
    report.unjudged = Unjudged::of_trace(7, 3);
    report.limits = vec!["what cannot be told".into()];
    report
}

fn known_findings() -> KnownFindings {
    KnownFindings { expectations: "a-driver-1.2".into(), known: 2, unknown: 0 }
}

fn device_memory() -> DeviceMemory {
    DeviceMemory {
        block_count: 1,
        block_bytes: 1 << 20,
        regions: 2,
        region_bytes: 66_048,
        wrapped: 1,
        wrapped_bytes: 9_988,
        crops: 1,
        host_bytes: 4_567,
        free_bytes_in_use: 982_528,
        largest_free_bytes: 978_176,
        peak_block_bytes: 3 << 20,
        reserved_percent: Some(1_588),
    }
}

/// Three blocks that become one.
fn defragmentation() -> Defragmentation {
    let state = |count: u64| DeviceMemory {
        block_count: count,
        block_bytes: count << 20,
        reserved_percent: Some(count * 1_588),
        ..device_memory()
    };
    Defragmentation {
        passes: 2,
        moves: 5,
        moved_bytes: 123_456,
        most_moving_bytes: 65_536,
        freed_blocks: 2,
        freed_bytes: 2 << 20,
        before: state(3),
        after: state(1),
    }
}

/// As of a program that ran with the layer.
pub(crate) fn of_program() -> Report {
    let mut report = empty();
    report.source = Source::Program {
        executable: "vkcube".into(),
        arguments: None,
        process: 7,
        commands: 12,
        loader: Some("/usr/lib/libvulkan.so.1".into()),
        layers: vec!["VK_LAYER_X".into()],
        drivers: vec!["llvmpipe Mesa 22.3.6".into()],
        layers_below: vec!["/usr/lib/libVkLayer_Y.so".into()],
        devices: vec!["llvmpipe, driver 0.0.1".into()],
    };
    let kinds = vec![KindAccounts::default()];
    let device = DeviceAccounts { kinds: kinds.clone(), ..DeviceAccounts::default() };
    let instance = InstanceAccounts { in_use: false, kinds, devices: vec![device] };
    report.program = Some(ProgramAccounts {
        library: Some("/usr/lib/libVkLayer_steward_memory.so".into()),
        instances: vec![instance],
        all: Some(LiveAndPeak::default()),
        passed_through: vec!["VkBuffer".into()],
        check: Some(CheckLimits { without_brackets: vec!["vkNew".into()], ..CheckLimits::default() }),
        settings: vec!["a line".into()],
        lost_phases: 1,
        has_ended: true,
        unseen_growth: Some(9 << 20),
        courses: Courses {
            at: vec![0, 10, 40],
            rows: vec![course("VkBuffer", [0, 4096, 1024]), course("heap 0", [1 << 20, 0, 0])],
        },
    });
    report
}

fn course(name: &str, live_bytes: [u64; 3]) -> CourseRow {
    CourseRow { name: name.into(), live_bytes: live_bytes.into() }
}
