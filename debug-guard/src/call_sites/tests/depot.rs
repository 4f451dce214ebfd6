//! What is written down, once, and what it may take.

use std::collections::{HashMap, HashSet};
use std::string::String;
use std::vec::Vec;

use alloc_core::ContextId;

use super::*;
use crate::call_sites::CommandMark;

#[test]
fn what_was_noted_can_be_read_when_the_name_is_gone() {
    let memory = memory();
    let mut sites = depot(&memory);
    let context = ContextId::from_raw(7);
    let id = {
        // Of a long name the beginning is kept.
        let (name, label) = ("é".repeat(3000), String::from("atlas"));
        let command = Some(CommandMark { name: "vkCreateImage", serial: 3, stack: 0 });
        let who = RequesterInfo {
            context,
            name: &name,
            label: Some(&label),
            scope: Scope::Cache,
            front: 16,
            command: command.as_ref(),
        };
        let id = sites.note(Some(&memory), &who, Stacks::Off);
        assert_eq!(sites.note(Some(&memory), &who, Stacks::Off), id);
        assert_eq!(sites.note(None, &who, Stacks::Off), id);
        assert_ne!(sites.note(Some(&memory), &RequesterInfo { front: 0, ..who }, Stacks::Off), id);
        id
    };
    let view = sites.get(id).expect("it was noted");
    assert_eq!((view.context, view.name, view.label), (context, &*"é".repeat(100), Some("atlas")));
    assert_eq!((view.front, view.command), (16, Some("vkCreateImage")));
    assert_eq!((view.frames, view.whole), (&[][..], false));
    assert_eq!(sites.count(), 2);
    sites.close(&memory);
    assert_eq!(sites.get(id), None);
    assert_eq!(memory.live_bytes(), 0);
}

#[test]
fn a_number_that_is_no_site_is_nothing() {
    let memory = memory();
    let mut sites = depot(&memory);
    let count = if cfg!(miri) { 10 } else { 300 };
    let names: Vec<String> = (0..count).map(|n| std::format!("context {n}")).collect();
    let ids: HashMap<u32, &str> =
        names.iter().map(|name| (sites.note(Some(&memory), &who(name), Stacks::Off).0, name.as_str())).collect();
    assert_eq!(ids.len(), count);
    let last = u32::try_from(sites.arena.bytes() / 16).unwrap();
    let step = if cfg!(miri) { 37 } else { 1 };
    for raw in (0..last + 10).step_by(step).chain(ids.keys().copied()).chain([u32::MAX, u32::MAX / 2, 1 << 31]) {
        assert_eq!(
            sites.get(SiteId(raw)).map(|view| view.name),
            ids.get(&raw).copied().or((raw == 1).then_some("")),
            "{raw}"
        );
    }
    let mut told = HashSet::new();
    sites.all().for_each(|site| assert!(told.insert(site.id().0)));
    assert_eq!(told, ids.keys().copied().collect());
    sites.close(&memory);
}

// What fills a depot is left to the real machine.
#[cfg(not(miri))]
#[test]
fn a_free_takes_no_memory_and_finds_room_that_allocations_kept() {
    let memory = memory();
    let mut sites = depot(&memory);
    let mut names = (0..).map(|n| std::format!("owner {n:0190}"));
    let mut noted = 0;
    for round in 0..4 {
        // An allocation brings the room; from then on only frees.
        assert_ne!(sites.note(Some(&memory), &who(&names.next().unwrap()), Stacks::Off), SiteId(0));
        let (requests, lost) = (memory.requests(), sites.lost());
        let mut got = 0;
        while sites.note(None, &who(&names.next().unwrap()), Stacks::Off) != SiteId(0) {
            got += 1;
        }
        assert!(got >= 60, "round {round}: room for {got} only");
        noted += got + 1;
        assert_eq!(memory.requests(), requests, "a free asked for memory");
        assert_eq!(sites.lost(), lost + 1);
        let first = std::format!("owner {:0190}", 0);
        assert_eq!(sites.note(None, &who(&first), Stacks::Off), sites.note(Some(&memory), &who(&first), Stacks::Off));
    }
    assert_eq!(sites.count(), noted);
    sites.close(&memory);
    assert_eq!(memory.live_bytes(), 0);
}

