//! Who is not to be blamed: for what the application forgot, for what was lost, for what a log cannot say.

use super::*;

/// Level, kind and sentence of each finding.
fn told(lines: &str, options: CheckOptions) -> Vec<(&'static str, FindingKind, String)> {
    let text = trace(lines);
    let mut judge = Judge::new(&SYSTEM, options);
    judge.run(TraceReader::new(&text).expect("a header")).expect("a whole trace, and memory");
    let found = judge.findings(Scoped::new(&SYSTEM, Scope::Object)).expect("memory");
    found.iter().map(|found| (found.level().name(), found.kind, found.to_string())).collect()
}

fn levels(lines: &str) -> Vec<(&'static str, FindingKind)> {
    told(lines, COMPLETE).into_iter().map(|(level, kind, _)| (level, kind)).collect()
}

#[test]
fn v20_v41_who_never_destroys_a_buffer_is_the_application() {
    let made = "e,1,3,vkCreateBuffer i,1,3,64,0,1 a,1,3,1,32,8,1 l,1,0 c,1,3,9,VkBuffer ";
    let found = told(made, COMPLETE);
    let sentences: Vec<_> = found.iter().map(|(level, _, sentence)| (*level, sentence.as_str())).collect();
    assert_eq!(
        sentences,
        [
            (
                "note",
                "V20: 64 B (scope OBJECT) internal memory of which VkBuffer's allocator was told had not gone at the end"
            ),
            (
                "note",
                "V41: 32 B (scope OBJECT) of VkBuffer's allocator were live at the end, taken in vkCreateBuffer; never freed"
            ),
        ]
    );
    let ended = format!("{made} e,1,3,vkDestroyBuffer l,1,0 d,1,3,9,VkBuffer");
    assert_eq!(levels(&ended), [("suspect", FindingKind::InternalLeft), ("violation", FindingKind::LiveAfterDestroy)]);
}

#[test]
fn v41_a_devices_memory_may_be_that_of_an_object_which_was_never_destroyed() {
    let device = "e,1,2,vkCreateDevice l,1,0 c,1,2,2,VkDevice ";
    let image = "e,1,2,vkCreateImage i,1,2,16,0,1 a,1,2,1,64,8,1 l,1,0 c,1,0,9,VkImage ";
    let gone = "e,1,2,vkDestroyImage l,1,0 d,1,0,9,VkImage ";
    let end = "e,1,2,vkDestroyDevice l,1,0 d,1,2,2,VkDevice ";
    let left = [("suspect", FindingKind::InternalLeft), ("violation", FindingKind::LiveAfterDestroy)];
    let forgot = [("note", FindingKind::InternalAtEnd), ("note", FindingKind::LiveAtEnd)];
    assert_eq!(levels(&[device, image, gone, end].concat()), left);
    assert_eq!(levels(&[device, image, end].concat()), forgot);
    // Sets go with their pool, which is gone; a surface is the instance's.
    let others =
        "e,1,6,vkAllocateDescriptorSets a,1,6,5,8,8,1 f,1,6,5 l,1,0 c,1,0,70,VkDescriptorSet c,1,0,71,VkSurfaceKHR ";
    assert_eq!(levels(&[device, others, image, gone, end].concat()), left);
    // Of the instance's memory any object below may hold some.
    let instance = "e,1,1,vkCreateInstance a,1,1,7,8,8,4 l,1,0 c,1,1,1,VkInstance ";
    let last = "e,1,1,vkDestroyInstance l,1,0 d,1,1,1,VkInstance ";
    assert_eq!(levels(&[instance, last].concat()), [("violation", FindingKind::LiveAfterDestroy)]);
    assert_eq!(levels(&[instance, device, last].concat()), [("note", FindingKind::LiveAtEnd)]);
}

