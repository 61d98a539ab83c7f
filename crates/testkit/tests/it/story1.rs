//! The layouts of story 1 are what their names say, according to nm.

use hitm_testkit::{CompileError, HotLine, Story1, have_tool, skip, story1_truth};

fn truth(variant: &Story1) -> HotLine {
    match variant.build() {
        Ok(built) => story1_truth(&built.program).unwrap(),
        Err(CompileError::NoCompiler(compiler)) => panic!("no {compiler}"),
        Err(CompileError::Failed(message)) => panic!("{message}"),
    }
}

#[test]
fn the_four_of_the_story() {
    if !have_tool("g++") || !have_tool("nm") {
        skip!("no g++ or no nm");
    }
    let hot = |epoch, guard| HotLine { epoch, guard };
    assert_eq!(truth(&Story1::with_header_object()), hot(false, false));
    assert_eq!(truth(&Story1::without_header_object()), hot(true, true));
    assert_eq!(truth(&Story1::repaired()), hot(false, false));
    assert_eq!(truth(&Story1::failed_repair()), hot(false, true));
}

#[test]
fn the_fifteen_are_of_both_kinds() {
    if !have_tool("g++") || !have_tool("nm") {
        skip!("no g++ or no nm");
    }
    let variants = Story1::variants();
    assert_eq!(variants.len(), 15);
    let slow = variants.iter().filter(|v| truth(v).is_slow()).count();
    assert!((5..=10).contains(&slow), "{slow} of 15 are slow");
}
