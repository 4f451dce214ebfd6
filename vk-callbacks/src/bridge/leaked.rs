//! A bridge that was dropped too early.

#![forbid(unsafe_code)]

use core::fmt;

use crate::live::Live;

/// A bridge that was dropped while Vulkan held blocks of it, or within a callback.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LeakedBridge<'b> {
    /// The name of its context.
    pub context: &'b str,
    /// The label of its context, if any.
    pub label: Option<&'b str>,
    /// The live memory of Vulkan, by scope. Empty if the bridge was dropped within a callback and nothing was live.
    pub live: Live,
}

/// A function that is called for a bridge that was dropped too early: once, on the dropping thread, with no lock held. The bridge's
/// callbacks still answer requests; after it returned, they answer new ones with NULL.
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
