//! Groups as the list sees them, on a host allocator of which one request can be refused.

use super::*;

type Failing = FailingAllocator<FromGlobalAlloc<System>>;
static MEMORY: Failing = FailingAllocator::new(FromGlobalAlloc::SYSTEM, Fault::Never);
type Memory = Scoped<&'static Failing>;

/// One subject at a time: what is refused is refused to whoever asks.
static ALONE: Mutex<()> = Mutex::new(());

#[derive(Default)]
struct SubjectCard {
    /// Of its regions.
    tag: u32,
    seat: MembershipCell,
    says: Cell<DeviceSpec>,
    refuses: Cell<Option<Question>>,
}

impl SubjectCard {
    fn answers(&self, question: Question) -> Result<(), Question> {
        if self.refuses.get() == Some(question) { Err(question) } else { Ok(()) }
    }
}

/// One device, known to its group and to the program.
#[derive(Clone)]
struct SharedTopology(Rc<SubjectCard>);

impl GroupDevice for SharedTopology {
    type Error = Question;

    fn membership_cell(&self) -> &MembershipCell {
        &self.0.seat
    }

    fn capabilities(&self) -> Result<DeviceCapabilities, Question> {
        self.0.answers(Question::Capabilities)?;
        let says = self.0.says.get();
        let [semaphore_import, semaphore_export, buffer_import, buffer_export] = says.handles.map(handles);
        Ok(DeviceCapabilities {
            driver: says.driver,
            device_uuid: says.uuid.map(|uuid| [uuid; 16]),
            driver_uuid: says.driver_uuid.map(|uuid| [uuid; 16]),
            flags: flags(says.flags),
            semaphore_import,
            semaphore_export,
            buffer_import,
            buffer_export,
        })
    }

    fn refine(&self, other: &Self, edge: &mut Edge) -> Result<(), Question> {
        self.0.answers(Question::Refine)?;
        let link = (self.0.says.get().link + other.0.says.get().link) % 8;
        edge.link = LINKS[usize::from(link)];
        Ok(())
    }

    fn region_tag(&self) -> Option<u32> {
        Some(self.0.tag)
    }
}

/// By number.
const FLAGS: [CapabilityFlags; 9] = [
    CapabilityFlags::SAME_DRIVER,
    CapabilityFlags::UNIFIED_MEMORY,
    CapabilityFlags::PEER_COHERENT,
    CapabilityFlags::PEER_COPY,
    CapabilityFlags::REMOTE_DMA,
    CapabilityFlags::SHARED_VIRTUAL_ADDRESS,
    CapabilityFlags::PEER_ADDRESSABLE,
    CapabilityFlags::PEER_ACCESS_NEEDS_GRANT,
    CapabilityFlags::ISOLATED,
];

fn flags(bits: u16) -> CapabilityFlags {
    let set = (0..).zip(FLAGS).filter(|(place, _)| bits >> place & 1 != 0);
    set.fold(CapabilityFlags::NONE, |all, (_, flag)| all | flag)
}

/// A bit for each of `all` that is set.
fn bits<F: Copy>(all: &[F], is_set: impl Fn(F) -> bool) -> u16 {
    let places = (0..).zip(all).filter(|(_, flag)| is_set(**flag));
    places.fold(0, |bits, (place, _)| bits | 1 << place)
}

/// By number.
const HANDLES: [HandleTypes; 8] = [
    HandleTypes::NATIVE,
    HandleTypes::OPAQUE_FD,
    HandleTypes::OPAQUE_WIN32,
    HandleTypes::DMA_BUF,
    HandleTypes::SYNC_FD,
    HandleTypes::HOST_ALLOCATION,
    HandleTypes::METAL,
    HandleTypes::ANDROID_HARDWARE_BUFFER,
];

fn handles(bits: u8) -> HandleTypes {
    let set = (0..).zip(HANDLES).filter(|(place, _)| bits >> place & 1 != 0);
    set.fold(HandleTypes::NONE, |all, (_, handle)| all | handle)
}

/// By number.
const LINKS: [LinkClass; 8] = [
    LinkClass::SameDevice,
    LinkClass::PeerLink,
    LinkClass::PcieSameRoot,
    LinkClass::PcieCrossRoot,
    LinkClass::HostStaged,
    LinkClass::Fabric,
    LinkClass::Other,
    LinkClass::Unknown,
];

