//! The agent as a library: what it exports and what it needs.

use std::process::Command;

use hitm_collect::preload::Preload;
use hitm_model::Nanos;

#[test]
fn the_agent_needs_and_shows_no_more_than_it_must() {
    let sampler = Preload::new(Nanos::from_millis(1)).unwrap();
    let environment = sampler.environment();
    let library = &environment
        .iter()
        .find(|(name, _)| name == "LD_PRELOAD")
        .unwrap()
        .1;
    let tool = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .arg(library)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let exported: Vec<String> = tool("nm", &["-D", "--defined-only", "--format=just-symbols"])
        .lines()
        .map(str::to_owned)
        .collect();
    assert_eq!(
        exported,
        [
            "pthread_create",
            "pthread_sigmask",
            "sigaction",
            "signal",
            "sigprocmask",
            "thrd_create"
        ]
    );
    let needed: Vec<String> = tool("readelf", &["-d"])
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .map(|line| line.split(['[', ']']).nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(needed, ["libc.so.6"]);
    // Nothing that allocates or panics is linked in.
    let wanted = tool("nm", &["-D", "--undefined-only", "--format=just-symbols"]);
    for name in ["malloc", "calloc", "realloc", "pthread_mutex_lock", "abort"] {
        assert!(
            !wanted.lines().any(|line| line.starts_with(name)),
            "{name} in {wanted}"
        );
    }
}
