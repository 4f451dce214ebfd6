//! Traces that can be replayed, and what is wrong in them.

use super::*;

#[test]
fn wrong_frees_and_live_ends_are_findings() {
    let lines = "p,one\no,1,0,VkBuffer\na,1,1,1,100,8,1\na,1,1,2,7,8,3\nf,1,1,2\nf,1,1,2\nf,1,1,99\nf,1,1,?3\nr,1,1,77,78,8,8,1\n";
    let (done, report) = replay_text(trace(lines));
    done.assert_code(0);
    let found = |kind: &str| {
        let rows = report["findings"].as_array().into_iter().flatten();
        let rows: Vec<_> = rows.filter(|row| row["kind"] == kind).collect();
        let [row] = rows[..] else { panic!("{kind}: {}", report["findings"]) };
        let said = row["sentence"].as_str().expect("a sentence").to_owned();
        assert!(flat(&done.stdout).contains(&said), "{said}\n{done}");
        (row["count"].as_u64().expect("a number"), row["first_serial"].as_u64().expect("a line"), said)
    };
    assert_eq!(found("FreedTwice").1, 8);
    let (count, line, said) = found("FreedUnknown");
    assert_eq!((count, line), (2, 9), "{said}");
    assert!(said.ends_with("; 2 times; first in line 9"), "{said}");
    assert_eq!(found("ReallocatedUnknown").1, 11);
    assert_eq!(found("LiveAtEnd").0, 2);
    assert!(
        done.stdout
            .contains("\nleftovers, never freed:\n  VkBuffer: 2 blocks, 108 requested bytes (108 of scope object)\n"),
        "{done}"
    );
    let left = &report["leftovers"][0];
    assert_eq!((&left["context"], &left["blocks"], &left["bytes"]), (&"VkBuffer".into(), &2.into(), &108.into()));
    assert_eq!(five(&left["by_scope"]), [0, 108, 0, 0, 0]);
    assert_eq!(report["phases"][0]["live_bytes"], 108);
}

/// The reallocation's end is not in the trace, so the block is as live as before it.
#[test]
fn v15_a_block_whose_reallocation_did_not_return_is_left_over() {
    let left = |lines: &str| {
        let (done, report) = replay_text(trace(lines));
        done.assert_code(0);
        let leaks = report["leaks"]["stacks"].as_array().expect("a list").iter();
        let blocks = leaks.map(|stack| stack["blocks"]["live"].as_u64().expect("a number"));
        let found = report["leftovers"].as_array().expect("a list").iter();
        let found = found.map(|left| (left["blocks"].clone(), left["bytes"].clone()));
        (found.collect::<Vec<_>>(), blocks.sum::<u64>(), done.stdout)
    };
    let lines = "o,1,0,VkBuffer\na,1,1,1,100,8,1\nb,1,1,1\n";
    let (found, blocks, text) = left(lines);
    assert_eq!((found, blocks), (vec![(1.into(), 100.into())], 1), "{text}");
    assert!(text.contains("VkBuffer: 1 block, 100 requested bytes"), "{text}");
    // The thread begins another one: the first block is as live, until it is freed.
    let second = "o,1,0,VkBuffer\na,1,1,1,100,8,1\na,1,1,2,30,8,1\nb,1,1,1\nb,1,1,2\n";
    let (found, blocks, text) = left(second);
    assert_eq!((found, blocks), (vec![(2.into(), 130.into())], 2), "{text}");
    let (found, blocks, text) = left(&format!("{second}f,1,1,1\nf,1,1,2\n"));
    assert_eq!((found, blocks), (vec![(1.into(), 30.into())], 1), "{text}");
    // Another block has the number: the first one ended.
    let (found, blocks, text) = left(&format!("{lines}a,2,1,1,7,8,1\n"));
    assert_eq!((found, blocks), (vec![(1.into(), 7.into())], 1), "{text}");
}

