//! The environment of a container, where `perf_event_open` is refused.

use std::{sync::atomic::AtomicBool, thread};

use hitm_collect::{Rate, RunOptions, SamplerChoice, record_run};
use hitm_model::{Event, ExitStatus, SamplerKind};

use super::support::program;

/// The environment of a container: `perf_event_open` is refused to the recorder and to the program, which tries it
/// itself to prove that.
#[test]
fn auto_falls_back_where_perf_event_open_is_refused() {
    let program = program(
        r#"
        #include <sys/syscall.h>
        int main(void) {
          int refused = syscall(SYS_perf_event_open, 0, 0, 0, 0, 0) == -1 && errno == EPERM;
          spend(&line.a, 150);
          return refused ? 6 : 5;
        }"#,
    );
    // A filter is for the thread that installs it and what that thread makes.
    let recorded = thread::spawn(move || {
        refuse_perf_event_open();
        let mut recording = Vec::new();
        let options = RunOptions {
            command: &[program.path().into_os_string()],
            environment: &std::env::vars_os().collect::<Vec<_>>(),
            rate: Rate::Auto,
            sampler: SamplerChoice::Auto,
            duration: None,
            child_stdout_to_stderr: false,
            interrupt: &AtomicBool::new(false),
        };
        let writer = hitm_recording::Writer::new(&mut recording).unwrap();
        let outcome = record_run(&options, writer, &mut |_| {}).unwrap();
        (outcome, recording)
    });
    let (outcome, recording) = recorded.join().unwrap();
    assert_eq!(outcome.child, Some(ExitStatus::Code(6)));
    assert_eq!(outcome.sampler.kind, SamplerKind::Preload);
    let why = outcome.sampler.fallback.unwrap();
    assert!(why.contains("perf_event_open is refused"), "{why}");
    let (events, _) = hitm_recording::read_slice(&recording).unwrap();
    let samples = events
        .iter()
        .filter(|event| matches!(event, Event::Sample(_)));
    assert!(samples.count() >= 1);
}

/// Installs a filter as the usual profiles of containers have: `perf_event_open` fails with `EPERM`.
#[expect(unsafe_code, reason = "seccomp has no wrapper")]
fn refuse_perf_event_open() {
    let instruction = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt,
        jf,
        k,
    };
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    let number = u32::try_from(libc::SYS_perf_event_open).unwrap();
    let mut code = [
        // The number of the call is the first word of `struct seccomp_data`.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, refuse),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: 4,
        filter: code.as_mut_ptr(),
    };
    // SAFETY: takes numbers.
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(result, 0);
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the kernel copies the four instructions.
    let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter) };
    assert_eq!(result, 0);
}
