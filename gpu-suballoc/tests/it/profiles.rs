//! Blocks and pools on each of the mock's profiles.

use crate::pools_of::{CASES, Machine};
use gpu_suballoc::DeviceMemory;
use gpu_suballoc::device::BufferHandle;
use mock_device::{MockDevice, MockLiveCounts, MockProfile};
use testkit::RecordingAllocator;

struct Mock<'w>(MockDevice<&'w RecordingAllocator>);

impl Machine for Mock<'_> {
    fn device(&self) -> &dyn DeviceMemory {
        &self.0
    }
    fn copy(&self, copies: &[(BufferHandle, u64, BufferHandle, u64, u64)]) {
        for (source, from, target, to, size) in copies {
            assert!(
                self.0.copy_buffer(*source, *from, *target, *to, *size),
                "{}",
                self.0.violations()
            );
        }
    }
}

/// What a profile gives no chance to show, in the order of the tests.
const fn unseen(profile: MockProfile) -> &'static [&'static str] {
    match profile {
        MockProfile::Nvidia | MockProfile::AmdSmallBar => &["non-coherent"],
        MockProfile::IntelUma => &["type fall-through", "non-coherent"],
        MockProfile::Tiler => &["budget", "type fall-through", "priority"],
        MockProfile::MoltenVk => &["type fall-through", "priority", "non-coherent"],
        MockProfile::Lavapipe => &["budget", "type fall-through", "priority", "non-coherent"],
    }
}

fn on(profile: MockProfile) {
    let mut told = Vec::new();
    for (name, case) in CASES {
        println!("{name} on {}", profile.name());
        let witness = RecordingAllocator::system();
        let mock = Mock(MockDevice::new(profile, &witness));
        mock.0.set_linger(100);
        told.extend(case(&mock));
        assert!(
            mock.0.violations().is_empty(),
            "{name}: {}",
            mock.0.violations()
        );
        assert_eq!(mock.0.live_counts(), MockLiveCounts::default(), "{name}");
    }
    assert_eq!(told, unseen(profile));
}

#[test]
fn nvidia() {
    on(MockProfile::Nvidia);
}

#[test]
fn amd_with_a_small_bar() {
    on(MockProfile::AmdSmallBar);
}

#[test]
fn intel_uma() {
    on(MockProfile::IntelUma);
}

#[test]
fn tiler() {
    on(MockProfile::Tiler);
}

#[test]
fn molten_vk() {
    on(MockProfile::MoltenVk);
}

#[test]
fn lavapipe() {
    on(MockProfile::Lavapipe);
}

#[test]
fn every_behaviour_is_shown_by_some_profile() {
    for name in unseen(MockProfile::Lavapipe) {
        assert!(
            MockProfile::ALL
                .iter()
                .any(|profile| !unseen(*profile).contains(name)),
            "{name}"
        );
    }
}
