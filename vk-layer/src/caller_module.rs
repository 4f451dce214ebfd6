//! The program or library that calls is the first file on the call stack that is neither the layer's nor the C library's. Only findings,
//! which are rare, walk the stack.

use std::ffi::{CStr, c_void};
use std::ptr;

use crate::parent::CommandName;
use crate::record_list::RecordList;

struct Module {
    base: usize,
    name: CommandName,
}

static MODULES: RecordList<Module> = RecordList::new();

pub(crate) fn caller_module() -> &'static str {
    let free = libc::free as unsafe extern "C" fn(*mut c_void);
    let own = [caller_module as *const c_void, free as *const c_void].map(base_of);
    let mut frames = [ptr::null_mut::<c_void>(); 48];
    let found = walk(&mut frames);
    let mut bases = frames.iter().take(found).map(|frame| base_of(*frame));
    let base = bases.find(|base| *base != 0 && !own.contains(base));
    base.and_then(name_of).unwrap_or_default()
}

#[cfg(target_env = "gnu")]
fn walk(frames: &mut [*mut c_void]) -> usize {
    let room = libc::c_int::try_from(frames.len()).unwrap_or(0);
    // SAFETY: room for `room` addresses.
    let found = unsafe { libc::backtrace(frames.as_mut_ptr(), room) };
    usize::try_from(found).unwrap_or(0)
}

#[cfg(not(target_env = "gnu"))]
fn walk(_: &mut [*mut c_void]) -> usize {
    0
}

pub(crate) fn info_of(address: *const c_void) -> Option<libc::Dl_info> {
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: any address, and a place for the answer.
    let found = unsafe { libc::dladdr(address, &raw mut info) };
    (found != 0 && !info.dli_fname.is_null()).then_some(info)
}

fn base_of(address: *const c_void) -> usize {
    info_of(address).map_or(0, |info| info.dli_fbase.addr())
}

fn name_of(base: usize) -> Option<&'static str> {
    if let Some(known) = MODULES.iter().find(|module| module.base == base) {
        return Some(known.name.as_str());
    }
    let info = info_of(ptr::with_exposed_provenance(base))?;
    // SAFETY: a name of the dynamic linker, which stays while its file is loaded: its code is on this thread's stack.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_str().ok()?;
    let name = path.rsplit('/').next().unwrap_or(path);
    let module = MODULES.push(Module {
        base,
        name: CommandName::new(name),
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
