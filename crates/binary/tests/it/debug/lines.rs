//! Where in the source instructions are, against addr2line of binutils.

use hitm_binary::debug::DebugInfo;
use hitm_binary::image::Image;
use hitm_model::Svma;

use crate::program::{self, Program};

const SOURCE: &str = "volatile long total;
static inline __attribute__((always_inline)) long twice(long x) {
    return x + total;
}
static inline __attribute__((always_inline)) long thrice(long x) {
    return twice(x) * 3 + total;
}
__attribute__((noinline)) long work(long x) {
    total += thrice(x);
    return total;
}
int main(int argc, char **argv) {
    (void)argv;
    return work(argc);
}
";

#[test]
fn inline_chains_are_those_of_addr2line() {
    for flags in [
        &["-O2", "-g"][..],
        &["-O2", "-g", "-gdwarf-4"],
        &["-O2", "-g1"],
    ] {
        let program = program::c(flags, SOURCE);
        let image = Image::parse(&program.bytes).unwrap();
        let debug = DebugInfo::load(&image).unwrap();
        let function = image.symbol_named("work").unwrap();
        let mut deepest = 0;
        for at in function.svma.0..function.svma.0 + function.size {
            let frames = debug.source_frames(Svma(at));
            let ours: String = frames
                .iter()
                .map(|frame| {
                    let line = frame.line.as_ref().map_or(0, |line| line.line);
                    format!("{}\n{line}\n", frame.function)
                })
                .collect();
            deepest = deepest.max(frames.len());
            let address = format!("{at:#x}");
            let theirs = program::tool("addr2line", &["-fi", &address, "-e"], &program);
            let theirs: String = theirs
                .lines()
                .map(|line| {
                    let number = line.rsplit_once(':').map_or(line, |(_, number)| number);
                    format!("{}\n", number.split(' ').next().unwrap_or(number))
                })
                .collect();
            assert_eq!(ours, theirs, "at {address}");
        }
        assert_eq!(deepest, 3);
    }
}

#[test]
fn without_debug_information_the_symbol_names_the_function() {
    let program = program::c(&["-O2"], SOURCE);
    let image = Image::parse(&program.bytes).unwrap();
    let debug = DebugInfo::load(&image).unwrap();
    let at = image.symbol_named("work").unwrap().svma;
    let frames = debug.source_frames(at.wrapping_add(3));
    assert_eq!(frames.len(), 1);
    assert_eq!(
        (frames[0].function.as_str(), &frames[0].line),
        ("work", &None)
    );
    assert!(debug.source_frames(image.data_range().start).is_empty());
}

#[test]
fn functions_are_named_with_their_scopes_and_without_noise() {
    #[track_caller]
    fn check(program: &Program, function: &str, wanted: &[&str]) {
        let image = Image::parse(&program.bytes).unwrap();
        let debug = DebugInfo::load(&image).unwrap();
        let symbol = image.symbol_named(function).unwrap();
        let names: Vec<Vec<String>> = (symbol.svma.0..symbol.svma.0 + symbol.size)
            .map(|at| {
                let frames = debug.source_frames(Svma(at));
                frames.into_iter().map(|frame| frame.function).collect()
            })
            .collect();
        assert!(
            names.iter().any(|chain| chain == wanted),
            "no {wanted:?} among {names:#?}"
        );
    }
    let source = "use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
pub struct Shard { hits: AtomicU64 }
impl Shard { #[inline(always)] fn bump(&self) -> u64 { self.hits.fetch_add(1, Relaxed) } }
#[unsafe(no_mangle)] #[inline(never)]
pub fn work(shard: &Shard) -> u64 { (0..9).map(|_| shard.bump()).sum() }
static SHARD: Shard = Shard { hits: AtomicU64::new(0) };
fn main() { println!(\"{}\", work(std::hint::black_box(&SHARD))); }
";
    let program = program::rust(&["-Cdebuginfo=2", "-Copt-level=1"], source);
    let image = Image::parse(&program.bytes).unwrap();
    let debug = DebugInfo::load(&image).unwrap();
    let all: Vec<String> = (image.symbol_named("work").into_iter())
        .flat_map(|symbol| symbol.svma.0..symbol.svma.0 + symbol.size)
        .flat_map(|at| debug.source_frames(Svma(at)))
        .map(|frame| frame.function)
        .collect();
    for wanted in [
        "AtomicU64::fetch_add",
        "program::Shard::bump",
        "program::work",
    ] {
        assert!(
            all.iter().any(|name| name == wanted),
            "no {wanted} among {all:?}"
        );
    }
    let source = "namespace app { template <class T> struct Cache { T hits;
    __attribute__((always_inline)) void hit() { __atomic_add_fetch(&hits, 1, 5); } }; }
app::Cache<long> cache;
extern \"C\" __attribute__((noinline)) void work() { auto twice = [](app::Cache<long> &c) __attribute__((always_inline)) { c.hit(); c.hit(); }; twice(cache); }
int main() { work(); }
";
    let Some(program) = program::cpp(&["-g", "-O2"], source) else {
        return;
    };
    check(
        &program,
        "work",
        &["app::Cache<long>::hit", "work::{lambda}", "work"],
    );
}
