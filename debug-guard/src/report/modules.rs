//! The modules of the frames of a report.

use core::fmt;

use super::block_info::Stack;
use crate::modules::{self, ModuleEntry};
use crate::os;

/// Maximum number of modules that a report names.
const MAX_MODULES: usize = 12;

/// The modules of the frames of a report.
#[derive(Debug)]
pub(crate) struct Modules {
    list: [ModuleEntry; MAX_MODULES],
    len: usize,
}

impl Modules {
    pub(crate) const NONE: Self = Self {
        list: [ModuleEntry::NONE; MAX_MODULES],
        len: 0,
    };

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == self.list.len()
    }

    /// Path and offset of an address whose module was [noted](Self::note).
    pub(crate) fn find(&self, pc: usize) -> Option<(&str, usize)> {
        self.of(pc)?.place(pc)
    }

    fn of(&self, pc: usize) -> Option<&ModuleEntry> {
        self.list
            .iter()
            .take(self.len)
            .find(|module| module.contains(pc))
    }

    /// Looks up the modules of all frames whose module was not noted when the stack was recorded.
    pub(super) fn note_all(&mut self, stack: Stack<'_>) {
        for pc in stack.frames {
            if modules::find(*pc, stack.modules).is_none() {
                self.note(*pc);
            }
        }
    }

    /// Path and offset of a frame of the stack.
    pub(super) fn place(&self, stack: Stack<'_>, pc: usize) -> Option<(&str, usize)> {
        modules::find(pc, stack.modules).or_else(|| self.find(pc))
    }

    /// Looks up the module of `pc`, unless it is known or the list is full.
    pub(crate) fn note(&mut self, pc: usize) {
        if self.of(pc).is_some() {
            return;
        }
        let Some(place) = self.list.get_mut(self.len) else {
            return;
        };
        let mut name = [0; 256];
        let Some(text) = os::mapping_at(pc, &mut name) else {
            return;
        };
        *place = ModuleEntry::new(&text);
        self.len = self.len.saturating_add(1);
    }
}

/// A frame as the text of reports has it: of the stack, its address.
pub(super) struct ModuleFrame<'a>(
    pub(super) &'a Modules,
    pub(super) Stack<'a>,
    pub(super) usize,
);

impl fmt::Display for ModuleFrame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(modules, stack, pc) = *self;
        match modules.place(stack, pc) {
            Some((path, offset)) if !path.is_empty() => write!(f, "{pc:#x} {path}+{offset:#x}"),
            _ => write!(f, "{pc:#x}"),
        }
    }
}
