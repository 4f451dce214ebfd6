//! With the setting `memory_report` device memory that the driver itself allocates is counted as
//! `VK_EXT_device_memory_report` says, by the kind of object that it is for.

mod create_info;

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::accounts::Accounts;
use crate::device_memory::MemoryCount;
use crate::handle_records::HandleRecords;
use crate::hooks::caught;
use crate::leaks::object_kind;
use crate::parent::Parent;
use crate::settings::{complain, settings};
use create_info::NotReporting;

pub(crate) use create_info::{ReportingDevice, enables};

const OBJECT_TYPES: usize = 27;
const OTHER: usize = OBJECT_TYPES - 1;

pub(crate) struct MemoryReports {
    counts: [MemoryCount; OBJECT_TYPES],
    blocks: HandleRecords<ReportedBlock>,
    known: AtomicU64,
    /// A driver may never send one: then it is not known what is live.
    pub(crate) free_events: AtomicU64,
    /// There was no memory for a record, or there are [`MAX_BLOCKS`] already.
    pub(crate) lost_events: AtomicU64,
}

/// With a driver that never reports an end the records would grow without bound. Drivers have fewer blocks at once.
const MAX_BLOCKS: u64 = 1 << 16;

/// The event of its end says neither its size nor its type.
struct ReportedBlock {
    bytes: u64,
    place: usize,
}

#[repr(C)]
pub(super) struct ReportEvent {
    s_type: i32,
    p_next: *const c_void,
    flags: u32,
    event: i32,
    memory_object: u64,
    size: u64,
    object_type: i32,
    object: u64,
    heap: u32,
}

const ALLOCATE: i32 = 0;
const FREE: i32 = 1;
const IMPORT: i32 = 2;
const UNIMPORT: i32 = 3;
const ALLOCATION_FAILED: i32 = 4;

impl MemoryReports {
    fn new() -> Self {
        Self {
            counts: Default::default(),
            blocks: HandleRecords::new(),
            known: AtomicU64::new(0),
            free_events: AtomicU64::new(0),
            lost_events: AtomicU64::new(0),
        }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'static str, &MemoryCount)> {
        let name = |place: usize| match place {
            OTHER => "other",
            6 => "VkCommandBuffer",
            4 => "VkQueue",
            2 => "VkPhysicalDevice",
            23 => "VkDescriptorSet",
            _ => object_kind(place as i32).unwrap_or("unknown"),
        };
        let rows = self.counts.iter().enumerate();
        rows.map(move |(place, count)| (name(place), count))
    }

    fn note(&self, event: &ReportEvent) {
        let place = usize::try_from(event.object_type).unwrap_or(OTHER);
        let place = place.min(OTHER);
        match event.event {
            ALLOCATE | IMPORT => self.allocated(event.memory_object, event.size, place),
            FREE | UNIMPORT => {
                self.free_events.fetch_add(1, Ordering::Relaxed);
                self.freed(event.memory_object);
            }
            ALLOCATION_FAILED => {
                if let Some(count) = self.counts.get(place) {
                    count.refusals.fetch_add(1, Ordering::Relaxed);
                }
            }
            _ => {}
        }
    }

    fn allocated(&self, id: u64, bytes: u64, place: usize) {
        if !self.remembered(id, ReportedBlock { bytes, place }) {
            self.lost_events.fetch_add(1, Ordering::Relaxed);
        } else if let Some(count) = self.counts.get(place) {
            count.allocated(bytes);
        }
    }

    fn remembered(&self, id: u64, block: ReportedBlock) -> bool {
        let is_kept = self.known.load(Ordering::Relaxed) < MAX_BLOCKS && self.blocks.insert(id, block);
        if is_kept {
            self.known.fetch_add(1, Ordering::Relaxed);
        }
        is_kept
    }

    fn freed(&self, id: u64) {
        let Some(block) = self.blocks.remove(id) else {
            return;
        };
        self.known.fetch_sub(1, Ordering::Relaxed);
        if let Some(count) = self.counts.get(block.place) {
            count.freed(block.bytes);
        }
    }
}

