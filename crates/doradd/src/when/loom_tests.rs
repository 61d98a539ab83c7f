//! Every interleaving of small cases of the queues, the slab and their hand-offs.
//!
//! Each test submits a few requests from two threads and runs what becomes ready right where it becomes so, which is what
//! workers do without the rings; the rings have tests of their own.

use std::ptr::NonNull;

use loom::sync::Arc;
use loom::thread;

use crate::sync::UnsafeCell;
use crate::when::behaviour::Held;
use crate::when::cown::{Cown, Header, Inner, Released, SlotId, free};
use crate::when::engine::acquire;
use crate::when::slab::{NONE, Pool, Slab};

/// Objects with plain counters; loom reports two accesses that are not ordered.
struct World {
    slab: Slab,
    objects: Vec<Cown<u32>>,
}

impl World {
    fn new(objects: usize) -> Arc<Self> {
        let mut objects: Vec<Cown<u32>> = (0..objects).map(|_| Cown::new(0, 1)).collect();
        // Loom repeats an execution step by step, so the order of locking must not depend on the allocator.
        objects.sort_by_key(|object| object.header() as *const Header);
        Arc::new(Self {
            slab: Slab::new(4),
            objects,
        })
    }

    fn held(&self, wanted: &[(usize, bool)]) -> Vec<Held> {
        let mut held: Vec<Held> = wanted
            .iter()
            .map(|&(i, write)| Held {
                object: self.objects[i].header(),
                write,
            })
            .collect();
        held.sort_by_key(|held| held.object);
        held
    }

    /// Submits a record and runs all that becomes ready by that, here.
    fn submit(&self, id: u32, wanted: &[(usize, bool)]) {
        let held = self.held(wanted);
        let record = self.slab.get(id);
        record.set_job(record.job().run, 0, &held);
        if acquire(&self.slab, id, &held) {
            self.run(id);
        }
    }

    fn run(&self, first: u32) {
        let mut ready = vec![first];
        while let Some(id) = ready.pop() {
            let record = self.slab.get(id);
            let slots = usize::from(record.job().slots);
            for slot in 0..slots {
                let held = record.held(slot);
                if held.write {
                    value(held.object).with_mut(add_one);
                } else {
                    value(held.object).with(look);
                }
            }
            for slot in 0..slots {
                let held = record.held(slot);
                let released = header(held.object).release(
                    &self.slab,
                    SlotId::new(id, slot),
                    held.write,
                    |id| ready.push(id),
                );
                if released == Released::Orphaned {
                    free_object(held.object);
                }
            }
        }
    }

    fn value(&self, i: usize) -> u32 {
        value(self.objects[i].header()).with(look)
    }
}

#[expect(unsafe_code, reason = "what bodies do with what they hold")]
fn header<'a>(object: *const Header) -> &'a Header {
    // SAFETY: the test holds the object.
    unsafe { &*object }
}

#[expect(unsafe_code, reason = "what bodies do with what they hold")]
fn value<'a>(object: *const Header) -> &'a UnsafeCell<u32> {
    // SAFETY: the test holds the object, which is one of numbers.
    unsafe { &(*object.cast::<Inner<u32>>()).value }
}

#[expect(unsafe_code, reason = "what bodies do with what they hold")]
fn add_one(value: *mut u32) {
    // SAFETY: held for writing; loom checks it.
    unsafe { *value += 1 };
}

#[expect(unsafe_code, reason = "what bodies do with what they hold")]
fn look(value: *const u32) -> u32 {
    // SAFETY: held for reading; loom checks it.
    unsafe { *value }
}

#[expect(unsafe_code, reason = "the queue said that the object is nobody's")]
fn free_object(object: *const Header) {
    let Some(object) = NonNull::new(object.cast_mut()) else {
        return;
    };
    // SAFETY: the release said so.
    unsafe { free(object) };
}

/// Two threads submit these requests; all end, and every write has happened.
fn check(
    objects: usize,
    mine: &'static [&'static [(usize, bool)]],
    theirs: &'static [(usize, bool)],
) {
    loom::model(move || {
        let world = World::new(objects);
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.submit(3, theirs))
        };
        for (id, request) in mine.iter().enumerate() {
            world.submit(id as u32, request);
        }
        other.join().unwrap();
        for object in 0..objects {
            let writes = mine
                .iter()
                .chain([&theirs])
                .filter(|request| request.contains(&(object, true)));
            assert_eq!(world.value(object), writes.count() as u32);
        }
    });
}

const W: bool = true;
const R: bool = false;

#[test]
fn two_writers_of_one_object() {
    check(1, &[&[(0, W)], &[(0, W)]], &[(0, W)]);
}

#[test]
fn a_reader_and_writers() {
    check(1, &[&[(0, R)], &[(0, W)]], &[(0, R)]);
}

#[test]
fn readers_between_writers() {
    check(1, &[&[(0, W)], &[(0, R)]], &[(0, R)]);
}

#[test]
fn two_objects_at_once() {
    check(2, &[&[(0, W), (1, W)]], &[(1, W), (0, W)]);
}

#[test]
fn two_objects_and_one_of_them() {
    check(2, &[&[(0, W), (1, R)]], &[(1, W)]);
}

#[test]
fn the_last_handle_goes_while_a_body_runs() {
    loom::model(|| {
        let world = World::new(1);
        let object = Cown::new(0u32, 1);
        let handle = object.clone();
        let other = thread::spawn(move || drop(handle));
        let held = [Held {
            object: object.header(),
            write: true,
        }];
        let record = world.slab.get(0);
        record.set_job(record.job().run, 0, &held);
        assert!(acquire(&world.slab, 0, &held));
        drop(object);
        world.run(0);
        other.join().unwrap();
    });
}

#[test]
fn free_records_come_back_once() {
    loom::model(|| {
        let slab = Arc::new(Slab::new(2));
        let all = slab.take_all(Pool::Outside);
        let (first, second) = (all, slab.get(all).next_free());
        let other = {
            let slab = Arc::clone(&slab);
            thread::spawn(move || slab.give_back(Pool::Outside, first, first))
        };
        slab.give_back(Pool::Outside, second, second);
        let mut seen = Vec::new();
        collect(&slab, &mut seen);
        other.join().unwrap();
        collect(&slab, &mut seen);
        seen.sort_unstable();
        assert_eq!(seen, [0, 1]);
    });
}

fn collect(slab: &Slab, seen: &mut Vec<u32>) {
    let mut id = slab.take_all(Pool::Outside);
    while id != NONE {
        seen.push(id);
        id = slab.get(id).next_free();
    }
}
