//! Every setting, from every source, with good, bad and empty values.

use std::ffi::{CString, c_char, c_void};
use std::fs;
use std::ptr;

use alloc_core::TryVec;
use debug_guard::BackEnd;

use super::create_info::{LayerSetting, push_setting};
use super::entries::{Entries, push_file, push_variable};
use super::{ENVIRONMENT_PREFIX, FILE_PREFIX, SETTINGS, Settings, Target};
use crate::leaks::Frame;
use crate::record::own;

/// What a setting is set to, as text.
type Shown = fn(&Settings) -> String;

/// A setting with a value that is good, what it then shows, and a value that is bad, if there is one.
struct Case {
    name: &'static str,
    shown: Shown,
    good: &'static str,
    expected: &'static str,
    bad: Option<&'static str>,
}

const CASES: &[Case] = &[
    Case {
        name: "text",
        shown: |settings| file(settings.text.as_ref()),
        good: "a%%b",
        expected: "a%%b",
        bad: Some("a%q"),
    },
    Case { name: "json", shown: |settings| file(settings.json.as_ref()), good: "-", expected: "-", bad: Some("50%") },
    Case {
        name: "state",
        shown: |settings| {
            let state = settings.state.as_ref();
            state.map_or_else(String::new, |state| state.as_str().to_owned())
        },
        good: "a%p.state",
        expected: "a%p.state",
        bad: Some("%"),
    },
    Case {
        name: "memory_report",
        shown: |settings| settings.memory_report.to_string(),
        good: "true",
        expected: "true",
        bad: Some("yes"),
    },
    Case {
        name: "refusals",
        shown: |settings| {
            let refusals = settings.refusals.as_ref();
            refusals.map_or_else(String::new, |file| file.as_str().to_owned())
        },
        good: "a%p.refusals",
        expected: "a%p.refusals",
        bad: Some("%"),
    },
    Case {
        name: "record",
        shown: |settings| {
            let record = settings.record.as_ref();
            record.map_or_else(String::new, |file| file.as_str().to_owned())
        },
        good: "a%p.trace",
        expected: "a%p.trace",
        bad: Some("%"),
    },
    Case {
        name: "check",
        shown: |settings| settings.check.to_string(),
        good: "false",
        expected: "false",
        bad: Some("perhaps"),
    },
    Case {
        name: "brackets",
        shown: |settings| format!("{:?}", settings.brackets),
        good: "all",
        expected: "All",
        bad: Some("most"),
    },
    Case {
        name: "guard",
        shown: |settings| format!("{:?}", settings.guarding.guard),
        good: "strict",
        expected: "Some(Strict)",
        bad: Some("hard"),
    },
    Case {
        name: "back_end",
        shown: |settings| settings.guarding.back_end.map_or("", BackEnd::name).to_owned(),
        good: BackEnd::ALL[0].name(),
        expected: BackEnd::ALL[0].name(),
        bad: Some("uffb"),
    },
    Case {
        name: "fail",
        shown: |settings| settings.guarding.fail.is_some().to_string(),
        good: "nth=3",
        expected: "true",
        bad: Some("third"),
    },
    Case {
        name: "fail_application",
        shown: |settings| settings.fail_application.to_string(),
        good: "true",
        expected: "true",
        bad: Some("both"),
    },
    Case {
        name: "stacks",
        shown: |settings| settings.stacks.to_string(),
        good: "true",
        expected: "true",
        bad: Some("yes"),
    },
    Case {
        name: "frame",
        shown: |settings| (settings.frame == Frame::DEFAULT).to_string(),
        good: "present:3",
        expected: "false",
        bad: Some("draw"),
    },
    Case {
        name: "mark_signal",
        shown: |settings| format!("{:?}", settings.mark_signal),
        good: "USR1",
        expected: "Some(Usr1)",
        bad: Some("KILL"),
    },
    Case {
        name: "meter",
        shown: |settings| settings.meter.to_string(),
        good: "true",
        expected: "true",
        bad: Some("heap"),
    },
    Case {
        name: "signal",
        shown: |settings| format!("{:?}", settings.signal),
        good: "USR2",
        expected: "Some(Usr2)",
        bad: Some("TERM"),
    },
    Case {
        name: "match",
        shown: |settings| settings.passes_through.to_string(),
        good: "no such program",
        expected: "true",
        bad: None,
    },
    Case {
        name: "arguments",
        shown: |settings| settings.arguments.to_string(),
        good: "true",
        expected: "true",
        bad: Some("TRUE"),
    },
    Case {
        name: "interval",
        shown: |settings| settings.interval.to_string(),
        good: "7",
        expected: "7",
        bad: Some("-1"),
    },
];

fn file(target: Option<&Target>) -> String {
    match target {
        Some(Target::File(file)) => file.as_str().to_owned(),
        Some(Target::ErrorOutput) => "-".to_owned(),
        Some(Target::Nowhere) => "none".to_owned(),
        None => String::new(),
    }
}

type Source = fn(&mut Entries, &str, &str);

