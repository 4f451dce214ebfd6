#![forbid(unsafe_code)]

use core::ffi::c_void;
use core::num::NonZeroU64;
use core::ptr;

use alloc_core::Scope;

use super::finding::{CheckFinding, FindingKind};
use super::owner::CallbackOwner;
use super::table::TableEntry;
use crate::command::OwnerId;
use crate::raw::{RawCallbacks, RawRequest};

#[derive(Clone, Copy)]
pub(crate) struct BlockRecord<'t> {
    pub(crate) address: NonZeroU64,
    pub(crate) size: u64,
    pub(crate) align: u64,
    /// The serial number of the allocating command; 0 outside of any.
    pub(crate) serial: u64,
    pub(crate) command: &'t str,
    pub(crate) raw_scope: i32,
    /// The owner of its callbacks; 0 if unknown.
    pub(crate) owner: u32,
    /// In transit: the number of the reallocation. Otherwise the [callbacks](super::engine::CallbackCall::callbacks)
    /// that gave it.
    pub(crate) tag: u32,
    pub(crate) state: BlockState,
    pub(crate) reported_as: ReportedAs,
    /// A reallocation of the block failed, so it must stay.
    pub(crate) stays: bool,
    /// In a log, other callbacks freed the block or moved it here; whether they are compatible is unknown.
    pub(crate) doubted: bool,
}

const _: () = assert!(size_of::<BlockRecord<'_>>() == 64 || usize::BITS != 64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockState {
    Live,
    Moving,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportedAs {
    Nothing,
    Command,
    Destroy,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRequest {
    pub(crate) size: u64,
    pub(crate) align: u64,
    pub(crate) scope: i32,
}

impl From<RawRequest> for BlockRequest {
    #[inline]
    fn from(request: RawRequest) -> Self {
        Self { size: request.size as u64, align: request.align as u64, scope: request.scope }
    }
}

impl BlockRequest {
    pub(crate) fn scope(self) -> Option<Scope> {
        u32::try_from(self.scope).ok().and_then(Scope::from_raw)
    }
}

impl<'t> BlockRecord<'t> {
    #[inline]
    pub(crate) const fn new(
        address: NonZeroU64,
        request: BlockRequest,
        serial: u64,
        command: &'t str,
        (owner, tag): (u32, u32),
    ) -> Self {
        Self {
            address,
            size: request.size,
            align: request.align,
            serial,
            command,
            raw_scope: request.scope,
            owner,
            tag,
            state: BlockState::Live,
            reported_as: ReportedAs::Nothing,
            stays: false,
            doubted: false,
        }
    }

    #[inline]
    pub(crate) const fn at(address: NonZeroU64) -> Self {
        Self::new(address, BlockRequest { size: 0, align: 0, scope: 0 }, 0, "", (0, 0))
    }

    pub(crate) const fn request(&self) -> BlockRequest {
        BlockRequest { size: self.size, align: self.align, scope: self.raw_scope }
    }

    pub(crate) fn scope(&self) -> Option<Scope> {
        self.request().scope()
    }

    pub(crate) fn is_moved_by(&self, number: u32) -> bool {
        self.state == BlockState::Moving && self.tag == number
    }
}

impl TableEntry for BlockRecord<'_> {
    #[inline]
    fn key(&self) -> u64 {
        self.address.get()
    }

    /// Heaps give a thread its blocks from pages of its own: threads seldom wait for the shards of one another.
    #[inline]
    fn shard(&self, _: u64) -> u64 {
        (self.address.get() >> 16).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60
    }

    #[inline]
    fn same(&self, other: &Self) -> bool {
        self.address == other.address
    }

    #[inline]
    fn gone(&self) -> bool {
        self.state == BlockState::Gone
    }
}

/// A live Vulkan object, or several that share a handle.
#[derive(Clone, Copy)]
pub(crate) struct HandleRecord<'t> {
    pub(crate) handle: u64,
    /// Handles of different kinds may be equal.
    pub(crate) kind: &'t str,
    /// The number of the owner; 0 if the object was created without an allocator.
    pub(crate) owner: u32,
    /// The number of live objects of this handle: handles need not be unique.
    pub(crate) times: u32,
    /// The objects have different owners: which of them is destroyed is unknown.
    pub(crate) mixed: bool,
}

