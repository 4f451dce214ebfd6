//! The child of a fork, over the fake driver: own accounts, own files, and no lock of a thread that is gone.

use std::ffi::{OsString, c_void};
use std::mem::transmute;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{env, fs, io, ptr, thread};

use VkLayer_steward_memory::planted_panic::{HookPhase, plant_work};
use serde_json::Value;
use testkit::Child;
use vk_callbacks::raw::RawCallbacks;
use vk_report::state_file::{self, State};

use crate::driver::{Layer, VoidFunction, create_object, create_without_table, fail_creation};
use crate::report_numbers::known_program;

const NONE: *const RawCallbacks = ptr::null();
const FOLDER: &str = "STEWARD_TEST_FOLDER";
const FORKS: usize = 40;

#[test]
fn ly37_a_forked_child_reports_what_is_its_own() {
    let test = "ly37_a_forked_child_reports_what_is_its_own";
    if let Some(folder) = env::var_os(FOLDER).filter(|_| Child::is_child(test)) {
        return fork_with_and_without_an_instance(Path::new(&folder));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = |extension| folder.path().join(format!("%p.{extension}"));
    let child = Child::this_test(test)
        .env(FOLDER, folder.path())
        .env("VK_STEWARD_MEMORY_JSON", file("json"))
        .env("VK_STEWARD_MEMORY_STATE", file("state"))
        .run();
    child.assert_code(0);
    let entries = fs::read_dir(folder.path()).expect("a folder");
    let names: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|it| it == "json"))
        .collect();
    // The parent, and the child with an instance: not the one without.
    assert_eq!(names.len(), 2, "{names:?}");
    let mut reports: Vec<Value> =
        names.iter().map(|path| serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")).collect();
    reports.sort_by_key(|report| report["source"]["commands"].as_u64());
    let [of_child, of_parent] = &*reports else {
        unreachable!("two, as above");
    };
    assert_eq!(of_child["source"]["commands"], 2, "{of_child}");
    assert_eq!(of_child["program"]["instances"].as_array().map(Vec::len), Some(1));
    assert_eq!(of_child["program"]["instances"][0]["devices"], Value::Array(vec![]));
    // What the parent's checker has on record is live there, and was not left by the child.
    assert_eq!(of_child["findings"], Value::Array(vec![]));
    assert_eq!(of_parent["source"]["commands"], 5, "{of_parent}");
    let kinds = &of_parent["program"]["instances"][0]["devices"][0]["kinds"];
    assert!(kinds.to_string().contains("VkBuffer"), "{of_parent}");
}

/// Whatever the layer keeps for a process: a child reports what a process of its own reports that does as much,
/// whatever its parent did.
#[test]
fn ly37_the_report_of_a_forked_child_is_that_of_a_process_of_its_own() {
    const HAS_PARENT: &str = "STEWARD_TEST_HAS_PARENT";
    const LAYERS: &str = "VK_INSTANCE_LAYERS";
    let test = "ly37_the_report_of_a_forked_child_is_that_of_a_process_of_its_own";
    if Child::is_child(test) {
        let folder = env::var_os(FOLDER).expect("set below");
        if env::var_os(HAS_PARENT).is_none() {
            return end_all_and_leave_some();
        }
        // SAFETY: no other thread of this process uses the environment.
        unsafe { env::set_var(LAYERS, "VK_LAYER_OF_PARENT") };
        end_all_and_leave_some();
        // SAFETY: no other thread of this process uses the environment.
        unsafe { env::remove_var(LAYERS) };
        // More than the layer deems worth telling; what the parent has reported is not compared.
        let grown = vec![1_u8; 64 << 20];
        fs::remove_dir_all(&folder).expect("a folder");
        fs::create_dir(&folder).expect("a folder");
        in_child(end_all_and_leave_some);
        drop(grown);
        // SAFETY: ends the process without a report of its own.
        unsafe { libc::_exit(0) };
    }
    for (setting, value) in [
        ("CHECK", "true"),
        ("STACKS", "true"),
        ("GUARD", "cookie"),
        ("FAIL", "nth=1000"),
        ("RECORD", "%p.trace"),
        ("TEXT", "%p.%n.text"),
    ] {
        let written = |has_parent: bool| {
            let place = tempfile::tempdir().expect("a folder");
            let folder = place.path().join("files");
            fs::create_dir(&folder).expect("a folder");
            let value: OsString = match setting {
                "RECORD" | "TEXT" => folder.join(value).into(),
                _ => value.into(),
            };
            let mut child = Child::this_test(test)
                .env(FOLDER, &folder)
                .env(&format!("VK_STEWARD_MEMORY_{setting}"), value)
                .env("VK_STEWARD_MEMORY_JSON", folder.join("%p.%n.json"));
            if has_parent {
                child = child.env(HAS_PARENT, "");
            }
            child.run().assert_code(0);
            lines_of_all(&folder)
        };
        let (alone, forked) = (written(false), written(true));
        let pairs = alone.iter().zip(&forked);
        let other: Vec<_> = pairs.filter(|(alone, forked)| alone != forked).collect();
        assert!(other.is_empty(), "{setting}: {other:#?}");
        assert_eq!(alone.len(), forked.len(), "{setting}: {forked:#?}");
    }
}

