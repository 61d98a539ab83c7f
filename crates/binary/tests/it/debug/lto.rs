//! Variables that link-time optimisation has renamed, and those it has taken the place from.

use hitm_binary::debug::DebugInfo;
use hitm_binary::image::Image;

use crate::program::{self, Program};

/// `name: type` of a symbol and what the compiler appended to it.
#[track_caller]
fn check(program: &Program, raw: &str, wanted: &str, suffix: Option<&str>) {
    let image = Image::parse(&program.bytes).unwrap();
    let debug = DebugInfo::load(&image).unwrap();
    let symbol = image.symbol_named(raw).unwrap();
    assert_eq!(symbol.suffix.as_deref(), suffix);
    let global = debug.global_at(symbol.svma).unwrap();
    let ty = global.ty.map_or("?".to_owned(), |ty| debug.type_name(ty));
    assert_eq!(format!("{}: {ty}, {}", global.name, global.size), wanted);
}

#[test]
fn renamed_variables_keep_their_names_and_types() {
    let source = "struct thread { long id; char pad[24]; };
static struct thread threads[4]; static int scalar;
__attribute__((noinline)) int bump(int n) { return ++scalar + threads[n & 3].id++; }
__attribute__((noinline)) int other(int n) { scalar += n; return threads[0].id; }
int main(int argc, char **argv) { (void)argv; return bump(argc) + other(argc); }
";
    for version in ["-gdwarf-5", "-gdwarf-4"] {
        let flags = ["-O2", version, "-flto", "-flto-partition=max"];
        let program = program::c(&flags, source);
        let suffix = Some(".lto_priv.0");
        check(
            &program,
            "threads.lto_priv.0",
            "threads: thread[4], 128",
            suffix,
        );
        check(&program, "scalar.lto_priv.0", "scalar: int, 4", suffix);
    }
}

/// A variable with a symbol of an optimiser's making and a description without a place.
fn symbol(name: &str, size: u32) -> String {
    format!(
        "__asm__(\".bss\\n.balign 64\\n.type {name}, @object\\n.size {name}, {size}\\n{name}: .zero {size}\\n.text\\n\");\n"
    )
}

const FLAGS: [&str; 3] = ["-O2", "-g", "-fno-eliminate-unused-debug-symbols"];

#[test]
fn a_description_without_a_place_is_used_only_if_it_must_be_the_one() {
    let thread = "struct thread { long id; char pad[24]; };\n";
    let source = [
        thread,
        "static struct thread fits[4], smaller[2], twice[4];\n",
        &symbol("fits.lto_priv.0", 128),
        &symbol("smaller.lto_priv.0", 128),
        &symbol("twice.lto_priv.0", 128),
        &symbol("unknown.lto_priv.0", 128),
        "int main(void) { return 0; }\n",
    ]
    .concat();
    // Another file with a variable of the same name and size.
    let second = hitm_testkit::cache_dir().join("lto-second.c");
    std::fs::create_dir_all(hitm_testkit::cache_dir()).unwrap();
    std::fs::write(&second, format!("{thread}static struct thread twice[4];\n")).unwrap();
    let program = program::c(&[&FLAGS[..], &[second.to_str().unwrap()]].concat(), &source);
    let suffix = Some(".lto_priv.0");
    check(&program, "fits.lto_priv.0", "fits: thread[4], 128", suffix);
    check(&program, "smaller.lto_priv.0", "smaller: ?, 128", suffix);
    check(&program, "twice.lto_priv.0", "twice: ?, 128", suffix);
    check(&program, "unknown.lto_priv.0", "unknown: ?, 128", suffix);
}
