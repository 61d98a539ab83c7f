//! Layouts and differences as tables and as JSON, and that the schemas are in step.

use std::path::PathBuf;

use hitm_model::{
    ArrayView, BuildDiff, ByteRange, Caveat, CodeDiff, DataObject, FunctionChange, LayoutReport,
    LineMap, LineSize, MapLine, MapPart, MapSection, MemberMove, MovedObject, NewNeighbour,
    PairChange, RowRole, Shift, ShiftCause, SourceLine, Svma, SymbolChange, TypeChange,
    TypePlacement, TypeRow, TypeView, TypesDiff, VariantView,
};
use hitm_report::{
    DIFF_JSON_VERSION, DiffTableOptions, LAYOUT_JSON_VERSION, LayoutTableOptions,
    comparison_json_schema, diff_json, diff_json_schema, diff_table, history_json_schema,
    layout_json, layout_json_schema, layout_table, type_summary,
};
use serde_json::Value;

fn object(name: &str, address: u64, size: u64) -> DataObject {
    DataObject {
        name: name.into(),
        linker_name: name.into(),
        address: Svma(address),
        size,
        section: ".bss".into(),
        align: Some(4),
        type_name: Some("unsigned int".into()),
        declared: Some(SourceLine {
            file: "src/slab.h".into(),
            line: 12,
        }),
        guard_of: None,
    }
}

fn row(offset: u64, size: u64, name: &str, role: RowRole) -> TypeRow {
    TypeRow {
        offset,
        size: Some(size),
        bits: None,
        name: (role == RowRole::Field).then(|| name.into()),
        type_name: if role == RowRole::Padding {
            String::new()
        } else {
            "long".into()
        },
        role,
    }
}

fn ring() -> TypeView {
    TypeView {
        name: "ring::Queue".into(),
        kind: "struct",
        size: 72,
        align: 8,
        align_stated: false,
        declared: None,
        rows: vec![
            row(0, 8, "head", RowRole::Field),
            row(8, 4, "flag", RowRole::Field),
            row(12, 4, "", RowRole::Padding),
            row(16, 40, "items", RowRole::Field),
            row(56, 16, "tail", RowRole::Field),
        ],
        variants: vec![VariantView {
            name: "Some".into(),
            value: Some(-1),
            rows: vec![row(8, 8, "0", RowRole::Field)],
        }],
        padding: 4,
        holes: 1,
        tail_padding: 0,
        placements: vec![
            TypePlacement {
                line_size: LineSize::ASSUMED,
                base: 0,
                worst: false,
                lines: 2,
                borders: vec![64],
            },
            TypePlacement {
                line_size: LineSize::ASSUMED,
                base: 8,
                worst: true,
                lines: 3,
                borders: vec![56],
            },
        ],
        arrays: vec![ArrayView {
            line_size: LineSize::ASSUMED,
            period: 8,
            period_lines: 9,
            on_lines: vec![(0, 0), (0, 1), (1, 2)],
            straddling: 7,
            shared: true,
            shared_at_worst: true,
        }],
        focus: Some(("tail".into(), 56, Some(16))),
    }
}

fn layout() -> LayoutReport {
    LayoutReport {
        binary: "prog".into(),
        machine: "x86-64".into(),
        line_size: LineSize::ASSUMED,
        maps: vec![LineMap {
            line_size: LineSize::ASSUMED,
            focus: None,
            sections: vec![MapSection {
                name: ".bss".into(),
                address: Svma(0x4080),
                size: 8392,
                align: 64,
                writable: true,
                objects: 2,
                shared_lines: 1,
            }],
            lines: vec![MapLine {
                address: Svma(0x4100),
                parts: vec![
                    MapPart {
                        object: object("epoch", 0x4110, 8),
                        bytes: ByteRange { start: 16, end: 24 },
                    },
                    MapPart {
                        object: object("cursor", 0x4120, 4),
                        bytes: ByteRange { start: 32, end: 36 },
                    },
                ],
            }],
        }],
        types: vec![ring()],
        caveats: vec![Caveat::SplitDebugInfo {
            binary: "prog".into(),
        }],
    }
}

fn moved(name: &str, old: u64, new: u64) -> MovedObject {
    MovedObject {
        name: name.into(),
        section: ".bss".into(),
        size: 8,
        old: Svma(old),
        new: Svma(new),
    }
}