#[test]
fn what_is_odd_in_a_trace_is_noted_once() {
    let notes = |lines: &str| {
        let (done, report) = replay_text(trace(lines));
        done.assert_code(0);
        let rows = report["findings"].as_array().expect("a list").iter();
        let notes = rows.filter(|row| row["rule"] == "" && row["level"] == "note");
        let notes = notes.map(|row| row["sentence"].as_str().expect("text").to_owned());
        notes.collect::<Vec<_>>()
    };
    let again = "o,1,0,VkBuffer\no,1,0,VkBuffer\no,1,0,VkImage\na,1,1,1,100,8,1\no,1,0,VkFence\nf,1,1,1\n";
    let said = "2 of the owners are declared again as another kind, and stay with their first account; first in line 5";
    assert_eq!(notes(again), [said]);
    // A resize that fails says nothing new of the block's size.
    let huge = u64::MAX;
    let failed = format!("a,1,0,1,{huge},8,1\nb,1,0,1\nr,1,0,1,0,16,8,1\nf,1,0,1\n");
    let said = "1 of the sizes are more than can be had, and count as 0 bytes; first in line 3";
    assert_eq!(notes(&failed), [said]);
}

#[test]
fn huge_numbers_are_findings_and_no_overflow() {
    let huge = u64::MAX;
    let lines = format!(
        "p,one\na,1,0,1,{huge},8,1\na,1,0,2,{huge},8,1\na,1,0,3,{},8,1\na,1,0,4,8,{huge},1\na,1,0,5,8,8,{}\na,1,0,{huge},0,8,4\nx,{huge}\nx,{huge}\n",
        1u64 << 46,
        i32::MAX
    );
    let (done, report) = replay_text(trace(&lines));
    done.assert_code(0);
    for what in [
        "2 of the sizes are more than can be had, and count as 0 bytes; first in line 4",
        "with an alignment that is no power of two; line 7",
        "with a scope that does not exist; line 8",
    ] {
        assert!(flat(&done.stdout).contains(what), "{what}\n{done}");
    }
    assert_eq!(report["leftovers"][0]["bytes"], huge);
}

#[test]
fn v15_a_resized_block_stays_with_the_owner_and_the_scope_of_its_allocation() {
    let lines = "o,1,0,VkBuffer\no,2,0,VkImage\na,1,1,1,24,8,1\nr,1,2,1,2,48,8,3\n";
    let (done, report) = replay_text(trace(lines));
    done.assert_code(0);
    let rows = report["contexts"].as_array().expect("a list");
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).expect("a row");
    assert_eq!(five(&row("VkBuffer")["live_by_scope"]), [0, 48, 0, 0, 0]);
    assert_eq!((&row("VkBuffer")["total_bytes"], &row("VkImage")["peak_bytes"]), (&48.into(), &0.into()));
}

#[test]
fn what_comes_before_the_first_phase_and_empty_blocks_are_counted() {
    let (done, report) =
        replay_text(trace("a,1,0,1,64,8,1\na,1,0,2,0,8,1\nr,1,0,2,3,16,8,1\np,late\nf,1,0,1\nf,1,0,3\n"));
    done.assert_code(0);
    let early = plain(&report["phases"][0]);
    assert_eq!((early.name.as_str(), early.taken[1], early.bytes[1], early.live_blocks[1]), ("(no phase)", 2, 80, 2));
    let late = plain(&report["phases"][1]);
    assert_eq!((late.name.as_str(), late.freed[1], late.live_blocks[1]), ("late", 2, 0));
}

#[test]
fn names_from_a_trace_steer_no_terminal() {
    let (done, _) = replay_text(trace("p,a\u{1b}[31mb\u{7}\no,1,0,Vk\u{9b}2J\na,1,1,1,8,8,1\nf,1,1,1\n"));
    done.assert_code(0);
    assert!(done.stdout.contains("a [31mb") && !done.stdout.chars().any(|c| c.is_control() && c != '\n'), "{done}");
}
