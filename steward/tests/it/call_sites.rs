//! Where blocks came from: of a live run and of a trace, as data and as text.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::{Child, Finished};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");

fn steward(args: &[&str]) -> (Finished, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    let done = Child::new(STEWARD).args(args).args([Path::new("--json"), &json]).run();
    let data = fs::read_to_string(&json).unwrap_or_else(|_| panic!("{done}"));
    (done, serde_json::from_str(&data).expect("JSON"))
}

fn list<'v>(value: &'v Value, name: &str) -> &'v Vec<Value> {
    value[name].as_array().unwrap_or_else(|| panic!("{name}"))
}

/// Blocks and bytes by context: of the rows, and of the call sites.
fn sums(report: &Value) -> [BTreeMap<String, (u64, u64)>; 2] {
    let number = |value: &Value| value.as_u64().expect("a number");
    let name = |value: &Value| value.as_str().expect("a name").to_owned();
    let rows = list(report, "contexts").iter().filter(|row| row["group"] == false && row["total_blocks"] != 0);
    let rows = rows.map(|row| (name(&row["name"]), (number(&row["total_blocks"]), number(&row["total_bytes"]))));
    let mut sites = BTreeMap::new();
    for site in list(&report["call_sites"], "sites") {
        let sum: &mut (u64, u64) = sites.entry(name(&site["context"])).or_default();
        sum.0 += number(&site["total"]["blocks"]);
        sum.1 += number(&site["total"]["bytes"]);
    }
    [rows.collect(), sites]
}

#[test]
fn call_sites_sum_up_to_their_contexts() {
    let (done, report) = steward(&["drive", "--driver", "reference", "--seed", "7", "--no-coverage", "--depth", "3"]);
    done.assert_code(0);
    let [rows, sites] = sums(&report);
    assert!(rows.len() > 10, "{rows:?}");
    // The bridge puts 16 bytes in front of each block.
    let charged = sites.into_iter().map(|(name, (blocks, bytes))| (name, (blocks, bytes + 16 * blocks)));
    assert_eq!(rows, charged.collect());
    // Each block has the stack of its command, down to the function of the driver that the layer called.
    let sites = &report["call_sites"];
    let functions = |site: &Value| {
        let stack = site["stack"].as_u64().and_then(|at| sites["stacks"].get(at as usize)).expect("a stack");
        let frames =
            stack.as_array().expect("frames").iter().map(|at| &sites["frames"][at.as_u64().expect("a place") as usize]);
        frames.map(|frame| frame["functions"].to_string()).collect::<String>()
    };
    let buffer = list(sites, "sites").iter().find(|site| site["command"] == "vkCreateBuffer").expect("buffers");
    let functions = functions(buffer);
    assert!(functions.contains("reference_driver::") && !functions.contains("VkLayer_steward_memory"), "{functions}");
    assert!(!functions.contains("SiteCallbacks") && !functions.contains("lang_start"), "{functions}");
    let lines = [
        "\ncall sites, bytes as requested",
        "\n  VkBuffer ",
        "\n    vkCreateBuffer ",
        "\n      blocks up to ",
        "\n        reference_driver::",
    ];
    let places = lines.map(|line| done.stdout.find(line));
    assert!(places.iter().all(Option::is_some), "{places:?}\n{done}");
    assert!(done.stdout.lines().all(|line| !line.contains("blocks up to") || line.chars().count() <= 120), "{done}");
    let (shallow, _) = steward(&["drive", "--driver", "reference", "--seed", "7", "--no-coverage"]);
    assert!(!shallow.stdout.contains("call sites"), "{shallow}");
}

#[test]
fn call_sites_of_a_trace_are_commands_without_stacks() {
    let (done, report) = steward(&["replay", "lavapipe-workload", "--depth", "1"]);
    done.assert_code(0);
    let [rows, sites] = sums(&report);
    assert!(rows.len() > 10 && rows == sites, "{rows:?}\n{sites:?}");
    let sites = &report["call_sites"];
    assert!(list(sites, "sites").iter().all(|site| site["stack"].is_null()));
    assert!(done.stdout.contains("\n    vkCreateDevice ") && !done.stdout.contains("blocks up to"), "{done}");
}

#[test]
fn what_a_trace_never_frees_is_listed_by_command_with_object_and_growth() {
    let round = |number: u64| {
        format!("p,use\ne,1,1,vkCreateBuffer\na,1,1,{number},100,8,1\nc,1,1,{},VkBuffer\nl,1,0\np,end\n", 160 + number)
    };
    let lines: String = (1..=4).map(round).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("leaks.trace");
    let text =
        format!("# steward host trace 2\n# driver: made up\no,1,0,VkBuffer\n{lines}z,{}\n", 3 + lines.lines().count());
    fs::write(&file, text).expect("a file");
    let (done, report) = steward(&["replay", file.to_str().expect("a plain path")]);
    let [stack] = &list(&report["leaks"], "stacks")[..] else {
        panic!("{done}");
    };
    assert_eq!((&stack["command"], &stack["kind"]), (&"vkCreateBuffer".into(), &"VkBuffer".into()));
    let growth = &stack["blocks"]["growth"];
    assert_eq!((&growth["count"], &growth["grew"]), (&3.into(), &3.into()), "{done}");
    let text =
        "\n     grows: +1 block (100 B) a round, in 3 of 3\n     oldest: 100 bytes for 0xa1, 100 bytes for 0xa2, ";
    assert!(done.stdout.contains(text), "{done}");
    assert!(done.stdout.contains("\n  VkBuffer: 4 blocks, 400 requested bytes "), "{done}");
}

/// A trace's number is a block's until it is freed. Thread 2 gets the number while thread 1 resizes the block that had
/// it to nothing; then a number comes twice, as where the line of its free is lost.
#[test]
fn call_sites_of_a_trace_hold_what_its_list_of_leaks_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let resized = ["a,1,1,1,100,8,1", "b,1,1,1", "a,2,1,1,500,8,1", "r,1,1,1,0,0,8,1"];
    let twice = ["a,1,1,7,1000,8,1", "a,1,1,7,300,8,1"];
    for (name, lines, bytes) in [("resized", &resized[..], 500), ("twice", &twice, 300)] {
        let file = folder.path().join(format!("{name}.trace"));
        let head = ["# steward host trace 2", "# driver: x", "o,1,0,VkInstance", "p,instance"];
        let mut text = [&head, lines].concat().join("\n");
        text += &format!("\nz,{}\n", head.len() + lines.len());
        fs::write(&file, text).expect("a file");
        let (done, report) = steward(&["replay", file.to_str().expect("text")]);
        let sum = |list: &[Value], sum: &dyn Fn(&Value) -> &Value| -> u64 {
            let numbers = list.iter().map(|one| sum(one).as_u64().expect("a number"));
            numbers.sum()
        };
        let sites = sum(list(&report["call_sites"], "sites"), &|site| &site["left"]["bytes"]);
        let leaks = sum(list(&report["leaks"], "stacks"), &|stack| &stack["blocks"]["bytes"]);
        assert_eq!((sites, leaks), (bytes, bytes), "{name}: {done}");
    }
}
