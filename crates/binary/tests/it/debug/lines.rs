//! Where in the source instructions are, against addr2line of binutils.

use hitm_binary::debug::DebugInfo;
use hitm_binary::image::Image;
use hitm_model::Svma;

use crate::program;

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
