//! How findings are worded, added up, and left out.

use super::*;

fn sentences(lines: &str, options: CheckOptions) -> Vec<String> {
    judged(&trace(lines), options).into_iter().map(|(_, sentence)| sentence).collect()
}

/// A program that keeps every rule: all scopes from the right allocators, a reallocation, an internal pair.
const GOOD: &str = "e,1,1,vkCreateInstance a,1,1,1,64,8,4 a,1,1,2,64,8,0 f,1,1,2 l,1,0 c,1,1,1,VkInstance \
    e,1,2,vkCreateDevice a,1,2,3,64,8,3 a,1,2,4,32,8,0 f,1,2,4 l,1,0 c,1,2,2,VkDevice \
    e,1,3,vkCreateBuffer a,1,3,5,100,8,1 b,1,3,5 r,1,3,5,6,200,8,1 i,1,3,4096,0,1 l,1,0 c,1,3,3,VkBuffer \
    e,1,5,vkCreatePipelineCache a,1,5,7,64,8,2 l,1,0 c,1,5,4,VkPipelineCache \
    e,1,6,vkCreateDescriptorPool a,1,6,8,64,8,1 l,1,0 c,1,6,5,VkDescriptorPool \
    e,1,6,vkAllocateDescriptorSets a,1,6,9,64,8,1 l,1,0 e,1,6,vkFreeDescriptorSets f,1,6,9 l,1,0 \
    e,2,6,vkDestroyDescriptorPool f,2,6,8 l,2,0 d,2,6,5,VkDescriptorPool \
    e,1,5,vkDestroyPipelineCache f,1,5,7 l,1,0 d,1,5,4,VkPipelineCache \
    e,1,3,vkDestroyBuffer j,1,3,4096,0,1 f,1,3,6 l,1,0 d,1,3,3,VkBuffer \
    e,1,2,vkDestroyDevice f,1,2,3 l,1,0 d,1,2,2,VkDevice e,1,1,vkDestroyInstance f,1,1,1 l,1,0 d,1,1,1,VkInstance";

#[test]
fn a_program_that_keeps_the_rules_is_let_be_and_one_line_less_is_found() {
    assert_eq!(sentences(GOOD, COMPLETE), [""; 0]);
    let lines: Vec<_> = GOOD.split_whitespace().collect();
    let mut found = 0;
    for left_out in 0..lines.len() {
        // What a callback did, or a handle's beginning or end.
        if !lines[left_out].starts_with(['a', 'f', 'i', 'j', 'd']) {
            continue;
        }
        let without: Vec<_> =
            lines.iter().enumerate().filter(|(index, _)| *index != left_out).map(|(_, line)| *line).collect();
        let told = sentences(&without.join(" "), COMPLETE);
        // A never-destroyed object breaks no rule; all its memory was freed.
        assert_eq!(told.is_empty(), lines[left_out].starts_with('d'), "{}: {told:?}", lines[left_out]);
        found += 1;
    }
    assert!(found > 20, "{found}");
}

#[test]
fn v30_is_worded_as_it_was_observed_and_added_up() {
    let once = "e,1,4,vkCreateImage a,1,2,1,4064,8,1 f,1,2,1 l,1,0 ";
    let other = "e,1,4,vkCreateImage a,1,2,2,36,8,1 f,1,2,2 l,1,0";
    let said = "V30: the implementation asked the device's allocator for 4064 B (scope OBJECT) in vkCreateImage, \
                though VkImage was given its own";
    assert_eq!(sentences(once, COMPLETE), [said]);
    assert_eq!(
        sentences(&once.replace(",1,4064", ",7,4064").replace("f,1,2,1", "f,1,2,7").repeat(3), COMPLETE),
        [format!("{}; 3 times", said.replace("4064 B ", "4064 B each "))]
    );
    let directly = CheckOptions { opened: Opened::Directly, ..COMPLETE };
    assert_eq!(
        sentences(&format!("{once}{other}"), directly),
        ["V30: the driver asked the device's allocator for 4100 B in all (scope OBJECT) in vkCreateImage, \
         though VkImage was given its own; 2 times"]
    );
}

