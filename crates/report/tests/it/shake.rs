//! Many layouts as a table and as JSON: from a simulated machine, so that all numbers are known.

use std::sync::LazyLock;

use hitm_experiment::shake::{
    Arm, Change, Explained, Explanation, Moved, Plan, Program, Runner, SectionMoved, Shaken,
    Variant, judge, measure,
};
use hitm_experiment::{Better, Floor, Health, LogRatio, Metric, Seconds, Trial};
use hitm_report::{PageOptions, shake_json, shake_json_schema, shake_table};
use serde_json::Value;

/// Runs that take 200 in the base and in the first variant, and 100 in the second; the third fails.
struct Machine {
    failing: bool,
}

impl Runner for Machine {
    type Failure = String;

    fn run(&mut self, arm: Arm) -> Result<Trial, String> {
        let value = match arm {
            Arm::Variant(2) if self.failing => {
                return Err("ended with exit code 1; it wrote: no luck".into());
            }
            Arm::Variant(1) => 100.0,
            _ => 200.0,
        };
        let health = Health {
            wall: Seconds(1.0),
            cpu: Seconds(2.0),
            processors: 2,
            ..Health::default()
        };
        Ok(Trial { value, health })
    }

    fn is_stopped(&self) -> bool {
        false
    }

    fn spent(&self) -> Seconds {
        Seconds(0.0)
    }
}

fn section(name: &str, bytes: u32, agree: usize) -> SectionMoved {
    SectionMoved {
        section: name.into(),
        variables: 5,
        bytes,
        agree,
        moved: if bytes == 0 { 0 } else { agree },
    }
}

fn shaken(failing: bool) -> Shaken {
    let variant = |change, built, number| Variant {
        change,
        built,
        number,
    };
    let plan = Plan {
        rounds: 12,
        variants: 3,
        warm_up: 0,
        most_repeats: 0,
        count_disturbed: false,
        budget: None,
        seed: 1,
    };
    let rounds = measure(plan, &mut Machine { failing }, &mut ());
    let floor = Floor::AtLeast(LogRatio::from_percent(1.0));
    let judgement = judge(&rounds, Better::Lower, floor);
    let pair = |a: &str, b: &str| Explained {
        a: a.into(),
        b: b.into(),
        line: 0x4080,
        a_offset: 16,
        b_offset: 40,
    };
    let shift = |bytes| Change::Shift { bytes };
    let moved = |sections: &[SectionMoved]| Ok(Moved::Sections(sections.to_vec()));
    Shaken {
        build: "make".into(),
        run: vec!["./prog".into(), "--threads".into(), "2".into()],
        program: Program {
            path: "prog".into(),
            relinked: true,
            linker: "ld".into(),
        },
        metric: Metric::parse("cost: ([0-9]+)").unwrap(),
        better: Better::Lower,
        machine: "a machine, 2 processors".into(),
        line_size: 64,
        seed: 1,
        variants: vec![
            variant(
                shift(8),
                moved(&[section(".bss", 8, 5), section(".data", 0, 5)]),
                Some(0),
            ),
            variant(shift(16), moved(&[section(".bss", 32, 4)]), Some(1)),
            variant(
                shift(24),
                Ok(Moved::Nowhere {
                    same_as: Some("shift-16".into()),
                }),
                None,
            ),
            variant(shift(32), Err("the link failed (exit code 1)".into()), None),
            variant(
                Change::Environment {
                    number: 1,
                    bytes: 77,
                },
                Ok(Moved::SameFile),
                Some(2),
            ),
        ],
        rounds: Some(rounds),
        judgement: Some(judgement),
        explanation: Some(Explanation {
            fast: "shift-16".into(),
            slow: "base".into(),
            always: vec![pair("cursor", "epoch")],
            sometimes: vec![pair("names", "epoch")],
            builds: 3,
            bytes: 64,
        }),
        caveats: vec!["1 of 5 layouts is missing".into()],
        kept: Some("/somewhere/else".into()),
    }
}