#[test]
fn v41_an_object_that_another_thread_is_making_with_the_same_callbacks_is_let_be() {
    let first = "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 l,1,0 c,1,3,100,VkBuffer ";
    let second = "e,2,3,vkCreateBuffer i,2,3,16,0,1 a,2,3,2,64,8,1 ";
    let ends = "e,1,3,vkDestroyBuffer f,1,3,1 l,1,0 d,1,3,100,VkBuffer ";
    let told = "c,2,3,101,VkBuffer ";
    let over = "e,2,3,vkDestroyBuffer j,2,3,16,0,1 f,2,3,2 l,2,0 d,2,3,101,VkBuffer ";
    let forgets = "e,2,3,vkDestroyBuffer l,2,0 d,2,3,101,VkBuffer ";
    // It is in its command, or its object was not reported yet.
    assert_eq!(levels(&[first, second, ends, "l,2,0 ", told, over].concat()), []);
    assert_eq!(levels(&[first, second, "l,2,0 ", ends, told, over].concat()), []);
    let left = [("suspect", FindingKind::InternalLeft), ("violation", FindingKind::LiveAfterDestroy)];
    assert_eq!(levels(&[first, second, ends, "l,2,0 ", told, forgets].concat()), left);
    // A report ends the creation, whether or not that thread continues.
    let elsewhere = "e,1,3,vkDestroyBuffer l,1,0 d,1,3,101,VkBuffer ";
    assert_eq!(levels(&[first, second, "l,2,0 ", told, ends, elsewhere].concat()), left);
    // A failed command kept its block; its thread's next command shows that no object will be reported.
    let failed = "l,2,-1 e,2,3,vkGetFenceStatus l,2,0 ";
    let refused = second.replace("i,2,3,16,0,1", "a,2,3,0,1,1,0");
    assert_eq!(levels(&[first, &refused, failed, ends].concat()), [("violation", FindingKind::LiveAfterDestroy)]);
    // Of several, the first report does not stand for all.
    let many = "e,2,3,vkCreateComputePipelines a,2,3,2,64,8,1 l,2,0 c,2,3,101,VkPipeline ";
    let one = "e,1,3,vkDestroyPipeline l,1,0 d,1,3,101,VkPipeline ";
    let other = "c,2,3,102,VkPipeline e,2,3,vkDestroyPipeline f,2,3,2 l,2,0 d,2,3,102,VkPipeline ";
    assert_eq!(levels(&[many, one, other].concat()), []);
}

#[test]
fn v44_one_handle_with_two_owners_blames_nobody() {
    let both = "e,1,3,vkCreateSampler a,1,3,1,64,8,1 l,1,0 c,1,3,5,VkSampler e,1,4,vkCreateSampler a,1,4,2,64,8,1 l,1,0 c,1,4,5,VkSampler ";
    let ends = "e,1,3,vkDestroySampler f,1,3,1 l,1,0 d,1,3,5,VkSampler e,1,4,vkDestroySampler f,1,4,2 l,1,0 d,1,4,5,VkSampler ";
    assert_eq!(levels(&[both, ends].concat()), []);
    // A third end of it is one too many, and when all are gone the handle is as good as new.
    let again = "e,1,3,vkDestroySampler l,1,0 d,1,3,5,VkSampler ";
    assert_eq!(levels(&[both, ends, again].concat()), [("violation", FindingKind::UnknownHandle)]);
    let anew = "e,1,3,vkCreateSampler l,1,0 c,1,3,5,VkSampler e,1,0,vkDestroySampler l,1,0 d,1,0,5,VkSampler ";
    assert_eq!(levels(&[both, ends, anew].concat()), [("violation", FindingKind::NoneAtDestroy)]);
}

