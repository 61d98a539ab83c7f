//! What other programs read: Prometheus text, serde, the `metrics` facade.

use hitm_counters::{Counter, Counters, Gauge, Histogram, Latest, PerThread, buckets};

#[derive(Counters)]
struct Command {
    /// Calls with a \ in their name
    calls: Counter,
    nanos: Histogram<1, { buckets(1, 3) }>,
}

#[derive(Counters)]
struct Stats {
    #[counters(label = "command")]
    commands: [Command; 2],
    clients: Gauge,
    version: Latest,
}

#[test]
fn prometheus_text_groups_names_and_its_buckets_are_exact() {
    let stats = PerThread::<Stats>::new();
    let own = stats.claim("w");
    own.commands[0].calls.add(2);
    own.commands[1].calls.add(3);
    for value in [0, 1, 2, 3, 4, 7, 8, 100] {
        own.commands[1].nanos.record(value);
    }
    own.clients.set(-1);
    let mut text = String::new();
    stats
        .snapshot()
        .write_prometheus("srv:", &mut text)
        .unwrap();
    let expected = r#"# HELP srv:commands_calls_total Calls with a \\ in their name
# TYPE srv:commands_calls_total counter
srv:commands_calls_total{command="0"} 2
srv:commands_calls_total{command="1"} 3
"#;
    assert!(text.contains(expected), "{text}");
    let expected = r#"srv:commands_nanos_bucket{command="1",le="0"} 1
srv:commands_nanos_bucket{command="1",le="1"} 2
srv:commands_nanos_bucket{command="1",le="3"} 4
srv:commands_nanos_bucket{command="1",le="+Inf"} 8
srv:commands_nanos_sum{command="1"} 125
srv:commands_nanos_count{command="1"} 8
"#;
    assert!(text.contains(expected), "{text}");
    assert!(
        text.contains("# TYPE srv:clients gauge\nsrv:clients -1\n"),
        "{text}"
    );
    assert!(!text.contains("\nsrv:version "), "never set: {text}");
    assert_eq!(text.matches("# TYPE").count(), 4);
}

#[test]
fn prometheus_text_by_thread_adds_up_threads_of_one_name() {
    let stats = PerThread::<Counter>::new();
    let claims = ["io\"1", "io\"1", "other"].map(|name| stats.claim(name));
    claims.iter().for_each(|own| own.add(2));
    stats.claim("gone").add(5);
    let mut text = String::new();
    stats.threads().write_prometheus("", &mut text).unwrap();
    let expected = r#"# TYPE value_total counter
value_total{thread="ended"} 5
value_total{thread="io\"1"} 4
value_total{thread="other"} 2
"#;
    assert_eq!(text, expected);
}

#[cfg(feature = "serde")]
mod with_serde {
    use super::*;
    use hitm_counters::{HistogramValues, Record, Value};

    #[derive(Counters)]
    #[counters(derive(serde::Serialize, serde::Deserialize))]
    struct Served {
        hits: Counter,
        nanos: Histogram<1, { buckets(1, 8) }>,
    }

    #[test]
    fn snapshots_and_values_survive_a_round_trip() {
        let stats = PerThread::<Served>::new();
        let own = stats.claim("w");
        own.hits.add(3);
        own.nanos.record(9);
        let snapshot = stats.snapshot();
        let json = serde_json::to_string(&snapshot).unwrap();
        let records: Vec<Record> = serde_json::from_str(&json).unwrap();
        let values: Vec<Value> = snapshot.fields().map(|(_, value)| value).collect();
        assert_eq!(
            records.into_iter().map(|r| r.value).collect::<Vec<_>>(),
            values
        );
        let json = serde_json::to_string(&snapshot.values()).unwrap();
        let back: ServedValues = serde_json::from_str(&json).unwrap();
        assert_eq!(back, snapshot.values());
        let json = serde_json::to_value(stats.threads()).unwrap();
        assert_eq!(json["threads"][0]["name"], "w");
    }

    #[test]
    fn a_histogram_that_cannot_be_is_refused() {
        let check = |json: &str, ok: bool| {
            let read: Result<HistogramValues, _> = serde_json::from_str(json);
            assert_eq!(read.is_ok(), ok, "{json}: {read:?}");
        };
        check(
            r#"{"precision":1,"buckets":4,"sum":3,"counts":[[3,1]]}"#,
            true,
        );
        check(
            r#"{"precision":1,"buckets":4,"sum":3,"counts":[[4,1]]}"#,
            false,
        );
        check(r#"{"precision":40,"buckets":4,"sum":3,"counts":[]}"#, false);
        check(
            r#"{"precision":1,"buckets":99999999999,"sum":3,"counts":[]}"#,
            false,
        );
    }
}

#[cfg(feature = "metrics")]
mod with_metrics {
    use hitm_counters::Recorder;

