//! Random histories against a model that is too simple to be wrong.

use hitm_counters::{
    Claim, Counter, Counters, Gauge, Histogram, Latest, Max, Min, PerThread, SignedCounter, buckets,
};
use proptest::prelude::*;

#[derive(Counters)]
struct Block {
    count: Counter,
    balance: SignedCounter,
    level: Gauge,
    version: Latest,
    longest: Max,
    shortest: Min,
    sizes: Histogram<1, { buckets(1, 8) }>,
}

#[derive(Clone, Debug)]
enum Step {
    Begin,
    End(usize),
    Count(usize, u64),
    Balance(usize, i64),
    Level(usize, i64),
    Version(usize, i64),
    See(usize, u64),
    Record(usize, u64),
    Take,
    Look,
}

fn step() -> impl Strategy<Value = Step> {
    let who = 0..6_usize;
    prop_oneof![
        2 => Just(Step::Begin),
        1 => who.clone().prop_map(Step::End),
        3 => (who.clone(), any::<u64>()).prop_map(|(who, n)| Step::Count(who, n)),
        2 => (who.clone(), any::<i64>()).prop_map(|(who, n)| Step::Balance(who, n)),
        2 => (who.clone(), -9..9_i64).prop_map(|(who, n)| Step::Level(who, n)),
        2 => (who.clone(), any::<i64>()).prop_map(|(who, n)| Step::Version(who, n)),
        3 => (who.clone(), prop_oneof![0..9_u64, Just(u64::MAX), any::<u64>()])
            .prop_map(|(who, n)| Step::See(who, n)),
        2 => (who, 0..300_u64).prop_map(|(who, n)| Step::Record(who, n)),
        1 => Just(Step::Take),
        2 => Just(Step::Look),
    ]
}

/// What one thread, all threads or those that ended have.
#[derive(Clone, Default)]
struct Model {
    count: u64,
    balance: i64,
    level: i64,
    seen: Vec<u64>,
    recorded: Vec<u64>,
}

impl Model {
    fn absorb(&mut self, other: &Self) {
        self.count = self.count.wrapping_add(other.count);
        self.balance = self.balance.wrapping_add(other.balance);
        self.seen.extend(&other.seen);
        self.recorded.extend(&other.recorded);
    }

    fn check(&self, values: &BlockValues) {
        assert_eq!(values.count, self.count);
        assert_eq!(values.balance, self.balance);
        assert_eq!(values.level, self.level);
        let limited = || self.seen.iter().map(|&seen| seen.min(u64::MAX - 1));
        assert_eq!(values.longest, limited().max());
        assert_eq!(values.shortest, limited().min());
        assert_eq!(values.sizes.count(), self.recorded.len() as u64);
        assert_eq!(values.sizes.sum(), self.recorded.iter().sum::<u64>());
        for (range, n) in values.sizes.iter() {
            let within = self.recorded.iter().filter(|value| range.contains(value));
            assert_eq!(within.count() as u64, n, "in {range:?}");
        }
    }
}

fn play(steps: &[Step]) {
    let stats = PerThread::<Block>::with_capacity(2);
    let mut threads: Vec<(Claim<Block>, Model)> = Vec::new();
    let mut ended = Model::default();
    let mut version = None;
    for step in steps {
        let mut at = |who: usize, act: &mut dyn FnMut(&Block, &mut Model)| {
            if let Some((claim, model)) = threads.get_mut(who) {
                act(claim, model);
                true
            } else {
                false
            }
        };
        match *step {
            Step::Begin => threads.push((stats.claim("t"), Model::default())),
            Step::End(who) => {
                if who < threads.len() {
                    let (claim, model) = threads.remove(who);
                    drop(claim);
                    ended.absorb(&model);
                }
            }
            Step::Count(who, n) => {
                at(who, &mut |block, model| {
                    block.count.add(n);
                    model.count = model.count.wrapping_add(n);
                });
            }
            Step::Balance(who, n) => {
                at(who, &mut |block, model| {
                    block.balance.add(n);
                    model.balance = model.balance.wrapping_add(n);
                });
            }
            Step::Level(who, n) => {
                at(who, &mut |block, model| {
                    block.level.set(n);
                    model.level = n;
                    assert_eq!(block.level.get(), n);
                });
            }
            Step::Version(who, n) => {
                if at(who, &mut |block, _| block.version.set(n)) {
                    version = Some(n);
                }
            }
            Step::See(who, n) => {
                at(who, &mut |block, model| {
                    block.longest.see(n);
                    block.shortest.see(n);
                    model.seen.push(n);
                });
            }
            Step::Record(who, n) => {
                at(who, &mut |block, model| {
                    block.sizes.record(n);
                    model.recorded.push(n);
                });
            }
            Step::Take => {
                let mut total = ended.clone();
                for (_, model) in &mut threads {
                    total.absorb(model);
                    total.level += model.level;
                    let level = model.level;
                    *model = Model::default();
                    model.level = level;
                }
                ended = Model::default();
                let values = stats.take().values();
                total.check(&values);
                assert_eq!(values.version, version);
            }
            Step::Look => {
                let by_thread = stats.threads();
                assert_eq!(by_thread.iter().len(), threads.len());
                let mut total = ended.clone();
                for (seen, (_, model)) in by_thread.iter().zip(&threads) {
                    model.check(&seen.values());
                    total.absorb(model);
                    total.level += model.level;
                }
                ended.check(&by_thread.ended().values());
                total.check(&by_thread.total().values());
                total.check(&stats.snapshot().values());
                assert_eq!(stats.get(|block| &block.count), total.count);
                assert_eq!(stats.get(|block| &block.version), version);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_history_reads_as_the_model_says(steps in prop::collection::vec(step(), 0..120)) {
        play(&steps);
    }
}
