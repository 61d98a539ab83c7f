//! Damaged files give less information, never a panic and never an endless search.

use std::num::NonZeroUsize;

use hitm_binary::debug::{Catalog, DebugInfo};
use hitm_binary::image::{Image, SymbolKind};
use hitm_model::{Avma, AvmaRange, Mapping, MappingKind, Svma, SvmaRange};
use proptest::prelude::*;

use crate::program::{self, Program};

const SOURCE: &str = "typedef struct client { int flags; union { unsigned long id; double weight; }; } client;
struct server { const char *name; client clients[3]; unsigned ready : 1, mode : 3; struct server *next; } server;
_Thread_local long hits;
static inline __attribute__((always_inline)) long twice(struct server *s) { static int calls; calls++; return s->clients[1].flags * 2; }
__attribute__((noinline)) long work(struct server *s, long n) { volatile long sum = 0; for (long i = 0; i < n; i++) sum += twice(s) + hits; return sum; }
int main(int argc, char **argv) { (void)argv; return work(&server, argc); }
";

fn programs() -> Vec<Program> {
    vec![
        program::c(&["-g", "-O1"], SOURCE),
        program::c(&["-g", "-O2", "-gdwarf-4", "-fdebug-types-section"], SOURCE),
        program::c(&["-g", "-gz"], SOURCE),
    ]
}

/// All sections, symbols and types.
fn list_everything(image: &Image<'_>) {
    let _ = image.sections();
    for kind in [
        SymbolKind::Data,
        SymbolKind::Function,
        SymbolKind::ThreadLocal,
    ] {
        let _ = image.symbols_of(kind);
    }
    let Ok(Some(catalog)) = Catalog::new(image) else {
        return;
    };
    let one = NonZeroUsize::MIN;
    let entries = catalog.all(one);
    catalog.lay_out(&entries, one, &mut |_, layout| {
        assert!(layout.align.is_power_of_two());
    });
    let debug = catalog.debug();
    for entry in catalog.named("client", one) {
        let _ = debug.layout(entry.ty);
        let _ = debug.place_of(entry.ty, ".flags");
    }
}

/// Asks everything there is to ask.
fn ask_everything(bytes: &[u8], at: &[u64]) {
    let Ok(image) = Image::parse(bytes) else {
        return;
    };
    let _ = (
        image.build_id(),
        image.debug_link(),
        image.damage(),
        image.tls(),
    );
    let _ = (
        image.debug_level(),
        image.is_rust(),
        image.image_range(),
        image.data_range(),
    );
    let _ = image.symbol_named("work");
    list_everything(&image);
    let debug = DebugInfo::load(&image).unwrap_or_else(|_| DebugInfo::symbols_only(&image));
    let mut types = Vec::new();
    for &at in at {
        let svma = Svma(at);
        let _ = (
            image.section_at(svma),
            image.symbol_at(svma),
            image.function_at(svma),
        );
        let _ = image.code(SvmaRange::new(svma, svma.wrapping_add(16)));
        let start = Avma(at & !4095);
        let _ = image.bias_of_mappings([&Mapping {
            range: AvmaRange::new(start, start.wrapping_add(4096)),
            kind: MappingKind::File {
                path: String::new(),
                offset: at & !4095,
                build_id: None,
            },
            executable: true,
            writable: false,
        }]);
        let _ = (image.tls_symbol_at(at & 63), debug.source_frames(svma));
        let globals = [debug.global_at(svma), debug.thread_local_at(at & 63)];
        types.extend(globals.into_iter().flatten().filter_map(|global| global.ty));
        types.extend(
            debug
                .pointers_at(svma)
                .iter()
                .map(|pointer| pointer.pointee),
        );
        types.extend(
            debug
                .frame_variables(svma)
                .iter()
                .map(|variable| variable.ty),
        );
    }
    types.sort();
    types.dedup();
    for &ty in &types {
        let _ = (debug.type_name(ty), debug.type_size(ty), debug.pointee(ty));
        let _ = (debug.is_base_type(ty), debug.declaration(ty));
        for offset in [0, 1, 8, 20, 72, u64::MAX] {
            let _ = debug.pointer_stored_at(ty, offset);
            for size in [0, 1, 8, 64, u64::MAX] {
                let _ = debug.field_path(ty, offset, size);
            }
        }
    }
    for pair in types.windows(2).take(8) {
        let _ = debug.aggregates_with(&[(0, pair[0]), (8, pair[1])]);
    }
}

/// Addresses that matter in the undamaged program.
fn addresses(program: &Program) -> Vec<u64> {
    let image = Image::parse(&program.bytes).unwrap();
    let mut found = vec![0, 1, u64::MAX, image.data_range().end.0];
    for name in ["work", "main", "server", "hits"] {
        let symbol = image.symbol_named(name).unwrap();
        found.extend((0..symbol.size).step_by(5).map(|at| symbol.svma.0 + at));
    }
    found
}

/// The file's part that is not mapped: debug sections, symbols, section headers.
fn unmapped(program: &Program) -> usize {
    let headers = program::tool("readelf", &["-SW"], program);
    let line = headers
        .lines()
        .find(|line| line.contains(" .comment "))
        .unwrap();
    let offset = line.split_whitespace().rev().nth(6).unwrap();
    usize::from_str_radix(offset, 16).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn damage_is_survived(
        which in 0usize..3,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..40),
        cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let program = &programs()[which];
        let (at, debug) = (addresses(program), unmapped(program));
        let mut bytes = program.bytes.clone();
        for (place, byte, anywhere) in flips {
            let start = if anywhere { 0 } else { debug };
            let place = start + place.index(bytes.len() - start);
            bytes[place] ^= byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        ask_everything(&bytes, &at);
    }
}

#[test]
fn types_that_contain_themselves_end() {
    // Every reference from entry to entry is turned to the same one in turn; some of them make circles.
    let program = program::c(&["-g", "-O1"], SOURCE);
    let at = addresses(&program);
    let headers = program::tool("readelf", &["-SW"], &program);
    let line = headers
        .lines()
        .find(|line| line.contains(" .debug_info "))
        .unwrap();
    let fields: Vec<&str> = line.split_whitespace().rev().collect();
    let number = |at: usize| usize::from_str_radix(fields[at], 16).unwrap();
    let (size, offset) = (number(5), number(6));
    let info = &program.bytes[offset..offset + size];
    // Offsets of types fit two bytes here, and references have four.
    let references: Vec<usize> = info
        .windows(4)
        .enumerate()
        .filter(|(_, w)| w[2] == 0 && w[3] == 0 && (w[0] > 0x20 || w[1] > 0))
        .filter(|(_, w)| usize::from(w[0]) + 256 * usize::from(w[1]) < size)
        .map(|(at, _)| at)
        .collect();
    assert!(references.len() > 50);
    for &target in references.iter().step_by(references.len() / 12) {
        let mut bytes = program.bytes.clone();
        let value: [u8; 2] = [info[target], info[target + 1]];
        for &reference in references.iter().skip(target % 7).step_by(7) {
            bytes[offset + reference..][..2].copy_from_slice(&value);
        }
        ask_everything(&bytes, &at);
    }
}
