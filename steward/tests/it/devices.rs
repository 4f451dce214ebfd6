//! `steward devices` against what vulkaninfo says of the same devices, and the page that is made of it.
//!
//! What needs a driver, or vulkaninfo, is skipped without; `STEWARD_REQUIRE=lavapipe` forbids that. With `STEWARD_SWIFTSHADER=<manifest>`
//! there are two devices of two drivers.

use std::process::Command;

use serde_json::Value;
use testkit::{Child, Finished, skip};
use vk_steward::devices::{DevicesReport, html};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");

fn with_drivers(child: Child) -> Child {
    match std::env::var("STEWARD_SWIFTSHADER") {
        Ok(manifest) => child.env("VK_ADD_DRIVER_FILES", &manifest),
        Err(_) => child,
    }
}

/// The report, or a skip.
fn report(test: &str) -> Option<(Finished, DevicesReport)> {
    let text = with_drivers(Child::new(STEWARD).args(["devices"])).run();
    if text.code == Some(2) {
        skip("lavapipe", test, "there is no driver");
        return None;
    }
    text.assert_code(0);
    let json = with_drivers(Child::new(STEWARD).args(["devices", "--json", "-"])).run();
    json.assert_code(0);
    Some((
        text,
        serde_json::from_str(&json.stdout).expect("the JSON of `steward devices`"),
    ))
}

/// The values of `key = value` lines in vulkaninfo's text, in its order.
fn told<'t>(text: &'t str, key: &str) -> Vec<&'t str> {
    let lines = text.lines().filter_map(|line| line.split_once('='));
    lines
        .filter(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
        .collect()
}

#[test]
fn devices_are_those_that_vulkaninfo_tells_of() {
    let test = "devices_are_those_that_vulkaninfo_tells_of";
    let Some((_, report)) = report(test) else {
        return;
    };
    if Command::new("vulkaninfo").arg("--help").output().is_err() {
        return skip("lavapipe", test, "there is no vulkaninfo");
    }
    let theirs = with_drivers(Child::new("vulkaninfo").args(["--summary"])).run();
    let theirs = theirs.stdout.as_str();
    let ours = |of: fn(&vk_steward::devices::ShownDevice) -> &str| {
        report.devices.iter().map(of).collect::<Vec<_>>()
    };
    assert!(!report.devices.is_empty());
    assert_eq!(ours(|device| &device.name), told(theirs, "deviceName"));
    assert_eq!(
        ours(|device| device.device_uuid.as_deref().unwrap_or("")),
        told(theirs, "deviceUUID")
    );
    assert_eq!(
        ours(|device| device.driver_uuid.as_deref().unwrap_or("")),
        told(theirs, "driverUUID")
    );
    // vulkaninfo writes the prefix too.
    assert_eq!(
        ours(|device| &device.driver_id),
        told(theirs, "driverID")
            .iter()
            .map(|id| &id["DRIVER_ID_".len()..])
            .collect::<Vec<_>>()
    );
}

#[test]
fn without_a_driver_it_says_what_to_install() {
    let child = Child::new(STEWARD)
        .args(["devices"])
        .env_remove("VK_ADD_DRIVER_FILES")
        .env("VK_DRIVER_FILES", "/nonexistent");
    let refused = child.run();
    refused.assert_code(2);
    if refused.stderr.contains("there is no Vulkan loader") {
        return skip(
            "lavapipe",
            "without_a_driver_it_says_what_to_install",
            "there is no loader",
        );
    }
    assert!(
        refused
            .stderr
            .contains("install a Vulkan driver, or set VK_DRIVER_FILES"),
        "{refused}"
    );
}

#[test]
fn every_device_is_in_a_group_and_every_pair_has_an_edge() {
    let Some((text, report)) = report("every_device_is_in_a_group_and_every_pair_has_an_edge")
    else {
        return;
    };
    let mut grouped: Vec<usize> = report
        .groups
        .iter()
        .flat_map(|group| group.devices.clone())
        .collect();
    grouped.sort_unstable();
    let count = report.devices.len();
    assert_eq!(grouped, (0..count).collect::<Vec<_>>());
    assert_eq!(report.edges.len(), count * (count - 1));
    for edge in &report.edges {
        let [from, to] = [&report.devices[edge.from], &report.devices[edge.to]];
        // Opaque handles fit one device with one driver build.
        if from.device_uuid != to.device_uuid || from.driver_uuid != to.driver_uuid {
            let opaque = edge
                .memory_handles
                .iter()
                .chain(&edge.semaphore_handles)
                .any(|handle| handle.starts_with("OPAQUE"));
            assert!(!opaque, "{edge:?}");
        }
        assert!(
            edge.link != "unknown" || edge.link_told_by.is_empty(),
            "{edge:?}"
        );
    }
    assert!(
        text.stdout.contains(&report.devices[0].name) && text.stdout.contains("device UUID"),
        "{text}"
    );
    for device in report
        .devices
        .iter()
        .filter(|device| !device.capabilities.is_empty())
    {
        assert!(
            text.stdout
                .contains(&format!("\n  can: {}\n", device.capabilities.join(", "))),
            "{text}"
        );
    }
}

#[test]
fn the_page_shows_the_matrix() {
    let device = |index: usize| vk_steward::devices::ShownDevice {
        index,
        name: format!("<card {index}>"),
        memory_export: vec!["DMA_BUF".to_owned()],
        ..Default::default()
    };
    let edge = vk_steward::devices::EdgeRow {
        from: 0,
        to: 1,
        read: "import".to_owned(),
        wait: "copy".to_owned(),
        link: "peer link".to_owned(),
        link_told_by: "NVML".to_owned(),
        memory_handles: vec!["DMA_BUF".to_owned()],
        ..Default::default()
    };
    let report = DevicesReport {
        format: 1,
        devices: vec![device(0), device(1)],
        edges: vec![edge],
        ..Default::default()
    };
    let page = html(&report).expect("it writes into memory");
    for part in [
        "import / copy",
        "peer link",
        "link told by NVML",
        "itself",
        "isolated",
        "DMA_BUF",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // Names of devices are the driver's: they are text and nothing else.
    assert!(page.contains("card 0") && !page.contains("<card"), "{page}");
    let json = serde_json::to_value(&report).expect("JSON");
    assert_eq!(json["edges"][0]["copy_cost"], Value::Null);
}
