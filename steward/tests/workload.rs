//! The workload on live drivers: lavapipe, SwiftShader and the reference driver, which the loader opens. A process each, with one thread, because the loader's environment
//! is set here.
//!
//! Each test prints `ok`, `SKIPPED <test>: <reason>` or `FAILED`; with `STEWARD_REQUIRE=lavapipe,swiftshader` a skip for want of
//! the driver fails, with `STEWARD_REQUIRE=validation` one for want of the layer. `STEWARD_SWIFTSHADER=<manifest>` names a
//! SwiftShader that the loader does not find by itself.

#[path = "support/manifest.rs"]
mod manifest;
#[path = "support/plain_callbacks.rs"]
mod plain_callbacks;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use ash::vk;
use manifest::Manifest;
use plain_callbacks::PlainCallbacks;
use vk_accounts::{CreatedObject, Hooks, NoHooks, ObjectKind};
use vk_steward::drivers::{self, DriverError, Selected};
use vk_steward::workload::{self, Options, Validation, WorkloadError};

/// `Err` is what is missing and the reason for a skip; a failure panics.
type Outcome = Result<(), (&'static str, String)>;
type Test = (&'static str, fn(&Selected) -> Outcome);

const TESTS: [Test; 11] = [
    (
        "every_result_is_right_in_every_round",
        every_result_is_right_in_every_round,
    ),
    (
        "brackets_balance_and_twenty_kinds_are_seen",
        brackets_balance_and_twenty_kinds_are_seen,
    ),
    ("phases_come_in_their_order", phases_come_in_their_order),
    ("what_was_made_is_destroyed", what_was_made_is_destroyed),
    (
        "v44_each_handle_is_told_as_it_comes_and_as_it_goes",
        v44_each_handle_is_told_as_it_comes_and_as_it_goes,
    ),
    (
        "device_memory_is_told_block_by_block",
        device_memory_is_told_block_by_block,
    ),
    (
        "a_wrong_seed_is_a_mismatch_and_everything_is_destroyed",
        a_wrong_seed_is_a_mismatch_and_everything_is_destroyed,
    ),
    (
        "v43_the_allocator_is_asked_for_once_an_object",
        v43_the_allocator_is_asked_for_once_an_object,
    ),
    (
        "v42_every_block_is_given_back_to_its_kinds_callbacks",
        v42_every_block_is_given_back_to_its_kinds_callbacks,
    ),
    (
        "listing_leaves_the_environment_as_it_was",
        listing_leaves_the_environment_as_it_was,
    ),
    (
        "rd6_the_validation_layer_is_silent_after_it_was_heard",
        rd6_the_validation_layer_is_silent_after_it_was_heard,
    ),
];

/// Drivers that the tests run on where they are installed.
const DRIVERS: [&str; 3] = ["lavapipe", "swiftshader", REFERENCE];
/// Not the one that the program is linked with: its shared library, by the path of its manifest.
const REFERENCE: &str = "reference_icd";
/// As the only argument: list the drivers, print the error and exit with 2.
const LIST_ONLY: &str = "list-drivers-in-a-child";
/// As the first argument: run the tests on the driver that comes next.
const ON_DRIVER: &str = "on-driver-in-a-child";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [LIST_ONLY] => list_only(),
        [ON_DRIVER, driver, ref wanted @ ..] => on_driver(driver, wanted),
        ref wanted => {
            without_a_loader_there_is_an_error_with_a_remedy();
            // A process each: choosing a driver narrows the loader to it for good.
            let reference = Manifest::new();
            let reference = reference.path.to_str().expect("a plain path");
            let passed = DRIVERS.map(|driver| {
                let driver = if driver == REFERENCE {
                    reference
                } else {
                    driver
                };
                let added =
                    testkit::swiftshader().map(|manifest| ("VK_ADD_DRIVER_FILES", manifest));
                child()
                    .envs(added)
                    .arg(ON_DRIVER)
                    .arg(driver)
                    .args(wanted)
                    .status()
            });
            let passed = passed
                .iter()
                .all(|status| status.as_ref().is_ok_and(std::process::ExitStatus::success));
            if passed {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn child() -> Command {
    Command::new(std::env::current_exe().expect("a test knows its file"))
}

fn list_only() -> ExitCode {
    // SAFETY: one thread of our own, and there is no driver: the loader cannot be opened.
    match unsafe { drivers::list() } {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::from(2)
        }
    }
}

fn on_driver(driver: &str, wanted: &[&str]) -> ExitCode {
    let selected = select(driver);
    let driver = if driver.contains('/') {
        REFERENCE
    } else {
        driver
    };
    let wanted: Vec<_> = wanted
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let mut failed = 0;
    for (name, test) in TESTS {
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(**part)) {
            continue;
        }
        let run = || match &selected {
            Ok(selected) => test(selected),
            Err(error) => Err((
                driver,
                error
                    .to_string()
                    .split(';')
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            )),
        };
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok(Ok(())) => println!("test {driver}::{name} ... ok"),
            Ok(Err((what, reason))) => {
                println!("SKIPPED {driver}::{name}: {reason}");
                failed += u32::from(is_required(what));
            }
            Err(_) => {
                println!("test {driver}::{name} ... FAILED");
                failed += 1;
            }
        }
    }
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn is_required(what: &str) -> bool {
    std::env::var("STEWARD_REQUIRE")
        .is_ok_and(|required| required.split(',').any(|each| each.trim() == what))
}

/// Also asks for a driver that does not exist, which must name those that do.
fn select(driver: &str) -> Result<Selected, DriverError> {
    if driver.contains('/') {
        // SAFETY: one thread of our own, and the driver has none.
        return unsafe { drivers::select(Some(driver)) };
    }
    // SAFETY: one thread of our own. The drivers that CI installs keep no thread after their instance that reads the environment.
    let nobody = unsafe { drivers::select(Some("no such driver")) };
    match nobody.map(|selected| selected.info().clone()) {
        Err(error @ DriverError::UnknownName { .. }) => {
            let DriverError::UnknownName { known, .. } = &error else {
                unreachable!("matched above")
            };
            let text = error.to_string();
            assert!(
                !known.is_empty()
                    && known
                        .iter()
                        .all(|driver| text.contains(&driver.device_name)),
                "{text}"
            );
        }
        Err(error) => return Err(error),
        Ok(info) => panic!("{info:?} is called that"),
    }
    // SAFETY: as above.
    unsafe { drivers::select(Some(driver)) }
}

/// Different in every run, so that a result cannot be right by habit.
fn seed() -> u32 {
    let nanoseconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(1, |time| time.subsec_nanos());
    nanoseconds ^ std::process::id()
}

fn every_result_is_right_in_every_round(driver: &Selected) -> Outcome {
    let options = Options {
        seed: seed(),
        rounds: 3,
        ..Options::default()
    };
    let report = workload::run(driver, &NoHooks, &options)
        .unwrap_or_else(|error| panic!("seed {}: {error}", options.seed));
    assert_eq!(report.rounds, 3);
    // The fill, both dispatches, the drawn image, event and query; what came through the sub-allocator's buffers, and the odd bytes.
    assert_eq!(
        report.comparisons,
        3 * (1024 + 2048 + 256 + 2 + 1024 / 4 + 1000 / 4)
    );
    let version = &report.driver_version;
    match driver.info().driver_id.as_str() {
        "MESA_LLVMPIPE" => assert!(
            report.driver_name == "llvmpipe" && version.starts_with("Mesa "),
            "{version}"
        ),
        _ if driver.info().stem == REFERENCE => assert_eq!(version, "0.1.0"),
        _ => assert!(
            report.driver_name == "SwiftShader driver" && version.contains('.'),
            "{version}"
        ),
    }
    println!(
        "    {} {}, {}: {} commands",
        report.driver_name, report.driver_version, report.device_name, report.commands
    );
    println!(
        "    not exercised: {:?}",
        report.not_exercised().collect::<Vec<_>>()
    );
    Ok(())
}

type Told = (ObjectKind, u64, u64, bool);

fn told(object: &CreatedObject<'_>) -> Told {
    (
        object.kind,
        object.handle,
        object.parent,
        !object.allocator.is_null(),
    )
}

/// Counts what it is told, and insists on order.
#[derive(Default)]
struct Counting {
    inside: Cell<Option<(&'static str, ObjectKind)>>,
    brackets: Cell<u64>,
    kinds: RefCell<BTreeMap<ObjectKind, u32>>,
    asked: RefCell<BTreeMap<ObjectKind, u32>>,
    ended: RefCell<BTreeMap<ObjectKind, u32>>,
    /// Handles as they were told: kind, handle, parent, whether there was an allocator.
    came: RefCell<Vec<Told>>,
    /// Those told to end, until the command that ends them.
    going: RefCell<Vec<Told>>,
    went: RefCell<Vec<Told>>,
    phases: RefCell<Vec<&'static str>>,
}

// SAFETY: it answers no callbacks.
unsafe impl Hooks for Counting {
    fn callbacks(&self, kind: ObjectKind) -> Option<&vk::AllocationCallbacks<'_>> {
        assert!(
            self.inside.get().is_none(),
            "asked for callbacks inside a bracket"
        );
        assert!(kind.takes_callbacks(), "{kind} takes none");
        *self.asked.borrow_mut().entry(kind).or_default() += 1;
        None
    }

    fn command(
        &self,
        command: &'static str,
        kind: ObjectKind,
        call: &mut dyn FnMut() -> vk::Result,
    ) {
        assert!(command.starts_with("vk"), "{command}");
        assert_eq!(
            self.inside.replace(Some((command, kind))),
            None,
            "{command} inside another command"
        );
        *self.kinds.borrow_mut().entry(kind).or_default() += 1;
        let result = call();
        let (entered, kind) = self.inside.take().expect("still inside");
        assert_eq!(command, entered);
        assert!(result.as_raw() >= 0, "{command}: {result:?}");
        self.brackets.set(self.brackets.get() + 1);
        let objects = match command {
            "vkFreeDescriptorSets" | "vkFreeCommandBuffers" => 2,
            _ => u32::from(command.starts_with("vkDestroy") || command == "vkFreeMemory"),
        };
        *self.ended.borrow_mut().entry(kind).or_default() += objects;
        let gone = self.going.take();
        assert!(
            gone.len() == objects as usize && gone.iter().all(|told| told.0 == kind),
            "{command}: {gone:?}"
        );
        self.went.borrow_mut().extend(gone);
    }

    fn created(&self, object: &CreatedObject<'_>) {
        assert!(
            self.inside.get().is_none() && object.handle != 0,
            "{object:?}"
        );
        self.came.borrow_mut().push(told(object));
    }

    fn ends(&self, object: &CreatedObject<'_>) {
        assert!(self.inside.get().is_none(), "{object:?}");
        self.going.borrow_mut().push(told(object));
    }

    fn phase(&self, name: &'static str) {
        assert!(self.inside.get().is_none(), "phase {name} inside a command");
        self.phases.borrow_mut().push(name);
    }
}

fn counted(driver: &Selected, rounds: u32) -> (Counting, workload::Report) {
    let hooks = Counting::default();
    let options = Options {
        seed: seed(),
        rounds,
        ..Options::default()
    };
    let report = workload::run(driver, &hooks, &options)
        .unwrap_or_else(|error| panic!("seed {}: {error}", options.seed));
    (hooks, report)
}

fn brackets_balance_and_twenty_kinds_are_seen(driver: &Selected) -> Outcome {
    let (hooks, report) = counted(driver, 2);
    assert_eq!(hooks.inside.get(), None);
    assert_eq!(hooks.brackets.get(), report.commands);
    let exercised: Vec<_> = report.exercised().collect();
    let seen: Vec<_> = hooks.kinds.borrow().keys().copied().collect();
    assert_eq!(
        seen, exercised,
        "kinds whose commands were bracketed, and kinds of which objects were made"
    );
    assert!(exercised.len() >= 20, "{exercised:?}");
    println!(
        "    {} kinds, {} brackets",
        exercised.len(),
        hooks.brackets.get()
    );
    Ok(())
}

fn phases_come_in_their_order(driver: &Selected) -> Outcome {
    let round = [
        "resources",
        "sub-allocation",
        "pipelines",
        "recording",
        "submit",
        "teardown",
    ];
    let (hooks, _) = counted(driver, 2);
    assert_eq!(
        *hooks.phases.borrow(),
        [&["instance", "device"][..], &round, &round].concat()
    );
    let (hooks, _) = counted(driver, 0);
    assert_eq!(*hooks.phases.borrow(), ["instance", "device", "teardown"]);
    Ok(())
}

fn what_was_made_is_destroyed(driver: &Selected) -> Outcome {
    let (hooks, report) = counted(driver, 2);
    let ended = hooks.ended.borrow();
    for kind in report
        .exercised()
        .filter(|kind| !matches!(kind, ObjectKind::PhysicalDevice | ObjectKind::Queue))
    {
        assert_eq!(ended.get(&kind), Some(&report.made(kind)), "{kind}");
    }
    Ok(())
}

/// Both pipelines of one command, both sets and both command buffers of a pool, one by one; each goes with what it came with.
fn v44_each_handle_is_told_as_it_comes_and_as_it_goes(driver: &Selected) -> Outcome {
    let (hooks, report) = counted(driver, 2);
    let (came, went) = (hooks.came.take(), hooks.went.take());
    for kind in report
        .exercised()
        .filter(|kind| !matches!(kind, ObjectKind::PhysicalDevice | ObjectKind::Queue))
    {
        let told = came.iter().filter(|told| told.0 == kind).count();
        assert_eq!(told, report.made(kind) as usize, "{kind}");
    }
    let mut live: BTreeMap<(ObjectKind, u64), u64> = BTreeMap::new();
    for (kind, handle, parent, _) in &came {
        let above = kind
            .parent()
            .map(|above| came.iter().any(|told| (told.0, told.1) == (above, *parent)));
        assert!(
            above.unwrap_or(*parent == 0),
            "{kind} {handle:#x} of {parent:#x}"
        );
        *live.entry((*kind, *handle)).or_default() += 1;
    }
    // A driver may give a handle again once its object is gone, and the same one for equal objects.
    went.iter().for_each(|told| {
        *live
            .get_mut(&(told.0, told.1))
            .expect("came before it went") -= 1
    });
    assert!(live.values().all(|live| *live == 0), "{live:?}");
    let sorted = |mut all: Vec<Told>| {
        all.sort_unstable();
        all
    };
    assert_eq!(sorted(came), sorted(went));
    Ok(())
}

/// What a round has of the sub-allocator: every block is told with all that lies in it, and nothing is left.
fn device_memory_is_told_block_by_block(driver: &Selected) -> Outcome {
    let report = workload::run(
        driver,
        &NoHooks,
        &Options {
            seed: seed(),
            ..Options::default()
        },
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let memory = report.device_memory.expect("a round ran");
    println!("{memory}");
    for block in &memory.blocks {
        let mut end = 0;
        for range in &block.ranges {
            assert_eq!(range.offset, end, "{block:?}");
            assert!(range.size > 0 && range.padding < range.size, "{range:?}");
            end += range.size;
        }
        assert_eq!(end, block.size, "ranges tile their block: {block:?}");
    }
    let ranges = || memory.blocks.iter().flat_map(|block| &block.ranges);
    let mut names: Vec<_> = ranges()
        .filter(|range| !range.name.is_empty())
        .map(|range| range.name.as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "odd",
            "on the device",
            "read back",
            "the application's",
            "upload"
        ]
    );
    let crops = |name: &str| {
        let of = ranges().find(|range| range.name == name).expect("named");
        of.crops
            .iter()
            .map(|crop| (crop.offset, crop.size))
            .collect::<Vec<_>>()
    };
    // Crops of crops add up, and point at their root.
    assert_eq!(crops("upload"), [(1004, 3000), (1504, 2048), (1540, 1024)]);
    assert_eq!(
        (crops("the application's"), crops("read back")),
        (vec![(100, 2048)], vec![(132, 2044)])
    );
    assert_eq!(
        (
            memory.regions,
            memory.wrapped,
            memory.wrapped_bytes,
            memory.crops
        ),
        (4, 1, 3000, 5)
    );
    assert_eq!(
        memory.region_bytes,
        4096 + 3000 + 1000 + 4096,
        "as asked for"
    );
    assert!(
        memory.padding_bytes > 0 && memory.host_bytes > 0,
        "{memory:?}"
    );
    let none = workload::run(
        driver,
        &NoHooks,
        &Options {
            rounds: 0,
            ..Options::default()
        },
    )
    .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(none.device_memory, None);
    Ok(())
}

fn a_wrong_seed_is_a_mismatch_and_everything_is_destroyed(driver: &Selected) -> Outcome {
    let seed = seed();
    let hooks = Counting::default();
    let options = Options {
        seed,
        rounds: 1,
        expected_seed: Some(!seed),
        ..Options::default()
    };
    let error =
        workload::run(driver, &hooks, &options).expect_err("another seed gives other results");
    assert!(
        matches!(
            error,
            WorkloadError::Mismatch {
                what: "fill",
                round: 0,
                index: 0,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(hooks.phases.borrow().last(), Some(&"teardown"));
    let ended = hooks.ended.borrow();
    for kind in [ObjectKind::Instance, ObjectKind::Device] {
        assert_eq!(ended.get(&kind), Some(&1), "{kind}");
    }
    for (kind, asked) in hooks
        .asked
        .borrow()
        .iter()
        .filter(|(kind, _)| **kind != ObjectKind::Pipeline)
    {
        assert_eq!(ended.get(kind), Some(asked), "{kind}");
    }
    Ok(())
}

/// The callbacks are asked for once an object: the guard keeps the answer, so create and destroy cannot differ.
fn v43_the_allocator_is_asked_for_once_an_object(driver: &Selected) -> Outcome {
    let (hooks, report) = counted(driver, 1);
    for (kind, asked) in hooks.asked.borrow().iter() {
        // Both compute pipelines come from one command, with one allocator (V44).
        let commands = report.made(*kind) - u32::from(*kind == ObjectKind::Pipeline);
        assert_eq!(*asked, commands, "{kind}");
    }
    Ok(())
}

/// Blocks made through a kind's callbacks are freed through the same kind's: each count ends at 0.
fn v42_every_block_is_given_back_to_its_kinds_callbacks(driver: &Selected) -> Outcome {
    let hooks = PlainCallbacks::new();
    let options = Options {
        seed: seed(),
        rounds: 2,
        ..Options::default()
    };
    workload::run(driver, &hooks, &options).unwrap_or_else(|error| panic!("{error}"));
    let asked: Vec<_> = ObjectKind::ALL
        .into_iter()
        .filter(|kind| hooks.calls(*kind) > 0)
        .collect();
    assert!(
        asked.len() >= 15,
        "kinds whose callbacks were called: {asked:?}"
    );
    for kind in ObjectKind::ALL {
        // SwiftShader never frees the entries of an update template: a block a round.
        let lost = driver.info().driver_id == "GOOGLE_SWIFTSHADER"
            && kind == ObjectKind::DescriptorUpdateTemplate;
        assert_eq!(
            hooks.live(kind),
            if lost { options.rounds.into() } else { 0 },
            "{kind}"
        );
    }
    Ok(())
}

fn listing_leaves_the_environment_as_it_was(driver: &Selected) -> Outcome {
    let before: BTreeMap<_, _> = std::env::vars_os().collect();
    // SAFETY: one thread of our own; as for `select`, the driver's that may be left do not read the environment.
    let listing = unsafe { drivers::list() }.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(std::env::vars_os().collect::<BTreeMap<_, _>>(), before);
    // The loader was narrowed to this driver when it was selected.
    let names: Vec<_> = listing
        .drivers
        .iter()
        .map(|driver| driver.title())
        .collect();
    assert_eq!(names, [driver.info().title()]);
    Ok(())
}

/// A file that is no library stands in the loader's way; a process of its own, because libraries are found once.
fn without_a_loader_there_is_an_error_with_a_remedy() {
    let directory = tempfile::tempdir().expect("a directory for a file");
    std::fs::write(directory.path().join("libvulkan.so.1"), "not a library")
        .expect("the file is written");
    let output = child()
        .arg(LIST_ONLY)
        .env("LD_LIBRARY_PATH", directory.path())
        .output()
        .expect("the child runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.starts_with("there is no Vulkan loader (") && text.contains("install libvulkan1"),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(2));
    println!("test without_a_loader_there_is_an_error_with_a_remedy ... ok");
}

fn rd6_the_validation_layer_is_silent_after_it_was_heard(driver: &Selected) -> Outcome {
    let options = Options {
        seed: seed(),
        rounds: 2,
        validation: Validation::OnAfterIntendedError,
        ..Options::default()
    };
    let report = match workload::run(driver, &NoHooks, &options) {
        Err(WorkloadError::Command {
            command: "vkCreateInstance",
            result: vk::Result::ERROR_LAYER_NOT_PRESENT,
        }) => {
            return Err((
                "validation",
                "the Khronos validation layer is not installed".into(),
            ));
        }
        other => other.unwrap_or_else(|error| panic!("{error}")),
    };
    for intended in ["VkSemaphoreCreateInfo", "SYNC-HAZARD-WRITE-AFTER-WRITE"] {
        let heard = report
            .intended_messages
            .iter()
            .any(|message| message.contains(intended));
        assert!(
            heard,
            "{intended} was not reported: {:?}",
            report.intended_messages
        );
    }
    assert!(
        report.validation_messages.is_empty(),
        "{:#?}",
        report.validation_messages
    );
    assert_eq!(report.made(ObjectKind::DebugUtilsMessengerEXT), 1);
    Ok(())
}
