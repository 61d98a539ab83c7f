//! Every interleaving of small logs: the graph's edges against workers that end, records that are used again, cursors.

use loom::sync::Arc;
use loom::thread;

use crate::bell::Patience;
use crate::replay::access::Access;
use crate::replay::spawn::Planner;
use crate::replay::stages::Cursor;
use crate::replay::table::Table;
use crate::replay::window::Window;
use crate::ring::{Batches, Ring};
use crate::sync::UnsafeCell;

const W: bool = true;
const R: bool = false;

/// Rows as loom cells, so that loom reports two bodies that are not ordered.
struct World {
    txns: Txns,
    table: Table<u8>,
    window: Window<usize>,
    ready: Ring,
    /// What each worker has freed.
    freed: [Ring; 2],
    values: Vec<UnsafeCell<usize>>,
}

type Txns = &'static [&'static [(usize, bool)]];

impl World {
    /// Runs transactions as long as this worker knows of any.
    fn work(&self, me: usize) {
        while self.run(&self.freed[me], me) || self.run(&self.ready, me) {}
    }

    /// Takes one transaction from a ring, which writes its number and looks at what it reads.
    #[expect(unsafe_code, reason = "does what workers do")]
    fn run(&self, ring: &Ring, me: usize) -> bool {
        let Some(id) = ring.pop() else {
            return false;
        };
        if !self.window.admit(id) {
            return true;
        }
        let (sequence, ..) = self.window.task(id);
        for &(row, write) in self.txns[sequence as usize] {
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
        let freed = &self.freed[me];
        self.window
            .release(id, sequence, |id| freed.push(id).unwrap());
        freed.publish();
        true
    }

    /// Puts a transaction, for which there is room, into the graph.
    #[expect(unsafe_code, reason = "does what the dispatcher does")]
    fn dispatch<'a>(&'a self, planner: &mut Planner, access: &mut Access<'a>, sequence: usize) {
        let id = self.window.id(sequence as u64);
        // SAFETY: there is room, this is the only stage.
        unsafe { self.window.fill(sequence as u64, sequence) };
        access.begin();
        for &(row, write) in self.txns[sequence] {
            if write {
                access.write(&self.table, row);
            } else {
                access.read(&self.table, row);
            }
        }
        // SAFETY: as above.
        unsafe { self.window.set_rows(id, access) };
        // SAFETY: as above.
        unsafe { planner.plan(&self.window, sequence as u64) };
        self.ready.push(id).unwrap();
        self.ready.publish();
    }
}

/// Two workers, of whom one dispatches as well. What fits into the window is there when they begin. In the end, each row
/// has what the log's last writer wrote.
#[expect(unsafe_code, reason = "looks at rows when nobody is left")]
fn check(rows: usize, named: usize, in_flight: usize, txns: Txns) {
    loom::model(move || {
        let ring = || Ring::new(8, Batches::Published);
        let world = Arc::new(World {
            txns,
            table: Table::new(rows, |_| 0u8),
            window: Window::new(in_flight, named),
            ready: ring(),
            freed: [ring(), ring()],
            values: (0..rows).map(|_| UnsafeCell::new(0)).collect(),
        });
        let mut access = Access::new(1, named);
        let mut planner = Planner::new(&world.window);
        let first = txns.len().min(in_flight);
        for sequence in 0..first {
            world.dispatch(&mut planner, &mut access, sequence);
        }
        let worker = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.work(0))
        };
        for sequence in first..txns.len() {
            while !world.window.has_room(sequence as u64) {
                world.work(1);
                thread::yield_now();
            }
            world.dispatch(&mut planner, &mut access, sequence);
        }
        world.work(1);
        worker.join().unwrap();
        drop(access);
        for row in 0..rows {
            let last = txns.iter().rposition(|txn| txn.contains(&(row, W)));
            // SAFETY: nobody else is left.
            let value = world.values[row].with(|value| unsafe { *value });
            assert_eq!(value, last.map_or(0, |last| last + 1));
        }
    });
}

#[test]
fn writers_of_one_row() {
    check(1, 1, 4, &[&[(0, W)], &[(0, W)], &[(0, W)]]);
}

#[test]
fn writers_of_one_row_through_reused_records() {
    check(1, 1, 2, &[&[(0, W)], &[(0, W)], &[(0, W)]]);
}

#[test]
fn two_wait_for_the_same() {
    check(1, 1, 4, &[&[(0, W)], &[(0, R)], &[(0, R)]]);
}

#[test]
fn a_writer_after_a_chain_of_readers() {
    check(1, 1, 4, &[&[(0, R)], &[(0, R)], &[(0, W)]]);
}

#[test]
fn a_chain_whose_records_are_used_again() {
    check(1, 1, 2, &[&[(0, R)], &[(0, W)], &[(0, R)]]);
}

#[test]
fn two_rows() {
    check(2, 2, 2, &[&[(0, W), (1, W)], &[(1, W), (0, R)]]);
}

#[test]
fn one_that_waits_for_two() {
    check(2, 2, 4, &[&[(0, W)], &[(1, W)], &[(1, W), (0, W)]]);
}

#[test]
fn a_row_twice() {
    check(1, 2, 2, &[&[(0, R), (0, W)], &[(0, W), (0, R)]]);
}

#[test]
fn a_cursor_passes_everything_and_closes() {
    loom::model(|| {
        let cursor = Arc::new(Cursor::new(Patience::SHORT));
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
