//! The program or library that calls: the first file on the call stack that is neither the layer's nor the C library's. It walks the stack,
//! and serves findings alone, which are rare.

use std::ffi::{CStr, c_void};
use std::ptr;

use crate::parent::CommandName;
use crate::record_list::RecordList;

/// A file that has called. Never freed, since findings keep its name.
struct Module {
    base: usize,
    name: CommandName,
}

static MODULES: RecordList<Module> = RecordList::new();

/// The name of the calling file, without its folder; empty where it is unknown.
pub(crate) fn caller_module() -> &'static str {
    let free = libc::free as unsafe extern "C" fn(*mut c_void);
    let own = [caller_module as *const c_void, free as *const c_void].map(base_of);
    let mut frames = [ptr::null_mut::<c_void>(); 48];
    let found = walk(&mut frames);
    let mut bases = frames.iter().take(found).map(|frame| base_of(*frame));
    let base = bases.find(|base| *base != 0 && !own.contains(base));
    base.and_then(name_of).unwrap_or_default()
}

/// The return addresses of the calling thread, the innermost first.
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

/// What the dynamic linker says of the file that contains the address, its name among it; `None` for none.
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

/// The base address of the file that contains the address; 0 for none.
fn base_of(address: *const c_void) -> usize {
    info_of(address).map_or(0, |info| info.dli_fbase.addr())
}

fn name_of(base: usize) -> Option<&'static str> {
    if let Some(known) = MODULES.iter().find(|module| module.base == base) {
        return Some(known.name.as_str());
    }
    let info = info_of(ptr::with_exposed_provenance(base))?;
    // SAFETY: a name of the dynamic loader, which stays while its file is loaded: code of it is on this thread's stack.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_str().ok()?;
    let name = path.rsplit('/').next().unwrap_or(path);
    // Two threads that come at once may add it twice.
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
        // Behind its own frames there are those of the C library, which has started the thread.
        assert!(!caller_module().contains(name));
        assert_eq!(base_of(std::ptr::null()), 0);
    }
}
