#![forbid(unsafe_code)]

use alloc_core::Scope;
use serde::{Deserialize, Serialize};

/// A number of bytes or blocks for each of Vulkan's five scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByScope {
    /// `VK_SYSTEM_ALLOCATION_SCOPE_COMMAND`.
    pub command: u64,
    /// `VK_SYSTEM_ALLOCATION_SCOPE_OBJECT`.
    pub object: u64,
    /// `VK_SYSTEM_ALLOCATION_SCOPE_CACHE`.
    pub cache: u64,
    /// `VK_SYSTEM_ALLOCATION_SCOPE_DEVICE`.
    pub device: u64,
    /// `VK_SYSTEM_ALLOCATION_SCOPE_INSTANCE`.
    pub instance: u64,
}

impl ByScope {
    /// Asks `number` for each scope.
    #[must_use]
    pub fn of(number: impl Fn(Scope) -> u64) -> Self {
        Self {
            command: number(Scope::Command),
            object: number(Scope::Object),
            cache: number(Scope::Cache),
            device: number(Scope::Device),
            instance: number(Scope::Instance),
        }
    }

    /// The number of one scope.
    #[must_use]
    pub const fn get(&self, scope: Scope) -> u64 {
        match scope {
            Scope::Command => self.command,
            Scope::Object => self.object,
            Scope::Cache => self.cache,
            Scope::Device => self.device,
            Scope::Instance => self.instance,
        }
    }

    /// This with one number changed.
    #[must_use]
    pub fn with(mut self, scope: Scope, change: impl FnOnce(u64) -> u64) -> Self {
        let number = match scope {
            Scope::Command => &mut self.command,
            Scope::Object => &mut self.object,
            Scope::Cache => &mut self.cache,
            Scope::Device => &mut self.device,
            Scope::Instance => &mut self.instance,
        };
        *number = change(*number);
        self
    }

    /// The numbers of all scopes together.
    #[must_use]
    pub fn sum(&self) -> u64 {
        Scope::ALL.into_iter().map(|scope| self.get(scope)).fold(0, u64::saturating_add)
    }

    /// Adds `more`, scope by scope; saturates.
    pub fn add(&mut self, more: &Self) {
        *self = self.combined(more, u64::saturating_add);
    }

    pub(super) fn combined(&self, other: &Self, combine: fn(u64, u64) -> u64) -> Self {
        Self::of(|scope| combine(self.get(scope), other.get(scope)))
    }
}
