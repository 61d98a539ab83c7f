//! Every fixture has the layout that its directives claim, according to its own addresses and to nm.

use std::process::Command;
use std::time::Duration;

use hitm_model::Verdict;
use hitm_testkit::{
    AccessWanted, CompileError, Fixture, Layout, Truth, Variant, Who, fixtures, parse_truth,
    run_limited, skip, skipped, symbol_address,
};

/// The addresses that a build prints, or `None` where its compiler is missing.
fn truths(fixture: &Fixture, layout: Layout, variant: Option<&Variant>) -> Option<Vec<Truth>> {
    let built = match fixture.build(layout, variant) {
        Ok(built) => built,
        Err(CompileError::NoCompiler(compiler)) => {
            skipped(&format!("no {compiler} for {}", fixture.name));
            return None;
        }
        Err(CompileError::Failed(message)) => panic!("{message}"),
    };
    let mut command = Command::new(built.program);
    command.arg("--addrs").env("DUEL_MS", "1");
    let outcome = run_limited(&mut command, Duration::from_secs(30)).unwrap();
    assert!(
        outcome.status.success() && !outcome.timed_out,
        "{}: {outcome:?}",
        fixture.name
    );
    Some(parse_truth(&outcome.stderr).unwrap())
}

/// Whether two different threads, one of them writing, touch disjoint bytes of a line of 64 bytes.
fn share_a_line(truths: &[Truth]) -> bool {
    let lines = |t: &Truth| t.at / 64..=(t.at + t.size - 1) / 64;
    truths.iter().enumerate().any(|(i, a)| {
        truths[i + 1..].iter().any(|b| {
            (a.who != b.who || a.who == Who::All)
                && (a.access == AccessWanted::Writes || b.access == AccessWanted::Writes)
                && (a.at + a.size <= b.at || b.at + b.size <= a.at)
                && lines(a).start() <= lines(b).end()
                && lines(b).start() <= lines(a).end()
        })
    })
}

#[test]
fn layouts_are_as_the_directives_say() {
    for fixture in fixtures() {
        for (layout, expected) in &fixture.layouts {
            let Some(truths) = truths(&fixture, *layout, None) else {
                continue;
            };
            let title = format!("{} {layout:?}: {truths:?}", fixture.name);
            if expected.verdict.is_some() {
                assert_eq!(truths.len(), expected.parties.len(), "{title}");
                for (truth, party) in truths.iter().zip(&expected.parties) {
                    assert_eq!(
                        (truth.who, truth.access),
                        (party.who, party.access),
                        "{title}"
                    );
                }
            }
            match expected.verdict {
                Some(Verdict::FalseSharing | Verdict::Mixed | Verdict::LockAndData) => {
                    assert!(share_a_line(&truths), "{title}");
                }
                _ => assert!(!share_a_line(&truths), "{title}"),
            }
        }
    }
}

#[test]
fn variants_have_the_faulty_layout_too() {
    for fixture in fixtures() {
        for variant in &fixture.variants {
            let Some(truths) = truths(&fixture, Layout::Faulty, Some(variant)) else {
                continue;
            };
            assert!(
                share_a_line(&truths),
                "{} {}: {truths:?}",
                fixture.name,
                variant.name
            );
        }
    }
}

#[test]
fn a_program_at_a_fixed_place_prints_the_addresses_that_nm_lists() {
    let fixture = hitm_testkit::fixture("adjacent_globals");
    let variant = &fixture.variants[0];
    if !hitm_testkit::have_tool("nm") {
        skip!("no nm");
    }
    let Some(truths) = truths(&fixture, Layout::Faulty, Some(variant)) else {
        return;
    };
    let program = fixture
        .build(Layout::Faulty, Some(variant))
        .unwrap()
        .program;
    for truth in truths {
        assert_eq!(symbol_address(&program, &truth.name), Ok(truth.at));
    }
}