/// A report after the last instance has ended, and one at the end of the process, in which something is alive.
fn end_all_and_leave_some() {
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    layer.destroy_instance(instance, NONE);
    known_program();
}

/// The lines of the reports, and the number of a trace's, without what no two processes have in common.
fn lines_of_all(folder: &Path) -> Vec<String> {
    const OWN: [&str; 6] =
        ["\"address\"", "\"first_serial\"", "\"handle\"", "\"mappings_", "\"nanoseconds\"", "process"];
    let entries = fs::read_dir(folder).expect("a folder");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let mut lines = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("text");
        if file.extension().is_some_and(|it| it == "trace") {
            lines.push(format!("{} lines of a trace", text.lines().count()));
            continue;
        }
        let is_common = |line: &&str| OWN.iter().all(|own| !line.contains(own));
        lines.extend(text.lines().filter(is_common).map(str::to_owned));
    }
    lines
}

/// The state of the calling process.
fn state(folder: &Path) -> Option<State> {
    state_file::read(&folder.join(format!("{}.state", std::process::id()))).ok()
}

fn fork_with_and_without_an_instance(folder: &Path) {
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    let create = layer.of_device(device, c"vkCreateBuffer").expect("a hook");
    create_object(create, device, NONE).expect("a buffer");
    in_child(|| ());
    in_child(|| {
        assert!(state(folder).is_none(), "not before its first instance");
        let instance = layer.create_instance(NONE).expect("an instance");
        let state = state(folder).expect("a state");
        assert_eq!((state.commands, state.kinds.len()), (1, 1), "{state}");
        assert_eq!(state.process, u64::from(std::process::id()));
        layer.destroy_instance(instance, NONE);
    });
    let after = state(folder).expect("a state");
    assert_eq!((after.commands, after.kinds.len()), (3, 3), "{after}");
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
}

#[test]
fn ly35_a_create_that_failed_has_ended_in_the_state() {
    let test = "ly35_a_create_that_failed_has_ended_in_the_state";
    let Some(folder) = env::var_os(FOLDER).filter(|_| Child::is_child(test)) else {
        let folder = tempfile::tempdir().expect("a folder");
        let child = Child::this_test(test)
            .env(FOLDER, folder.path())
            .env("VK_STEWARD_MEMORY_STATE", folder.path().join("%p.state"));
        child.run().assert_code(0);
        return;
    };
    let layer = Layer::new();
    let started_and_ended = || {
        let state = state(Path::new(&folder)).expect("a state");
        (state.started_commands, state.commands)
    };
    fail_creation(true);
    layer.create_instance(NONE).expect_err("refused");
    assert_eq!(started_and_ended(), (1, 1));
    fail_creation(false);
    let instance = layer.create_instance(NONE).expect("an instance");
    fail_creation(true);
    layer.create_device(instance, NONE).expect_err("refused");
    assert_eq!(started_and_ended(), (3, 3));
    fail_creation(false);
    // Such as the layer itself has to refuse.
    create_without_table(true);
    layer.create_instance(NONE).expect_err("nobody finds it");
    layer.create_device(instance, NONE).expect_err("the same");
    assert_eq!(started_and_ended(), (5, 5));
    create_without_table(false);
    layer.destroy_instance(instance, NONE);
}

