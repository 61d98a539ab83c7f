//! What tables say of measured costs.

use hitm_model::Report;
use hitm_report::TableOptions;

use crate::costs;
use crate::table::{at, render};

/// The titles of the findings, and the paragraphs of what was measured and of the sampled cost.
fn told(report: &Report, options: TableOptions<'_>) -> String {
    let text = render(report, options);
    let mut told = Vec::new();
    let mut in_title = false;
    let mut inside = false;
    for line in text.lines() {
        let label = line.get(..15).unwrap_or(line).trim();
        let is_title = line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(". ");
        let goes_on = label.is_empty() && !line.trim().is_empty();
        if line.starts_with("Threads compared") {
            break;
        }
        in_title = is_title || in_title && !line.starts_with("     ");
        inside = matches!(label, "measured" | "cost") || inside && goes_on;
        if in_title || inside {
            told.push(line);
        }
    }
    told.join("\n")
}

/// From the section of compared threads on, to the denominators.
fn compared(report: &Report, options: TableOptions<'_>) -> String {
    let text = render(report, options);
    let start = text.find("Threads compared").unwrap_or(text.len());
    let end = text.rfind("basis  ").unwrap_or(text.len());
    text[start..end].trim_end().to_owned()
}

#[test]
fn two_measures_at_80() {
    insta::assert_snapshot!(render(&costs::two_measures(), at(80)), @r#"
    ./prog --name 'it'\''s me'  4.01 s, exited with 0
    9 threads, 31,290 samples at 1000 Hz (about 2.6 % of the threads' time), perf

    1. false sharing: COUNTS, costs 6.3× [4.6, 8.0]
         COUNTS: [collector::Slot; 8], 64 bytes at 0x5555555b0040 in .bss of prog,
         declared at src/main.rs:12
       repair      give each element of COUNTS a line of its own:
                   `#[repr(align(64))]` on collector::Slot (adds 448 bytes)

       0x5555555b0040  A B C D E F G H   30,400 samples
       8 bytes a cell, capitals write

          threads              does    bytes    of time  field
       A  worker-0 (tid 4242)  atomic  +0..8       97 %  COUNTS[0].hits
       B  worker-1 (tid 4243)  atomic  +8..16      97 %  COUNTS[1].hits
       C  worker-2 (tid 4244)  atomic  +16..24     97 %  COUNTS[2].hits
       D  worker-3 (tid 4245)  atomic  +24..32     97 %  COUNTS[3].hits
       E  worker-4 (tid 4246)  atomic  +32..40     97 %  COUNTS[4].hits
       F  worker-5 (tid 4247)  atomic  +40..48     97 %  COUNTS[5].hits
       G  worker-6 (tid 4248)  atomic  +48..56     97 %  COUNTS[6].hits
       H  worker-7 (tid 4249)  atomic  +56..64     97 %  COUNTS[7].hits
            A–H: core::sync::atomic::atomic_add::<u64> ← collector::record ←
            collector::worker::{closure#0}, src/main.rs:31

       measured    `worker-1` (tid 4243) runs 6.3× [4.6, 8.0] faster when it does
                   not share with `worker-0`, by rbx at worker, src/main.c:40
                   (4.8× [4.6, 5.3]) and by the word COUNTS[1].hits
                   (7.8× [7.6, 8.0])
                   `worker-0` (tid 4242) 6.1× [4.4, 7.8], by rbx at worker,
                   src/main.c:40 (4.6× [4.4, 5.1]) and by the word COUNTS[0].hits
                   (7.6× [7.4, 7.8])
                   8 windows of 100 ms apart and 8 together, none dropped; apart
                   against apart within 1.02×; on cores that share the last cache
                   (processors 0 and 1); the program lost 1.2 s of processor time by
                   it
       cost        at most 97 % of the participants' time as sampled: 30,400 of
                   their 31,280 samples
       confidence  high: 27,360 of 30,400 samples met an opposing access of another
                   thread, within 2 ms before and after: 27,360 on disjoint bytes, 0
                   on the same bytes; 24,320 on another processor
       next        hitm prove -- ./prog --name 'it'\''s me'

    basis  31,290 samples (0 lost, 4 undecoded), 62,007 memory operands (310 with an
           address that is not known, 1 outside every mapping); threads were seen on
           two or more processors at once in 98 % of the time
    "#);
}

#[test]
fn two_measures_at_120() {
    insta::assert_snapshot!(told(&costs::two_measures(), at(120)), @r#"
    1. false sharing: COUNTS, costs 6.3× [4.6, 8.0]
       measured    `worker-1` (tid 4243) runs 6.3× [4.6, 8.0] faster when it does not share with `worker-0`, by rbx at
                   worker, src/main.c:40 (4.8× [4.6, 5.3]) and by the word COUNTS[1].hits (7.8× [7.6, 8.0])
                   `worker-0` (tid 4242) 6.1× [4.4, 7.8], by rbx at worker, src/main.c:40 (4.6× [4.4, 5.1]) and by the word
                   COUNTS[0].hits (7.6× [7.4, 7.8])
                   8 windows of 100 ms apart and 8 together, none dropped; apart against apart within 1.02×; on cores that
                   share the last cache (processors 0 and 1); the program lost 1.2 s of processor time by it
       cost        at most 97 % of the participants' time as sampled: 30,400 of their 31,280 samples
    "#);
}

#[test]
fn two_measures_with_all() {
    let options = TableOptions {
        all: true,
        ..at(120)
    };
    insta::assert_snapshot!(told(&costs::two_measures(), options), @r#"
    1. false sharing: COUNTS, costs 6.3× [4.6, 8.0]
       measured    `worker-1` (tid 4243) runs 6.3× [4.6, 8.0] faster when it does not share with `worker-0`
                       rbx at worker, src/main.c:40 (prog+0x1193): 4.8× [4.6, 5.3]; 1,180 of 1,234 steps are steady, over
                       98 % of its time, dispersion 2.1 %
                       the word COUNTS[1].hits at 0x5555555b0040: 7.8× [7.6, 8.0]; 1,180 of 1,234 steps are steady, over
                       98 % of its time, dispersion 2.1 %
                       apart against apart: within 1.02×
                   `worker-0` (tid 4242) 6.1× [4.4, 7.8]
                       rbx at worker, src/main.c:40 (prog+0x1193): 4.6× [4.4, 5.1]; 1,180 of 1,234 steps are steady, over
                       98 % of its time, dispersion 2.1 %
                       the word COUNTS[0].hits at 0x5555555b0040: 7.6× [7.4, 7.8]; 1,180 of 1,234 steps are steady, over
                       98 % of its time, dispersion 2.1 %
                       apart against apart: within 1.02×
                   8 windows of 100 ms apart and 8 together, none dropped; apart against apart within 1.02×; on cores that
                   share the last cache (processors 0 and 1); divided by 0.99× to 1.00×, which placement alone does here;
                   the program lost 1.2 s of processor time by it
       cost        at most 97 % of the participants' time as sampled: 30,400 of their 31,280 samples
    "#);
}

#[test]
fn a_rare_victim() {
    insta::assert_snapshot!(told(&costs::rare_victim(), at(80)), @r#"
    1. false sharing: mem_array_idx and global_epoch, costs 2.8× [2.6, 3.0]
       measured    `reader` (tid 72) runs 2.8× [2.6, 3.0] faster when it does not
                   share with `spawner`; `spawner` (tid 71) 1.06× [1.03, 1.10], both
                   by rbx at worker, src/main.c:40
                   7 windows of 100 ms apart and 7 together, 2 dropped because a
                   thread did not get its processor; apart against apart within
                   1.02×; on cores that share the last cache (processors 0 and 1);
                   divided by 0.95× to 1.03×, which placement alone does here; the
                   program lost 1.2 s of processor time by it
       cost        at most 53 % of the participants' time as sampled: 4,222 of their
                   8,000 samples; at most 97 % of reader's time
    "#);
    insta::assert_snapshot!(told(&costs::rare_victim(), at(120)), @r#"
    1. false sharing: mem_array_idx and global_epoch, costs 2.8× [2.6, 3.0]
       measured    `reader` (tid 72) runs 2.8× [2.6, 3.0] faster when it does not share with `spawner`; `spawner` (tid 71)
                   1.06× [1.03, 1.10], both by rbx at worker, src/main.c:40
                   7 windows of 100 ms apart and 7 together, 2 dropped because a thread did not get its processor; apart
                   against apart within 1.02×; on cores that share the last cache (processors 0 and 1); divided by 0.95× to
                   1.03×, which placement alone does here; the program lost 1.2 s of processor time by it
       cost        at most 53 % of the participants' time as sampled: 4,222 of their 8,000 samples; at most 97 % of reader's
                   time
    "#);
}

#[test]
fn shared_and_cheap() {
    insta::assert_snapshot!(told(&costs::cheap(), at(80)), @r#"
    1. false sharing: (heap) Shard, no measurable cost (1.00× [0.98, 1.02])
       measured    `consumer` (tid 32) runs no faster when it does not share with
                   `producer`: 1.00× [0.98, 1.02]; `producer` (tid 31) no faster:
                   0.99× [0.98, 1.01], both by rbx at worker, src/main.c:40
                   shared and cheap: a repair of the layout gains these threads
                   nothing
                   8 windows of 100 ms apart and 8 together, none dropped; apart
                   against apart within 1.02×; on cores that share the last cache
                   (processors 0 and 1); the program lost 1.2 s of processor time by
                   it
       cost        at most 77 % of the participants' time as sampled: 1,540 of their
                   2,000 samples
    "#);
}

#[test]
fn within_the_noise() {
    insta::assert_snapshot!(told(&costs::within_the_noise(), at(80)), @r#"
    1. false sharing: (heap) Shard, a cost within the noise (1.15× [1.02, 1.31])
       measured    `producer` (tid 31) may run 1.15× [1.02, 1.31] faster when it
                   does not share with `consumer`, which is within the noise;
                   `consumer` (tid 32) no faster: 1.00× [0.98, 1.02], both by rbx at
                   worker, src/main.c:40
                   8 windows of 100 ms apart and 8 together, none dropped; apart
                   against apart within 1.20×; on cores that share the last cache
                   (processors 0 and 1); not calibrated: what turbo clocks do is in
                   it; the program lost 1.2 s of processor time by it
       cost        at most 77 % of the participants' time as sampled: 1,540 of their
                   2,000 samples
    "#);
}

#[test]
fn refusals() {
    insta::assert_snapshot!(told(&costs::waits(), at(80)), @r#"
    1. false sharing: mem_array_idx and global_epoch, at most 53 % of the
       participants' time, 97 % of reader's
       measured    cannot tell this way: `spawner` does nothing but look at what
                   another writes in take, src/ring.c:40 for 40 % of its samples (as
                   threads do that wait for each other, and on one core they wait
                   differently); an A/B of the two layouts would tell: run both and
                   compare (planned: `hitm compare`)
                   8 windows of 100 ms apart and 8 together, none dropped; on cores
                   that share the last cache (processors 0 and 1); the program lost
                   1.2 s of processor time by it
       cost        at most 53 % of the participants' time as sampled: 4,222 of their
                   8,000 samples; at most 97 % of reader's time
    "#);
    insta::assert_snapshot!(compared(&costs::waits(), at(80)), @r#"
    Threads compared that share no listed line

         queue and worker
       measured    cannot tell this way: `queue` sleeps for 35 % of the time and
                   gives its processor up 1,204 times a second, `worker` hands a
                   common processor over 51,235 times a second (what a thread gets
                   done that sleeps does not depend on its processor time alone); an
                   A/B of the two layouts would tell: run both and compare (planned:
                   `hitm compare`)
                   8 windows of 100 ms apart and 8 together, none dropped; on cores
                   that share the last cache (processors 0 and 1); the program lost
                   1.2 s of processor time by it
    "#);
    insta::assert_snapshot!(told(&costs::no_measure(), at(80)), @r#"
    1. false sharing: mem_array_idx and global_epoch, at most 53 % of the
       participants' time, 97 % of reader's
       measured    `spawner` (tid 71): no progress measure found, no number; name
                   one: `--progress SYMBOL` or `--progress FILE:LINE`
                   `reader` (tid 72): no number: its measures of progress disagree,
                   from 1.21× to 390×; name the right one: `--progress SYMBOL` or
                   `--progress FILE:LINE`
                   8 windows of 100 ms apart and 8 together, none dropped; on cores
                   that share the last cache (processors 0 and 1); the program lost
                   1.2 s of processor time by it
       cost        at most 53 % of the participants' time as sampled: 4,222 of their
                   8,000 samples; at most 97 % of reader's time
    "#);
    insta::assert_snapshot!(told(&costs::ended(), at(80)), @r#"
    1. false sharing: COUNTS, at most 97 % of the participants' time
       measured    ended after 3 of 16 windows (a thread ended); severity stays the
                   sampled one; give the program more work, or ask for fewer or
                   shorter ones: `--windows N`, `--window MS`
                   2 windows of 100 ms apart and 1 together, none dropped; on cores
                   that share the last cache (processors 0 and 1); the program lost
                   1.2 s of processor time by it
       cost        at most 97 % of the participants' time as sampled: 30,400 of
                   their 31,280 samples
    "#);
    insta::assert_snapshot!(told(&costs::noisy_machine(), at(80)), @r#"
    1. false sharing: COUNTS, at most 97 % of the participants' time
       measured    cannot tell on this machine now: in 6 of 8 windows a thread did
                   not get its processor; try again while the machine is quieter;
                   where the program itself has more busy threads than there are
                   processors, that takes a machine with more
                   8 windows of 100 ms apart and 8 together, none dropped; on cores
                   that share the last cache (processors 0 and 1); the program lost
                   1.2 s of processor time by it
       cost        at most 97 % of the participants' time as sampled: 30,400 of
                   their 31,280 samples
    "#);
    insta::assert_snapshot!(compared(&costs::noisy_machine(), at(80)), @r#"
    Threads compared that share no listed line

         a and b
       measured    the cpuset has one processor; give it two: `taskset -cp 0,1 4242`
    "#);
}

#[test]
fn what_stays_whatever_the_layout() {
    insta::assert_snapshot!(told(&costs::mixed(), at(80)), @r#"
    1. mixed sharing: server, costs 4.8× [4.5, 5.2]
       measured    `io_thd_1` (tid 901) runs 4.8× [4.5, 5.2] faster when it does not
                   share with `io_thd_3`; `io_thd_3` (tid 903) 2.1× [2.0, 2.3], both
                   by rbx at worker, src/main.c:40
                   of the cost about 60 % is on the same bytes and stays whatever
                   the layout (an estimate by how often they met)
                   8 windows of 100 ms apart and 8 together, none dropped; apart
                   against apart within 1.02×; on cores that share the last cache
                   (processors 0 and 1); the program lost 1.2 s of processor time by
                   it
       cost        at most 33 % of the participants' time as sampled: 2,000 of their
                   6,000 samples; at most 50 % of one thread's time
    "#);
    insta::assert_snapshot!(told(&costs::true_sharing(), at(80)), @r#"
    1. true sharing: hits, costs 5.1× [4.9, 5.4]
       measured    all of them together run 5.1× [4.9, 5.4] faster when they do not
                   share, by the word hits (named by `--progress hits`)
                   all of the cost is on the same bytes and stays whatever the
                   layout
                   8 windows of 100 ms apart and 9 together, none dropped; 12 of
                   each were planned: the time for it was over; apart against apart
                   within 1.02×; on cores that share the last cache (processors 0,
                   1, 2 and 3); the program lost 1.2 s of processor time by it
       cost        at most 88 % of the participants' time as sampled: 7,000 of their
                   8,000 samples
    "#);
}

#[test]
fn one_ratio_of_two_findings() {
    insta::assert_snapshot!(told(&costs::two_findings(), at(80)), @r#"
    1. false sharing: COUNTS, costs 5.3× [5.1, 5.5] together with 2
       measured    `worker` (tid 4242) runs 5.3× [5.1, 5.5] faster when it does not
                   share with the other `worker`; `worker` (tid 4243)
                   5.1× [4.9, 5.2], both by rbx at worker, src/main.c:40
                   the same threads share hits (finding 2) as well: the ratio is
                   what all of it costs together
                   of the cost about 30 % is on the same bytes and stays whatever
                   the layout (an estimate by how often they met)
                   8 windows of 100 ms apart and 8 together, none dropped; apart
                   against apart within 1.02×; on cores that share the last cache
                   (processors 0 and 1); the program lost 1.2 s of processor time by
                   it
       cost        at most 97 % of the participants' time as sampled: 30,400 of
                   their 31,280 samples
    2. true sharing: hits, costs 5.3× [5.1, 5.5] together with 1
       measured    `worker` (tid 4242) runs 5.3× [5.1, 5.5] faster when it does not
                   share with the other `worker`; `worker` (tid 4243)
                   5.1× [4.9, 5.2], both by rbx at worker, src/main.c:40
                   the same threads share COUNTS (finding 1) as well: the ratio is
                   what all of it costs together
                   of the cost about 30 % is on the same bytes and stays whatever
                   the layout (an estimate by how often they met)
                   8 windows of 100 ms apart and 8 together, none dropped; apart
                   against apart within 1.02×; on cores that share the last cache
                   (processors 0 and 1); the program lost 1.2 s of processor time by
                   it
       cost        at most 88 % of the participants' time as sampled: 7,000 of their
                   8,000 samples
    "#);
}

#[test]
fn several_kinds_of_core_pair() {
    insta::assert_snapshot!(told(&costs::matrix(), at(80)), @r#"
    1. false sharing: mem_array_idx and global_epoch, costs 7.3× [7.1, 7.5]
       measured    how much faster each runs when they do not share, by the cores
                   they run on:
                   SMT siblings   `reader` (tid 72) 1.40× [1.20, 1.60], `spawner`
                                  (tid 71) no faster: 1.00× [0.98, 1.02]
                   other package  `reader` (tid 72) 7.3× [7.1, 7.5], `spawner` (tid
                                  71) no faster: 1.00× [0.98, 1.02]
                   16 windows of 100 ms apart and 16 together, none dropped; apart
                   against apart within 1.02×; the program lost 2.5 s of processor
                   time by it
       cost        at most 53 % of the participants' time as sampled: 4,222 of their
                   8,000 samples; at most 97 % of reader's time
    "#);
    let options = TableOptions {
        all: true,
        ..at(120)
    };
    insta::assert_snapshot!(told(&costs::matrix(), options), @r#"
    1. false sharing: mem_array_idx and global_epoch, costs 7.3× [7.1, 7.5]
       measured    how much faster each runs when they do not share, by the cores they run on:
                   SMT siblings   `reader` (tid 72) 1.40× [1.20, 1.60], `spawner` (tid 71) no faster: 1.00× [0.98, 1.02]
                       `reader` (tid 72):
                       rbx at worker, src/main.c:40 (prog+0x1193): 1.40× [1.20, 1.60]; 1,180 of 1,234 steps are steady, over
                       98 % of its time, dispersion 2.1 %
                       apart against apart: within 1.02×
                       `spawner` (tid 71):
                       rbx at worker, src/main.c:40 (prog+0x1193): 1.00× [0.98, 1.02]; 1,180 of 1,234 steps are steady, over
                       98 % of its time, dispersion 2.1 %
                       apart against apart: within 1.02×
                       8 windows of 100 ms apart and 8 together, none dropped; apart against apart within 1.02×; on hardware
                       threads of one core (processors 0 and 4); divided by 0.99× to 1.00×, which placement alone does here;
                       the program lost 1.2 s of processor time by it
                   other package  `reader` (tid 72) 7.3× [7.1, 7.5], `spawner` (tid 71) no faster: 1.00× [0.98, 1.02]
                       `reader` (tid 72):
                       rbx at worker, src/main.c:40 (prog+0x1193): 7.3× [7.1, 7.5]; 1,180 of 1,234 steps are steady, over
                       98 % of its time, dispersion 2.1 %
                       apart against apart: within 1.02×
                       `spawner` (tid 71):
                       rbx at worker, src/main.c:40 (prog+0x1193): 1.00× [0.98, 1.02]; 1,180 of 1,234 steps are steady, over
                       98 % of its time, dispersion 2.1 %
                       apart against apart: within 1.02×
                       8 windows of 100 ms apart and 8 together, none dropped; apart against apart within 1.02×; on cores of
                       different packages (processors 0 and 8); divided by 0.99× to 1.00×, which placement alone does here;
                       the program lost 1.2 s of processor time by it
       cost        at most 53 % of the participants' time as sampled: 4,222 of their 8,000 samples; at most 97 % of reader's
                   time
    "#);
}

#[test]
fn several_pairs_of_threads() {
    insta::assert_snapshot!(told(&costs::pairs(), at(80)), @r#"
    1. false sharing: COUNTS, costs 5.3× [5.1, 5.5]
       measured    `worker` (tid 4242) runs 5.3× [5.1, 5.5] faster when it does not
                   share with the other `worker`; `worker` (tid 4243)
                   5.2× [5.0, 5.4], both by rbx at worker, src/main.c:40
                   `worker` (tid 4244) runs 4.1× [3.9, 4.3] faster when it does not
                   share with the other `worker`; `worker` (tid 4245)
                   4.0× [3.8, 4.2], both by rbx at worker, src/main.c:40
                   16 windows of 100 ms apart and 16 together, none dropped; apart
                   against apart within 1.02×; the program lost 2.5 s of processor
                   time by it
       cost        at most 97 % of the participants' time as sampled: 30,400 of
                   their 31,280 samples
    "#);
}

#[test]
fn no_line_is_shared() {
    insta::assert_snapshot!(render(&costs::neighbours(), at(80)), @r#"
    ./prog --name 'it'\''s me'  4.01 s, exited with 0
    9 threads, 31,290 samples at 1000 Hz (about 2.6 % of the threads' time), perf

    No line was found that threads fight over.
    Looked for: 64-byte lines that two threads touch at nearly the same time, at
    least one of them writing. That none was seen is no proof that there is none:
    only code that ran was sampled, at these moments.

    Threads compared that share no listed line

         lower and upper: 1.7× [1.6, 1.8]
       measured    `upper` (tid 8) runs 1.7× [1.6, 1.8] faster when it is on one
                   core with `lower`; `lower` (tid 7) no faster: 1.02× [0.99, 1.04],
                   both by rbx at worker, src/main.c:40
                   8 windows of 100 ms apart and 8 together, none dropped; apart
                   against apart within 1.02×; on cores that share the last cache
                   (processors 0 and 1); the program lost 1.2 s of processor time by
                   it
       why         no line is shared; likely causes:
                   - the hardware prefetcher: memory of `upper` lies 512 bytes above
                     that of `lower`, one walks towards the other, and its
                     prefetches take the other's lines; separate them by 32 lines
                     (2 KiB)
                   - memory bandwidth: together they read or write at least
                     12.3 GB/s, as sampled; touch less memory, or use more of each
                     line
                   - cache capacity: together they use about 3 MiB, estimated from
                     the samples; work on smaller parts at a time

    basis  31,290 samples (0 lost, 4 undecoded), 62,007 memory operands (310 with an
           address that is not known, 1 outside every mapping); threads were seen on
           two or more processors at once in 98 % of the time
    "#);
    insta::assert_snapshot!(compared(&costs::neighbours(), at(120)), @r#"
    Threads compared that share no listed line

         lower and upper: 1.7× [1.6, 1.8]
       measured    `upper` (tid 8) runs 1.7× [1.6, 1.8] faster when it is on one core with `lower`; `lower` (tid 7) no
                   faster: 1.02× [0.99, 1.04], both by rbx at worker, src/main.c:40
                   8 windows of 100 ms apart and 8 together, none dropped; apart against apart within 1.02×; on cores that
                   share the last cache (processors 0 and 1); the program lost 1.2 s of processor time by it
       why         no line is shared; likely causes:
                   - the hardware prefetcher: memory of `upper` lies 512 bytes above that of `lower`, one walks towards the
                     other, and its prefetches take the other's lines; separate them by 32 lines (2 KiB)
                   - memory bandwidth: together they read or write at least 12.3 GB/s, as sampled; touch less memory, or use
                     more of each line
                   - cache capacity: together they use about 3 MiB, estimated from the samples; work on smaller parts at a
                     time
    "#);
    insta::assert_snapshot!(compared(&costs::named_threads(), at(80)), @r#"
    Threads compared that share no listed line

         logger and timer: 1.00× [0.98, 1.01]: nothing to gain by separating them
       measured    `logger` (tid 7) runs no faster when it is on one core with
                   `timer`: 1.00× [0.99, 1.01]; `timer` (tid 8) no faster:
                   1.00× [0.98, 1.01], both by rbx at worker, src/main.c:40
                   8 windows of 100 ms apart and 8 together, none dropped; apart
                   against apart within 1.02×; on cores that share the last cache
                   (processors 0 and 1); the program lost 1.2 s of processor time by
                   it
    "#);
}

#[test]
fn the_overview_has_the_measured_costs() {
    let mut report = costs::two_measures();
    for more in [costs::rare_victim(), costs::cheap(), costs::waits()] {
        report.findings.extend(more.findings);
    }
    let text = render(&report, at(80));
    let head: Vec<_> = text.lines().skip(3).take(4).collect();
    insta::assert_snapshot!(head.join("\n"), @r#"
    1  false sharing     COUNTS            costs 6.3× [4.6, 8.0]
    2  false sharing     mem_array_idx a…  costs 2.8× [2.6, 3.0]
    3  false sharing     (heap) Shard      no measurable cost (1.00× [0.98, 1.02])
    4  false sharing     mem_array_idx a…  at most 53 % (97 % of reader's)
    "#);
}

#[test]
fn a_known_cost_is_told_beside_an_unknown_one() {
    let check = |highs, expected: &str| {
        let report = costs::with_high(crate::reports::array(), highs);
        let text = render(&report, at(80));
        let title = text.lines().nth(3).unwrap();
        assert_eq!(title, format!("1. false sharing: COUNTS, {expected}"));
    };
    check([Some(5.0), None], "costs 5.0× [4.9, 5.0]");
    // The other one may be the one that pays.
    check([Some(1.02), None], "at most 97 % of the participants' time");
    check([None, None], "at most 97 % of the participants' time");
    check(
        [Some(1.04), Some(1.02)],
        "no measurable cost (0.99× [0.94, 1.04])",
    );
}

#[test]
fn odd_numbers_are_no_panic() {
    for all in [false, true] {
        let text = render(&costs::odd_numbers(), TableOptions { all, ..at(80) });
        assert!(text.contains("9.0× [0.0, ∞]"), "{text}");
        assert!(text.contains("?× [?, ?]"), "{text}");
    }
}
