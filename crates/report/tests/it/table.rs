//! What holds for every table, and the options.

use hitm_model::{ByteRange, LineSize, Report};
use hitm_report::{TableOptions, table};
use unicode_width::UnicodeWidthStr;

use crate::reports;

pub(crate) fn render(report: &Report, options: TableOptions<'_>) -> String {
    let mut out = Vec::new();
    table(report, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

pub(crate) fn at(width: u16) -> TableOptions<'static> {
    TableOptions {
        color: false,
        width,
        top: None,
        all: false,
        recording: Some("run.hitm"),
    }
}

/// The text without escape sequences.
fn stripped(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("\u{1b}[") {
        plain.push_str(&rest[..start]);
        rest = &rest[start..];
        rest = &rest[rest.find('m').unwrap() + 1..];
    }
    plain + rest
}

#[test]
fn colour_changes_no_text() {
    for (name, report) in reports::all() {
        for all in [false, true] {
            let plain = render(&report, TableOptions { all, ..at(90) });
            let colored = render(
                &report,
                TableOptions {
                    all,
                    color: true,
                    ..at(90)
                },
            );
            assert!(!plain.contains('\u{1b}'), "{name}");
            assert_ne!(plain, colored, "{name}");
            assert_eq!(plain, stripped(&colored), "{name}");
        }
    }
}

#[test]
fn lines_fit_where_names_do() {
    for (name, report) in reports::all() {
        for width in [80, 100, 120, 200] {
            for line in render(&report, at(width)).lines() {
                assert!(
                    line.width() <= usize::from(width),
                    "{name} at {width}: {line}"
                );
                assert_eq!(line, line.trim_end(), "{name} at {width}");
            }
        }
    }
}

#[test]
fn any_width_is_rendered_in_full() {
    for (name, report) in reports::all() {
        let words = |width| {
            let text = render(&report, at(width));
            let has = |word: &str| text.contains(word);
            report
                .findings
                .iter()
                .all(|finding| has(finding.verdict.word().split('-').next().unwrap()))
        };
        for width in [0, 1, 20, 40, 61, 1000, u16::MAX] {
            assert!(words(width), "{name} at {width}");
        }
    }
}

#[test]
fn any_line_size_is_drawn_without_a_literal() {
    for bytes in [16, 32, 128, 256, 4096] {
        let mut report = reports::array();
        report.line_size = LineSize::new(bytes).unwrap();
        let text = render(&report, at(80));
        let cells = text.lines().skip_while(|line| !line.starts_with("   0x"));
        let cells = cells.take_while(|line| !line.contains("a cell"));
        let drawn: String = cells
            .flat_map(|line| {
                line.split_whitespace()
                    .filter(|word| word.chars().count() == 1)
            })
            .collect();
        assert_eq!(drawn.chars().count(), bytes as usize / 8, "{text}");
        assert!(drawn.starts_with("AB"), "{text}");
    }
}

#[test]
fn top_and_all_decide_how_much_is_shown() {
    let report = reports::several();
    let full = render(&report, at(80));
    assert!(full.contains("4. lock and data") && !full.contains("not shown"));
    let top = render(
        &report,
        TableOptions {
            top: Some(2),
            ..at(80)
        },
    );
    assert!(top.contains("2. mixed sharing") && !top.contains("3. true sharing"));
    assert!(top.contains("2 findings not shown: hitm report --all run.hitm"));
    let all = render(
        &report,
        TableOptions {
            top: Some(2),
            all: true,
            ..at(80)
        },
    );
    assert!(all.contains("4. lock and data") && !all.contains("not shown"));

    let unnamed = TableOptions {
        top: Some(2),
        recording: None,
        ..at(80)
    };
    let top = render(&report, unnamed);
    assert!(top.contains("2 findings not shown\n"), "{top}");

    let report = reports::many_participants();
    let all = render(
        &report,
        TableOptions {
            all: true,
            ..at(80)
        },
    );
    assert!(all.contains("cnt[63]") && !all.contains("… 56"), "{all}");
}

#[test]
fn more_participants_than_letters_are_listed_by_a_sign() {
    let mut report = reports::many_participants();
    for participant in report.findings[0].participants.iter_mut().skip(40) {
        participant.sites[0].samples += 1;
        participant.sites[0].frames.clear();
    }
    let all = render(
        &report,
        TableOptions {
            all: true,
            ..at(80)
        },
    );
    assert!(
        all.contains("   Z  cnt (tid 125)") && all.contains("   +  cnt (tid 126)"),
        "{all}"
    );
    assert!(all.contains("these 40: count, cnt.c:9"), "{all}");
    assert!(all.contains("these 24: prog+0x1193"), "{all}");
}

#[test]
fn indexes_and_offsets_that_lead_nowhere_are_no_panic() {
    let mut report = reports::heap();
    let finding = &mut report.findings[0];
    finding.participants[0].range = ByteRange {
        start: 60,
        end: 200,
    };
    finding.participants[1].range = ByteRange { start: 9, end: 3 };
    finding.participants[1].line = 77;
    finding.participants[1].object = Some(99);
    finding.participants[2].thread_samples = 0;
    finding.participants[2].threads.tids.clear();
    finding.severity.worst_thread = f64::NAN;
    finding.severity.thread_samples = 0;
    for all in [false, true] {
        let text = render(&report, TableOptions { all, ..at(80) });
        assert!(
            text.contains("at most 0 % of the participants' time"),
            "{text}"
        );
    }
    report.findings[0].lines.clear();
    report.findings[0].participants.clear();
    report.findings[0].evidence.clear();
    assert!(render(&report, at(80)).contains("confidence  high\n"));
}

#[test]
fn several_findings_begin_with_one_line_each() {
    let text = render(&reports::several(), at(80));
    let head: Vec<_> = text.lines().skip(3).take(4).collect();
    insta::assert_snapshot!(head.join("\n"), @r#"
    1  false sharing     COUNTS  at most 97 %
    2  mixed sharing     server  at most 33 % (50 % of one thread's)
    3  true sharing      hits    at most 88 %
    4  lock and data     queue   at most 30 %
    "#);
}

#[test]
fn a_sink_that_fails_is_an_error() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let error = table(&reports::empty(), &at(80), &mut Full).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}
