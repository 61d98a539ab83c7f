//! Which structures have given members at given distances.

use hitm_binary::debug::{DebugInfo, TypeId};
use hitm_binary::image::Image;

use crate::program::{self, Program};

const SOURCE: &str = "
struct counter { long value; };
struct point { double x, y; };
struct quota { struct counter in_use; int flags; double limit; } quota;
struct pool { char name[40]; struct quota quota; struct pool *next; } pool;
struct first { int a; float b; double c; } first;
struct second { int a; float b; char d[24]; } second;
struct table { struct { int key; float weight; short tag; } cells[4]; } table;
struct counter counter; struct point point; int integer; float single; double twice; short little;
int main(void) { return 0; }
";

/// Types by the names of variables, then structures as `name+offset`.
#[track_caller]
fn check(program: &Program, members: &[(u64, &str)], wanted: &[&str]) {
    let image = Image::parse(&program.bytes).unwrap();
    let debug = DebugInfo::load(&image).unwrap();
    let members: Vec<(u64, TypeId)> = members
        .iter()
        .map(|(offset, variable)| {
            let at = image.symbol_named(variable).unwrap().svma;
            (*offset, debug.global_at(at).unwrap().ty.unwrap())
        })
        .collect();
    let found: Vec<String> = debug
        .aggregates_with(&members)
        .iter()
        .map(|a| format!("{}+{}", debug.type_name(a.ty), a.base_offset))
        .collect();
    assert_eq!(found, wanted);
}

#[test]
fn structures_are_found_by_their_members() {
    let program = program::c(&["-g"], SOURCE);
    check(&program, &[(0, "counter"), (16, "twice")], &["quota+0"]);
    // The order and the base of the offsets do not matter.
    check(&program, &[(116, "twice"), (100, "counter")], &["quota+16"]);
    // Two structures begin alike.
    check(
        &program,
        &[(0, "integer"), (4, "single")],
        &["first+0", "second+0"],
    );
    check(
        &program,
        &[(0, "integer"), (4, "single"), (8, "twice")],
        &["first+0"],
    );
    // Only the structure around a structure has both.
    check(&program, &[(0, "counter"), (24, "pool")], &[]);
    check(&program, &[(0, "quota"), (8, "integer")], &["pool+40"]);
    check(&program, &[(0, "counter"), (8, "counter")], &[]);
}