/// The three sources, the first of which holds.
const SOURCES: [(&str, Source); 3] = [
    ("create info", |entries, name, value| {
        put_in_create_info(entries, "VK_LAYER_STEWARD_memory", name, value);
    }),
    ("environment", |entries, name, value| {
        let name = name.to_uppercase();
        push_variable(entries, &format!("{ENVIRONMENT_PREFIX}{name}={value}")).expect("memory");
    }),
    ("file", |entries, name, value| {
        let file = format!("# x\nother.check = no\n  {FILE_PREFIX}{name} = {value} # y\n");
        push_file(entries, file.as_bytes()).expect("memory");
    }),
];

fn put_in_create_info(entries: &mut Entries, layer: &str, name: &str, value: &str) {
    let [layer, name, value] = [layer, name, value].map(|text| CString::new(text).expect("text"));
    let values = [value.as_ptr()];
    let setting = LayerSetting {
        layer_name: layer.as_ptr(),
        setting_name: name.as_ptr(),
        value_type: 7,
        value_count: 1,
        values: values.as_ptr().cast::<c_void>(),
    };
    // SAFETY: names and one string, which live until the call is over.
    unsafe { push_setting(entries, &setting) }.expect("memory");
}

fn settings_of(entries: &Entries) -> Settings {
    Settings::new(entries).expect("memory")
}

fn complaints(settings: &Settings) -> Vec<&str> {
    settings.complaints.iter().map(|line| line.as_str()).collect()
}

#[test]
fn ly39_ly41_every_setting_from_every_source() {
    let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
    for setting in SETTINGS {
        assert!(names.contains(&setting.name), "no case: {}", setting.name);
    }
    for case in CASES {
        let default = (case.shown)(&settings_of(&TryVec::new_in(own())));
        assert_ne!(default, case.expected, "{}: shows nothing", case.name);
        for (source, put) in SOURCES {
            let with = |value: &str| {
                let mut entries = TryVec::new_in(own());
                put(&mut entries, case.name, value);
                settings_of(&entries)
            };
            let good = with(case.good);
            assert_eq!((case.shown)(&good), case.expected, "{source} {}", case.name);
            assert_eq!(complaints(&good), [""; 0], "{source}");
            for empty in ["", " "] {
                let empty = with(empty);
                assert_eq!((case.shown)(&empty), default, "{source} {}", case.name);
                assert_eq!(complaints(&empty), [""; 0], "{source}");
            }
            if let Some(bad) = case.bad {
                let settings = with(bad);
                assert_eq!((case.shown)(&settings), default, "{source} {}", case.name);
                let [line] = complaints(&settings)[..] else {
                    panic!("{source} {}: one line", case.name);
                };
                let row = SETTINGS.iter().find(|row| row.name == case.name);
                let values = row.expect("a row").values;
                assert!(line.contains(bad) && line.contains(values), "{line}");
            }
        }
    }
}

#[test]
fn ly39_the_create_info_holds_before_the_environment_and_that_before_the_file() {
    for first in 0..SOURCES.len() {
        let mut entries = TryVec::new_in(own());
        for (at, (_, put)) in SOURCES.iter().enumerate().skip(first) {
            put(&mut entries, "interval", &at.to_string());
        }
        assert_eq!(settings_of(&entries).interval, first as u64);
    }
    // An empty value leaves the word to the next source.
    let mut entries = TryVec::new_in(own());
    SOURCES[0].1(&mut entries, "interval", "");
    SOURCES[2].1(&mut entries, "interval", "9");
    assert_eq!(settings_of(&entries).interval, 9);
}

#[test]
fn ly39_no_text_holds_before_the_text_of_a_later_source() {
    let mut entries = TryVec::new_in(own());
    for ((_, put), value) in SOURCES.iter().skip(1).zip(["none", "a"]) {
        put(&mut entries, "text", value);
    }
    // Nor does the error output take its place, though no source names JSON.
    assert_eq!(file(settings_of(&entries).text.as_ref()), "none");
}

#[test]
fn ly40_ly41_unknown_names_of_ours_are_a_line_and_others_are_none() {
    for ((_, put), shown) in
        SOURCES.iter().zip(["steward_memory.guardd", "VK_STEWARD_MEMORY_GUARDD", "steward_memory.guardd"])
    {
        let mut entries = TryVec::new_in(own());
        put(&mut entries, "guardd", "fence");
        let settings = settings_of(&entries);
        let [line] = complaints(&settings)[..] else {
            panic!("one line");
        };
        assert!(line.starts_with(shown) && line.contains(" check"), "{line}");
    }
    let mut others = TryVec::new_in(own());
    put_in_create_info(&mut others, "VK_LAYER_KHRONOS_validation", "check", "no");
    push_variable(&mut others, "VK_CHECK=no").expect("memory");
    push_variable(&mut others, "VK_VALIDATION_CHECK=no").expect("memory");
    let file = b"khronos_validation.check = no\ncheck = no\nmemory.x = 1\n\xff\xfe = 3\n";
    push_file(&mut others, file).expect("memory");
    assert_eq!(others.len(), 0);
    assert!(settings_of(&others).check);
}

