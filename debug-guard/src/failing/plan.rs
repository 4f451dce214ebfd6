//! A [`Fault`] that can be replaced through `&self`, and the counters that its numbers speak of.

#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use alloc_core::Scope;

use super::fault::Fault;
use super::name::ContextName;

/// A [`Fault`] that can be replaced through `&self`.
pub(super) struct Plan {
    kind: AtomicU8,
    /// Scope number, or millionths.
    small: AtomicU32,
    /// Request number, bytes, or seed.
    large: AtomicU64,
    /// Name of the context.
    name: [AtomicU64; 8],
}

impl Plan {
    pub(super) const fn new(fault: Fault) -> Self {
        let (kind, small, large, name) = encode(&fault);
        let [a, b, c, d, e, f, g, h] = name;
        Self {
            kind: AtomicU8::new(kind),
            small: AtomicU32::new(small),
            large: AtomicU64::new(large),
            name: [
                AtomicU64::new(a),
                AtomicU64::new(b),
                AtomicU64::new(c),
                AtomicU64::new(d),
                AtomicU64::new(e),
                AtomicU64::new(f),
                AtomicU64::new(g),
                AtomicU64::new(h),
            ],
        }
    }

    pub(super) fn store(&self, fault: Fault) {
        let (kind, small, large, name) = encode(&fault);
        self.small.store(small, Relaxed);
        self.large.store(large, Relaxed);
        self.name.iter().zip(name).for_each(|(cell, word)| cell.store(word, Relaxed));
        self.kind.store(kind, Relaxed);
    }

    pub(super) fn load(&self) -> Fault {
        let (small, large) = (self.small.load(Relaxed), self.large.load(Relaxed));
        match self.kind.load(Relaxed) {
            1 => Fault::Nth(large),
            2 => Fault::From(large),
            3 => Fault::LiveBytes(large),
            4 => Fault::TotalBytes(large),
            5 => Scope::from_raw(small).map_or(Fault::Never, |scope| Fault::Scope(scope, large)),
            6 => Fault::Probability { per_million: small, seed: large },
            7 => Fault::SizeAbove(large),
            8 => Fault::Context(ContextName::from_words(self.name.each_ref().map(|cell| cell.load(Relaxed))), large),
            _ => Fault::Never,
        }
    }
}

const fn encode(fault: &Fault) -> (u8, u32, u64, [u64; 8]) {
    const NOBODY: [u64; 8] = [0; 8];
    match *fault {
        Fault::Never => (0, 0, 0, NOBODY),
        Fault::Nth(n) => (1, 0, n, NOBODY),
        Fault::From(n) => (2, 0, n, NOBODY),
        Fault::LiveBytes(n) => (3, 0, n, NOBODY),
        Fault::TotalBytes(n) => (4, 0, n, NOBODY),
        Fault::Scope(scope, n) => (5, scope.as_raw(), n, NOBODY),
        Fault::Probability { per_million, seed } => (6, per_million, seed, NOBODY),
        Fault::SizeAbove(n) => (7, 0, n, NOBODY),
        Fault::Context(ref name, n) => (8, 0, n, name.words()),
    }
}

/// One counter a scope, found without indexing.
pub(super) struct PerScope {
    command: AtomicU64,
    object: AtomicU64,
    cache: AtomicU64,
    device: AtomicU64,
    instance: AtomicU64,
}

impl PerScope {
    pub(super) const fn new() -> Self {
        Self {
            command: AtomicU64::new(0),
            object: AtomicU64::new(0),
            cache: AtomicU64::new(0),
            device: AtomicU64::new(0),
            instance: AtomicU64::new(0),
        }
    }

    pub(super) const fn of(&self, scope: Scope) -> &AtomicU64 {
        match scope {
            Scope::Command => &self.command,
            Scope::Object => &self.object,
            Scope::Cache => &self.cache,
            Scope::Device => &self.device,
            Scope::Instance => &self.instance,
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &AtomicU64> {
        Scope::ALL.into_iter().map(|scope| self.of(scope))
    }
}
