//! Blocks and pools on each of the mock's profiles.

mod pools_of;

use gpu_suballoc::{BufferHandle, DeviceMemory, MockDevice, MockLive, Profile};
use pools_of::{CASES, Machine};
use testkit::Witness;

struct Mock<'w>(MockDevice<&'w Witness>);

impl Machine for Mock<'_> {
    fn device(&self) -> &dyn DeviceMemory {
        &self.0
    }
    fn copy(&self, copies: &[(BufferHandle, u64, BufferHandle, u64, u64)]) {
        for (source, from, target, to, size) in copies {
            assert!(self.0.copy_buffer(*source, *from, *target, *to, *size), "{}", self.0.violations());
        }
    }
}

/// What a profile gives no chance to show, in the order of the tests.
const fn unseen(profile: Profile) -> &'static [&'static str] {
    match profile {
        Profile::Nvidia | Profile::AmdSmallBar => &["non-coherent"],
        Profile::IntelUma => &["type fall-through", "non-coherent"],
        Profile::Tiler => &["budget", "type fall-through", "priority"],
        Profile::MoltenVk => &["type fall-through", "priority", "non-coherent"],
        Profile::Lavapipe => &["budget", "type fall-through", "priority", "non-coherent"],
    }
}

fn on(profile: Profile) {
    let mut told = Vec::new();
    for (name, case) in CASES {
        println!("{name} on {}", profile.name());
        let witness = Witness::system();
        let mock = Mock(MockDevice::new(profile, &witness));
        mock.0.set_linger(100);
        told.extend(case(&mock));
        assert!(mock.0.violations().is_empty(), "{name}: {}", mock.0.violations());
        assert_eq!(mock.0.live(), MockLive::default(), "{name}");
    }
    assert_eq!(told, unseen(profile));
}

#[test]
fn nvidia() {
    on(Profile::Nvidia);
}

#[test]
fn amd_with_a_small_bar() {
    on(Profile::AmdSmallBar);
}

#[test]
fn intel_uma() {
    on(Profile::IntelUma);
}

#[test]
fn tiler() {
    on(Profile::Tiler);
}

#[test]
fn molten_vk() {
    on(Profile::MoltenVk);
}

#[test]
fn lavapipe() {
    on(Profile::Lavapipe);
}

#[test]
fn every_behaviour_is_shown_by_some_profile() {
    for name in unseen(Profile::Lavapipe) {
        assert!(Profile::ALL.iter().any(|profile| !unseen(*profile).contains(name)), "{name}");
    }
}
