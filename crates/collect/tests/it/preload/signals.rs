//! Programs with signals of their own: they get theirs and never see the agent's.

use hitm_collect::preload::Condition;
use hitm_model::Tid;

use super::support::{program, run};

#[test]
fn the_programs_own_profiling_signal_works() {
    let program = program(
        r#"
        #include <sys/time.h>
        static volatile int own;
        static void handler(int s) { own++; }
        int main(void) {
          signal(SIGPROF, handler);
          struct itimerval it = {{0, 10000}, {0, 10000}};
          setitimer(ITIMER_PROF, &it, 0);
          spend(&line.a, 300);
          printf("%d\n", own);
          return 0;
        }"#,
    );
    let run = run(&mut program.command());
    let own: u32 = run.stdout().trim().parse().unwrap();
    assert!(own >= 1, "{own}");
    assert!(run.samples().contains_key(&(run.pid, Tid(run.pid.0))));
}

#[test]
fn a_program_that_wants_every_signal_gets_it() {
    let program = program(
        r#"
        static volatile int unexpected, wanted;
        static void handler(int s) { if (s == wanted) wanted = 0; else unexpected++; }
        int main(void) {
          for (int s = SIGRTMIN; s <= SIGRTMAX; s++) {
            struct sigaction old, new = {.sa_handler = handler};
            if (sigaction(s, &new, &old) || old.sa_handler != SIG_DFL) return 1;
          }
          spend(&line.a, 150);
          int missing = 0;
          for (int s = SIGRTMIN; s <= SIGRTMAX; s++) {
            wanted = s;
            raise(s);
            missing += wanted != 0;
          }
          printf("%d unexpected, %d missing\n", unexpected, missing);
          return 0;
        }"#,
    );
    let run = run(&mut program.command());
    assert_eq!(run.stdout(), "0 unexpected, 0 missing\n");
    assert_eq!(run.condition, Some(Condition::SignalTaken(1)));
}

/// Threads that block all signals are sampled, and `sigwait` for all of them never sees the agent's.
#[test]
fn blocking_every_signal_hides_nothing_and_shows_nothing() {
    let program = program(
        r#"
        static void *work(void *unused) { spend(&line.a, 150); return 0; }
        int main(void) {
          sigset_t all, now;
          sigfillset(&all);
          pthread_sigmask(SIG_SETMASK, &all, 0);
          pthread_t t;
          pthread_create(&t, 0, work, 0);
          spend(&line.b, 150);
          pthread_join(t, 0);
          int got = sigtimedwait(&all, 0, &(struct timespec){0, 100000000});
          printf("%d %d\n", got, errno == EAGAIN);
          return 0;
        }"#,
    );
    let run = run(&mut program.command());
    assert_eq!(run.stdout(), "-1 1\n");
    assert_eq!(run.samples().len(), 2, "{:?}", run.samples());
}