#[test]
fn lc9_locks_of_threads_that_are_gone_do_not_stop_a_forked_child() {
    let test = "lc9_locks_of_threads_that_are_gone_do_not_stop_a_forked_child";
    if !Child::is_child(test) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("%p.json");
        let child = Child::this_test(test).env("VK_STEWARD_MEMORY_JSON", file);
        child.run().assert_code(0);
        return;
    }
    let layer = Layer::new();
    // As long as it lives the threads below end no last instance, so that none of them is writing a report at a fork.
    let instance = layer.create_instance(NONE).expect("an instance");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            // Reads of accounts and ends of instances hold the lists' lock nearly all the time.
            scope.spawn(|| {
                let layer = Layer::new();
                while !is_over.load(Ordering::Relaxed) {
                    let instance = layer.create_instance(NONE).expect("an instance");
                    layer.destroy_instance(instance, NONE);
                }
            });
        }
        for _ in 0..FORKS {
            in_child(|| {
                let instance = layer.create_instance(NONE).expect("an instance");
                layer.destroy_instance(instance, NONE);
            });
        }
        is_over.store(true, Ordering::Relaxed);
    });
    layer.destroy_instance(instance, NONE);
}

#[test]
fn ly37_a_child_writes_its_report_though_a_thread_of_the_parent_held_the_error_output() {
    let test = "ly37_a_child_writes_its_report_though_a_thread_of_the_parent_held_the_error_output";
    if !Child::is_child(test) {
        let child = Child::this_test(test).env("VK_STEWARD_MEMORY_TEXT", "-");
        let ran = child.run();
        ran.assert_code(0);
        // The child's, and the parent's.
        let reports = ran.stderr.matches("Host memory that Vulkan allocated");
        assert_eq!(reports.count(), 2, "{ran}");
        return;
    }
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let (is_locked, is_over) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            let _held = io::stderr().lock();
            is_locked.wait();
            is_over.wait();
        });
        is_locked.wait();
        in_child(|| {
            let instance = layer.create_instance(NONE).expect("an instance");
            layer.destroy_instance(instance, NONE);
        });
        is_over.wait();
    });
    layer.destroy_instance(instance, NONE);
}

/// At the fork a thread of the parent is in the middle of noting what a deferred operation has created: the child,
/// which lacks that thread, notes it itself.
#[test]
fn lc9_a_child_notes_what_was_deferred_though_a_thread_of_the_parent_was_noting_it() {
    static IS_NOTING: Barrier = Barrier::new(2);
    static IS_OVER: Barrier = Barrier::new(2);
    static OPERATION: AtomicU64 = AtomicU64::new(0);
    type Create =
        unsafe extern "system" fn(*mut c_void, u64, u64, u32, *const c_void, *const RawCallbacks, *mut u64) -> i32;
    type CreateOperation = unsafe extern "system" fn(*mut c_void, *const RawCallbacks, *mut u64) -> i32;
    type OnOperation = unsafe extern "system" fn(*mut c_void, u64) -> i32;
    let test = "lc9_a_child_notes_what_was_deferred_though_a_thread_of_the_parent_was_noting_it";
    if !Child::is_child(test) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("%p.json");
        let child = Child::this_test(test).env("VK_STEWARD_MEMORY_JSON", file);
        child.run().assert_code(0);
        return;
    }
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    let function = |name| layer.of_device(device, name).expect("the driver has it");
    let create = function(c"vkCreateRayTracingPipelinesKHR");
    // SAFETY: the command has this signature.
    let create = unsafe { transmute::<VoidFunction, Create>(create) };
    let create_operation = function(c"vkCreateDeferredOperationKHR");
    // SAFETY: the command has this signature.
    let create_operation = unsafe { transmute::<VoidFunction, CreateOperation>(create_operation) };
    let [join, result] = [c"vkDeferredOperationJoinKHR", c"vkGetDeferredOperationResultKHR"].map(|name| {
        // SAFETY: the commands have this signature.
        unsafe { transmute::<VoidFunction, OnOperation>(function(name)) }
    });
    let device = device.expose_provenance();
    thread::scope(|scope| {
        scope.spawn(move || {
            let device = ptr::with_exposed_provenance_mut(device);
            let (mut operation, mut pipelines) = (0, [0; 3]);
            // SAFETY: a live device, and room for a handle.
            let created = unsafe { create_operation(device, NONE, &raw mut operation) };
            assert_eq!(created, 0);
            let objects = pipelines.as_mut_ptr();
            // SAFETY: a live device, and room for three.
            let deferred = unsafe { create(device, operation, 0, 3, ptr::null(), NONE, objects) };
            assert_eq!(deferred, 1_000_268_002);
            OPERATION.store(operation, Ordering::Relaxed);
            plant_work("vkCreateRayTracingPipelinesKHR", HookPhase::After, || {
                IS_NOTING.wait();
                IS_OVER.wait();
            });
            for expected in [1_000_268_001, 0] {
                // SAFETY: a live device and operation.
                assert_eq!(unsafe { join(device, operation) }, expected);
            }
        });
        IS_NOTING.wait();
        let device = ptr::with_exposed_provenance_mut(device);
        in_child(|| {
            let operation = OPERATION.load(Ordering::Relaxed);
            // SAFETY: a live device and operation, which is done: it notes what was created.
            assert_eq!(unsafe { result(device, operation) }, 0);
        });
        IS_OVER.wait();
    });
}