fn table(shaken: &Shaken, width: u16) -> String {
    let mut out = Vec::new();
    let options = PageOptions {
        color: false,
        width,
    };
    shake_table(shaken, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn document(shaken: &Shaken) -> Value {
    let mut out = Vec::new();
    shake_json(shaken, &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn a_cliff_as_a_table() {
    insta::assert_snapshot!(table(&shaken(true), 100), @r"
    The layout matters: from the best to the worst 100.0 % [100.0 %, 100.0 %], the base differs from
    itself by 0.0 % [+0.0 %, +0.0 %]
    cost: ([0-9]+), lower is better, of prog from `make`, linked again by ld for each layout, on a
    machine, 2 processors

    layout      variables moved              median  to the base  95 % of all at once  p
    base        –                            200     –            –                    –
    base again  –                            200     +0.0 %       [+0.0 %, +0.0 %]     1.0000
    shift-8     .bss 5 of 5, .data 0 of 5    200     +0.0 %       [+0.0 %, +0.0 %]     1.0000
    shift-16    .bss by 32: 4 of 5           100     -50.0 %      [-50.0 %, -50.0 %]   0.0010
    shift-24    as in shift-16               –       –            –                    –
    shift-32    not built                    –       –            –                    –
    env-1       environment 77 bytes larger  –       –            –                    –

    ! shift-32: not built: the link failed (exit code 1)
    ! env-1: failed: ended with exit code 1; it wrote: no luck

    The cliff
       fast:    shift-16
       slow:    base, shift-8

    On one line in every slow build, and in no fast one (of 3 builds)
         cursor +16 and epoch +40

       Give one of them a line of its own (alignas, #[repr(align)], CachePadded), or put it beside what
       the same thread uses. Which threads meet there: `hitm run -- COMMAND` with a slow build (`--keep`
       leaves them).

    ! 1 of 5 layouts is missing

    The builds are in /somewhere/else
    ");
}

static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let schema = serde_json::from_str(&shake_json_schema()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
});

#[test]
fn documents_are_valid_and_say_what_was_measured() {
    let full = document(&shaken(true));
    assert!(SCHEMA.is_valid(&full), "{full:#}");
    assert_eq!(full["verdict"], "matters");
    assert_eq!(full["fast"], serde_json::json!(["shift-16"]));
    assert_eq!(full["slow"], serde_json::json!(["base", "shift-8"]));
    assert_eq!(full["explanation"]["always"][0]["line"], "0x4080");
    assert_eq!(
        full["variants"][3]["failure"],
        "not built: the link failed (exit code 1)"
    );
    let failure = full["variants"][4]["failure"].as_str().unwrap();
    assert!(
        failure.starts_with("failed: ended with exit code 1"),
        "{failure}"
    );
    // Twelve rounds of the base twice and of two variants.
    assert_eq!(full["trials"].as_array().unwrap().len(), 12 * 4);

    let mut empty = shaken(false);
    (empty.rounds, empty.judgement, empty.explanation, empty.kept) = (None, None, None, None);
    let empty = document(&empty);
    assert!(SCHEMA.is_valid(&empty), "{empty:#}");
    assert_eq!(empty["verdict"], "not-measured");

    let mut other = full.clone();
    other["verdict"] = "maybe".into();
    assert!(!SCHEMA.is_valid(&other));
}

/// What failed might have said otherwise, and so might what could not be moved.
#[test]
fn layouts_that_are_missing_take_back_that_it_does_not_matter() {
    let verdict = |shaken: &mut Shaken| {
        let calm = |arm: &mut Vec<Trial>| arm.iter_mut().for_each(|trial| trial.value = 200.0);
        let rounds = shaken.rounds.as_mut().unwrap();
        rounds.rounds.iter_mut().flatten().for_each(calm);
        let floor = Floor::AtLeast(LogRatio::from_percent(1.0));
        shaken.judgement = Some(judge(shaken.rounds.as_ref().unwrap(), Better::Lower, floor));
        shaken.settle();
        document(shaken)["verdict"].as_str().unwrap().to_owned()
    };
    let mut all_there = shaken(false);
    all_there.variants.remove(3);
    assert_eq!(verdict(&mut all_there), "does-not-matter");
    assert_eq!(verdict(&mut shaken(false)), "undecided");
    let mut failed = shaken(true);
    failed.variants.remove(3);
    assert_eq!(verdict(&mut failed), "undecided");
    let mut only_environment = shaken(false);
    only_environment.variants.remove(3);
    for variant in &mut only_environment.variants[..3] {
        variant.built = Ok(Moved::Nowhere { same_as: None });
        variant.number = None;
    }
    assert_eq!(verdict(&mut only_environment), "undecided");
}
