//! Every interleaving of small logs: the graph's edges against workers that end, records that are used again, cursors.

use loom::sync::Arc;
use loom::thread;

use crate::replay::access::Access;
use crate::replay::stages::Cursor;
use crate::replay::table::Table;
use crate::replay::window::Window;
use crate::ring::Ring;
use crate::sync::UnsafeCell;

const W: bool = true;
const R: bool = false;

/// Rows as loom cells, so that loom reports two bodies that are not ordered.
struct World {
    window: Window<usize>,
    ready: Ring,
    freed: Ring,
    values: Vec<UnsafeCell<usize>>,
}

type Txns = &'static [&'static [(usize, bool)]];

impl World {
    /// Runs one ready transaction, which writes its number and looks at what it reads.
    #[expect(unsafe_code, reason = "does what workers do")]
    fn run(&self, txns: Txns, ring: &Ring) -> bool {
        let Some(id) = ring.pop() else {
            return false;
        };
        let (sequence, ..) = self.window.task(id);
        for &(row, write) in txns[sequence as usize] {
            if write {
                // SAFETY: held; loom checks it.
                self.values[row].with_mut(|value| unsafe { *value = sequence as usize + 1 });
            } else {
                // SAFETY: held; loom checks it.
                self.values[row].with(|value| assert!(unsafe { *value } <= sequence as usize + 1));
            }
        }
        // SAFETY: it was ready, and its body has ended.
        unsafe { self.window.drop_txn(id) };
        // SAFETY: as above.
        unsafe {
            self.window
                .release(id, |id| self.freed.push(id).unwrap(), |_| ())
        };
        self.freed.publish();
        self.window.finish(sequence);
        true
    }
}

/// A dispatcher and a worker, in a window of two; the last writer of each row is the one in the log.
#[expect(unsafe_code, reason = "does what the dispatcher does")]
fn check(rows: usize, txns: Txns) {
    loom::model(move || {
        let table = Table::new(rows, |_| 0u8);
        let world = Arc::new(World {
            window: Window::new(2, 2),
            ready: Ring::new(4),
            freed: Ring::new(4),
            values: (0..rows).map(|_| UnsafeCell::new(0)).collect(),
        });
        let worker = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut n = 0;
                while n < txns.len() {
                    if world.run(txns, &world.freed) || world.run(txns, &world.ready) {
                        n += 1;
                    } else {
                        thread::yield_now();
                    }
                }
            })
        };
        let mut access = Access::new(1, 2);
        for (sequence, txn) in txns.iter().enumerate() {
            while !world.window.has_room(sequence as u64) {
                thread::yield_now();
            }
            let id = world.window.id(sequence as u64);
            // SAFETY: there is room, this is the only stage.
            unsafe { world.window.fill(sequence as u64, sequence) };
            access.begin();
            for &(row, write) in *txn {
                if write {
                    access.write(&table, row);
                } else {
                    access.read(&table, row);
                }
            }
            // SAFETY: as above.
            unsafe { world.window.set_rows(id, &access) };
            // SAFETY: as above.
            if unsafe { world.window.spawn(sequence as u64) } {
                world.ready.push(id).unwrap();
                world.ready.publish();
            }
        }
        worker.join().unwrap();
        for row in 0..rows {
            let last = txns.iter().rposition(|txn| txn.contains(&(row, W)));
            // SAFETY: nobody else is left.
            let value = world.values[row].with(|value| unsafe { *value });
            assert_eq!(value, last.map_or(0, |last| last + 1));
        }
    });
}

#[test]
fn writers_of_one_row_through_reused_records() {
    check(1, &[&[(0, W)], &[(0, W)], &[(0, W)]]);
}

#[test]
fn a_writer_after_readers() {
    check(1, &[&[(0, R)], &[(0, R)], &[(0, W)]]);
}

#[test]
fn a_reader_after_a_writer() {
    check(1, &[&[(0, W)], &[(0, R)], &[(0, W)]]);
}

#[test]
fn two_rows() {
    check(2, &[&[(0, W), (1, W)], &[(1, W), (0, R)]]);
}

#[test]
fn a_row_twice() {
    check(1, &[&[(0, R), (0, W)], &[(0, W), (0, R)]]);
}

#[test]
fn a_cursor_passes_everything_and_closes() {
    loom::model(|| {
        let cursor = Arc::new(Cursor::new());
        let reader = {
            let cursor = Arc::clone(&cursor);
            thread::spawn(move || {
                let mut done = 0;
                while let Some(end) = cursor.wait(done) {
                    assert!(end > done);
                    done = end;
                }
                done
            })
        };
        cursor.publish(1);
        cursor.close();
        assert_eq!(reader.join().unwrap(), 1);
    });
}
