//! From an offset in a variable to what people call that place.

use std::fmt::Write;

use hitm_binary::debug::{DebugInfo, FieldPath};
use hitm_binary::image::Image;

use crate::program::{self, Program};

fn path_of(program: &Program, symbol: &str, offset: u64, size: u64) -> FieldPath {
    let image = Image::parse(&program.bytes).unwrap();
    let debug = DebugInfo::load(&image).unwrap();
    let symbol = image.symbol_named(symbol).unwrap();
    let global = debug.global_at(symbol.svma).unwrap();
    debug.field_path(global.ty.unwrap(), offset, size)
}

/// Each line is `offset size → path leaf-type leaf-offset leaf-size container`.
#[track_caller]
fn check(program: &Program, symbol: &str, cases: &str) {
    let mut found = String::new();
    for case in cases.lines().map(str::trim).filter(|case| !case.is_empty()) {
        let mut words = case.split_whitespace();
        let [offset, size] = [(); 2].map(|()| words.next().unwrap().parse().unwrap());
        let path = path_of(program, symbol, offset, size);
        let container = path
            .container
            .map_or("-".to_owned(), |c| format!("{}@{}", c.name, c.offset));
        writeln!(
            found,
            "{offset} {size} → {symbol}{} {} {} {} {container}",
            path.path,
            path.leaf_type.replace(' ', "_"),
            path.leaf_offset,
            path.leaf_size,
        )
        .unwrap();
    }
    let wanted: String = cases
        .lines()
        .map(str::trim)
        .filter(|case| !case.is_empty())
        .map(|case| format!("{case}\n"))
        .collect();
    assert_eq!(found, wanted);
}

const C: &str = "#include <pthread.h>
typedef struct client { int flags; union { unsigned long id; double weight; }; struct { char a, b; }; } client;
struct server {
    const char *name;
    client clients[3];
    volatile unsigned long stats[2][4];
    unsigned ready : 1, mode : 3, wide : 20, last : 8;
    pthread_mutex_t lock;
    client *newest;
    union { unsigned char bytes[8]; unsigned words[2]; unsigned long whole; } mixed;
    struct server *next;
} server = {0};
struct tail { int n; struct { int x, y; } points[]; } tail = { 1, {{1, 2}, {3, 4}} };
int grid[4][5];
int none[0];
int main(void) { return server.clients[0].flags + tail.n + grid[0][0] + (int)(long)none; }
";

#[test]
fn paths_of_c() {
    for flags in [
        &["-g", "-gdwarf-5"][..],
        &["-g", "-gdwarf-4", "-fdebug-types-section"],
        &["-g", "-gdwarf-5", "-fdebug-types-section"],
        &["-g", "-gdwarf-3", "-gstrict-dwarf"],
    ] {
        let program = program::c(flags, C);
        check(
            &program,
            "server",
            "
            0 8 → server.name const_char_* 0 8 server@0
            8 4 → server.clients[0].flags int 8 4 client@8
            16 8 → server.clients[0].id long_unsigned_int 16 8 client@8
            57 1 → server.clients[2].flags int 56 4 client@56
            73 1 → server.clients[2].b char 73 1 client@56
            74 1 → server.clients[2] client 56 24 client@56
            8 24 → server.clients[0] client 8 24 client@8
            8 48 → server.clients[0..2] client 8 48 server@0
            80 8 → server.stats[0][0] volatile_long_unsigned_int 80 8 server@0
            128 8 → server.stats[1][2] volatile_long_unsigned_int 128 8 server@0
            112 32 → server.stats[1][0..4] volatile_long_unsigned_int 112 32 server@0
            144 1 → server.{ready,mode,wide} unsigned_int 144 4 server@0
            145 1 → server.wide unsigned_int 144 4 server@0
            147 1 → server.last unsigned_int 144 4 server@0
            152 4 → server.lock pthread_mutex_t 152 40 server@0
            192 8 → server.newest client_* 192 8 server@0
            200 8 → server.mixed.whole long_unsigned_int 200 8 server@0
            204 4 → server.mixed.words[1] unsigned_int 204 4 server@0
            203 1 → server.mixed.bytes[3] unsigned_char 203 1 server@0
            208 8 → server.next server_* 208 8 server@0
            0 216 → server server 0 216 server@0
            ",
        );
        check(
            &program,
            "tail",
            "
            0 4 → tail.n int 0 4 tail@0
            4 4 → tail.points[0].x int 4 4 tail@0
            16 4 → tail.points[1].y int 16 4 tail@0
            ",
        );
        check(&program, "grid", "24 4 → grid[1][1] int 24 4 -");
    }
}

#[test]
fn arrays_on_a_path_tell_their_shape() {
    let program = program::c(&["-g"], C);
    let path = path_of(&program, "server", 128, 8);
    let shape = |path: &FieldPath| -> Vec<_> {
        path.arrays
            .iter()
            .map(|step| (step.element_size, step.count, step.index))
            .collect()
    };
    assert_eq!(shape(&path), [(32, Some(2), 1), (8, Some(4), 2)]);
    let path = path_of(&program, "tail", 16, 4);
    assert_eq!(shape(&path), [(8, None, 1)]);
}

