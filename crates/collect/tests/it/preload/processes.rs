//! Children, programs executed one after the other, short threads, libraries loaded later.

use std::{collections::BTreeSet, process::Command};

use hitm_collect::{RawEvent, preload::Condition};
use hitm_model::{Avma, Pid, Tid};

use super::support::{Program, SPEND, program, run};

#[test]
fn a_forked_child_is_a_process_of_its_own() {
    let program = program(
        r#"
        static void *work(void *unused) { spend(&line.b, 150); return 0; }
        int main(void) {
          pthread_t t;
          pid_t child = fork();
          if (!child) {
            pthread_create(&t, 0, work, 0);
            spend(&line.a, 150);
            pthread_join(t, 0);
            _exit(3);
          }
          spend(&line.a, 150);
          int status;
          waitpid(child, &status, 0);
          printf("%d\n", child);
          return WEXITSTATUS(status);
        }"#,
    );
    let run = run(&mut program.command());
    assert_eq!(run.output.status.code(), Some(3));
    let child = Pid(run.stdout().trim().parse().unwrap());
    let born = |event: &RawEvent| matches!(event, RawEvent::Born { pid, parent_pid, .. } if *pid == child && *parent_pid == run.pid);
    assert_eq!(run.count(born), 1);
    let samples = run.samples();
    let of = |wanted: Pid| -> Vec<usize> {
        samples
            .iter()
            .filter(|((pid, _), _)| *pid == wanted)
            .map(|(_, count)| *count)
            .collect()
    };
    assert!(of(run.pid).len() == 1 && of(run.pid)[0] >= 1, "{samples:?}");
    assert!(
        of(child).len() == 2 && of(child).iter().all(|count| *count >= 1),
        "{samples:?}"
    );
}

#[test]
fn each_program_of_an_exec_chain_is_sampled() {
    let program = program("int main(void) { spend(&line.a, 150); puts(\"done\"); return 4; }");
    let script = format!("exec env HITM_TEST=1 {}", program.path().display());
    let run = run(Command::new("sh").args(["-c", &script]));
    assert_eq!(
        (run.stdout().as_str(), run.output.status.code()),
        ("done\n", Some(4))
    );
    assert_eq!(run.output.stderr, b"");
    let pid = run.pid;
    assert_eq!(
        run.programs(),
        [(pid, "sh"), (pid, "env"), (pid, "program")]
    );
    assert_eq!(run.count(|event| matches!(event, RawEvent::Born { .. })), 0);
    let ip = run.events.iter().rev().find_map(|event| match event {
        RawEvent::Sample(sample) => Some(sample.registers.ip),
        _ => None,
    });
    assert!(run.file_at(pid, ip.unwrap()).is_some());
}

#[test]
fn a_shells_children_are_sampled() {
    let program = program("int main(void) { spend(&line.a, 150); return 0; }");
    let path = program.path();
    let run = run(Command::new("sh")
        .arg("-c")
        .arg(format!("{0}; {0}; true", path.display())));
    let programs: BTreeSet<_> = run
        .programs()
        .into_iter()
        .filter(|(_, name)| *name == "program")
        .collect();
    assert_eq!(programs.len(), 2);
    for (pid, _) in programs {
        assert!(run.samples().contains_key(&(pid, Tid(pid.0))));
    }
}

#[test]
fn thousands_of_short_threads() {
    let program = program(
        r#"
        static void *work(void *name) { pthread_setname_np(pthread_self(), name); return 0; }
        static void *leave(void *name) { pthread_setname_np(pthread_self(), name); pthread_exit(0); }
        int main(void) {
          for (int i = 0; i < 2500; i++) {
            pthread_t a, b;
            if (pthread_create(&a, 0, work, "short") || pthread_create(&b, 0, leave, "short")) return 1;
            pthread_join(a, 0), pthread_join(b, 0);
          }
          return 0;
        }"#,
    );
    let run = run(&mut program.command());
    assert_eq!(run.output.status.code(), Some(0));
    assert_eq!(run.condition, None);
    let lost: u64 = run
        .events
        .iter()
        .map(|event| {
            if let RawEvent::Lost { events, .. } = event {
                *events
            } else {
                0
            }
        })
        .sum();
    let born = run.count(|event| matches!(event, RawEvent::Born { .. }));
    let ended = run.count(|event| matches!(event, RawEvent::Ended { .. }));
    let named = run.count(|event| matches!(event, RawEvent::Named { name, .. } if name == "short"));
    assert!(
        born <= 5000 && born as u64 + lost >= 5000,
        "{born} born, {lost} lost"
    );
    assert!(ended as u64 + lost >= 5000, "{ended} ended, {lost} lost");
    assert!(named as u64 + lost >= 5000, "{named} named, {lost} lost");
}

#[test]
fn a_static_program_is_noticed() {
    let program = Program::with("int main(void) { return 5; }", &["-static"]);
    let run = run(&mut program.command());
    assert_eq!(run.output.status.code(), Some(5));
    assert_eq!(run.condition, Some(Condition::NotLoaded));
    assert_eq!(run.samples().len(), 0);
}

#[test]
fn libraries_loaded_later_are_mapped() {
    let program = Program::with(
        &format!(
            "{SPEND}{}",
            r#"
            #include <dlfcn.h>
            int main(void) {
              spend(&line.a, 20);
              void *m = dlopen("libm.so.6", RTLD_NOW);
              double (*cosine)(double) = (double (*)(double))dlsym(m, "cos");
              printf("%p\n", (void *)cosine);
              volatile double x = 1;
              for (int i = 0; i < 8000000; i++) x = cosine(x);
              return 0;
            }"#
        ),
        &["-pthread", "-ldl"],
    );
    let run = run(&mut program.command());
    let address = u64::from_str_radix(run.stdout().trim().trim_start_matches("0x"), 16).unwrap();
    let file = run.file_at(run.pid, Avma(address)).unwrap();
    assert!(file.contains("libm"), "{file}");
}
