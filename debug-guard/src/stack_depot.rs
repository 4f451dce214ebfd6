use core::num::NonZeroU32;

use alloc_core::{AllocError, HostAllocator, Scope};

use crate::block::SiteId;
use crate::call_sites::{CommandMark, RequesterInfo, Sites};
use crate::mode::Stacks;
use crate::modules;
use crate::report::Stack;

/// Stores the call stacks of commands, each once, known by a number, until the depot is dropped.
///
/// Memory comes from `A` in pieces of 64 KiB and more, at most 256 MiB. Threads: any, at once; lookups never wait.
///
/// ```
/// use alloc_core::FromGlobalAlloc;
/// use debug_guard::StackDepot;
///
/// let depot = StackDepot::new(FromGlobalAlloc::SYSTEM).map_err(|_| "no memory")?;
/// let mut stacks = [None; 2];
/// for stack in &mut stacks {
///     *stack = depot.capture("vkCreateBuffer");
/// }
/// assert_eq!(stacks[0], stacks[1], "one stack, stored once");
/// let (command, stack) = stacks[0].and_then(|id| depot.get(id)).ok_or("no memory")?;
/// assert_eq!((command, stack.frames.is_empty()), ("vkCreateBuffer", false));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StackDepot<A: HostAllocator> {
    sites: Sites,
    memory: A,
}

/// A stack of one [`StackDepot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackId(NonZeroU32);

impl<A: HostAllocator> core::fmt::Debug for StackDepot<A> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("StackDepot").finish_non_exhaustive()
    }
}

impl<A: HostAllocator> StackDepot<A> {
    /// An empty depot.
    ///
    /// # Errors
    /// [`AllocError`] without room for the first 64 KiB.
    pub fn new(memory: A) -> Result<Self, AllocError> {
        Ok(Self { sites: Sites::new(&memory)?, memory })
    }

    /// The thread's stack, with the command that it is in: return addresses, innermost first, at most 32. `None`
    /// without memory for a new stack. Takes some microseconds; on x86-64 a tenth of that for a stack that was
    /// captured lately.
    #[must_use]
    pub fn capture(&self, command: &'static str) -> Option<StackId> {
        self.capture_within(CommandMark { name: command, ..CommandMark::default() })
    }

    /// As [`capture`](Self::capture), up to the frame that `command.stack` lies in.
    #[must_use]
    pub fn capture_within(&self, command: CommandMark) -> Option<StackId> {
        let requester = RequesterInfo {
            context: None,
            name: "",
            label: None,
            scope: Scope::Object,
            front: 0,
            command: Some(&command),
        };
        let SiteId(id) = self.sites.note(Some(&self.memory), &requester, Stacks::Full);
        NonZeroU32::new(id).map(StackId)
    }

    /// The command and the stack; `None` for an id of another depot.
    #[must_use]
    pub fn get(&self, id: StackId) -> Option<(&'static str, Stack<'_>)> {
        let site = self.sites.get(SiteId(id.0.get()))?;
        Some((site.command?, Stack::of(site)))
    }
}

impl<A: HostAllocator> Drop for StackDepot<A> {
    fn drop(&mut self) {
        self.sites.close(&self.memory);
    }
}

/// Finds the file that an address of code lies in.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModuleFinder(());

impl ModuleFinder {
    /// All finders of a process find the same.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }

    /// The file's path, and the file's own address for `address`. `None` where no file is mapped, the system does not
    /// say, or 512 files were found already. Allocates nothing.
    pub fn find(&mut self, address: usize) -> Option<(&'static str, usize)> {
        let noted = modules::note(&[address]);
        Some(modules::find(address, noted)?.place(address))
    }
}

#[cfg(test)]
mod tests {
    use alloc_core::FromGlobalAlloc;

    use super::{ModuleFinder, StackDepot};

    #[inline(never)]
    fn one_place(depot: &StackDepot<FromGlobalAlloc<std::alloc::System>>) -> Option<super::StackId> {
        depot.capture("vkCreateBuffer")
    }

    #[test]
    fn a_stack_is_stored_once_and_another_place_or_command_is_another() {
        let depot = StackDepot::new(FromGlobalAlloc::SYSTEM).expect("memory");
        let mut ids = [None; 3];
        for id in &mut ids {
            *id = one_place(&depot);
        }
        let [first, second, third] = ids.map(|id| id.expect("memory"));
        assert!(first == second && second == third);
        let other_place = depot.capture("vkCreateBuffer").expect("memory");
        let other_command = depot.capture("vkCreateImage").expect("memory");
        assert!(other_place != first && other_command != first && other_command != other_place);
        assert_eq!(depot.get(other_command).expect("stored").0, "vkCreateImage");
    }

    #[test]
    #[cfg(any(target_os = "linux", windows))]
    #[cfg_attr(miri, ignore = "miri has no list of mappings")]
    fn a_function_of_this_test_lies_in_its_own_file() {
        let mut finder = ModuleFinder::new();
        let here = one_place as *const () as usize;
        let program = std::env::current_exe().expect("a path");
        let (module, offset) = finder.find(here).expect("a file");
        assert!(program.to_str().expect("a path").ends_with(module));
        assert!(offset != 0 && offset < here);
        assert!(finder.find(8).is_none());
    }
}
