//! `steward drive` runs two contexts with one shader cache, judges their callbacks, and says what went with one of them: on lavapipe, and on SwiftShader where
//! `STEWARD_SWIFTSHADER=<manifest>` names it.

use ash::vk;
use serde_json::Value;
use testkit::{Child, skip};
use vk_accounts::report::{Report, SharedContexts};
use vk_steward::drivers::LOADER_VARIABLE;
use vk_steward::report::{ReportOrList, html};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");

fn driven(driver: &str, more: &[&str]) -> Option<Report> {
    let mut child = Child::new(STEWARD)
        .args(["drive", "--no-coverage", "--driver", driver, "--json", "-"])
        .args(more);
    if let Some(manifest) = testkit::swiftshader() {
        child = child.env("VK_ADD_DRIVER_FILES", &manifest);
    }
    let ran = child.run();
    (ran.code == Some(0)).then(|| serde_json::from_str(&ran.stdout).expect("the JSON of a report"))
}

fn check(shared: &SharedContexts) {
    assert_eq!((shared.kernels, shared.contexts.len()), (8, 2));
    for context in &shared.contexts {
        assert_eq!(
            (context.compiled, context.found, context.regions),
            (4, 4, 3),
            "{}",
            context.name
        );
    }
    // Exactly the first's: its four kernels, its memory, and what the driver took through its own callbacks.
    let first = &shared.went;
    assert_eq!(
        (first.kernels, first.held, first.blocks, first.others_bytes),
        (4, 0, 1, 0)
    );
    assert!(
        first.block_bytes > 0
            && first.book_bytes > 0
            && first.driver_blocks > 0
            && first.driver_bytes > 0
    );
    assert_eq!((shared.still_found, shared.compiled_anew), (4, 4));
    let last = &shared.went_last;
    assert_eq!(
        (
            last.kernels,
            last.held,
            last.others_bytes,
            shared.left_bytes
        ),
        (8, 0, 0, 0)
    );
    assert!(
        last.driver_blocks > first.driver_blocks,
        "twice the kernels"
    );
}

#[test]
fn one_context_is_released_and_exactly_its_own_goes() {
    let Some(report) = driven("lavapipe", &[]) else {
        return skip(
            "lavapipe",
            "one_context_is_released_and_exactly_its_own_goes",
            "there is no lavapipe",
        );
    };
    check(report.shared_contexts.as_ref().expect("they were run"));
    let text = report.to_string();
    assert!(
        text.contains("first released: 4 kernels, 1 memory object of 256 KiB"),
        "{text}"
    );
    let on = "second went on: 4 of its own found, 4 of first compiled anew";
    assert!(text.contains(on), "{text}");
    let page = html(&[ReportOrList::Report(Box::new(report))]).expect("a page");
    assert!(page.contains(on) && page.contains("Two contexts, one shader cache"));
}

#[test]
fn one_context_is_released_on_swiftshader_too() {
    match testkit::swiftshader().and_then(|_| driven("swiftshader", &[])) {
        Some(report) => check(report.shared_contexts.as_ref().expect("they were run")),
        None => skip(
            "swiftshader",
            "one_context_is_released_on_swiftshader_too",
            "no SwiftShader is named",
        ),
    }
}

/// What is wrong about callbacks here is the drivers' own, and known: so it was looked at.
fn judged(shared: &SharedContexts, known: &[(&str, &str)]) {
    assert!(
        shared.judged && shared.unjudged.is_none(),
        "{:?}",
        shared.unjudged
    );
    assert!(
        shared.commands > 100 && shared.callback_blocks > 50,
        "{shared:?}"
    );
    let mut found: Vec<_> = shared
        .findings
        .iter()
        .map(|row| (row.rule.as_str(), row.command.as_str()))
        .collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, known, "{:#?}", shared.findings);
    for context in ["first context", "second context"] {
        assert!(
            shared
                .findings
                .iter()
                .any(|row| row.owner == context || row.sentence.contains(context)),
            "{context}"
        );
    }
}

#[test]
fn callbacks_of_contexts_are_judged_by_the_rules() {
    const NAME: &str = "callbacks_of_contexts_are_judged_by_the_rules";
    let lavapipe = [
        ("V29", "vkCreatePipelineCache"),
        ("V30", "vkCreateComputePipelines"),
        ("V30", "vkCreatePipelineLayout"),
        ("V36", "vkCreateDescriptorSetLayout"),
    ];
    match driven("lavapipe", &[]) {
        Some(report) => {
            judged(
                report.shared_contexts.as_ref().expect("they were run"),
                &lavapipe,
            );
            assert!(
                report
                    .text(true)
                    .to_string()
                    .contains("    violation: V29: "),
                "{}",
                report.text(true)
            );
        }
        None => skip("lavapipe", NAME, "there is no lavapipe"),
    }
    match testkit::swiftshader().and_then(|_| driven("swiftshader", &[])) {
        Some(report) => judged(
            report.shared_contexts.as_ref().expect("they were run"),
            &[("V18", "vkDestroyBuffer")],
        ),
        None => skip("swiftshader", NAME, "no SwiftShader is named"),
    }
    if let Some(report) = driven("lavapipe", &["--no-check"]) {
        let shared = report.shared_contexts.as_ref().expect("they were run");
        assert!(!shared.judged && shared.findings.is_empty());
        assert!(
            report.to_string().contains(" commands, not judged\n"),
            "{report}"
        );
    }
}

