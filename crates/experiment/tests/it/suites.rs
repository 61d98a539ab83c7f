//! Suite files and metrics: what is understood, and what is said of the rest.

use hitm_experiment::{
    Better, Floor, LogRatio, Measured, Metric, Seconds, Side, Suite, SuiteError,
};

const GOOD: &str = r#"
pairs = 12
floor-percent = 3
budget-seconds = 60
[a]
name = "base"
vars = { dir = "/old", port = "7001" }
env = { MALLOC_ARENA_MAX = "1" }
[b]
name = "change"
vars = { dir = "/new", port = "7002" }
directory = "/tmp"
[[row]]
name = "get"
server = "{dir}/server --port {port} --save ''"
ready = "redis-cli -p {port} ping"
client = "redis-benchmark -p {port} -t get --csv"
metric = '"GET","([0-9.]+)"'
[[row]]
name = "start"
command = "{dir}/server --version"
"#;

#[test]
fn a_suite_has_rows_for_both_sides() {
    let suite = Suite::parse(GOOD).unwrap();
    assert_eq!(suite.names, ["base", "change"]);
    assert_eq!(suite.settings.pairs, 12);
    assert_eq!(
        suite.settings.floor,
        Floor::Fixed(LogRatio::from_percent(3.0))
    );
    assert_eq!(suite.settings.budget, Some(Seconds(60.0)));
    let get = &suite.rows[0];
    assert_eq!(get.better, Better::Higher);
    let b = get.side(Side::B);
    assert_eq!(b.words[..3], ["redis-benchmark", "-p", "7002"]);
    let server = ["/new/server", "--port", "7002", "--save", ""];
    assert_eq!(b.server.as_deref().unwrap(), server);
    assert_eq!(b.directory.as_deref(), Some("/tmp"));
    let a = get.side(Side::A);
    assert_eq!(
        a.variables,
        [("MALLOC_ARENA_MAX".to_owned(), "1".to_owned())]
    );
    assert_eq!(suite.rows[1].better, Better::Lower);
    assert_eq!(suite.rows[1].side(Side::A).server, None);
}

/// What is said of a suite that differs from the good one by a replacement.
fn check(from: &str, to: &str, expected: &str) {
    assert!(GOOD.contains(from), "{from}");
    let error = Suite::parse(&GOOD.replacen(from, to, 1))
        .unwrap_err()
        .to_string();
    assert!(error.contains(expected), "{to}: {error}");
}

#[test]
fn mistakes_are_said_with_their_place() {
    check("pairs = 12", "pears = 12", "line 2");
    check("pairs = 12", "pears = 12", "pears");
    check("metric =", "metrik =", "metrik");
    check(
        "name = \"start\"",
        "name = \"get\"",
        "two rows are called get",
    );
    check(
        "{dir}/server --version",
        "{folder}/server",
        "{folder} is none of the vars of side a ([a.vars] has dir, port)",
    );
    check("{dir}/server --version", "{dir/server", "dir/server");
    check("{dir}/server --version", "'server", "a quote is not closed");
    check("{dir}/server --version", " ", "is no command");
    check("([0-9.]+)", "[0-9.]+", "one group");
    check("([0-9.]+)", "([0-9.+)", "regular expression");
    check(
        "floor-percent = 3",
        "floor-percent = -3",
        "floor-percent is -3",
    );
    check("pairs = 12", "pairs = -1", "line 2");
    let none = Suite::parse("[a]\nname='x'\n[b]\nname='y'\n").unwrap_err();
    assert_eq!(none, SuiteError::NoRows);
}

fn value(metric: &str, stdout: &str) -> Result<f64, String> {
    let measured = Measured {
        wall: Seconds(1.5),
        cpu: Seconds(2.5),
        max_rss: 4096,
        stdout,
        stderr: "time: 7 s",
    };
    let metric = Metric::parse(metric).map_err(|error| error.to_string())?;
    metric.of(&measured).map_err(|error| error.to_string())
}

#[test]
fn metrics_are_taken_from_what_a_command_takes_or_prints() {
    for (metric, stdout, expected) in [
        ("wall", "", 1.5),
        ("cpu", "", 2.5),
        ("rss", "", 4096.0),
        ("ops: ([0-9.,]+)", "ops: 1,234,567.5\n", 1_234_567.5),
        ("time: ([0-9]+)", "nothing", 7.0),
        ("json:/a/1/b", r#"{"a": [0, {"b": 3e2}]}"#, 300.0),
        ("json:/a", r#"{"a": "12.5"}"#, 12.5),
    ] {
        assert_eq!(value(metric, stdout), Ok(expected), "{metric}");
    }
}

#[test]
fn a_metric_that_is_not_there_is_no_number() {
    for (metric, stdout, expected) in [
        (
            "ops: ([0-9]+)",
            "",
            "nothing that the command printed matches",
        ),
        ("ops: ([0-9]+)", "ops: 1\nops: 2", "matches 2 times"),
        ("ops: (.*)", "ops: many", "\"many\" is no number"),
        ("json:/a", "no json", "did not print JSON"),
        ("json:/a", "{}", "matches json:/a"),
        ("json:/a", r#"{"a": true}"#, "true"),
        ("x", "", "it has 0"),
        ("(a)(b)", "", "it has 2"),
        ("(", "", "regular expression"),
    ] {
        let error = value(metric, stdout).unwrap_err();
        assert!(error.contains(expected), "{metric}: {error}");
    }
}
