//! An ELF file of any bytes is checked: all its code is read, its objects and types are judged by a policy, and the report
//! is written in every format, without a panic.

use std::num::NonZeroUsize;

use hitm_analysis::check::{CheckOptions, Policy, check};
use hitm_binary::image::Image;
use hitm_binary::program::{Program, Target};
use hitm_model::{Confidence, LineSize};
use hitm_report::{
    CheckFailOn, CheckTableOptions, SourceTree, cannot_check, check_gate, check_json, check_table,
    github, sarif,
};

const POLICY: &str = "
[[isolate]]
symbol = 'requests'
[[apart]]
symbols = ['requests', 'replies']
[[together]]
symbols = ['replies', 'guard of replies']
[[type]]
name = 'Ring'
max_size = 8
separate = ['head', 'tail']
[[allow]]
symbols = ['requests']
reason = 'a reason'
";

/// One input.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(image) = Image::parse_any_machine(bytes) else {
        return;
    };
    let program = Program::read(&image, NonZeroUsize::MIN);
    keeps_its_promises(&program);
    let policy = Policy::parse("hitm.toml", POLICY).expect("it is a policy");
    let options = CheckOptions {
        line: LineSize::ASSUMED,
        threads: NonZeroUsize::MIN,
        policy: Some(&policy),
    };
    let reports = [check(&image, "./program", &options)];
    let tree = SourceTree {
        root: "/project".to_owned(),
        typed_in: "/project".to_owned(),
    };
    let low = Confidence::Low;
    let mut out = Vec::new();
    let written = [
        check_json(&reports, low, &mut out),
        sarif(&reports, low, &tree, &mut out),
        github(&reports, low, &tree, &mut out),
        check_table(
            &reports[0],
            &CheckTableOptions {
                color: true,
                width: 80,
                least: low,
                explain: true,
            },
            &mut out,
        ),
    ];
    assert!(
        written.iter().all(Result::is_ok),
        "a vector takes everything"
    );
    let fail_on = CheckFailOn::Confidence(low);
    let _ = (
        check_gate(&reports, fail_on),
        cannot_check(&reports, fail_on),
    );
}

fn keeps_its_promises(program: &Program) {
    let functions = program.functions();
    for pair in functions.windows(2) {
        assert!(
            pair[0].range.end <= pair[1].range.start,
            "each byte is in one function"
        );
    }
    for function in functions {
        for access in &function.accesses {
            assert!(function.range.contains(access.instruction));
        }
        for call in &function.calls {
            match call.target {
                Target::Function(start) => assert!(program.function_at(start).is_some()),
                Target::Import(number) => assert!(program.import(number).is_some()),
            }
        }
    }
    for touch in program.touches() {
        let roots = program.roots().len();
        assert!(touch.root.is_none_or(|root| usize::from(root) < roots));
    }
}