#[test]
fn v23_a_worker_while_a_command_runs_shows_nothing_about_v22() {
    let worker = "e,1,3,vkCreateBuffer a,2,3,1,64,8,1 f,2,3,1 l,1,0 ";
    let after = "e,1,3,vkCreateBuffer a,1,3,2,64,8,1 l,1,0 f,2,3,2 ";
    let rules = |lines: &str| -> Vec<_> {
        told(lines, COMPLETE)
            .into_iter()
            .map(|(_, _, said)| said.split(':').next().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(rules(worker), ["V23", "V23"]);
    assert_eq!(rules(after), ["V22/V23"]);
    // One that came between commands is enough.
    let during = "e,1,3,vkCreateBuffer a,1,3,2,64,8,1 f,2,3,2 l,1,0 ";
    let between = "e,1,3,vkCreateBuffer a,1,3,3,64,8,1 l,1,0 f,2,3,3 ";
    assert_eq!(
        (rules(during), rules(&[during, between].concat())),
        (vec!["V23".to_owned()], vec!["V22/V23".to_owned()])
    );
}

/// After lost events, each kind's own log causes the findings that one line proves, and no more.
#[test]
fn what_needs_more_than_one_line_proves_nothing_once_events_were_lost() {
    use FindingKind as Kind;
    let proven = [
        Kind::MissingAllocation,
        Kind::MissingReallocation,
        Kind::MissingFree,
        Kind::HalfInternal,
        Kind::UnknownUserData,
        Kind::OldStructUsed,
        Kind::BadAlignment,
        Kind::SizeZero,
        Kind::MisalignedAnswer,
        Kind::NullFree,
        Kind::InternalType,
        Kind::BadScope,
    ];
    for kind in FindingKind::ALL {
        let after: Vec<_> =
            told(&format!("x,1 {}", log(*kind)), COMPLETE).into_iter().map(|(_, kind, _)| kind).collect();
        assert_eq!(after, if proven.contains(kind) { vec![*kind] } else { vec![] }, "{}", kind.name());
    }
}

#[test]
fn v5_v20_v25_v28_what_ended_while_events_were_lost_is_not_held_against_what_comes_after() {
    // What is missing at the x, and what then comes, which by itself is legal.
    for lines in [
        "e,1,2,vkDeviceWaitIdle a,1,2,1,64,8,0 x,1 l,1,0 e,1,2,vkDeviceWaitIdle l,1,0",
        "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 b,1,3,1 x,1 l,1,0 e,1,3,vkDestroyBuffer l,1,0",
        "e,1,4,vkCreateImage x,1 e,1,3,vkCreateBuffer l,1,0 a,1,3,1,64,8,1 f,1,3,1",
        "e,1,4,vkCreateImage a,1,4,1,64,8,1 x,2 a,1,3,2,64,8,1 l,1,0 e,1,3,vkDestroyBuffer f,1,3,2 l,1,0",
        "e,1,3,vkCreateBuffer i,1,3,64,0,1 l,1,0 c,1,3,9,VkBuffer x,1 e,1,3,vkDestroyBuffer l,1,0 d,1,3,9,VkBuffer",
        "e,1,3,vkCreateBuffer x,1 l,1,-1",
    ] {
        assert_eq!(levels(lines), [], "{lines}");
    }
    // A command that began before is over, for all that is known.
    let after = told("e,1,4,vkCreateImage x,1 a,1,3,1,64,24,1", COMPLETE);
    assert!(after.len() == 1 && !after[0].2.contains("vkCreateImage"), "{after:?}");
    // A reallocation is over as well: the next command is not from inside a callback, which would be one observation
    // more that is lost.
    let text = trace("e,1,3,vkCreateBuffer b,1,3,0 x,1 e,1,3,vkDestroyBuffer l,1,0");
    let mut judge = Judge::new(&SYSTEM, COMPLETE);
    judge.run(TraceReader::new(&text).expect("a header")).expect("whole");
    assert_eq!(judge.lost(), 1);
    // What was seen before stays.
    let before = format!("{} x,1", log(FindingKind::FreedTwice));
    assert_eq!(levels(&before), [("violation", FindingKind::FreedTwice)]);
}

#[test]
fn v19_v42_a_log_cannot_say_whose_callbacks_are_compatible() {
    let through = "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 l,1,0 c,1,3,9,VkBuffer e,1,4,vkDestroyBuffer f,1,4,1 l,1,0 d,1,4,9,VkBuffer";
    let found = told(through, COMPLETE);
    let said: Vec<_> = found.iter().map(|(level, _, said)| (*level, said.as_str())).collect();
    assert_eq!(
        said,
        [
            (
                "suspect",
                "V19: the implementation freed 64 B (scope OBJECT) of VkBuffer's allocator through VkImage's, \
                 callbacks of another owner, in vkDestroyBuffer"
            ),
            (
                "suspect",
                "V42: the application passed vkDestroyBuffer VkImage's allocator, of another owner than the VkBuffer was created \
                 with"
            ),
        ]
    );
    let moved = "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 b,1,4,1 r,1,4,1,2,128,8,1 f,1,4,2 l,1,0 c,1,3,9,VkBuffer e,1,3,vkDestroyBuffer l,1,0 d,1,3,9,VkBuffer";
    assert!(levels(moved).contains(&("suspect", FindingKind::ReallocatedThroughOther)));
    assert!(levels(moved).iter().all(|(_, kind)| *kind != FindingKind::LiveAfterDestroy), "{:?}", levels(moved));
    // A reallocation to size 0 frees.
    let freed = "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 b,1,4,1 r,1,4,1,0,0,8,1 l,1,0";
    assert_eq!(levels(freed), [("suspect", FindingKind::ReallocatedThroughOther)]);
    // The sums of internal memory may be those of compatible callbacks.
    assert_eq!(levels(log(FindingKind::InternalNegative)), [("suspect", FindingKind::InternalNegative)]);
}

#[test]
fn v9_v34_the_words_say_no_more_than_was_looked_at() {
    let oom = told(log(FindingKind::OutOfMemoryWithoutNull), COMPLETE);
    assert!(oom[0].2.ends_with("though no request on its thread had been refused"), "{oom:?}");
    let strange = told(log(FindingKind::UnknownUserData), COMPLETE);
    assert!(strange[0].2.contains("never handed out, or that nobody watches any more"), "{strange:?}");
    // A pool whose commands requested more than scratch memory from any allocator is no finding.
    let asked = "e,1,6,vkAllocateDescriptorSets a,1,2,1,64,8,3 l,1,0 e,1,6,vkFreeDescriptorSets f,1,2,1 l,1,0";
    assert_eq!(levels(asked), []);
    let scratch = asked.replace("a,1,2,1,64,8,3", "a,1,6,1,64,8,0 f,1,6,1").replace("f,1,2,1 l", "l");
    assert_eq!(levels(&scratch), [("note", FindingKind::PoolNeverAsked)]);
}

#[test]
fn v20_what_an_owner_gave_back_after_it_was_declared_again_is_what_it_took_before() {
    assert_eq!(
        levels("i,1,3,64,0,1 o,3,2,VkBuffer j,1,3,64,0,1 e,1,3,vkDestroyBuffer l,1,0")
            .iter()
            .map(|(_, kind)| *kind)
            .filter(|kind| matches!(kind, FindingKind::InternalNegative | FindingKind::InternalAtEnd))
            .count(),
        0
    );
}

#[test]
fn v28_a_block_that_another_command_moved_is_left_by_the_one_that_took_it() {
    let found = told(
        "e,1,2,vkDeviceWaitIdle a,1,2,1,64,8,0 e,2,2,vkQueueWaitIdle b,2,2,1 r,2,2,1,2,128,8,0 l,1,0 l,2,0 \
         e,1,2,vkDeviceWaitIdle f,1,2,2 l,1,0",
        COMPLETE,
    );
    let left = found.iter().find(|(_, kind, _)| *kind == FindingKind::CommandBlockLeft);
    assert!(
        left.is_some_and(|(.., sentence)| sentence.contains("128 B") && sentence.contains("taken in vkDeviceWaitIdle")),
        "{found:?}"
    );
}

#[test]
fn v41_a_block_that_was_being_moved_when_its_object_went_is_told_of_when_the_next_one_goes() {
    let create = "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 l,1,0 c,1,3,100,VkBuffer ";
    let destroy = "e,1,3,vkDestroyBuffer l,1,0 d,1,3,100,VkBuffer ";
    let lines = format!(
        "{create} e,2,3,vkCreateBuffer b,2,3,1 {destroy} r,2,3,1,0,128,8,1 l,2,-1 c,1,3,100,VkBuffer {destroy}"
    );
    let found = levels(&lines);
    assert!(found.iter().any(|(_, kind)| *kind == FindingKind::LiveAfterDestroy), "{found:?}");
    assert!(found.iter().all(|(_, kind)| *kind != FindingKind::LiveAtEnd), "{found:?}");
}

#[test]
fn v41_objects_that_shared_a_handle_and_are_gone_hold_none_of_their_devices_memory() {
    let shared = "c,1,0,7,VkBuffer c,1,0,7,VkBuffer d,1,0,7,VkBuffer d,1,0,7,VkBuffer";
    let lines = format!(
        "e,1,2,vkCreateDevice a,1,2,1,64,8,3 l,1,0 c,1,2,1,VkDevice {shared} e,1,2,vkDestroyDevice l,1,0 d,1,2,1,VkDevice"
    );
    let found = levels(&lines);
    assert!(found.iter().any(|(_, kind)| *kind == FindingKind::LiveAfterDestroy), "{found:?}");
}