#[test]
fn v22_v23_are_suspect_until_every_command_is_bracketed() {
    let lines = log(FindingKind::FreedOnForeignThread);
    let text = trace(lines);
    let mut judge = Judge::new(&SYSTEM, CheckOptions::default());
    judge.run(TraceReader::new(&text).expect("a header")).expect("whole");
    let found = judge.findings(Scoped::new(&SYSTEM, Scope::Object)).expect("memory");
    assert_eq!((found[0].level().name(), found[0].kind.to_string()), ("suspect", "V22/V23".to_owned()));
    assert!(found[0].to_string().ends_with("on a thread that was not seen to call Vulkan"), "{}", found[0]);
    let complete = sentences(lines, COMPLETE);
    assert!(complete[0].ends_with("on a thread that has never issued a command"), "{complete:?}");
}

#[test]
fn v22_a_thread_that_issues_a_command_later_is_no_foreign_thread() {
    let foreign = "e,1,3,vkCreateBuffer a,1,3,1,64,8,1 a,1,3,2,64,8,1 l,1,0 f,2,3,1 f,3,3,2";
    let kinds = |lines: &str| judged(&trace(lines), COMPLETE).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>();
    assert_eq!(kinds(foreign), [FindingKind::FreedOnForeignThread]);
    // One of the two threads turns out to be the application's.
    let later = format!("{foreign} e,2,3,vkGetBufferMemoryRequirements l,2,0");
    assert_eq!(kinds(&later), [FindingKind::FreedBetweenCommands, FindingKind::FreedOnForeignThread]);
    let both = format!("{later} e,3,3,vkGetBufferMemoryRequirements l,3,0");
    let told = sentences(&both, COMPLETE);
    assert_eq!(told.len(), 1);
    assert!(told[0].ends_with("between commands; 2 times"), "{told:?}");
}

#[test]
fn v28_a_block_that_comes_back_later_says_so() {
    let left = "e,1,2,vkDeviceWaitIdle a,1,2,1,64,8,0 l,1,0";
    assert!(sentences(left, COMPLETE)[0].ends_with("live when that returned; never freed"));
    let later = format!("{left} e,1,2,vkQueueSubmit f,1,2,1 l,1,0");
    assert!(sentences(&later, COMPLETE)[0].ends_with("live when that returned; freed later in vkQueueSubmit"));
}

#[test]
fn v41_is_judged_when_the_last_object_of_the_allocator_goes() {
    let two = "e,1,3,vkCreateBuffer a,1,3,1,32,8,1 l,1,0 c,1,3,100,VkBuffer e,1,3,vkCreateBuffer a,1,3,2,32,8,1 l,1,0 c,1,3,101,VkBuffer \
               e,1,3,vkDestroyBuffer l,1,0 d,1,3,100,VkBuffer ";
    // One is left: the object of the blocks is unknown.
    assert_eq!(judged(&trace(two), COMPLETE)[0].0, FindingKind::LiveAtEnd);
    let none = format!("{two} e,1,3,vkDestroyBuffer l,1,0 d,1,3,101,VkBuffer");
    assert_eq!(
        sentences(&none, COMPLETE),
        ["V41: the implementation left 32 B each (scope OBJECT) of VkBuffer's allocator, taken in vkCreateBuffer, \
         live when vkDestroyBuffer returned; never freed; 2 times"]
    );
}

#[test]
fn v9_null_and_success_is_legal_and_an_inner_null_is_the_outer_commands_too() {
    assert_eq!(sentences("e,1,3,vkCreateBuffer a,1,3,0,64,8,1 l,1,0", COMPLETE), [""; 0]);
    assert_eq!(sentences("e,1,3,vkCreateBuffer a,1,3,0,64,8,1 l,1,-1", COMPLETE), [""; 0]);
    assert_eq!(sentences("e,1,3,vkCreateBuffer e,1,3,vkCreateBuffer a,1,3,0,64,8,1 l,1,-1 l,1,-1", COMPLETE), [""; 0]);
    assert_eq!(sentences("e,1,3,vkCreateBuffer l,1,-1", COMPLETE).len(), 1);
}
