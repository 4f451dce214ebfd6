//! Growth is counted between marks. Each frame is a mark, until a mark is requested.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use vk_report::state_file::MARK_REQUEST;

use crate::request::MARK;
use crate::state;
use crate::turn::Turn;

/// Frames before the first mark: a program creates what it keeps during its first frames.
const WARM_UP_FRAMES: u64 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// `None`: `vkQueuePresentKHR`, and `vkQueueSubmit` until that is called.
    pub(crate) command: Option<MarkKind>,
    /// 0: only requested marks.
    pub(crate) every: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum MarkKind {
    None,
    Submit,
    Present,
    Request,
}

pub(super) struct Marks {
    frame: Frame,
    kind: AtomicU8,
    frames: AtomicU64,
    marks: AtomicU64,
    is_marking: AtomicBool,
}

impl Frame {
    pub(crate) const DEFAULT: Self = Self { command: None, every: 1 };

    /// Parses `auto`, `present` or `submit`, with `:N` behind it for every N-th frame, or `none`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, every) = text.split_once(':').unwrap_or((text, "1"));
        let every = every.parse().ok().filter(|every| *every != 0)?;
        let command = match name {
            "auto" => None,
            "present" => Some(MarkKind::Present),
            "submit" => Some(MarkKind::Submit),
            "none" => {
                return Some(Self { command: None, every: 0 });
            }
            _ => return None,
        };
        Some(Self { command, every })
    }
}

impl MarkKind {
    pub(super) const fn warm_up(self) -> u64 {
        match self {
            Self::Submit | Self::Present => WARM_UP_FRAMES,
            Self::None | Self::Request => 0,
        }
    }

    const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Submit,
            2 => Self::Present,
            3 => Self::Request,
            _ => Self::None,
        }
    }
}

impl Marks {
    pub(super) const fn new(frame: Frame) -> Self {
        Self {
            frame,
            kind: AtomicU8::new(0),
            frames: AtomicU64::new(0),
            marks: AtomicU64::new(0),
            is_marking: AtomicBool::new(false),
        }
    }

    pub(super) fn kind(&self) -> MarkKind {
        MarkKind::from_number(self.kind.load(Ordering::Relaxed))
    }

    pub(super) fn count(&self) -> u64 {
        self.marks.load(Ordering::Relaxed)
    }

    pub(super) fn frames_a_mark(&self) -> u64 {
        match self.kind() {
            MarkKind::Submit | MarkKind::Present => self.frame.every,
            MarkKind::None | MarkKind::Request => 1,
        }
    }

    pub(super) fn ends_frame(&self, command: MarkKind) -> bool {
        let is_asked_for = self.frame.command.is_none_or(|only| only == command);
        if self.frame.every == 0 || !is_asked_for {
            return false;
        }
        self.becomes(command) && (self.frames.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(self.frame.every)
    }

    pub(super) fn is_requested(&self) -> bool {
        (MARK.is_due() || state::is_due(MARK_REQUEST)) && self.becomes(MarkKind::Request)
    }

    fn becomes(&self, kind: MarkKind) -> bool {
        let before = self.kind.fetch_max(kind as u8, Ordering::Relaxed);
        if before < kind as u8 {
            self.marks.store(0, Ordering::Relaxed);
        }
        before <= kind as u8
    }

    /// Does nothing while another thread is marking. `mark` gets true where growth is counted from this mark.
    pub(super) fn mark_once(&self, mark: impl FnOnce(bool)) {
        let Some(_turn) = Turn::begin(&self.is_marking) else {
            return;
        };
        let number = self.marks.fetch_add(1, Ordering::Relaxed);
        let warm_up = self.kind().warm_up();
        if number >= warm_up {
            mark(number == warm_up);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, MarkKind, Marks, WARM_UP_FRAMES};

    #[test]
    fn a_frame_is_a_command_and_a_number() {
        assert_eq!(Frame::parse("auto"), Some(Frame::DEFAULT));
        let third = Frame { command: Some(MarkKind::Present), every: 3 };
        assert_eq!(Frame::parse("present:3"), Some(third));
        for bad in ["", "draw", "submit:0", "submit:", "present:-1"] {
            assert_eq!(Frame::parse(bad), None, "{bad}");
        }
        assert_eq!(Frame::parse("none").map(|none| none.every), Some(0));
    }

    fn run(marks: &Marks, commands: &[MarkKind]) -> (u64, u64) {
        let (mut counted, mut firsts) = (0, 0);
        for command in commands {
            if marks.ends_frame(*command) {
                marks.mark_once(|is_first| {
                    counted += 1;
                    firsts += u64::from(is_first);
                });
            }
        }
        (counted, firsts)
    }

    #[test]
    fn submits_are_frames_until_something_is_presented() {
        use MarkKind::{Present, Submit};
        let marks = Marks::new(Frame::DEFAULT);
        assert_eq!(run(&marks, &[Submit; 12]), (12 - WARM_UP_FRAMES, 1));
        assert_eq!((marks.kind(), marks.count()), (Submit, 12));
        assert_eq!(run(&marks, &[Present, Submit]), (0, 0));
        assert_eq!((marks.kind(), marks.count()), (Present, 1));
        assert_eq!(run(&marks, &[Submit; 50]), (0, 0));
        let third = Frame::parse("submit:3").expect("a frame");
        let marks = Marks::new(third);
        assert_eq!(run(&marks, &[Submit; 36]), (12 - WARM_UP_FRAMES, 1));
        assert_eq!(run(&marks, &[Present; 36]), (0, 0));
    }
}
