//! The program or library that calls is the first file on the call stack that is neither the layer's nor the C
//! library's. Only findings, which are rare, walk the stack.

#![forbid(unsafe_code)]

use std::alloc::System;

use alloc_core::FromGlobalAlloc;
use debug_guard::{ModuleFinder, StackDepot};

use crate::os::{c_library, file_name};
use crate::per_process::PerProcess;
use crate::record::SYSTEM;

static STACKS: PerProcess<StackDepot<&'static FromGlobalAlloc<System>>> = PerProcess::new();

pub(crate) fn after_fork() {
    STACKS.forget();
}

pub(crate) fn caller_module() -> &'static str {
    caller().map_or("", file_name)
}

fn caller() -> Option<&'static str> {
    let stacks = STACKS.get_or_make(|| StackDepot::new(&SYSTEM).ok())?;
    let (_, stack) = stacks.get(stacks.capture("")?)?;
    let skipped = [caller as *const () as usize, c_library()].map(file_of);
    let mut files = stack.frames.iter().filter_map(|frame| file_of(*frame));
    files.find(|file| !skipped.contains(&Some(file)))
}

fn file_of(address: usize) -> Option<&'static str> {
    Some(ModuleFinder::new().find(address)?.0)
}

#[cfg(test)]
mod tests {
    use super::{caller, file_of};

    #[test]
    #[cfg_attr(miri, ignore = "miri has no list of mappings")]
    fn ly52_a_file_has_its_path_and_its_own_frames_are_nobodys() {
        let own = caller as *const () as usize;
        let path = std::env::current_exe().expect("a path");
        assert!(path.to_str().expect("a path").ends_with(file_of(own).expect("a file")));
        assert_ne!(caller(), file_of(own));
        assert_eq!(file_of(0), None);
    }
}