// What fills a depot is left to the real machine.
#[cfg(not(miri))]
#[test]
fn without_memory_sites_are_lost_and_counted_and_later_there_again() {
    let memory = memory();
    let mut sites = depot(&memory);
    memory.arm(Fault::From(0));
    let names: Vec<String> = (0..250).map(|n| std::format!("owner {n:0190}")).collect();
    let ids: Vec<SiteId> = names.iter().map(|name| sites.note(Some(&memory), &who(name), Stacks::Off)).collect();
    let lost = ids.iter().filter(|id| **id == SiteId(0)).count();
    assert!(lost > 0 && lost < 250, "{lost}");
    assert_eq!(sites.lost(), lost as u64);
    let as_long = std::format!("owner {:0190}", 250);
    assert_ne!(sites.note(None, &who(&as_long), Stacks::Off), SiteId(0), "room was kept for frees");
    assert!(memory.refused() < 2 * lost as u64 + 2, "{} requests for {lost} sites", memory.refused());
    memory.disarm();
    let again: Vec<SiteId> = names.iter().map(|name| sites.note(Some(&memory), &who(name), Stacks::Off)).collect();
    assert!(!again.contains(&SiteId(0)));
    assert!(ids.iter().zip(&again).all(|(id, again)| *id == SiteId(0) || id == again));
    sites.close(&memory);
    assert_eq!(memory.live_bytes(), 0);
}

#[test]
fn a_depot_stays_below_its_limit() {
    let memory = memory();
    let mut sites = Sites::with_limit(&memory, 100 * 1024).unwrap();
    for n in 0..250 {
        sites.note(Some(&memory), &who(&std::format!("owner {n:0190}")), Stacks::Off);
    }
    assert!(sites.lost() > 0);
    assert_eq!(memory.live_bytes(), 64 * 1024);
    sites.close(&memory);
}

#[test]
fn threads_agree_on_sites() {
    let memory = memory();
    let mut sites = depot(&memory);
    let count = if cfg!(miri) { 20 } else { 1500 };
    let all: Vec<Vec<SiteId>> = std::thread::scope(|scope| {
        let each = |_| {
            scope.spawn(|| {
                (0..count)
                    .map(|n| sites.note(Some(&memory), &who(&std::format!("owner {n}")), Stacks::Off))
                    .collect::<Vec<_>>()
            })
        };
        let threads: Vec<_> = (0..4).map(each).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(all.windows(2).all(|two| two[0] == two[1]));
    assert_eq!(all[0].iter().collect::<HashSet<_>>().len(), count);
    assert_eq!(sites.count(), count as u64);
    sites.close(&memory);
    assert_eq!(memory.live_bytes(), 0);
}

#[test]
fn a_request_of_which_nothing_is_known_takes_no_room() {
    let memory = memory();
    let mut sites = depot(&memory);
    let anonymous = who("");
    let both = [sites.note(Some(&memory), &anonymous, Stacks::Off), sites.note(None, &anonymous, Stacks::Off)];
    assert_eq!((both, sites.count()), ([SiteId::ANONYMOUS; 2], 0));
    assert_eq!(sites.get(SiteId::ANONYMOUS), Some(SiteView::default()));
    let in_front = RequesterInfo { front: 16, ..anonymous };
    let id = sites.note(Some(&memory), &in_front, Stacks::Off);
    assert_eq!(sites.get(id).expect("noted").front, 16);
    let mut tally = sites.tally().expect("nobody else is at it");
    for id in [id, SiteId::ANONYMOUS, SiteId(0)] {
        tally.add(id, 8);
    }
    assert_eq!([id, SiteId::ANONYMOUS, SiteId(0)].map(|id| tally.group(id)), [id, SiteId(0), SiteId(0)]);
    let mut told = Vec::new();
    tally.for_each(&mut |id, blocks, bytes| told.push((id, blocks, bytes)));
    assert_eq!(told, [(id, 1, 8), (SiteId(0), 2, 16)]);
    drop(tally);
    sites.close(&memory);
}