impl TableEntry for HandleRecord<'_> {
    fn key(&self) -> u64 {
        self.handle ^ (self.kind.len() as u64) << 57
    }

    fn same(&self, other: &Self) -> bool {
        self.handle == other.handle && self.kind == other.kind
    }

    fn gone(&self) -> bool {
        self.times == 0
    }
}

#[derive(Clone, Copy)]
pub(super) struct WatchedEntry {
    pub(super) identity: [usize; 6],
    pub(super) owner: usize,
    pub(super) group: u64,
    pub(super) user_data: usize,
    /// The number of wraps less retirements.
    pub(super) uses: u32,
}

impl WatchedEntry {
    pub(super) fn new(raw: &RawCallbacks, owner: &CallbackOwner<'static>, user_data: *mut c_void) -> Self {
        Self {
            identity: identity(raw),
            owner: ptr::from_ref(owner).addr(),
            group: owner.group,
            user_data: user_data.addr(),
            uses: 1,
        }
    }

    /// Adds a use unless the callbacks ended. Returns their user data.
    pub(super) fn use_again(&mut self) -> Option<usize> {
        let uses = self.uses.checked_add(1).filter(|uses| *uses > 1)?;
        self.uses = uses;
        Some(self.user_data)
    }

    pub(super) fn end(&mut self) -> bool {
        core::mem::take(&mut self.uses) > 0
    }
}

pub(super) fn identity(raw: &RawCallbacks) -> [usize; 6] {
    raw.words().map(<*mut c_void>::addr)
}

/// A short hash of the identity, never 0.
pub(super) fn hash_of(raw: &RawCallbacks) -> u32 {
    (key_of(&identity(raw)) >> 32) as u32 | 1
}

pub(super) fn key_of(identity: &[usize; 6]) -> u64 {
    identity.iter().fold(0, |key: u64, word| (key.rotate_left(7) ^ *word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl TableEntry for WatchedEntry {
    fn key(&self) -> u64 {
        key_of(&self.identity)
    }

    fn same(&self, other: &Self) -> bool {
        self.owner == other.owner && self.identity == other.identity
    }

    fn gone(&self) -> bool {
        self.uses == 0
    }
}

#[derive(Clone, Copy)]
pub(crate) struct FindingRow<'t> {
    pub(crate) finding: CheckFinding<'t>,
    /// The thread, if a later command of that thread changes the finding; else 0.
    pub(crate) thread: u64,
}

impl<'t> From<CheckFinding<'t>> for FindingRow<'t> {
    fn from(finding: CheckFinding<'t>) -> Self {
        Self { finding, thread: 0 }
    }
}

impl FindingRow<'_> {
    pub(crate) fn add(&mut self, more: &Self) {
        if self.gone() {
            *self = *more;
        } else {
            self.finding.add(&more.finding);
        }
    }

    /// The key of findings about leftover blocks, whatever they are against: a later free of such a block looks for its
    /// row.
    pub(crate) fn key_of_left(kind: FindingKind, owner: u32, command: &str, scope: Option<Scope>) -> u64 {
        let mut key = Fnv(0xcbf2_9ce4_8422_2325);
        key.bytes(&[kind as u8, scope.map_or(7, |scope| scope as u8)]);
        key.bytes(&owner.to_le_bytes());
        key.bytes(command.as_bytes());
        key.0
    }
}

impl TableEntry for FindingRow<'_> {
    fn key(&self) -> u64 {
        use FindingKind::{CommandBlockLeft, LiveAfterDestroy, LiveAtEnd};
        let found = &self.finding;
        let owner = found.owner.map_or(0, OwnerId::get);
        let mut key = Fnv(Self::key_of_left(found.kind, owner, found.command, found.scope));
        if !matches!(found.kind, CommandBlockLeft | LiveAfterDestroy | LiveAtEnd) {
            key.bytes(&self.thread.to_le_bytes());
            key.bytes(found.owner_kind.as_bytes());
            key.bytes(found.against.as_bytes());
        }
        key.0
    }

    fn same(&self, other: &Self) -> bool {
        self.thread == other.thread && self.finding.identity() == other.finding.identity()
    }

    fn gone(&self) -> bool {
        self.finding.count == 0
    }
}

/// FNV-1a, 64 bits.
struct Fnv(u64);

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}