/// Law 2: each request of a driver that two contexts make is refused once.
#[test]
fn each_refusal_ends_two_contexts_as_it_must_and_leaves_nothing() {
    const NAME: &str = "each_refusal_ends_two_contexts_as_it_must_and_leaves_nothing";
    let drive = |nth: u64| {
        let plan = format!("--fail=nth={nth}");
        let args = [
            "drive",
            "--driver",
            "lavapipe",
            "--rounds",
            "1",
            "--no-coverage",
            "--json",
            "-",
            &plan,
        ];
        let ran = Child::new(STEWARD).args(args).run();
        serde_json::from_str::<Value>(&ran.stdout).map(|report| (ran, report))
    };
    let Ok((_, whole)) = drive(99_999_999) else {
        return skip("lavapipe", NAME, "there is no lavapipe");
    };
    let of_contexts = whole["shared_contexts"]["callback_blocks"]
        .as_u64()
        .expect("they ran");
    let requests = whole["fail"]["requests"].as_u64().expect("a number");
    let (mut ended, mut crashed) = (0, Vec::new());
    for nth in requests - of_contexts..requests {
        let (ran, report) = drive(nth).expect("JSON");
        if let Some(error) = report["error"].as_str() {
            // What this driver does not bear (`tests/expectations`).
            assert!(
                error.contains("(SIGSEGV)")
                    && error.contains("the last in vkCreatePipelineLayout, "),
                "{error}"
            );
            crashed.push(nth);
            continue;
        }
        ran.assert_code(0);
        let fail = &report["fail"];
        assert_eq!(
            (&fail["refused"], &report["leftovers"]),
            (&1.into(), &Value::Array(Vec::new())),
            "{nth}: {ran}"
        );
        let end = fail["ended"].as_str().unwrap_or("borne");
        assert!(
            end == "borne" || end.ends_with("ERROR_OUT_OF_HOST_MEMORY, as it must"),
            "{nth}: {end}"
        );
        assert_eq!(
            end == "borne",
            report["shared_contexts"].is_object(),
            "{nth}: {ran}"
        );
        ended += u32::from(end != "borne");
    }
    println!("    {of_contexts} requests: {ended} ended both contexts, crashes: {crashed:?}");
    assert!(
        ended > 30 && crashed.len() < 20,
        "{ended} of {of_contexts}, {crashed:?}"
    );
}

/// The validation layer, asked for by the environment, says what it hears on the standard output.
#[test]
fn the_validation_layer_is_silent_after_it_was_heard() {
    const NAME: &str = "the_validation_layer_is_silent_after_it_was_heard";
    let validated = |child: Child| {
        let child = child.env("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation");
        child.env(
            "VK_LAYER_ENABLES",
            "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT",
        )
    };
    if Child::is_child(NAME) {
        return intended_error();
    }
    let heard = validated(Child::this_test(NAME)).run();
    if heard.stdout.contains("NONE") {
        return skip("validation", NAME, &heard.stdout);
    }
    assert!(
        heard
            .stdout
            .contains("VUID-VkSemaphoreCreateInfo-flags-zerobitmask"),
        "{heard}"
    );
    for driver in ["lavapipe", "swiftshader"] {
        if driver == "swiftshader" && testkit::swiftshader().is_none() {
            skip("swiftshader", NAME, "no SwiftShader is named");
            continue;
        }
        let child = Child::new(STEWARD).args(["drive", "--no-coverage", "--driver", driver]);
        let child = testkit::swiftshader()
            .into_iter()
            .fold(child, |child, manifest| {
                child.env("VK_ADD_DRIVER_FILES", manifest)
            });
        let silent = validated(child).run();
        silent.assert_code(0);
        assert!(
            silent.stdout.contains("second went on: 4 of its own found"),
            "{silent}"
        );
        for word in [
            "VUID-",
            "UNASSIGNED-",
            "SYNC-HAZARD",
            "Validation Error",
            "Validation Warning",
        ] {
            assert!(
                !silent.stdout.contains(word) && !silent.stderr.contains(word),
                "{silent}"
            );
        }
    }
}

/// A semaphore with a flag that is reserved, which drivers do not look at.
fn intended_error() {
    // The same loader as the program's.
    let opened = match std::env::var_os(LOADER_VARIABLE) {
        // SAFETY: opening the loader runs its initialisers.
        Some(library) => unsafe { ash::Entry::load_from(library) },
        // SAFETY: as above.
        None => unsafe { ash::Entry::load() },
    };
    let Ok(entry) = opened else {
        return println!("NONE: no Vulkan loader");
    };
    // SAFETY: a valid info.
    let instance = match unsafe { entry.create_instance(&vk::InstanceCreateInfo::default(), None) }
    {
        Ok(instance) => instance,
        Err(result) => return println!("NONE: vkCreateInstance answered {result:?}"),
    };
    // SAFETY: a live instance.
    let all = unsafe { instance.enumerate_physical_devices() }.expect("devices");
    let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
    // SAFETY: family 0 is there.
    let device = unsafe { instance.create_device(all[0], &info, None) }.expect("a device");
    let reserved = vk::SemaphoreCreateInfo::default().flags(vk::SemaphoreCreateFlags::from_raw(1));
    // SAFETY: not valid usage, on purpose: no driver gives the flag a meaning.
    let semaphore = unsafe { device.create_semaphore(&reserved, None) }.expect("a semaphore");
    // SAFETY: made above, as all that follows.
    unsafe { device.destroy_semaphore(semaphore, None) };
    // SAFETY: nothing of it is left.
    unsafe { device.destroy_device(None) };
    // SAFETY: as above.
    unsafe { instance.destroy_instance(None) };
}
