//! What is said of a bridge that was dropped too early.

#![forbid(unsafe_code)]

use core::fmt;

use crate::live::Live;

/// A bridge that was dropped while Vulkan held blocks of it, or within a callback.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LeakedBridge<'b> {
    /// The name of its context.
    pub context: &'b str,
    /// The label of its context, where it has one.
    pub label: Option<&'b str>,
    /// What Vulkan still holds, by scope. Empty where the bridge was dropped within a callback, and nothing else was wrong.
    pub live: Live,
}

/// Hears of a bridge that was dropped too early. It is called once, on the thread that drops the bridge, with no lock held; the bridge's callbacks
/// answer requests still, and new ones with NULL once it returned.
pub type LeakListener = fn(&LeakedBridge<'_>);

impl fmt::Display for LeakedBridge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the bridge over \"{}", self.context)?;
        if let Some(label) = self.label {
            write!(f, " {label}")?;
        }
        if self.live.is_empty() {
            f.write_str("\" was dropped within a callback")
        } else {
            write!(f, "\" was dropped while Vulkan held {}", self.live)
        }
    }
}
