//! What is sampled: threads that run, with their registers, in order; not sleepers and not the kernel.

use std::path::Path;

use hitm_collect::RawEvent;
use hitm_model::Nanos;

use super::support::{Program, program, run};

#[test]
fn both_threads_on_a_line_are_sampled() {
    let program = program(
        r#"
        static void *work(void *name) {
          pthread_setname_np(pthread_self(), name);
          spend(*(char *)name == 'l' ? &line.a : &line.b, 300);
          return 0;
        }
        int main(void) {
          pthread_t l, r;
          pthread_create(&l, 0, work, "left");
          pthread_create(&r, 0, work, "right");
          pthread_join(l, 0), pthread_join(r, 0);
          printf("%p %p %d\n", (void *)&line.a, (void *)&line.b, errno);
          return 7;
        }"#,
    );
    let run = run(&mut program.command());
    assert_eq!(run.output.status.code(), Some(7));
    assert_eq!(run.output.stderr, b"");
    assert_eq!(run.condition, None);
    let stdout = run.stdout();
    assert!(stdout.ends_with(" 0\n"), "{stdout}");
    let line = u64::from_str_radix(
        stdout.split_once(' ').unwrap().0.trim_start_matches("0x"),
        16,
    );
    let line = line.unwrap();

    let names = run.names();
    let samples = run.samples();
    for (name, word) in [("left", line), ("right", line + 8)] {
        let tid = *names.iter().find(|(_, found)| **found == name).unwrap().0;
        // 300 ms of processor time are 30 ticks where Linux ticks most seldom, at 100 Hz. A virtual machine that has to
        // wait for its processors gets fewer.
        assert!(samples[&(run.pid, tid)] >= 5, "{name}: {samples:?}");
        let own: Vec<_> = run
            .events
            .iter()
            .filter_map(|event| match event {
                RawEvent::Sample(sample) if sample.tid == tid => Some(sample.registers),
                _ => None,
            })
            .collect();
        let inside = own
            .iter()
            .filter(|registers| {
                run.file_at(run.pid, registers.ip)
                    .is_some_and(|path| Path::new(path) == program.path())
            })
            .count();
        assert!(
            inside * 10 >= own.len() * 9,
            "{name}: {inside} of {} in the program",
            own.len()
        );
        let pointing = own
            .iter()
            .filter(|registers| registers.gpr.contains(&word))
            .count();
        assert!(
            pointing * 2 >= own.len(),
            "{name}: {pointing} of {} point at the word",
            own.len()
        );
        assert_eq!(
            run.count(|event| matches!(event, RawEvent::ThreadPointer { tid: t, .. } if *t == tid)),
            1
        );
        assert_eq!(
            run.count(|event| matches!(event, RawEvent::Ended { tid: t, .. } if *t == tid)),
            1
        );
    }
}

#[test]
fn events_come_in_order_of_time() {
    let program = program("int main(void) { spend(&line.a, 150); return 0; }");
    let run = run(&mut program.command());
    let times: Vec<Nanos> = run
        .events
        .iter()
        .filter_map(|event| match event {
            RawEvent::Sample(sample) => Some(sample.at),
            RawEvent::Born { at, .. }
            | RawEvent::Ended { at, .. }
            | RawEvent::Named { at, .. }
            | RawEvent::Mapped { at, .. } => Some(*at),
            _ => None,
        })
        .collect();
    assert!(times.len() > 5 && times.is_sorted(), "{times:?}");
}

/// Waits in every call that fails with `EINTR` after a handler ran, whatever `SA_RESTART` says, between short bursts of
/// work: a sampler that interrupts sleepers cannot miss it.
#[test]
fn sleeping_threads_are_neither_disturbed_nor_sampled() {
    let program = program(
        r#"
        #include <linux/futex.h>
        #include <poll.h>
        #include <semaphore.h>
        #include <sys/epoll.h>
        #include <sys/select.h>
        #include <sys/socket.h>
        #include <sys/syscall.h>
        static int ep, fds[2], word;
        static sem_t sem;
        static long interrupted[8], calls;
        static void check(int which, int failed) {
          calls++;
          if (failed && errno == EINTR) interrupted[which]++;
        }
        static void *work(void *unused) {
          char c;
          struct epoll_event ev;
          sigset_t usr1;
          sigemptyset(&usr1), sigaddset(&usr1, SIGUSR1);
          for (int i = 0; i < 60; i++) {
            spend(&line.a, 1);
            check(0, nanosleep(&(struct timespec){0, 1000000}, 0));
            check(1, epoll_wait(ep, &ev, 1, 1) < 0);
            check(2, syscall(SYS_futex, &word, FUTEX_WAIT, 0, &(struct timespec){0, 1000000}, 0, 0) < 0);
            check(3, read(fds[0], &c, 1) < 0);
            check(4, poll(0, 0, 1) < 0);
            check(5, select(0, 0, 0, 0, &(struct timeval){0, 1000}) < 0);
            check(6, sigtimedwait(&usr1, 0, &(struct timespec){0, 1000000}) < 0);
            struct timespec t;
            clock_gettime(CLOCK_REALTIME, &t);
            t.tv_nsec += 1000000;
            if (t.tv_nsec >= 1000000000) t.tv_nsec -= 1000000000, t.tv_sec++;
            check(7, sem_timedwait(&sem, &t) < 0);
          }
          return 0;
        }
        static void *sleeper(void *unused) {
          check(0, nanosleep(&(struct timespec){0, 500000000}, 0));
          return 0;
        }
        int main(void) {
          ep = epoll_create1(0);
          socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
          struct timeval timeout = {0, 1000};
          setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
          sem_init(&sem, 0, 0);
          pthread_t w, s;
          pthread_create(&w, 0, work, 0);
          pthread_create(&s, 0, sleeper, 0);
          pthread_setname_np(s, "sleeper");
          pthread_join(w, 0), pthread_join(s, 0);
          for (int i = 0; i < 8; i++) printf("%ld ", interrupted[i]);
          printf("of %ld\n", calls);
          return 0;
        }"#,
    );
    let run = run(&mut program.command());
    assert_eq!(run.stdout(), "0 0 0 0 0 0 0 0 of 481\n");
    let names = run.names();
    let sleeper = *names
        .iter()
        .find(|(_, name)| **name == "sleeper")
        .unwrap()
        .0;
    assert_eq!(run.samples().get(&(run.pid, sleeper)), None);
}

#[test]
fn time_in_the_kernel_is_no_sample() {
    let program = Program::new(
        r#"
        #include <fcntl.h>
        #include <stdlib.h>
        #include <unistd.h>
        int main(void) {
          int fd = open("/dev/zero", O_RDONLY);
          size_t n = 64 << 20;
          char *p = malloc(n);
          for (int i = 0; i < 24; i++) if (read(fd, p, n) < 0) return 1;
          return 0;
        }"#,
    );
    let run = run(&mut program.command());
    assert!(run.kernel_ticks >= 1, "{}", run.kernel_ticks);
    let samples: usize = run.samples().values().sum();
    assert!(
        (samples as u64) <= run.kernel_ticks,
        "{samples} samples, {} ticks",
        run.kernel_ticks
    );
}
