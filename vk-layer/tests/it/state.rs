//! The state file while the program runs, over the fake driver.

use std::ffi::c_void;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::mem::transmute;
use std::path::{Path, PathBuf};
use std::{env, fs, ptr};

use VkLayer_steward_memory::planted_panic::{HookPhase, plant_panic};
use testkit::Child;
use vk_callbacks::raw::RawCallbacks;
use vk_report::state_file::{self, COMMANDS, KIND_WORDS, KINDS, SEQUENCE, State, StateKind};

use crate::driver::{Layer, VoidFunction, create_object, destroy_object};

const NONE: *const RawCallbacks = ptr::null();
const STATE: &str = "VK_STEWARD_MEMORY_STATE";

/// The file of this child; none in the parent, which has run the child by then.
fn file_of_child(test: &str) -> Option<PathBuf> {
    if Child::is_child(test) {
        return env::var_os(STATE).map(PathBuf::from);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let child = Child::this_test(test).env(STATE, folder.path().join("state"));
    child.run().assert_code(0);
    None
}

fn kind(state: &State, name: &str) -> StateKind {
    let row = state.kinds.iter().find(|row| row.kind == name);
    row.expect("a kind that is used").clone()
}

fn word(file: &Path, index: usize) -> u64 {
    let bytes = fs::read(file).expect("a file");
    let word = bytes[index * 8..].first_chunk().expect("a word");
    u64::from_ne_bytes(*word)
}

/// What can be read of it is listed.
#[test]
fn ly44_a_report_says_that_another_has_written_into_the_stacks_of_the_state_file() {
    let test = "ly44_a_report_says_that_another_has_written_into_the_stacks_of_the_state_file";
    if !Child::is_child(test) {
        let folder = tempfile::tempdir().expect("a folder");
        let child = Child::this_test(test).env(STATE, folder.path().join("state"));
        let child = child.env("VK_STEWARD_MEMORY_STACKS", "true");
        let done = child.env("VK_STEWARD_MEMORY_TEXT", "-").run();
        done.assert_code(0);
        let lines = done.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(lines.contains("the rest of the call stacks cannot be read"), "{done}");
        return;
    }
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    layer.create_device(instance, NONE).expect("a device");
    let file = env::var_os(STATE).expect("a file");
    let mut file = fs::OpenOptions::new().write(true).open(file).expect("a file");
    let first = state_file::LENGTH + 8 * state_file::stacks::HEAD_WORDS;
    file.seek(SeekFrom::Start(first as u64)).expect("a record");
    file.write_all(&[0xff; 8]).expect("room");
}

#[test]
fn ly35_a_submit_updates_the_kinds_that_commands_came_about_and_writes_nothing_else() {
    type Submit = unsafe extern "system" fn(*mut c_void, u32, *const c_void, u64) -> i32;
    let test = "ly35_a_submit_updates_the_kinds_that_commands_came_about_and_writes_nothing_else";
    let Some(file) = file_of_child(test) else {
        return;
    };
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    let function = |name| layer.of_device(device, name).expect("a hook");
    let (create, destroy) = (function(c"vkCreateBuffer"), function(c"vkDestroyBuffer"));
    let allocate = function(c"vkAllocateMemory");
    // SAFETY: the command has this signature.
    let submit = unsafe { transmute::<VoidFunction, Submit>(function(c"vkQueueSubmit")) };
    let submit = || {
        // SAFETY: the device stands for its queue: both begin with the same word.
        assert_eq!(unsafe { submit(device, 0, ptr::null(), 0) }, 0);
    };
    // From here on not every command updates it: 1024 is the last that does.
    for _ in 0..511 {
        let buffer = create_object(create, device, NONE).expect("a buffer");
        destroy_object(destroy, device, buffer, NONE);
    }
    let state = || state_file::read(&file).expect("a state");
    assert_eq!(state().commands, 1024);
    create_object(create, device, NONE).expect("a buffer");
    create_object(allocate, device, NONE).expect("memory");
    let before = state();
    assert_eq!((before.commands, before.started_commands), (1024, 1026));
    assert_eq!(kind(&before, "VkBuffer").objects_alive, 0);
    submit();
    let after = state();
    assert!(after.is_whole && after.commands == 1026, "{after}");
    let buffers = kind(&after, "VkBuffer");
    assert_eq!((buffers.objects_alive, buffers.usage.live_blocks), (1, 1));
    assert!(buffers.usage.live_bytes >= 32 && buffers.usage.total_blocks == 512);
    let memory = kind(&after, "VkDeviceMemory");
    assert_eq!((memory.objects_alive, memory.usage.live_blocks), (1, 1));
    // What has not changed is not written: neither by a submit that nothing came before, nor the rows of other kinds.
    let sequence = word(&file, SEQUENCE);
    (0..50).for_each(|_| submit());
    assert_eq!(word(&file, SEQUENCE), sequence);
    let row_of = |name: &str| {
        let has_name = |place: &usize| {
            let bytes = fs::read(&file).expect("a file");
            bytes[(KINDS + place * KIND_WORDS) * 8..].starts_with(format!("{name}\0").as_bytes())
        };
        (0..).find(has_name).expect("a kind")
    };
    let device_row = (KINDS + row_of("VkDevice") * KIND_WORDS) * 8;
    spoil(&file, device_row + 14 * 8);
    create_object(create, device, NONE).expect("a buffer");
    submit();
    assert_eq!(kind(&state(), "VkBuffer").objects_alive, 2);
    assert_eq!(word(&file, device_row / 8 + 14), u64::MAX);
    // Every 64th looks at all: a driver's thread may have allocated.
    let commands = word(&file, COMMANDS);
    (0..12).for_each(|_| submit());
    assert_eq!((word(&file, SEQUENCE), commands), (sequence + 4, 1027));
}

/// Writes a word of ones into the file, which is mapped.
fn spoil(file: &Path, at: usize) {
    let file = fs::OpenOptions::new().write(true).open(file);
    let mut file = file.expect("a file");
    file.seek(SeekFrom::Start(at as u64)).expect("a file");
    file.write_all(&[0xff; 8]).expect("a word");
}

#[test]
fn ly35_after_a_panic_in_an_update_the_next_one_is_whole_again() {
    let test = "ly35_after_a_panic_in_an_update_the_next_one_is_whole_again";
    let Some(file) = file_of_child(test) else {
        return;
    };
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    let function = |name| layer.of_device(device, name).expect("a hook");
    // The update after this command panics when the numbers of buffers are written.
    plant_panic("vkCreateBuffer", HookPhase::State);
    let buffer = create_object(function(c"vkCreateBuffer"), device, NONE).expect("a buffer");
    let parse = || State::parse(&fs::read(&file).expect("a file")).expect("a state");
    let torn = parse();
    assert!(!torn.is_whole, "it was given up half done: {torn}");
    assert_eq!((torn.commands, torn.started_commands), (2, 3));
    destroy_object(function(c"vkDestroyBuffer"), device, buffer, NONE);
    let memory = create_object(function(c"vkAllocateMemory"), device, NONE).expect("memory");
    let whole = parse();
    assert!(whole.is_whole && whole.commands == 5, "{whole}");
    let memories = kind(&whole, "VkDeviceMemory");
    assert_eq!((memories.objects_created, memories.objects_alive), (1, 1));
    destroy_object(function(c"vkFreeMemory"), device, memory, NONE);
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
    let last = parse();
    assert!(last.is_whole, "{last}");
    // The report was written after the last command, and the numbers go with it.
    assert_eq!((last.commands, last.reported_commands), (8, 8));
    assert_eq!(kind(&last, "VkDevice").objects_alive, 0);
}

/// A second process has the same name for its state: the first one lives, and then it has ended.
#[test]
fn ly82_a_state_that_a_living_process_writes_is_refused_to_the_next_and_one_that_was_left_is_not() {
    const SECOND: &str = "STEWARD_TEST_SECOND";
    let test = "ly82_a_state_that_a_living_process_writes_is_refused_to_the_next_and_one_that_was_left_is_not";
    let Some(file) = env::var_os(STATE).filter(|_| Child::is_child(test)) else {
        let folder = tempfile::tempdir().expect("a folder");
        let child = || Child::this_test(test).env(STATE, folder.path().join("state"));
        let complaint = "another process that runs writes it";
        for _ in 0..2 {
            let first = child().run();
            first.assert_code(0);
            assert!(!first.stderr.contains(complaint), "{first}");
        }
        return;
    };
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    if env::var_os(SECOND).is_none() {
        let state = || state_file::read(Path::new(&file)).expect("a state");
        let own = u64::from(std::process::id());
        assert_eq!(state().process, own);
        let second = Child::this_test(test).env(SECOND, "1").run();
        second.assert_code(0);
        let complaint = "another process that runs writes it";
        assert!(second.stderr.contains(complaint), "{second}");
        let commands = state().commands;
        let device = layer.create_device(instance, NONE).expect("a device");
        layer.destroy_device(device, NONE);
        assert_eq!((state().process, state().commands), (own, commands + 2));
    }
    layer.destroy_instance(instance, NONE);
}