/// The subject.
pub struct TopologySubject {
    groups: [Option<DeviceGroup<SharedTopology, Memory>>; 4],
    cards: Vec<SharedTopology>,
    _alone: MutexGuard<'static, ()>,
}

impl TopologySubject {
    /// Eighty devices in no group.
    pub fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let cards = (0..80).map(|tag| SharedTopology(Rc::new(SubjectCard { tag, ..SubjectCard::default() }))).collect();
        Self { groups: [const { None }; 4], cards, _alone: alone }
    }

    fn try_make(&self, devices: &[usize]) -> Result<DeviceGroup<SharedTopology, Memory>, GroupError<Question>> {
        let mut list = TryVec::new_in(Scoped::new(&MEMORY, Scope::Device));
        for device in devices {
            list.try_push(self.cards[*device].clone()).map_err(|refused| refused.error)?;
        }
        DeviceGroup::new(list).map_err(|refused| {
            assert_eq!(refused.value.len(), devices.len(), "all come back");
            refused.error
        })
    }
}

impl TopologySubject {
    pub fn describe(&mut self, device: usize, says: DeviceSpec) {
        self.cards[device].0.says.set(says);
    }

    pub fn make(
        &mut self,
        group: usize,
        devices: &[usize],
        refuses: Option<(usize, Question)>,
        host: Option<u64>,
    ) -> GroupOutcome {
        if let Some((device, question)) = refuses {
            self.cards[device].0.refuses.set(Some(question));
        }
        MEMORY.arm(host.map_or(Fault::Never, Fault::Nth));
        let before = MEMORY.live_bytes();
        let made = self.try_make(devices);
        MEMORY.disarm();
        self.cards.iter().for_each(|card| card.0.refuses.set(None));
        let error = match made {
            Ok(made) => {
                self.groups[group] = Some(made);
                return GroupOutcome::Group;
            }
            Err(error) => error,
        };
        assert_eq!(MEMORY.live_bytes(), before, "a refusal keeps no memory");
        match error {
            GroupError::Empty => GroupOutcome::Empty,
            GroupError::TooMany | GroupError::Duplicate { .. } | GroupError::InGroup { .. } => GroupOutcome::InGroup,
            GroupError::Device { index, error } => GroupOutcome::Refused(index, error),
            GroupError::Contradiction { .. } => GroupOutcome::Contradiction,
            GroupError::Host(_) => GroupOutcome::Host,
            other => panic!("{other:?}"),
        }
    }

    pub fn end(&mut self, group: usize, dissolve: bool) {
        let ending = self.groups[group].take().expect("the program ends what it made");
        if dissolve {
            let count = ending.devices().len();
            let devices = ending.dissolve();
            assert!(devices.len() == count);
        }
    }

    pub fn index(&self, device: usize) -> Option<usize> {
        self.cards[device].0.seat.membership().map(|membership| membership.index)
    }

    pub fn edge(&self, group: usize, from: usize, to: usize) -> Option<EdgeSeen> {
        let seat = |device: usize| self.cards[device].0.seat.membership();
        let group = self.groups[group].as_ref()?;
        let is_its_own = |there: &SharedTopology| Rc::ptr_eq(&there.0, &self.cards[from].0);
        let owner = group.devices().iter().position(is_its_own);
        assert_eq!(group.owner_of(RegionId::from_raw([from as u32, 0, 0, 1])), owner);
        let (count, edge) = (group.devices().len(), group.edge(seat(from)?, seat(to)?));
        for outside in [(0, count), (count, 0), (usize::MAX, 0), (usize::MAX / 2 + 1, 0)] {
            assert_eq!(group.edge_between(outside.0, outside.1), None, "{outside:?}");
        }
        let edge = edge?;
        assert_eq!(group.edge_between(seat(from)?.index, seat(to)?.index), Some(edge));
        Some(EdgeSeen {
            modes: [edge.wait, edge.signal, edge.read, edge.write].map(|mode| mode as u8),
            flags: bits(&FLAGS, |flag| edge.flags.contains(flag)),
            handles: [edge.semaphores, edge.buffers].map(|set| bits(&HANDLES, |handle| set.contains(handle)) as u8),
            link: edge.link as u8,
            peer_to_peer: edge.is_peer_to_peer(),
        })
    }
}
