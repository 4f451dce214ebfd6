//! The driver's source as its documentation quotes it.

/// The documentation quotes the table that is compiled; each object of the device is in it once. Pools and pipelines,
/// of which one command makes several, and instance and device have files of their own.
#[test]
fn rd20_each_object_has_one_line_that_creates_and_destroys_it() {
    let table = include_str!("../../src/objects_table.rs");
    let elsewhere = ["Instance", "Device", "CommandPool", "DescriptorPool"];
    let commands = include_str!("commands.txt").lines();
    let created = commands
        .filter_map(|line| line.split_once(" vkCreate"))
        .map(|(_, object)| object)
        .filter(|object| !elsewhere.contains(object) && !object.ends_with("Pipelines"));
    let mut objects = 0;
    for object in created.chain(["DeviceMemory"]) {
        let info =
            if object == "DeviceMemory" { "MemoryAllocateInfo".to_owned() } else { format!("{object}CreateInfo") };
        let line = format!(": {object}({info}) = ");
        assert_eq!(table.matches(&line).count(), 1, "{line}");
        objects += 1;
    }
    assert_eq!(table.matches("Info) = ").count(), objects, "and no other");
}
