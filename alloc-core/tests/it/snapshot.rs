//! Snapshots agree with the accounts they were taken from, and with their own JSON.
//!
//! Runs under miri.

use crate::scene::{SYSTEM, root};
use alloc_core::{Budget, ByteCount, ContextOptions, Scope, Scoped, Snapshot, TryVec};

#[test]
fn a_snapshot_shows_the_tree_in_order_of_birth() {
    let root = root();
    let a = root.child_with(ContextOptions::new("a").label("first \"quoted\"\n")).expect("child");
    let b = root.child_with(ContextOptions::new("b").budget(Budget::exact(10_000))).expect("child");
    let a1 = a.child_with(ContextOptions::new("a1").scope(Scope::Command)).expect("child");
    let v = TryVec::<u8, _>::try_with_capacity_in(777, &a1).expect("room");
    let own = root.child("snapshot").expect("child");
    let snapshot = Snapshot::capture(&root, own.handle()).expect("room");

    let names: Vec<_> = snapshot.nodes().iter().map(|n| (n.depth, n.name)).collect();
    assert_eq!(names, [(0, "root"), (1, "a"), (2, "a1"), (1, "b"), (1, "snapshot")]);
    let at = |name| snapshot.nodes().iter().find(|n| n.name == name).expect("there");
    assert_eq!(at("a1").usage, a1.usage());
    assert_eq!(at("a1").usage.scope(Scope::Command).live_bytes, 777);
    assert_eq!(at("a1").parent, Some(a.id()));
    assert_eq!(snapshot.label(at("a")), Some("first \"quoted\"\n"));
    assert_eq!(at("b").budget, b.budget());
    assert_eq!(snapshot.subtree(1), a.subtree_usage());

    let mut text = String::new();
    snapshot.write_json(&mut text).expect("a String takes all");
    let json: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
    assert_eq!(json[2]["usage"]["command"]["live_bytes"], 777);
    assert_eq!(json[1]["label"], "first \"quoted\"\n");
    assert_eq!(json[3]["budget"]["limit"], 10_000);
    assert_eq!(json[0]["parent"], serde_json::Value::Null);

    let table = snapshot.to_string();
    let row = |name: &str| {
        let row = table.lines().find(|l| l.trim_start().starts_with(name));
        row.unwrap_or_else(|| panic!("no row {name}: {table}"))
    };
    assert!(row("a1").contains("777 B"), "{table}");
    // What is below a context is in its row: COMMAND was taken by `a1` alone.
    for name in ["root", "a "] {
        let command: Vec<_> = row(name).split_whitespace().collect();
        assert!(command.windows(2).any(|words| words == ["777", "B"]), "{table}");
    }
    let total = snapshot.total().total();
    let sum = format!(
        "total: {} ({} bytes) live in {} blocks of 5 contexts",
        ByteCount(total.live_bytes),
        total.live_bytes,
        total.live_blocks
    );
    assert!(row("total").starts_with(&sum), "{table}");
    assert!(row("root").contains(&ByteCount(total.live_bytes).to_string()), "{table}");
    // Every column is explained below the table; those of the scopes from the first to the last.
    let (head, legend) = table.split_once('\n').expect("a heading");
    let (_, legend) = legend.split_once("  bytes of").expect("a legend");
    assert!(legend.contains("command to instance: "), "{table}");
    let columns: Vec<_> = head.split_whitespace().collect();
    for column in &columns[1 + Scope::ALL.len()..] {
        let explained = [" ", "\n  "].map(|before| format!("{before}{column}: "));
        assert!(explained.iter().any(|said| legend.contains(said)), "{column}: {table}");
    }
    drop((v, snapshot));
}

/// A tree can be copied into its own memory: the copy is part of the figures then.
#[test]
fn a_tree_prints_itself_and_counts_the_copy() {
    let root = root();
    let child = root.child_with(ContextOptions::new("child").label("a label")).expect("child");
    let before = root.subtree_usage().total();
    let snapshot = root.snapshot().expect("room");
    let counted = root.subtree_usage().total();
    let copy = counted.live_bytes - before.live_bytes;
    assert_eq!(counted.live_blocks - before.live_blocks, 2);
    assert_eq!(snapshot.total().total().live_bytes, counted.live_bytes);
    assert!(copy > 0);
    drop(snapshot);
    assert_eq!(root.subtree_usage().total().live_bytes, before.live_bytes);
    // Elsewhere: the figures hold no byte of the copy.
    let beside = Snapshot::capture(&root, Scoped::new(&SYSTEM, Scope::Object)).expect("room");
    assert_eq!(beside.total().total().live_bytes, before.live_bytes);
    drop(beside);
    // Of a part of the tree, by a handle.
    let part = child.handle();
    assert_eq!(part.snapshot().expect("room").nodes().len(), 1);
}