    #[test]
    fn the_facade_counts_from_many_threads() {
        let recorder = Recorder::new();
        let (hits, level, seconds) = metrics::with_local_recorder(&recorder, || {
            metrics::describe_counter!("hits", "Things found");
            // More than a page of counters.
            for i in 0..100_u64 {
                metrics::counter!("many", "i" => i.to_string()).increment(i);
            }
            (
                metrics::counter!("hits"),
                metrics::gauge!("level"),
                metrics::histogram!("seconds", "k" => "v"),
            )
        });
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    hits.increment(10);
                    level.increment(1.5);
                    seconds.record(0.75);
                    seconds.record(0.25); // a bound itself, which `le` includes
                    seconds.record(-1.0);
                    seconds.record(1e30);
                });
            }
        });
        hits.absolute(7);
        assert_eq!(recorder.counter("hits", &[]), Some(40));
        hits.absolute(50);
        assert_eq!(recorder.counter("hits", &[]), Some(50));
        assert_eq!(recorder.counter("many", &[("i", "99")]), Some(99));
        assert_eq!(recorder.counter("none", &[]), None);
        let mut text = String::new();
        recorder.write_prometheus(&mut text).unwrap();
        for line in [
            "# HELP hits_total Things found",
            "# TYPE hits_total counter",
            "hits_total 50",
            "level 6",
            r#"seconds_bucket{k="v",le="0.125"} 4"#,
            r#"seconds_bucket{k="v",le="0.25"} 8"#,
            r#"seconds_bucket{k="v",le="0.5"} 8"#,
            r#"seconds_bucket{k="v",le="1"} 12"#,
            r#"seconds_bucket{k="v",le="+Inf"} 16"#,
            r#"seconds_count{k="v"} 16"#,
        ] {
            assert!(text.lines().any(|l| l == line), "{line} not in {text}");
        }
        assert_eq!(text.matches("# TYPE many").count(), 1);
    }

    /// The lines of what was written that are neither buckets nor help.
    fn check(what: impl FnOnce(), expected: &str) {
        let recorder = Recorder::new();
        metrics::with_local_recorder(&recorder, what);
        let mut text = String::new();
        recorder
            .write_prometheus(&mut text)
            .expect("a string takes everything");
        let lines = text.lines().filter(|line| !line.contains("_bucket"));
        let lines: Vec<&str> = lines
            .map(|line| line.trim_start_matches("# TYPE "))
            .collect();
        assert_eq!(lines.join("; "), expected);
    }

    #[test]
    fn a_family_has_one_type_and_one_name() {
        check(
            || {
                metrics::counter!("jobs").increment(1);
                metrics::gauge!("jobs").set(2.0);
                metrics::histogram!("jobs").record(3.0);
            },
            "jobs_total counter; jobs_total 1; jobs gauge; jobs 2; \
             jobs_histogram histogram; jobs_histogram_sum 3; jobs_histogram_count 1",
        );
        check(
            || {
                metrics::counter!("a.b").increment(1);
                metrics::counter!("a_b").increment(2);
                metrics::counter!("a-b_total").increment(3);
                metrics::counter!("a.c").increment(4);
            },
            "a_b_counter_2_total counter; a_b_counter_2_total 3; a_b_total counter; a_b_total 1; \
             a_c_total counter; a_c_total 4; a_b_counter_total counter; a_b_counter_total 2",
        );
        check(
            || {
                metrics::histogram!("t").record(0.5);
                metrics::gauge!("t_sum").set(1.0);
            },
            "t_sum_gauge gauge; t_sum_gauge 1; t histogram; t_sum 0.5; t_count 1",
        );
        check(
            || {
                metrics::gauge!("g", "a.b" => "1", "a_b" => "2", "le" => "3").set(f64::INFINITY);
                metrics::histogram!("h", "le" => "mine").record(0.5);
            },
            r#"g gauge; g{a_b="1",a_b_2="2",le="3"} +Inf; h histogram; h_sum{le_2="mine"} 0.5; h_count{le_2="mine"} 1"#,
        );
    }

    #[test]
    fn values_that_have_no_sum_say_so() {
        let sum = |values: &'static [f64], expected: &str| {
            let count = values.len();
            check(
                || {
                    let histogram = metrics::histogram!("v");
                    values.iter().for_each(|value| histogram.record(*value));
                },
                &format!("v histogram; v_sum {expected}; v_count {count}"),
            );
        };
        sum(&[], "0");
        sum(&[1.5, -0.25, -3.0], "-1.75");
        sum(&[f64::INFINITY, 1.0], "+Inf");
        sum(&[f64::NEG_INFINITY, 1.0], "-Inf");
        sum(&[f64::INFINITY, f64::NEG_INFINITY], "NaN");
        sum(&[f64::NAN, 1.0], "NaN");
        sum(&[1e19, 1.0], "+Inf");
        sum(
            &[f64::MIN_POSITIVE, 4_611_686_018_427_387_904.0],
            "4611686018427388000",
        );
    }
}