#[test]
fn ly39_values_of_all_types_are_read() {
    let (bool32, int32, uint64, float) = (1_u32, -5_i32, 7_u64, 0.5_f64);
    let pointers: [(i32, *const c_void, &str); 4] = [
        (0, (&raw const bool32).cast(), "true"),
        (1, (&raw const int32).cast(), "-5"),
        (4, (&raw const uint64).cast(), "7"),
        (6, (&raw const float).cast(), "0.5"),
    ];
    for (value_type, values, expected) in pointers {
        let mut entries = TryVec::new_in(own());
        let setting = LayerSetting {
            layer_name: c"VK_LAYER_STEWARD_memory".as_ptr(),
            setting_name: c"x".as_ptr(),
            value_type,
            value_count: 1,
            values,
        };
        // SAFETY: one value of the type.
        unsafe { push_setting(&mut entries, &setting) }.expect("memory");
        assert_eq!(entries[0].value.as_str(), expected);
    }
}

#[test]
fn ly41_a_chained_setting_of_another_form_is_reported_and_not_taken() {
    let text = c"a";
    let strings = [text.as_ptr(), text.as_ptr()];
    let (no_string, not_text): ([*const c_char; 1], _) = ([ptr::null()], [c"\xff".as_ptr()]);
    let (one, two, half, numbers) = (1_u32, 2_u32, 0.5_f32, [1_u64, 2]);
    let at = |first: *const c_void| first;
    // The setting, the type, the number of values, where they are, and what is said of them.
    let cases = [
        (c"check", 99, 1, at((&raw const one).cast()), "the unknown type 99"),
        (c"check", -1, 1, at((&raw const one).cast()), "the unknown type -1"),
        (c"check", 99, 1, ptr::null(), "the unknown type 99"),
        (c"check", 0, 0, at((&raw const one).cast()), "valueCount is 0"),
        (c"check", 0, 1, ptr::null(), "pValues is NULL"),
        (c"check", 0, 0, ptr::null(), "valueCount is 0"),
        (c"check", 0, 1, at((&raw const two).cast()), "VkBool32 2"),
        (c"check", 3, 1, at((&raw const one).cast()), "the number 1"),
        (c"interval", 4, 2, at(numbers.as_ptr().cast()), "2 values"),
        (c"interval", 5, 1, at((&raw const half).cast()), "the number 0.5"),
        (c"interval", 0, 1, at((&raw const one).cast()), "VkBool32 true"),
        (c"text", 7, 2, at(strings.as_ptr().cast()), "2 values"),
        (c"text", 7, 1, at(no_string.as_ptr().cast()), "the string is NULL"),
        (c"text", 7, 1, at(not_text.as_ptr().cast()), "not UTF-8"),
        (c"text", 0, 1, at((&raw const one).cast()), "VkBool32 true"),
        (c"json", 1, 1, at((&raw const one).cast()), "the number 1"),
        (c"match", 3, 1, at((&raw const one).cast()), "the number 1"),
    ];
    for (name, value_type, value_count, values, expected) in cases {
        let mut entries = TryVec::new_in(own());
        let setting = LayerSetting {
            layer_name: c"VK_LAYER_STEWARD_memory".as_ptr(),
            setting_name: name.as_ptr(),
            value_type,
            value_count,
            values,
        };
        // SAFETY: so many values of the type, where it is one.
        unsafe { push_setting(&mut entries, &setting) }.expect("memory");
        let settings = settings_of(&entries);
        let [line] = complaints(&settings)[..] else {
            panic!("{name:?} {expected}: one line");
        };
        let row = SETTINGS.iter().find(|row| row.name.as_bytes() == name.to_bytes());
        let values = row.expect("a row").values;
        assert!(line.contains(expected) && line.contains(values), "{line}");
        for case in CASES {
            let default = settings_of(&TryVec::new_in(own()));
            assert_eq!((case.shown)(&settings), (case.shown)(&default), "{line}");
        }
    }
    // A setting without a name is none of the layer's.
    for name in [ptr::null(), c"\xff".as_ptr()] {
        let mut entries = TryVec::new_in(own());
        let setting = LayerSetting {
            layer_name: c"VK_LAYER_STEWARD_memory".as_ptr(),
            setting_name: name,
            value_type: 0,
            value_count: 1,
            values: (&raw const one).cast(),
        };
        // SAFETY: one value of the type.
        unsafe { push_setting(&mut entries, &setting) }.expect("memory");
        assert_eq!(complaints(&settings_of(&entries)).len(), 1);
    }
}

#[test]
fn a_process_with_more_rights_reads_no_setting() {
    let settings = Settings::of_privileged_process();
    assert!(settings.passes_through && !settings.check);
    assert!(settings.json.is_none() && settings.text.is_none());
}

#[test]
fn the_readme_lists_the_table() {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).expect("a file");
    for row in SETTINGS {
        let line = format!("| `{}` | {} | {} | {} |", row.name, row.values, row.default, row.about);
        assert!(readme.contains(&line), "README.md lacks this line:\n{line}");
    }
}