fn build_diff() -> BuildDiff {
    BuildDiff {
        old: "old".into(),
        new: "new".into(),
        line_size: LineSize::ASSUMED,
        objects: 9,
        joined: vec![PairChange {
            line: Svma(0x4100),
            a: moved("epoch", 0x4130, 0x4110),
            b: moved("cursor", 0x4140, 0x4120),
        }],
        parted: Vec::new(),
        new_neighbours: vec![NewNeighbour {
            line: Svma(0x4100),
            appeared: "fresh".into(),
            beside: moved("cursor", 0x4140, 0x4120),
        }],
        shifts: vec![Shift {
            section: ".bss".into(),
            first: "epoch".into(),
            last: "cursor".into(),
            objects: 3,
            bytes: -32,
            whole_lines: false,
            causes: vec![
                ShiftCause::Vanished {
                    name: "std::__ioinit".into(),
                    size: 8,
                },
                ShiftCause::Aligned { bytes: 32 },
            ],
        }],
        variables: vec![SymbolChange {
            name: "std::__ioinit".into(),
            section: ".bss".into(),
            old_size: Some(8),
            new_size: None,
        }],
        code: Some(CodeDiff {
            identical: 3,
            but_for_addresses: 11,
            same_instructions: 2680,
            largest_same: Some(("Spawner::run".into(), 728)),
            changed: vec![FunctionChange {
                name: "main".into(),
                old_instructions: 10,
                new_instructions: 12,
                first: Some((Svma(0x1010), Svma(0x1020))),
                why: "another number".into(),
            }],
            other_constants: vec![FunctionChange {
                name: "usage".into(),
                old_instructions: 7,
                new_instructions: 7,
                first: Some((Svma(0x1110), Svma(0x1120))),
                why: "the constant that it points to has other bytes".into(),
            }],
            appeared: Vec::new(),
            vanished: Vec::new(),
        }),
        types: Some(TypesDiff {
            both: 40,
            changed: vec![TypeChange {
                name: "stats".into(),
                old_size: 24,
                new_size: 88,
                moved: vec![MemberMove {
                    name: "hits".into(),
                    old: 8,
                    new: 72,
                }],
                joined: Vec::new(),
                parted: vec![("calls".into(), "hits".into())],
                appeared: vec!["gap".into()],
                vanished: Vec::new(),
            }],
            ambiguous: 2,
        }),
        caveats: vec![Caveat::CodeNotDecoded {
            binary: "new".into(),
            machine: "aarch64".into(),
        }],
    }
}

fn text(render: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    render(&mut out);
    String::from_utf8(out).unwrap()
}

fn layout_text(width: u16) -> String {
    let options = LayoutTableOptions {
        color: false,
        width,
        top: None,
    };
    text(|out| layout_table(&layout(), &options, out).unwrap())
}

