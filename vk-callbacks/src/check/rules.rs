//! The rules, one row each: who can break it, what must be seen to know, how serious a breach is.

#![forbid(unsafe_code)]

use core::fmt;

/// A rule of `VkAllocationCallbacks`. The numbers are this crate's; `reference` is the specification's.
///
/// ```
/// use vk_callbacks::Rule;
/// use vk_callbacks::check::Sight;
/// let unseen = Rule::ALL.iter().filter(|rule| matches!(rule.sight, Sight::Never(_))).count();
/// assert_eq!((Rule::ALL.len(), unseen), (44, 7));
/// assert_eq!(Rule::of(22).map(ToString::to_string).as_deref(), Some("V22"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// 1 to 44.
    pub number: u8,
    /// Who can break it.
    pub duty: Duty,
    /// What must be seen to detect a breach.
    pub sight: Sight,
    /// How serious a breach is.
    pub level: RuleLevel,
    /// The rule in one line.
    pub text: &'static str,
    /// The valid usage id, or the place in the specification.
    pub reference: &'static str,
}

/// Who can break a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Duty {
    /// The application, or the allocator behind its callbacks.
    Application,
    /// The driver, or a layer or the loader in its place.
    Driver,
    /// Nobody: it allows something.
    Permission,
}

/// What must be seen to know whether a rule was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sight {
    /// The struct, when it is handed over.
    Registration,
    /// The calls of the callbacks alone.
    Callback,
    /// The calls, where the application passed a struct of [`Checker::hand_out`](crate::Checker::hand_out) and spoilt
    /// it after the create.
    Spoilt,
    /// In which command, on which thread, a call came.
    Bracket,
    /// Which handle was made and ended with which callbacks.
    Wrapper,
    /// It cannot be seen from here; the reason.
    Never(&'static str),
}

/// How serious a breach is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleLevel {
    /// A rule was broken.
    Violation,
    /// A rule was broken, if every command of every thread runs in a bracket.
    Suspect,
    /// Legal, but telling.
    Note,
}

use Duty::{Application, Driver, Permission};
use RuleLevel::{Note, Suspect, Violation};
use Sight::{Bracket, Callback, Never, Registration, Spoilt, Wrapper};

const HOST: &str = "Host Memory";
const SCOPES: &str = "Host Memory, VkSystemAllocationScope";
const FALL_BACK: &str = "Host Memory, most specific allocator";

macro_rules! rules {
    ($($number:literal $duty:ident $sight:expr, $level:ident, $text:literal, $reference:expr;)*) => {
        &[$(Rule { number: $number, duty: $duty, sight: $sight, level: $level, text: $text, reference: $reference },)*]
    };
}

