#![forbid(unsafe_code)]

use std::cmp::Reverse;

use super::label::unit;
use vk_report::report::{CourseRow, Courses, Report};

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 60.0;
/// Those with the highest peaks are shown.
const SHOWN: usize = 12;

pub(super) struct SmallCourse {
    pub(super) name: String,
    pub(super) peak_bytes: u64,
    /// A closed polygon.
    pub(super) points: String,
}

pub(super) fn courses(report: &Report) -> Vec<SmallCourse> {
    let Some(program) = &report.program else {
        return Vec::new();
    };
    let mut rows: Vec<_> = program.courses.rows.iter().collect();
    rows.sort_by_key(|row| (!row.name.starts_with("heap"), Reverse(row.peak_bytes())));
    rows.truncate(SHOWN);
    let drawn = |row: &&CourseRow| SmallCourse {
        name: row.name.clone(),
        peak_bytes: row.peak_bytes(),
        points: points(&program.courses, row),
    };
    rows.iter().map(drawn).collect()
}

fn points(courses: &Courses, row: &CourseRow) -> String {
    let (first, last) = (courses.at.first(), courses.at.last());
    let begin = first.copied().unwrap_or_default();
    let length = last.map_or(0, |last| last.saturating_sub(begin)).max(1) as f64;
    let highest = row.peak_bytes().max(1) as f64;
    let mut points = format!("0,{}", unit(HEIGHT));
    let mut x = 0.0;
    for (at, live) in courses.at.iter().zip(&row.live_bytes) {
        x = (at.saturating_sub(begin) as f64 / length).min(1.0) * WIDTH;
        let y = (1.0 - *live as f64 / highest) * HEIGHT;
        points += &format!(" {},{}", unit(x), unit(y));
    }
    points + &format!(" {},{}", unit(x), unit(HEIGHT))
}
