//! The matrix of all edges of up to 64 devices, and bit sets that are computed once.
//!
//! ```text
//!             to 0     1        2                      bit sets of device i: one bit a device
//!   from 0 | itself | edge   | none (isolated) |       can_wait_on, can_signal, can_import_from, can_copy_from
//!        1 | edge   | itself | none            |
//!        2 | none   | none   | itself          |
//! ```
//! It never changes: queries are plain loads, from any thread.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::{HostError, HostSource, TryVec};

use super::edge::{Contradiction, Edge};
use super::mode::{LinkClass, UseMode};

/// The bits of a set of devices.
pub const MAX_DEVICES: usize = 64;

/// The edges between devices that are numbered from 0.
pub struct Topology<A: HostSource> {
    /// Rows by the using device, columns by the owner.
    edges: TryVec<Option<Edge>, A>,
    reach: TryVec<Reach, A>,
}

/// Sets of the other devices that a device can use. Bit `j` is device `j`; a device's own bit is never set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Devices whose semaphores it can wait on, also through the host.
    pub can_wait_on: u64,
    /// Devices whose semaphores it can signal, also through the host.
    pub can_signal: u64,
    /// Devices whose memory it can read without a copy.
    pub can_import_from: u64,
    /// Devices whose memory it can copy without the host.
    pub can_copy_from: u64,
}

impl<A: HostSource> Topology<A> {
    /// How `from` uses objects of `to`. `None` for a number that no device has, and if one of the two is isolated.
    #[inline]
    #[must_use]
    pub fn edge(&self, from: usize, to: usize) -> Option<&Edge> {
        let count = self.reach.len();
        if to >= count {
            return None;
        }
        self.edges
            .get(from.checked_mul(count)?.checked_add(to)?)?
            .as_ref()
    }

    /// The sets of `device`. `None` for a number that no device has.
    #[inline]
    #[must_use]
    pub fn reach(&self, device: usize) -> Option<&Reach> {
        self.reach.get(device)
    }

    /// The number of devices, 1 to [`MAX_DEVICES`].
    #[must_use]
    pub fn count(&self) -> usize {
        self.reach.len()
    }
}

impl<A: HostSource + Clone> Topology<A> {
    /// The same edges, in other memory.
    pub(super) fn try_clone(&self, memory: A) -> Result<Self, HostError> {
        let edges = TryVec::try_from_slice_in(&self.edges, memory.clone())?;
        Ok(Self {
            edges,
            reach: TryVec::try_from_slice_in(&self.reach, memory)?,
        })
    }
}

impl<A: HostSource> fmt::Debug for Topology<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.reach.iter()).finish()
    }
}

/// The matrix: a letter for how each device reads the memory of each, `N`ative, `I`mport, `C`opy, or `-` without an edge.
impl<A: HostSource> fmt::Display for Topology<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for from in 0..self.count() {
            for to in 0..self.count() {
                f.write_str(match self.edge(from, to).map(|edge| edge.read) {
                    Some(UseMode::Native) => " N",
                    Some(UseMode::Import) => " I",
                    Some(UseMode::Copy) => " C",
                    Some(UseMode::None) | None => " -",
                })?;
            }
            f.write_str("\n")?;
        }
        f.write_str("N native, I import, C copy through the host, - none\n")
    }
}

/// A builder of a matrix. Every pair must be [set](Self::set) or [cut](Self::cut) before it is [finished](Self::finish).
pub struct TopologyBuilder<A: HostSource> {
    topology: Topology<A>,
    /// For each row, the columns that were set or cut.
    known: [u64; MAX_DEVICES],
}

impl<A: HostSource + Clone> TopologyBuilder<A> {
    /// A builder for `count` devices. `itself` returns the edge of a device to itself.
    ///
    /// # Errors
    /// [`TopologyError::Count`] for 0 and for more than [`MAX_DEVICES`]; [`TopologyError::Itself`] for an edge that is not one of a
    /// device to itself; the allocator's refusal.
    pub fn new(
        count: usize,
        mut itself: impl FnMut(usize) -> Edge,
        memory: A,
    ) -> Result<Self, TopologyError> {
        if !(1..=MAX_DEVICES).contains(&count) {
            return Err(TopologyError::Count { count });
        }
        let edges = TryVec::try_from_elem_in(None, count.saturating_mul(count), memory.clone())?;
        let reach = TryVec::try_from_elem_in(Reach::default(), count, memory)?;
        let mut builder = Self {
            topology: Topology { edges, reach },
            known: [0; MAX_DEVICES],
        };
        for device in 0..count {
            let edge = itself(device);
            if edge.link != LinkClass::SameDevice
                || [edge.wait, edge.signal, edge.read, edge.write] != [UseMode::Native; 4]
            {
                return Err(TopologyError::Itself { device });
            }
            builder.put(device, device, Some(edge));
        }
        Ok(builder)
    }