impl Rule {
    /// All rules, in the order of their numbers.
    pub const ALL: &'static [Self] = rules! {
        1 Application Registration, Violation, "pfnAllocation is there", "VUID-VkAllocationCallbacks-pfnAllocation-00632";
        2 Application Registration, Violation, "pfnReallocation is there, even if it is never called", "VUID-VkAllocationCallbacks-pfnReallocation-00633";
        3 Application Registration, Violation, "pfnFree is there", "VUID-VkAllocationCallbacks-pfnFree-00634";
        4 Application Registration, Violation, "both internal notifications are there or neither", "VUID-VkAllocationCallbacks-pfnInternalAllocation-00635";
        5 Driver Bracket, Violation, "pUserData comes back as it was given, that of the struct which this command was given", "VkAllocationCallbacks, pUserData";
        6 Driver Spoilt, Violation, "the struct is copied before the creating command returns", "Host Memory, pAllocator";
        7 Driver Callback, Violation, "an alignment is a power of two; any size is legal", "PFN_vkAllocationFunction";
        8 Application Callback, Violation, "a block is as large and as aligned as was asked for, and nobody else's; a failure is NULL", "PFN_vkAllocationFunction";
        9 Driver Bracket, Note, "a command that cannot go on after NULL answers out of host memory; one that can does not", "PFN_vkAllocationFunction";
        10 Permission Never("it says what a driver may not rely on, and reading is not seen"), Note, "the content of a new block is undefined", "PFN_vkAllocationFunction";
        11 Driver Callback, Violation, "what is reallocated is NULL or a live block of a compatible allocator", "PFN_vkReallocationFunction";
        12 Application Never("the bytes are the driver's, and those it never wrote may not be read"), Violation, "a reallocation keeps the content up to the smaller size", "PFN_vkReallocationFunction";
        13 Application Never("what comes of it is judged as what comes of an allocation, by V8"), Violation, "a reallocation of NULL is an allocation", "PFN_vkReallocationFunction";
        14 Application Callback, Violation, "a reallocation to size 0 frees and answers NULL", "PFN_vkReallocationFunction";
        15 Driver Callback, Violation, "a reallocation asks for the alignment that the block was made with", "PFN_vkReallocationFunction";
        16 Application Callback, Violation, "a reallocation that fails leaves the old block as it was", "PFN_vkReallocationFunction";
        17 Permission Never("it allows a call"), Note, "a reallocation may come wherever a free may", "PFN_vkReallocationFunction";
        18 Application Callback, Note, "a free of NULL does nothing", "PFN_vkFreeFunction";
        19 Driver Callback, Violation, "what is freed is NULL or a live block of a compatible allocator", "PFN_vkFreeFunction";
        20 Driver Callback, Violation, "internal notifications are about executable memory, and their sums over compatible callbacks balance", "PFN_vkInternalAllocationNotification";
        21 Driver Bracket, Suspect, "internal notifications come when and where other callbacks may", "PFN_vkInternalAllocationNotification";
        22 Driver Bracket, Suspect, "callbacks come during a command only", HOST;
        23 Driver Bracket, Suspect, "callbacks come on the thread that called the command", HOST;
        24 Application Never("a race in the application's allocator shows in what it answers, or not at all"), Violation, "callbacks may be called by several threads at once", HOST;
        25 Application Bracket, Violation, "a callback calls no Vulkan command", HOST;
        26 Driver Bracket, Violation, "a deferred operation draws on its own allocator and on that of the deferred command; where that was given none, on the next", "VK_KHR_deferred_host_operations";
        27 Permission Never("nothing is left to see it"), Note, "a callback may end the process", HOST;
        28 Driver Bracket, Violation, "scope command: freed by the command that took it; from object, device, instance", SCOPES;
        29 Driver Bracket, Violation, "scope cache: what belongs to a cache; from cache, device, instance", SCOPES;
        30 Driver Bracket, Violation, "scope object: from object, device, instance, the first that was given", FALL_BACK;
        31 Driver Bracket, Violation, "scope device: from device, instance, the first that was given", FALL_BACK;
        32 Driver Bracket, Violation, "scope instance: from the instance's", FALL_BACK;
        33 Permission Never("memory that is taken elsewhere passes no callback; callback coverage counts it"), Note, "where no allocator was given the implementation's own is used", FALL_BACK;
        34 Driver Bracket, Violation, "what is made from a pool draws on the pool's allocator", "Object Lifetime";
        35 Driver Callback, Violation, "a scope is one of the five", "VkSystemAllocationScope";
        36 Permission Bracket, Note, "any command may take memory of scope command, device and instance", SCOPES;
        37 Driver Bracket, Violation, "memory of scope cache is taken by commands that are given a cache", SCOPES;
        38 Driver Bracket, Violation, "a descriptor pool's allocator is asked by commands on that pool", SCOPES;
        39 Driver Bracket, Violation, "a command pool's allocator is asked by commands on that pool and its buffers", SCOPES;
        40 Driver Bracket, Violation, "memory of any other object is taken by the command that makes it", SCOPES;
        41 Driver Wrapper, Violation, "memory of an object is back when its vkDestroy* has returned", SCOPES;
        42 Application Wrapper, Violation, "an object is destroyed with an allocator compatible to that it was created with", "VUID-vkDestroy*-*-00*";
        43 Application Wrapper, Violation, "an object that was created without an allocator is destroyed without", "VUID-vkDestroy*-*-00*";
        44 Application Wrapper, Suspect, "each object is destroyed once, one by one, also where several were made at once", "Object Lifetime";
    };

    /// The rule of this number.
    #[must_use]
    pub const fn of(number: u8) -> Option<&'static Self> {
        let mut rules = Self::ALL;
        while let [rule, more @ ..] = rules {
            if rule.number == number {
                return Some(rule);
            }
            rules = more;
        }
        None
    }
}

impl RuleLevel {
    /// `violation`, `suspect` or `note`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Violation => "violation",
            Suspect => "suspect",
            Note => "note",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "V{}", self.number)
    }
}

impl fmt::Display for RuleLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Duty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Application => "application",
            Driver => "driver",
            Permission => "nobody",
        })
    }
}

impl fmt::Display for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Registration => f.write_str("the struct"),
            Callback => f.write_str("the callbacks alone"),
            Spoilt => f.write_str("the callbacks, where the struct is spoilt after the create"),
            Bracket => f.write_str("command brackets"),
            Wrapper => f.write_str("handles"),
            Never(reason) => write!(f, "cannot be seen: {reason}"),
        }
    }
}
