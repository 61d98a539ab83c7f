//! What the derive makes of a struct: names, helps, labels, places, values.

use hitm_counters::{
    Counter, Counters, Gauge, Histogram, Latest, Max, Min, PerThread, SignedCounter, Value, buckets,
};

/// A part.
#[derive(Counters)]
struct Net {
    /// Bytes that came in,
    /// over all connections.
    ///
    /// More about it.
    bytes: Counter,
    #[counters(name = "type")]
    r#type: Counter,
}

#[derive(Counters)]
#[counters(values = Everything)]
struct All {
    count: Counter,
    balance: SignedCounter,
    level: Gauge,
    version: Latest,
    longest: Max,
    shortest: Min,
    sizes: Histogram<2, { buckets(2, 10) }>,
    net: Net,
    #[counters(label = "priority")]
    nets: [Net; 2],
    grid: [[Counter; 2]; 2],
}

#[test]
fn values_come_back_under_their_names() {
    let stats = PerThread::<All>::new();
    let own = stats.local();
    own.count.add(1);
    own.balance.add(-2);
    own.level.set(3);
    own.version.set(-4);
    own.longest.see(5);
    own.shortest.see(6);
    own.sizes.record(7);
    own.net.bytes.add(8);
    own.net.r#type.add(9);
    own.nets[1].bytes.add(10);
    own.grid[1][0].add(11);
    let values: Everything = stats.snapshot().values();
    assert_eq!(values.sizes.count(), 1);
    assert_eq!(values.sizes.iter().collect::<Vec<_>>(), [(7..=7, 1)]);
    let expected = Everything {
        count: 1,
        balance: -2,
        level: 3,
        version: Some(-4),
        longest: Some(5),
        shortest: Some(6),
        sizes: values.sizes.clone(),
        net: NetValues {
            bytes: 8,
            r#type: 9,
        },
        nets: [
            NetValues {
                bytes: 0,
                r#type: 0,
            },
            NetValues {
                bytes: 10,
                r#type: 0,
            },
        ],
        grid: [[0, 0], [11, 0]],
    };
    assert_eq!(values, expected);
    assert_eq!(stats.get(|all| &all.nets[1].bytes), 10);
    assert_eq!(stats.get(|all| &all.net), expected.net);
    assert_eq!(stats.get(|all| &all.version), Some(-4));
    assert_eq!(stats.get(|all| &all.shortest), Some(6));
    assert_eq!(stats.get(|all| all), expected);
}

#[test]
fn names_and_labels_lead_to_every_cell() {
    let stats = PerThread::<All>::new();
    let mut names: Vec<String> = (stats.schema().fields().iter())
        .map(|field| format!("{} {:?} {}", field.name, field.labels, field.help))
        .collect();
    names.sort();
    let has = |name: &str| assert!(names.iter().any(|n| n == name), "{name} not in {names:#?}");
    has("count [] ");
    has("net_bytes [] Bytes that came in, over all connections.");
    has("net_type [] ");
    has(r#"nets_bytes [("priority", "1")] Bytes that came in, over all connections."#);
    has(r#"grid [("index", "1"), ("inner_index", "0")] "#);
    assert_eq!(names.len(), 7 + 2 + 4 + 4);
}

#[test]
fn code_that_does_not_know_the_struct_sees_the_same() {
    let stats = PerThread::<Net>::new();
    stats.local().bytes.add(3);
    let snapshot = stats.snapshot();
    let fields: Vec<_> = (snapshot.fields())
        .map(|(field, value)| (field.name.as_str(), value))
        .collect();
    assert_eq!(
        fields.iter().find(|(name, _)| *name == "bytes"),
        Some(&("bytes", Value::Counter(3)))
    );
    assert!(format!("{snapshot:?}").contains("\"bytes\": Counter(3)"));
}

#[test]
#[should_panic(expected = "no part of the block")]
fn only_parts_of_the_block_can_be_picked() {
    let stats = PerThread::<Net>::new();
    let claim = Box::leak(Box::new(PerThread::<Counter>::new().claim("")));
    stats.get(|_| &**claim);
}
