//! A mailbox in one thread; several are modelled elsewhere.

use std::vec::Vec;

use crate::classes::remote_free::{RemoteFreeBits, RemoteFreeList};

#[test]
fn what_is_posted_is_collected_once() {
    let (mailbox, groups) = (RemoteFreeList::new(), [const { RemoteFreeBits::new() }; 3]);
    let find = |group: u32| groups.get(group as usize);
    for (group, slot) in [(2, 63), (0, 0), (2, 1)] {
        assert!(
            !mailbox.push(group, &groups[group as usize], slot),
            "there is an owner"
        );
    }
    assert!(!mailbox.is_empty());
    let mut seen = Vec::new();
    mailbox.collect(find, |group, slot| seen.push((group, slot)));
    assert_eq!(seen, [(0, 0), (2, 1), (2, 63)]);
    assert!(mailbox.is_empty());
    mailbox.collect(find, |_, _| panic!("collected twice"));
}

#[test]
fn a_mailbox_without_an_owner_says_so() {
    let (mailbox, group) = (RemoteFreeList::new(), RemoteFreeBits::new());
    let find = |_| Some(&group);
    assert!(!mailbox.adopt(), "it has an owner");
    assert!(!mailbox.collect_abandoned(find, |_, _| ()));
    let mut seen = Vec::new();
    assert!(!mailbox.push(0, &group, 5));
    mailbox.abandon(find, |_, slot| seen.push(slot));
    assert!(mailbox.push(0, &group, 6));
    assert!(mailbox.collect_abandoned(find, |_, slot| seen.push(slot)));
    assert!(mailbox.push(0, &group, 7));
    assert!(mailbox.adopt());
    mailbox.collect(find, |_, slot| seen.push(slot));
    assert_eq!(seen, [5, 6, 7]);
}
