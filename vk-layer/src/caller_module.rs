//! The program or library that calls is the first file on the call stack that is neither the layer's nor the C library's. Only findings,
//! which are rare, walk the stack.

use std::ffi::c_void;
use std::ptr;

use crate::os::{base_of, call_stack, file_name, modules_of_no_caller, path_of};
use crate::parent::CommandName;
use crate::record_list::RecordList;

struct Module {
    base: usize,
    name: CommandName,
}

static MODULES: RecordList<Module> = RecordList::new();

pub(crate) fn caller_module() -> &'static str {
    let skipped = modules_of_no_caller();
    let mut frames = [ptr::null_mut::<c_void>(); 48];
    let found = call_stack(&mut frames);
    let mut bases = frames.iter().take(found).map(|frame| base_of(*frame));
    let base = bases.find(|base| *base != 0 && !skipped.contains(base));
    base.and_then(name_of).unwrap_or_default()
}

/// The file's code is on this thread's stack.
fn name_of(base: usize) -> Option<&'static str> {
    if let Some(known) = MODULES.iter().find(|module| module.base == base) {
        return Some(known.name.as_str());
    }
    let path = path_of(ptr::with_exposed_provenance(base))?;
    let module = MODULES.push(Module {
        base,
        name: CommandName::new(file_name(&path)),
    })?;
    Some(module.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::{base_of, caller_module, name_of};

    #[test]
    fn ly52_a_file_has_one_name_and_its_own_frames_are_nobodys() {
        let own = base_of(caller_module as *const _);
        let name = name_of(own).expect("this test's own file");
        assert!(!name.is_empty() && !name.contains('/'), "{name}");
        assert!(std::ptr::eq(name, name_of(own).expect("the same record")));
        assert!(!caller_module().contains(name));
        assert_eq!(base_of(std::ptr::null()), 0);
    }
}
