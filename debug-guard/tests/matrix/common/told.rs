//! A report as its line of JSON tells it, and what may be asserted of it.

use std::fmt;

use debug_guard::{BackEnd, Mode};
use serde_json::Value;

use super::config::Config;
use super::lab::OWNER;
use super::names::name_of;

pub(crate) struct Told {
    json: Value,
    /// The case's function, as stacks name it.
    case: String,
    config: Config,
    /// Where the child had the program.
    anchor: usize,
}

impl Told {
    pub(crate) fn new(line: &str, case: &str, config: Config, anchor: usize) -> Self {
        let json: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("no JSON: {error}\n{line}"));
        let told = Self { json, case: case.to_owned(), config, anchor };
        if let Some(back_end) = config.back_end.filter(|_| !told.is_leak()) {
            let with_cookies = told.at_path("/block/mode").is_some_and(|mode| mode == Mode::Cookie.name());
            let expected = if with_cookies { BackEnd::Cookies } else { back_end };
            assert_eq!(told.text("/back_end"), expected.name(), "every report names its back end");
        }
        told
    }

    // --- what it says
    // ---------------------------------------------------------------------------------------------------

    fn at_path(&self, path: &str) -> Option<&Value> {
        self.json.pointer(path).filter(|value| !value.is_null())
    }

    #[track_caller]
    fn text(&self, path: &str) -> &str {
        self.at_path(path).and_then(Value::as_str).unwrap_or_else(|| panic!("no text at {path}\n{self:?}"))
    }

    #[track_caller]
    fn number(&self, path: &str) -> usize {
        let value = self.at_path(path).unwrap_or_else(|| panic!("nothing at {path}\n{self:?}"));
        let text = value.as_str().and_then(|text| text.strip_prefix("0x"));
        let number = text.map_or_else(|| value.as_u64(), |text| u64::from_str_radix(text, 16).ok());
        number.unwrap_or_else(|| panic!("no number at {path}\n{self:?}")) as usize
    }

    #[track_caller]
    fn bytes(&self, path: &str) -> Vec<u8> {
        let text = self.text(path);
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).expect("digits"), 16).expect("two digits");
        digits.chunks(2).map(byte).collect()
    }

    /// The functions of a stack, innermost first.
    #[track_caller]
    fn stack(&self, path: &str) -> Vec<String> {
        let path = &format!("{path}/frames");
        let frames =
            self.at_path(path).and_then(Value::as_array).unwrap_or_else(|| panic!("no stack at {path}\n{self:?}"));
        assert!(!frames.is_empty(), "an empty stack at {path}\n{self:?}");
        let frames = (0..frames.len()).map(|i| self.number(&format!("{path}/{i}/address")));
        // Frames are return addresses: the call stands in front. The first may be where an instruction was stopped.
        let stopped = path.starts_with("/by") && self.stopped_there();
        let named = |(i, frame): (usize, usize)| name_of(frame - usize::from(i > 0 || !stopped), self.anchor);
        frames.enumerate().map(named).collect()
    }

    pub(crate) fn is_leak(&self) -> bool {
        self.text("/kind") == "leak"
    }

    /// Blocks and bytes.
    pub(crate) fn leak(&self) -> (u64, u64) {
        assert_eq!(self.text("/guard"), OWNER, "{self:?}");
        (self.number("/blocks") as u64, self.number("/bytes") as u64)
    }

    pub(crate) fn stopped_there(&self) -> bool {
        self.text("/detected_at") == "instruction"
    }

    pub(crate) fn at_once(&self) -> bool {
        let call = ["double-free", "interior-free", "foreign-free", "wrong-guard"].contains(&self.text("/kind"));
        self.stopped_there() || call
    }

    pub(crate) fn address(&self) -> usize {
        self.number("/address")
    }

    pub(crate) fn process(&self) -> usize {
        self.number("/process")
    }

    pub(crate) fn thread(&self) -> usize {
        self.number("/by/thread")
    }

    pub(crate) fn thread_name(&self) -> &str {
        self.text("/by/thread_name")
    }

    /// The threads that took and gave the block.
    pub(crate) fn threads(&self) -> (usize, usize) {
        (self.number("/block/taken/thread"), self.number("/block/given/thread"))
    }

    pub(crate) fn given_thread_name(&self) -> &str {
        self.text("/block/given/thread_name")
    }

    pub(crate) fn owner(&self) -> &str {
        self.text("/block/taken/owner")
    }

    pub(crate) fn block_address(&self) -> usize {
        self.number("/block/address")
    }

    /// The block on the other side, and how far it is.
    pub(crate) fn neighbour(&self) -> (usize, usize) {
        (self.number("/neighbour/address"), self.number("/neighbour_distance"))
    }

    pub(crate) fn changed_first(&self) -> usize {
        self.number("/changed/address")
    }

    /// What was expected there, and what was found.
    pub(crate) fn changed_bytes(&self) -> [Vec<u8>; 2] {
        ["/changed/expected", "/changed/found"].map(|path| self.bytes(path))
    }

    // --- what may be asserted
    // -------------------------------------------------------------------------------------------

    #[track_caller]
    pub(crate) fn kind(&self, kind: &str) -> &Self {
        assert_eq!(self.text("/kind"), kind, "{self:?}");
        self
    }

    /// The block as it was asked for, whose it is, and under which mode.
    #[track_caller]
    pub(crate) fn block(&self, start: usize, size: usize, align: usize) -> &Self {
        self.block_under(self.config.mode, start, size, align).owned_by("", "object")
    }

    /// A block that this context took, in this scope.
    #[track_caller]
    pub(crate) fn block_of(&self, owner: &str, scope: &str, start: usize, size: usize, align: usize) -> &Self {
        self.block_under(self.config.mode, start, size, align).owned_by(owner, scope)
    }

    #[track_caller]
    fn owned_by(&self, owner: &str, scope: &str) -> &Self {
        assert_eq!((self.owner(), self.text("/block/scope")), (owner, scope), "{self:?}");
        self
    }

    /// As [`block`](Self::block), where the block got another mode than was asked for.
    #[track_caller]
    pub(crate) fn block_under(&self, mode: Mode, start: usize, size: usize, align: usize) -> &Self {
        let block = (self.number("/block/address"), self.number("/block/size"), self.number("/block/align"));
        assert_eq!(block, (start, size, align), "{self:?}");
        assert_eq!(self.text("/block/mode"), mode.name(), "{self:?}");
        let guard = self.at_path("/right_guard").and_then(Value::as_str).unwrap_or_else(|| self.text("/guard"));
        assert_eq!(guard, OWNER, "the guard that gave it, {self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn without_block(&self) -> &Self {
        assert!(self.at_path("/block").is_none(), "{self:?}");
        self
    }

    /// The place of the address, seen from the block.
    #[track_caller]
    fn place(&self, name: &str, bytes: usize) -> &Self {
        assert_eq!((self.text("/place"), self.number("/bytes")), (name, bytes), "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn offset(&self, bytes: usize) -> &Self {
        self.place("inside", bytes)
    }

    #[track_caller]
    pub(crate) fn offset_past_end(&self, bytes: usize) -> &Self {
        self.place("past", bytes)
    }

    #[track_caller]
    pub(crate) fn offset_before_start(&self, bytes: usize) -> &Self {
        self.place("before", bytes)
    }

    /// The instruction was stopped, at this address; who did it has a stack.
    #[track_caller]
    pub(crate) fn stopped(&self, access: &str, address: usize) -> &Self {
        assert_eq!((self.text("/detected_at"), self.text("/access")), ("instruction", access), "{self:?}");
        assert_eq!(self.address(), address, "{self:?}");
        self.stack("/by");
        self
    }

    #[track_caller]
    pub(crate) fn access(&self, access: &str) -> &Self {
        assert_eq!(self.text("/access"), access, "{self:?}");
        self
    }

    /// The stopped instruction stands in this function, called by the case.
    #[track_caller]
    pub(crate) fn touched_in(&self, function: &str) -> &Self {
        let stack = self.stack("/by");
        assert!(stack[0].contains(function), "not in {function}: {stack:#?}\n{self:?}");
        let program = std::env::current_exe().expect("this program");
        let name = program.file_name().and_then(|name| name.to_str());
        let module = self.text("/by/frames/0/module");
        assert!(name.is_some_and(|name| module.contains(name)) && self.number("/by/frames/0/offset") > 0, "{self:?}");
        if unwinds_in_handlers() { self.names("/by", &self.case) } else { self }
    }

    #[track_caller]
    pub(crate) fn found(&self, detected_at: &str) -> &Self {
        assert_eq!(self.text("/detected_at"), detected_at, "{self:?}");
        self
    }

    /// No instruction was stopped: it was found in a call of this function's.
    #[track_caller]
    pub(crate) fn found_in(&self, function: &str) -> &Self {
        assert_ne!(self.text("/detected_at"), "instruction", "{self:?}");
        self.names("/by", function)
    }

    #[track_caller]
    fn names(&self, path: &str, function: &str) -> &Self {
        let stack = self.stack(path);
        // A table of lines has some functions without their modules.
        let bare = function.rsplit("::").next();
        assert!(
            stack.iter().any(|name| name.contains(function) || name.split(' ').any(|name| Some(name) == bare)),
            "{path} does not name {function}: {stack:#?}\n{self:?}"
        );
        self
    }

    #[track_caller]
    pub(crate) fn taken_in_case(&self) -> &Self {
        self.names("/block/taken", "takes").names("/block/taken", &self.case)
    }

    #[track_caller]
    pub(crate) fn taken_in(&self, function: &str) -> &Self {
        self.names("/block/taken", function)
    }

    #[track_caller]
    pub(crate) fn given_in_case(&self) -> &Self {
        self.names("/block/given", &self.case)
    }

    #[track_caller]
    pub(crate) fn given_in(&self, function: &str) -> &Self {
        self.names("/block/given", function)
    }

    #[track_caller]
    pub(crate) fn given_not_in(&self, function: &str) -> &Self {
        let stack = self.stack("/block/given");
        assert!(!stack.iter().any(|name| name.contains(function)), "{stack:#?}\n{self:?}");
        self
    }

    /// These bytes were found there.
    #[track_caller]
    pub(crate) fn changed(&self, first: usize, actual: &[u8]) -> &Self {
        assert_eq!((self.changed_first(), self.number("/changed/span")), (first, actual.len()), "{self:?}");
        let told = self.bytes("/changed/found");
        assert_eq!(told, actual[..actual.len().min(16)], "{self:?}");
        let expected = self.bytes("/changed/expected");
        assert!(expected.len() == told.len() && expected != told, "{self:?}");
        self
    }

    /// So many bytes were found there, each with all its bits turned over.
    #[track_caller]
    pub(crate) fn flipped(&self, first: usize, span: usize) -> &Self {
        let found: Vec<u8> = self.bytes("/changed/expected").into_iter().map(|byte| !byte).collect();
        assert_eq!(found.len(), span, "{self:?}");
        self.changed(first, &found)
    }

    #[track_caller]
    pub(crate) fn expected(&self, bytes: &[u8]) -> &Self {
        assert_eq!(self.bytes("/changed/expected"), bytes, "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn moved_to(&self, address: usize) -> &Self {
        assert_eq!(self.number("/block/moved_to"), address, "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn came_back_with(&self, size: usize, align: usize) -> &Self {
        assert_eq!((self.number("/free_args/size"), self.number("/free_args/align")), (size, align), "{self:?}");
        self
    }

    /// The mapping that the address lies in.
    #[track_caller]
    pub(crate) fn mapping(&self, name: &str) -> &Self {
        assert!(self.text("/mapping").contains(name), "{self:?}");
        self
    }

    /// Whose callbacks it came back through.
    #[track_caller]
    pub(crate) fn given_by(&self, owner: &str) -> &Self {
        assert_eq!(self.text("/by/owner"), owner, "{self:?}");
        self
    }

    /// The guard that reports it.
    #[track_caller]
    pub(crate) fn through(&self, guard: &str) -> &Self {
        assert_eq!(self.text("/guard"), guard, "{self:?}");
        self
    }

    /// It was freed fewer allocations ago.
    #[track_caller]
    pub(crate) fn younger_than(&self, allocations: usize) -> &Self {
        assert!(self.number("/block/given/age") < allocations, "{self:?}");
        self
    }

    /// Roughly so many allocations lie between its free and now: threads draw their numbers in batches.
    #[track_caller]
    pub(crate) fn aged(&self, allocations: usize) -> &Self {
        let age = self.number("/block/given/age");
        assert!((allocations..=allocations * 2 + 256).contains(&age), "{age} {self:?}");
        self
    }
}

/// The tables of unwinding are found in a handler as anywhere.
#[cfg(windows)]
fn unwinds_in_handlers() -> bool {
    true
}

/// Before glibc 2.35 the unwinder takes a lock, and is not asked in a signal handler: stacks end there where frame
/// pointers do.
#[cfg(not(windows))]
fn unwinds_in_handlers() -> bool {
    // SAFETY: asks for an address.
    let version = unsafe { libc::gnu_get_libc_version() };
    // SAFETY: a string that the library never changes.
    let version = unsafe { std::ffi::CStr::from_ptr(version) };
    let minor = version
        .to_str()
        .ok()
        .and_then(|version| version.strip_prefix("2."))
        .and_then(|minor| minor.parse::<u32>().ok());
    minor.is_none_or(|minor| minor >= 35)
}

impl fmt::Debug for Told {
    /// With functions for frames.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut json = self.json.clone();
        for path in ["/by", "/block/taken", "/block/given", "/neighbour/taken", "/neighbour/given"] {
            let frames = json.pointer_mut(&format!("{path}/frames"));
            let Some(frames) = frames.and_then(Value::as_array_mut) else {
                continue;
            };
            for frame in &mut *frames {
                let address = frame.get("address").and_then(Value::as_str).and_then(|text| text.strip_prefix("0x"));
                let address = address.and_then(|text| usize::from_str_radix(text, 16).ok()).unwrap_or(0);
                *frame = Value::String(name_of(address, self.anchor).trim_end().to_owned());
            }
            // Below a case stands the test runner, which says nothing.
            let run = frames.iter().position(|frame| frame.as_str().is_some_and(|name| name.contains("Place::run")));
            frames.truncate(run.unwrap_or(usize::MAX));
        }
        write!(f, "{}: {json}", self.config.name())
    }
}
