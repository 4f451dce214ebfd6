//! Traces that are refused: cut, malformed, compressed and damaged, not there.

use super::*;

/// One sentence on the error output, nothing on the other, and no JSON.
#[track_caller]
fn refused(bytes: &[u8], line: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, json) = (folder.path().join("bad.trace"), folder.path().join("report.json"));
    fs::write(&file, bytes).expect("a file");
    let done = Child::new(STEWARD).args([Path::new("replay"), &file, Path::new("--json"), &json]).run();
    done.assert_code(2);
    let expected = format!("steward: {}, line {line}: ", file.display());
    assert!(done.stderr.starts_with(&expected) && done.stderr.lines().count() == 1, "{expected}\n{done}");
    assert_eq!(done.stdout, "", "{done}");
    assert!(!json.exists(), "{done}");
}

#[test]
fn truncated_traces_name_the_line() {
    let text = text_of(TRACES[0].compressed);
    let starts: Vec<usize> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    for lines in [1usize, 2, 3, 26, 27, 28, 1000, starts.len() - 2] {
        // At a line's end the end marker is missing; within a line its own end is.
        refused(&text.as_bytes()[..starts[lines]], lines as u64 + 1);
        refused(&text.as_bytes()[..starts[lines] + 1], lines as u64 + 1);
    }
    refused(&text.as_bytes()[..5], 1);
}

#[test]
fn malformed_lines_are_named() {
    let good = "p,one\na,1,0,1,100,8,1\nf,1,0,1\n";
    let (done, _) = replay_text(trace(good));
    done.assert_code(0);
    for bad in [
        "q,1",
        "a,1,0,2,100,8",
        "a,1,0,2,-1,8,1",
        "a,1,0,2,100,8,1,9",
        "f,1,0,99999999999999999999",
        "a",
        "",
        " f,1,0,1",
    ] {
        refused(trace(&format!("{good}{bad}\np,two\n")).as_bytes(), 6);
    }
    refused(b"", 1);
    refused(b"\n", 1);
    refused(b"# steward host trace 3\nz,1\n", 1);
    refused(b"something else\n", 1);
    refused(trace(good).replace("z,5", "z,4").as_bytes(), 6);
    refused(format!("{}p,behind\n", trace(good)).as_bytes(), 7);
    let mut not_text = trace(good).into_bytes();
    let at = HEAD.len() + 3;
    not_text[at] = 0xff;
    refused(&not_text, 3);
}

#[test]
fn compressed_traces_are_read_and_a_cut_one_names_the_line() {
    let text = trace(&"p,one\na,1,0,1,100,8,1\nf,1,0,1\n".repeat(400));
    let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(text.as_bytes()).expect("a Vec takes all");
    let packed = packed.finish().expect("a Vec takes all");
    let (done, _) = replay_text(&packed);
    done.assert_code(0);
    // Two parts, one behind the other, are one text.
    let pack = |part: &str| {
        let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(part.as_bytes()).and_then(|()| packed.finish()).expect("a Vec takes all")
    };
    let parts = [pack(&text[..50]), pack(&text[50..])].concat();
    replay_text(&parts).0.assert_code(0);

    // How far a half can be read depends on the decompressor: the line is somewhere within.
    for bytes in [&packed[..packed.len() / 2], &TRACES[1].compressed[..TRACES[1].compressed.len() / 2]] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("half.gz");
        fs::write(&file, bytes).expect("a file");
        let done = steward(&["replay", file.to_str().expect("a plain path")]);
        done.assert_code(2);
        assert!(
            done.stderr.contains(", line ") && done.stderr.contains("cut off or damaged") && done.stdout.is_empty(),
            "{done}"
        );
        assert_eq!(done.stderr.lines().count(), 1, "{done}");
    }
    let mut damaged = packed;
    let middle = damaged.len() - 6;
    damaged[middle] ^= 0xff;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("damaged.gz");
    fs::write(&file, damaged).expect("a file");
    steward(&["replay", file.to_str().expect("a plain path")]).assert_code(2);
}

#[test]
fn a_missing_file_names_the_bundled_ones() {
    for name in ["no-such-trace", "."] {
        let done = steward(&["replay", name]);
        done.assert_code(2);
        assert!(done.stderr.starts_with(&format!("steward: {name} cannot be read (")), "{done}");
        for trace in TRACES {
            assert!(done.stderr.contains(trace.name), "{done}");
        }
    }
}
