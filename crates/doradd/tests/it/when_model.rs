//! Random requests against a model that runs them one by one.

use std::sync::{Arc, Mutex};
use std::thread;

use doradd::{Cown, Runtime, read};
use proptest::prelude::*;

use crate::quiet::panic_on_purpose;

/// A request: up to three objects with their modes, and how its body gives way.
#[derive(Clone, Debug)]
struct Request {
    objects: Vec<(usize, bool)>,
    yields: u8,
    panics: bool,
}

fn request() -> impl Strategy<Value = Request> {
    let objects = proptest::sample::subsequence((0..5usize).collect::<Vec<_>>(), 1..=3)
        .prop_shuffle()
        .prop_flat_map(|objects| {
            let modes = proptest::collection::vec(any::<bool>(), objects.len());
            (Just(objects), modes)
        })
        .prop_map(|(objects, modes)| objects.into_iter().zip(modes).collect());
    (objects, 0..4u8, prop::bool::weighted(0.05)).prop_map(|(objects, yields, panics)| Request {
        objects,
        yields,
        panics,
    })
}

/// What a request does to the values it writes, from all it sees: any other order gives other values.
fn next(i: usize, seen: &[u64]) -> u64 {
    seen.iter().fold(i as u64 + 1, |hash, &value| {
        (hash ^ value)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(23)
    })
}

fn model(requests: &[Request]) -> Vec<u64> {
    let mut values = vec![0; 5];
    for (i, request) in requests.iter().enumerate() {
        let seen: Vec<u64> = request
            .objects
            .iter()
            .map(|&(object, _)| values[object])
            .collect();
        for &(object, write) in &request.objects {
            if write {
                values[object] = next(i, &seen);
            }
        }
    }
    values
}

fn give_way(request: &Request) {
    for _ in 0..request.yields {
        thread::yield_now();
    }
    if request.panics {
        panic_on_purpose();
    }
}

macro_rules! submit {
    ($runtime:expr, $i:expr, $request:expr, $objects:expr) => {{
        let i = $i;
        let request = $request.clone();
        $runtime.when($objects, move |objects| {
            objects.step(i);
            give_way(&request);
        });
    }};
}

/// Does a request's work on what a body was given.
trait Step {
    fn step(self, i: usize);
}

/// A value to read or to write.
trait Value {
    fn see(&self) -> u64;
    fn set(self, value: u64);
}

impl Value for &mut u64 {
    fn see(&self) -> u64 {
        **self
    }
    fn set(self, value: u64) {
        *self = value;
    }
}

impl Value for &u64 {
    fn see(&self) -> u64 {
        **self
    }
    fn set(self, _: u64) {}
}

impl<A: Value> Step for (A,) {
    fn step(self, i: usize) {
        let value = next(i, &[self.0.see()]);
        self.0.set(value);
    }
}

impl<A: Value, B: Value> Step for (A, B) {
    fn step(self, i: usize) {
        let value = next(i, &[self.0.see(), self.1.see()]);
        self.0.set(value);
        self.1.set(value);
    }
}

impl<A: Value, B: Value, C: Value> Step for (A, B, C) {
    fn step(self, i: usize) {
        let value = next(i, &[self.0.see(), self.1.see(), self.2.see()]);
        self.0.set(value);
        self.1.set(value);
        self.2.set(value);
    }
}

fn submit(runtime: &Runtime, i: usize, request: &Request, cowns: &[Cown<u64>]) {
    let cown = |k: usize| &cowns[request.objects[k].0];
    let modes: Vec<bool> = request.objects.iter().map(|&(_, write)| write).collect();
    match *modes {
        [true] => submit!(runtime, i, request, (cown(0),)),
        [false] => submit!(runtime, i, request, (read(cown(0)),)),
        [true, true] => submit!(runtime, i, request, (cown(0), cown(1))),
        [true, false] => submit!(runtime, i, request, (cown(0), read(cown(1)))),
        [false, true] => submit!(runtime, i, request, (read(cown(0)), cown(1))),
        [false, false] => submit!(runtime, i, request, (read(cown(0)), read(cown(1)))),
        [true, true, true] => submit!(runtime, i, request, (cown(0), cown(1), cown(2))),
        [true, true, false] => submit!(runtime, i, request, (cown(0), cown(1), read(cown(2)))),
        [true, false, true] => submit!(runtime, i, request, (cown(0), read(cown(1)), cown(2))),
        [true, false, false] => {
            submit!(runtime, i, request, (cown(0), read(cown(1)), read(cown(2))));
        }
        [false, true, true] => submit!(runtime, i, request, (read(cown(0)), cown(1), cown(2))),
        [false, true, false] => {
            submit!(runtime, i, request, (read(cown(0)), cown(1), read(cown(2))));
        }
        [false, false, true] => {
            submit!(runtime, i, request, (read(cown(0)), read(cown(1)), cown(2)));
        }
        _ => submit!(
            runtime,
            i,
            request,
            (read(cown(0)), read(cown(1)), read(cown(2)))
        ),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_graph_ends_as_if_run_one_by_one(
        requests in proptest::collection::vec(request(), 1..if cfg!(miri) { 10 } else { 200 }),
        workers in 1..5usize,
        max_in_flight in 1..40usize,
    ) {
        let runtime = Runtime::builder()
            .workers(workers)
            .max_in_flight(max_in_flight)
            .build()
            .unwrap();
        let cowns: Vec<Cown<u64>> = (0..5).map(|_| runtime.cown(0)).collect();
        for (i, request) in requests.iter().enumerate() {
            submit(&runtime, i, request, &cowns);
        }
        let values = Arc::new(Mutex::new(vec![0; 5]));
        for (i, cown) in cowns.iter().enumerate() {
            let values = Arc::clone(&values);
            runtime.when(cown, move |value| values.lock().unwrap()[i] = *value);
        }
        let stats = runtime.shutdown();
        let panics = requests.iter().filter(|request| request.panics).count();
        prop_assert_eq!(stats.panicked, panics as u64);
        prop_assert_eq!(&*values.lock().unwrap(), &model(&requests));
    }
}