    /// Sets how `from` uses objects of `to`; the last edge counts.
    ///
    /// # Errors
    /// [`TopologyError::NoDevice`] for a number that no device has, [`TopologyError::Itself`] for a device and itself,
    /// [`TopologyError::Contradiction`] for an edge that contradicts itself.
    pub fn set(&mut self, from: usize, to: usize, edge: Edge) -> Result<(), TopologyError> {
        self.pair(from, to)?;
        if let Some(contradiction) = edge.contradiction() {
            return Err(TopologyError::Contradiction {
                from,
                to,
                contradiction,
            });
        }
        self.put(from, to, Some(edge));
        Ok(())
    }

    /// Sets no edge: one of the two is isolated.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn cut(&mut self, from: usize, to: usize) -> Result<(), TopologyError> {
        self.pair(from, to)?;
        self.put(from, to, None);
        Ok(())
    }

    fn pair(&self, from: usize, to: usize) -> Result<(), TopologyError> {
        let count = self.topology.count();
        match [from, to].iter().find(|device| **device >= count) {
            Some(device) => Err(TopologyError::NoDevice {
                device: *device,
                count,
            }),
            None if from == to => Err(TopologyError::Itself { device: from }),
            None => Ok(()),
        }
    }

    fn put(&mut self, from: usize, to: usize, edge: Option<Edge>) {
        let place = from.wrapping_mul(self.topology.count()).wrapping_add(to);
        if let (Some(there), Some(known)) =
            (self.topology.edges.get_mut(place), self.known.get_mut(from))
        {
            *there = edge;
            *known |= 1 << to;
        }
    }

    /// Finishes the matrix. Allocates nothing.
    ///
    /// # Errors
    /// [`TopologyError::Missing`] for a pair that was neither set nor cut, [`TopologyError::Asymmetric`] if the two directions of a pair
    /// have different links, or one of them is cut.
    pub fn finish(self) -> Result<Topology<A>, TopologyError> {
        let Self {
            mut topology,
            known,
        } = self;
        let count = topology.count();
        let all = u64::MAX >> (MAX_DEVICES - count);
        for (from, known) in known.iter().enumerate().take(count) {
            let missing = all & !known;
            if missing != 0 {
                return Err(TopologyError::Missing {
                    from,
                    to: missing.trailing_zeros() as usize,
                });
            }
        }
        for from in 0..count {
            let mut reach = Reach::default();
            for to in (0..count).filter(|to| *to != from) {
                let (there, back) = (topology.edge(from, to), topology.edge(to, from));
                if there.map(|edge| edge.link) != back.map(|edge| edge.link) {
                    return Err(TopologyError::Asymmetric { from, to });
                }
                if let Some(edge) = there {
                    reach.add(to, edge);
                }
            }
            if let Some(there) = topology.reach.get_mut(from) {
                *there = reach;
            }
        }
        Ok(topology)
    }
}

impl Reach {
    fn add(&mut self, to: usize, edge: &Edge) {
        let bit = |can: bool| u64::from(can) << to;
        self.can_wait_on |= bit(edge.wait != UseMode::None);
        self.can_signal |= bit(edge.signal != UseMode::None);
        self.can_import_from |= bit(edge.read.is_direct() || edge.coherent_read.is_direct());
        self.can_copy_from |= bit(edge.is_peer_to_peer());
    }
}

/// Why a matrix was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyError {
    /// No devices, or more than [`MAX_DEVICES`].
    Count {
        /// The number of devices.
        count: usize,
    },
    /// There is no device of this number.
    NoDevice {
        /// The number.
        device: usize,
        /// The number of devices.
        count: usize,
    },
    /// A device and itself need [`Edge::to_itself`], and nothing else.
    Itself {
        /// The device.
        device: usize,
    },
    /// A pair was neither set nor cut.
    Missing {
        /// The user.
        from: usize,
        /// The owner.
        to: usize,
    },
    /// The two directions of a pair have different links.
    Asymmetric {
        /// One device.
        from: usize,
        /// The other device.
        to: usize,
    },
    /// An edge contradicts itself.
    Contradiction {
        /// The user.
        from: usize,
        /// The owner.
        to: usize,
        /// The contradiction.
        contradiction: Contradiction,
    },
    /// The host allocator had no memory. Nobody's fault.
    Host(HostError),
}

impl From<HostError> for TopologyError {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Count { count } => write!(
                f,
                "{count} devices: a group has 1 to {MAX_DEVICES}, make several groups"
            ),
            Self::NoDevice { device, count } => write!(
                f,
                "there is no device {device}: pass a number below {count}"
            ),
            Self::Itself { device } => write!(
                f,
                "device {device} and itself: use Edge::to_itself, when the matrix is begun"
            ),
            Self::Missing { from, to } => write!(
                f,
                "nothing was said of devices {from} and {to}: set an edge or cut it"
            ),
            Self::Asymmetric { from, to } => {
                write!(
                    f,
                    "devices {from} and {to} are joined by one link: name the same class in both directions, or cut both"
                )
            }
            Self::Contradiction {
                from,
                to,
                contradiction,
            } => {
                write!(
                    f,
                    "the edge from device {from} to {to} contradicts itself, {contradiction}: refine both"
                )
            }
            Self::Host(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for TopologyError {}