#[test]
fn ly37_a_child_leaves_its_parents_state_file_alone() {
    let test = "ly37_a_child_leaves_its_parents_state_file_alone";
    let Some(folder) = env::var_os(FOLDER).filter(|_| Child::is_child(test)) else {
        let folder = tempfile::tempdir().expect("a folder");
        // What a process that has ended left is replaced.
        fs::write(folder.path().join("state"), "STEWARD left").expect("a file");
        let child = Child::this_test(test)
            .env(FOLDER, folder.path())
            .env("VK_STEWARD_MEMORY_STATE", folder.path().join("state"));
        let done = child.run();
        done.assert_code(0);
        assert!(done.stderr.contains("name a file with %p"), "{done}");
        return;
    };
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    in_child(|| {
        let instance = layer.create_instance(NONE).expect("an instance");
        layer.destroy_instance(instance, NONE);
    });
    let device = layer.create_device(instance, NONE).expect("a device");
    let state = state_file::read(&Path::new(&folder).join("state")).expect("a state");
    assert_eq!(state.process, u64::from(std::process::id()), "{state}");
    assert_eq!(state.commands, 2, "{state}");
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
}

/// Past the process's limit of file sizes a write raises a signal that ends the process.
#[test]
fn ly35_a_limit_of_file_sizes_leaves_files_out_and_the_program_goes_on() {
    let test = "ly35_a_limit_of_file_sizes_leaves_files_out_and_the_program_goes_on";
    let Some(_) = env::var_os(FOLDER).filter(|_| Child::is_child(test)) else {
        let folder = tempfile::tempdir().expect("a folder");
        let [state, json] = ["state", "json"].map(|name| folder.path().join(name));
        let done = Child::this_test(test)
            .env(FOLDER, folder.path())
            .env("VK_STEWARD_MEMORY_STATE", &state)
            .env("VK_STEWARD_MEMORY_JSON", &json)
            .run();
        done.assert_code(0);
        assert_eq!(done.stderr.matches("(ulimit -f)").count(), 2, "{done}");
        assert!(!state.exists() && !json.exists(), "{done}");
        return;
    };
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: a limit of this process alone.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
    assert_eq!(set, 0);
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    layer.destroy_instance(instance, NONE);
}

/// Runs `work` in a forked child, which ends by `exit`, and waits for it.
fn in_child(work: impl FnOnce()) {
    // SAFETY: what the child does until it ends needs no lock but the allocator's, which the C library sees to.
    match unsafe { libc::fork() } {
        -1 => panic!("no child"),
        0 => {
            // A lock that is held for ever would keep it waiting.
            // SAFETY: a number of seconds.
            unsafe { libc::alarm(30) };
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // SAFETY: runs the handlers of this process.
            unsafe { libc::exit(i32::from(done.is_err())) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the child's number, and room for its status.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!((waited, status), (child, 0));
        }
    }
}