/// `None` without the setting, and where the device cannot report: then the reason is reported.
///
/// # Safety
/// The instance's physical device, and a create info for it, which lives as long as what is answered.
pub(crate) unsafe fn reporting_device(
    instance: &Parent,
    physical_device: *mut c_void,
    info: *const c_void,
    accounts: &'static Accounts,
) -> Option<ReportingDevice> {
    if !settings().memory_report {
        return None;
    }
    let reports = accounts.memory_reports.get_or_make(|| Some(MemoryReports::new()));
    let device = match (instance.physical.enumerate_extensions, reports) {
        (Some(enumerate), Some(reports)) => {
            // SAFETY: the instance's physical device and its create info.
            unsafe { ReportingDevice::new(info, reports, (enumerate, physical_device)) }
        }
        (None, _) => Err(NotReporting::NotOffered),
        (_, None) => Err(NotReporting::NoMemory),
    };
    device
        .map_err(|why| {
            complain(format_args!(
                "memory_report: what the driver allocates of device memory is not counted: {}",
                why.reason()
            ));
        })
        .ok()
}

/// The driver calls it on any of its threads, with locks of its own held: it calls no command.
pub(super) unsafe extern "system" fn reported(event: *const ReportEvent, reports: *mut c_void) {
    // SAFETY: the create info's user data, which is never freed.
    let reports = unsafe { reports.cast_const().cast::<MemoryReports>().as_ref() };
    // SAFETY: the driver's struct.
    let event = unsafe { event.as_ref() };
    if let (Some(reports), Some(event)) = (reports, event) {
        caught(|| reports.note(event));
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::sync::atomic::Ordering;

    use super::{ALLOCATE, ALLOCATION_FAILED, FREE, IMPORT, MAX_BLOCKS, MemoryReports, ReportEvent, UNIMPORT};

    fn event(event: i32, (memory_object, size): (u64, u64), object_type: i32) -> ReportEvent {
        ReportEvent {
            s_type: 1_000_284_002,
            p_next: ptr::null(),
            flags: 0,
            event,
            memory_object,
            size,
            object_type,
            object: 0,
            heap: 0,
        }
    }

    #[test]
    fn ly53_of_a_driver_that_reports_no_free_a_bounded_number_is_kept_and_that_is_known() {
        let reports = MemoryReports::new();
        let lost = || reports.lost_events.load(Ordering::Relaxed);
        for id in 0..MAX_BLOCKS + 10 {
            reports.note(&event(ALLOCATE, (id + 1, 8), 9));
        }
        assert_eq!(lost(), 10);
        let count = &reports.counts[9];
        assert_eq!(count.live_blocks.load(Ordering::Relaxed), MAX_BLOCKS);
        reports.note(&event(FREE, (1, 0), 0));
        reports.note(&event(ALLOCATE, (1, 8), 9));
        assert_eq!(lost(), 10);
    }

    #[test]
    fn ly53_events_are_counted_by_kind_of_object_and_a_free_says_no_size() {
        let reports = MemoryReports::new();
        for (what, id, size, object_type) in [
            (ALLOCATE, 1, 100, 9),
            (ALLOCATE, 2, 50, 19),
            (IMPORT, 3, 7, 1_000_001_000),
            (ALLOCATION_FAILED, 0, 1 << 40, 10),
            (FREE, 1, u64::MAX, -1),
            (UNIMPORT, 3, 0, 0),
            (FREE, 99, 1, 9),
            (77, 2, 1, 9),
        ] {
            reports.note(&event(what, (id, size), object_type));
        }
        let used: Vec<_> = reports
            .rows()
            .map(|(name, count)| {
                let get = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
                let numbers = [&count.live_bytes, &count.peak_bytes, &count.refusals].map(get);
                (name, numbers)
            })
            .filter(|(_, numbers)| *numbers != [0; 3])
            .collect();
        let expected =
            [("VkBuffer", [0, 100, 0]), ("VkImage", [0, 0, 1]), ("VkPipeline", [50, 50, 0]), ("other", [0, 7, 0])];
        assert_eq!(used, expected);
    }
}