#[test]
fn a_layout_as_a_table() {
    insta::assert_snapshot!(layout_text(100), @r"
    prog 2 objects of data; 1 line of 64 bytes with more than one
       .bss           0x4080  8,392 bytes, aligned to 64, 2 objects, 1 shared line

    0x4100  ········ ········ aaaaaaaa ········ bbbb···· ········ ········ ········  .bss
       a +16..24    epoch: unsigned int   8 bytes, aligned to 4, src/slab.h:12
       b +32..36    cursor: unsigned int  4 bytes, aligned to 4, src/slab.h:12

    struct ring::Queue  72 bytes, aligned to 8 by its members

       offset   size  member
       ── line 0 ──────────────────────────────────
            0      8  head: long
            8      4  flag: long
           12      4  (padding)
           16     40  items: long
           56     16  tail: long
       ── line 1 begins in it ─────────────────────
       variant Some = -1
            8      8  0: long

       field        tail: offset 56, 16 bytes, on line 0 of an aligned instance
       padding      4 bytes in 1 hole
       lines of 64  2 lines where it begins a line: a further one begins in tail (+64); at worst 3
                    lines, where it begins at +8 of one: a further one begins before tail (+56)
       array, 64    elements share lines: 0 | 0–1 | 1–2, …; 7 of 8 are on one line more than they need

    note  a part of the debug information of prog is in other files (it was built with -gsplit-dwarf;
          the types in .dwo files are not read); build it without -gsplit-dwarf
    ");
}

#[test]
fn a_type_in_few_lines() {
    let shown = text(|out| type_summary(&ring(), LineSize::ASSUMED, out).unwrap());
    insta::assert_snapshot!(shown, @r"
    struct ring::Queue  72 bytes, aligned to 8 by its members
            0      8  head: long
            8      4  flag: long
           12      4  (padding)
           16     40  items: long
           56     16  tail: long
       ── line 1 begins in it ──
       variant Some = -1
            8      8  0: long
       padding: 4 bytes in 1 hole
    ");
}

#[test]
fn a_difference_as_a_table() {
    let options = DiffTableOptions {
        color: false,
        width: 100,
        top: None,
    };
    let shown = text(|out| diff_table(&build_diff(), &options, out).unwrap());
    insta::assert_snapshot!(shown, @r"
    code and lines changed: of 9 variables on lines of 64 bytes, 1 pair came onto one line and 0 parted
    14 of 16 functions that both have are the same (11 of them but for addresses), 2,680 instructions;
    the largest: Spawner::run, 728 instructions, identical but for addresses; 1 more has the same
    instructions, but points to constants with other bytes

    Came onto one line
       line 0x4100 of .bss (now)
         epoch +16 and cursor +32

    Moved
       .bss from epoch to cursor (3 variables): −32, because std::__ioinit (8 bytes) is gone and the
       first is aligned to 32

    Variables
       std::__ioinit is gone, 8 bytes, .bss

    New neighbours
       fresh is new on the line of cursor

    Functions that changed
       main 12 instructions instead of 10, first difference at 0x1010 and 0x1020: another number

    Functions that point to other constants
       usage 7 instructions, first difference at 0x1110 and 0x1120: the constant that it points to has
       other bytes

    Types
       of 40 types in both, 1 changed, 1 with members over a line border; 2 names of several types cannot be told apart
       stats: 88 bytes instead of 24; over a line border: hits (+8 → +72); parted: calls and hits; new:
       gap

    note  new is for aarch64: its data and types were read, its code was not decoded (hitm decodes the
          instructions of x86-64 only); build it for x86-64 to have its code looked at too
    ");
}

/// `UPDATE=1` writes the files anew.
#[test]
fn the_schema_files_are_in_step() {
    for (name, schema) in [
        ("layout.schema.json", layout_json_schema()),
        ("diff.schema.json", diff_json_schema()),
        ("compare.schema.json", comparison_json_schema()),
        ("history.schema.json", history_json_schema()),
        ("scale.schema.json", hitm_report::scale_json_schema()),
        ("shake.schema.json", hitm_report::shake_json_schema()),
    ] {
        let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let path = docs.join(name);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &schema).unwrap();
        }
        let file = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            file == schema,
            "docs/{name} is out of step: run `UPDATE=1 cargo test -p hitm-report`, and raise its version if a value went or \
             changed its meaning"
        );
    }
}

#[test]
fn documents_are_valid() {
    let documents = [
        (
            layout_json_schema(),
            text(|out| layout_json(&layout(), out).unwrap()),
            LAYOUT_JSON_VERSION,
        ),
        (
            diff_json_schema(),
            text(|out| diff_json(&build_diff(), out).unwrap()),
            DIFF_JSON_VERSION,
        ),
    ];
    for (schema, document, version) in documents {
        let schema: Value = serde_json::from_str(&schema).unwrap();
        let document: Value = serde_json::from_str(&document).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&document)
            .map(|error| error.to_string())
            .collect();
        assert_eq!(errors, [""; 0]);
        assert_eq!(document["version"], version);
        let mut wrong = document;
        wrong["version"] = Value::from(version + 1);
        assert!(!validator.is_valid(&wrong));
    }
}

#[test]
fn the_words_of_a_difference_are_those_of_its_document() {
    let mut diff = build_diff();
    let verdict = |diff: &BuildDiff| {
        let document = text(|out| diff_json(diff, out).unwrap());
        let document: Value = serde_json::from_str(&document).unwrap();
        document["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(verdict(&diff), "both");
    diff.code.as_mut().unwrap().changed.clear();
    assert_eq!(verdict(&diff), "layout");
    diff.joined.clear();
    assert_eq!(verdict(&diff), "neither");
    diff.code = None;
    assert_eq!(verdict(&diff), "cannot-tell");
}
