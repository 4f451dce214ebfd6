//! Questions about single blocks, and looking at all of them.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::{Scope, Vetted};

use super::state::Core;
use super::telling::Doing;
use crate::block::{Fault, Known, State};
use crate::report::{BlockInfo, Moment, ReportKind};
use crate::sites::Who;

impl Core {
    /// The live block that begins at `address`, or what is wrong with the address. `None` where blocks pass untouched and this may be one.
    pub(super) fn known(&self, address: usize) -> Option<Result<Known, Fault>> {
        match (self.slots_at(address), &self.cookies) {
            (Some(slots), _) => Some(slots.vet(address)),
            (None, Some(cookies)) => Some(cookies.vet(address)),
            (None, None) => None,
        }
    }

    /// How many bytes the block was asked with; a pointer that is no live block's is reported.
    pub(super) fn usable_size(&self, pointer: NonNull<u8>) -> Option<usize> {
        match self.known(pointer.as_ptr().expose_provenance())? {
            Ok(known) => Some(known.size),
            Err(mut fault) => {
                if fault.kind == ReportKind::DoubleFree {
                    fault.kind = ReportKind::UseAfterFree;
                }
                self.with_who(fault.block.map_or(Scope::Object, |known| known.scope), |who| {
                    Doing::asking(self, Moment::Query, who, self.mark_of_free(who), false).tell(fault);
                });
                None
            }
        }
    }

    /// Whether a C caller's `pointer`, with a header of `front` bytes before it, may be believed. A larger header, for a larger alignment,
    /// is known from the block's own record.
    pub(super) fn vet(&self, pointer: NonNull<u8>, front: usize) -> Vetted {
        let address = pointer.as_ptr().expose_provenance();
        let Some(found) = self.known(address.wrapping_sub(front)) else { return Vetted::Unknown };
        self.with_who(Scope::Object, |who| {
            let block = match found {
                Ok(known) => Some(known),
                // Another guard's block is not ours to vouch for.
                Err(fault) => fault.block.filter(|_| fault.owner.is_none()),
            };
            let meant = block.filter(|known| known.start.wrapping_add(self.front_of(known, front)) == address);
            let fault = match (meant, found) {
                // Taken through other callbacks, or through none: then there is no header that could be read.
                (Some(known), _) if known.state == State::Live => {
                    match self.is_owner(&known, who) && self.front_of(&known, front) >= front {
                        true => return Vetted::Live,
                        false => Fault { kind: ReportKind::WrongOwner, block: Some(known), address, changed: None, owner: None },
                    }
                }
                (Some(known), _) => {
                    Fault { kind: ReportKind::DoubleFree, block: Some(known), address, changed: None, owner: None }
                }
                (None, Ok(known)) => {
                    Fault { kind: ReportKind::InteriorFree, block: Some(known), address, changed: None, owner: None }
                }
                (None, Err(mut fault)) => {
                    // Other guards know the block by where it begins, not by what C was given.
                    self.find_owner(&mut fault);
                    Fault { address, ..fault }
                }
            };
            Doing::asking(self, Moment::Free, who, self.mark_of_free(who), true).tell(fault);
            Vetted::Refused
        })
    }

    /// How many bytes stand in front of what the block's C caller sees. Where nothing was written down, what a bridge needs: its header
    /// of `least` bytes, or as much as the alignment asks for.
    fn front_of(&self, known: &Known, least: usize) -> usize {
        let site = self.sites.as_ref().and_then(|sites| sites.get(known.taken.site));
        site.and_then(|site| usize::try_from(site.front).ok()).unwrap_or_else(|| least.max(known.align))
    }

    /// Whether who gives a block back through C callbacks is who took it.
    fn is_owner(&self, known: &Known, who: &Who<'_>) -> bool {
        let site = self.sites.as_ref().and_then(|sites| sites.get(known.taken.site));
        site.is_none_or(|site| site.context == who.context)
    }

    /// Every live block, in no order.
    pub(super) fn for_each_live(&self, each: &mut dyn FnMut(&Known)) {
        let mut live = |known: &Known| {
            if known.state == State::Live {
                each(known);
            }
        };
        self.laid_out().for_each(|slots| slots.for_each(&mut live));
        if let Some(cookies) = &self.cookies {
            cookies.for_each(&mut live);
        }
    }

    pub(super) fn live(&self, each: &mut dyn FnMut(&BlockInfo<'_>)) {
        self.for_each_live(&mut |known| each(&BlockInfo::new(*known, |id| self.sites.as_ref()?.get(id))));
    }

    /// Looks at every byte that the guard wrote around live blocks and into freed ones. How many reports that made.
    pub(super) fn check_all(&self, moment: Moment) -> usize {
        let doing = Doing::looking(self, moment);
        let mut found: usize = 0;
        let mut tell = |fault| {
            found = found.saturating_add(1);
            doing.tell(fault);
        };
        self.laid_out().for_each(|slots| {
            slots.check(&mut tell);
        });
        if let Some(cookies) = &self.cookies {
            cookies.check(&mut tell);
        }
        found
    }

    #[cold]
    pub(super) fn check_now_and_then(&self) {
        let count = self.counters.operations.fetch_add(1, Relaxed).wrapping_add(1);
        if count.is_multiple_of(self.options.check_every) {
            self.check_all(Moment::Check);
        }
    }
}