#[test]
fn paths_of_cpp() {
    let source = "#include <atomic>
#include <mutex>
#include <array>
#include <vector>
struct Base { int id; };
struct Point { long x, y; };
namespace db { struct alignas(64) Shard : Base {
    std::atomic<unsigned long> tail; std::mutex lock; std::atomic<Point> at; std::array<Point, 2> corners;
    std::array<std::atomic<int>, 4> hits; std::vector<int> rows; int &total;
}; }
static int sum;
static db::Shard shard{{1}, {}, {}, {}, {}, {}, {}, sum};
int main() { return shard.id + shard.tail.load() + shard.total; }
";
    for flags in [&["-g"][..], &["-g", "-gdwarf-4", "-fdebug-types-section"]] {
        let Some(program) = program::cpp(flags, source) else {
            return;
        };
        check(
            &program,
            "_ZL5shard",
            "
            0 4 → _ZL5shard.id int 0 4 Base@0
            8 8 → _ZL5shard.tail std::atomic<long_unsigned_int> 8 8 db::Shard@0
            16 4 → _ZL5shard.lock std::mutex 16 40 db::Shard@0
            64 8 → _ZL5shard.at.x long_int 64 8 Point@64
            96 8 → _ZL5shard.corners[1].x long_int 96 8 Point@96
            116 4 → _ZL5shard.hits[1] std::atomic<int> 116 4 db::Shard@0
            136 8 → _ZL5shard.rows std::vector<int> 128 24 db::Shard@0
            152 8 → _ZL5shard.total int_& 152 8 db::Shard@0
            ",
        );
    }
}

#[test]
fn paths_of_rust() {
    let source = "use std::sync::{Mutex, atomic::{AtomicU32, AtomicU64, Ordering::Relaxed}};
#[repr(C)] pub struct Db { hits: u64, rows: [Row; 2] }
#[repr(C)] pub struct Row(u32, AtomicU32);
#[repr(C)] pub enum Shape { Circle(u64), Box { w: u64, h: u64 } }
#[repr(C)] pub struct Hub { ops: AtomicU64, db: Mutex<Db>, shape: Shape, maybe: Option<u64>, pair: (u16, u64) }
#[unsafe(no_mangle)] static HUB: Hub = Hub { ops: AtomicU64::new(0), db: Mutex::new(Db { hits: 0,
    rows: [const { Row(0, AtomicU32::new(0)) }; 2] }), shape: Shape::Box { w: 1, h: 2 }, maybe: None, pair: (1, 2) };
#[unsafe(no_mangle)] static CELLS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
fn main() {
    HUB.ops.fetch_add(1, Relaxed); CELLS[1].fetch_add(1, Relaxed); HUB.db.lock().unwrap().hits += 1;
    if let Shape::Box { w, h } = HUB.shape { std::hint::black_box((w, h, HUB.maybe, HUB.pair)); }
}
";
    let program = program::rust(&["-Cdebuginfo=2"], source);
    check(
        &program,
        "HUB",
        "
        0 8 → HUB.ops AtomicU64 0 8 Hub@0
        8 4 → HUB.db Mutex<Db> 8 32 Hub@0
        16 8 → HUB.db.hits u64 16 8 Db@16
        36 4 → HUB.db.rows[1].1 AtomicU32 36 4 Row@32
        40 4 → HUB.shape Shape 40 24 Shape@40
        56 8 → HUB.shape.Box.h u64 56 8 Shape::Box@40
        ",
    );
    check(&program, "CELLS", "8 8 → CELLS[1] AtomicU64 8 8 -");
}

#[test]
fn the_counts_of_an_arc_are_shown() {
    let source = "use std::sync::{Arc, OnceLock};
pub struct Config { limits: [u64; 4] }
#[unsafe(no_mangle)] static SHARED: OnceLock<Arc<Config>> = OnceLock::new();
fn main() { println!(\"{}\", SHARED.get_or_init(|| Arc::new(Config { limits: [1, 2, 3, 4] })).limits[2]); }
";
    let program = program::rust(&["-Cdebuginfo=2"], source);
    let image = Image::parse(&program.bytes).unwrap();
    let debug = DebugInfo::load(&image).unwrap();
    let shared = debug
        .global_at(image.symbol_named("SHARED").unwrap().svma)
        .unwrap();
    let shared = shared.ty.unwrap();
    let inner = (0..16)
        .find_map(|at| debug.pointer_stored_at(shared, at))
        .unwrap();
    assert_eq!(debug.type_name(inner), "ArcInner<Config>");
    let paths = [0, 8, 16, 32].map(|at| debug.field_path(inner, at, 8).path);
    assert_eq!(
        paths,
        [".strong", ".weak", ".data.limits[0]", ".data.limits[2]"]
    );
}
