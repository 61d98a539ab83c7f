//! Whole tables on a terminal of 80 columns.

use crate::reports;
use crate::table::{at, render};

#[test]
fn array() {
    insta::assert_snapshot!(render(&reports::array(), at(80)), @r#"
    ./prog --name 'it'\''s me'  4.01 s, exited with 0
    9 threads, 31,290 samples at 1000 Hz (about 2.6 % of the threads' time), perf

    1. false sharing: COUNTS, at most 97 % of the participants' time
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

       cost        at most 97 % of the participants' time: 30,400 of their 31,280
                   samples
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
fn adjacent_globals() {
    insta::assert_snapshot!(render(&reports::adjacent_globals(), at(80)), @r#"
    ./prog --name 'it'\''s me'  4.01 s, exited with 0
    9 threads, 31,290 samples at 1000 Hz (about 2.6 % of the threads' time), perf

    1. false sharing: mem_array_idx and global_epoch, at most 53 % of the
       participants' time, 97 % of reader's
         mem_array_idx: unsigned long, 8 bytes at 0x5555555b0048 in .bss of prog,
         declared at /home/dev/src/runtime/spawner.cpp:88
         global_epoch: std::atomic<unsigned long>, 8 bytes at 0x5555555b0050 in .bss
         of prog
       repair      put mem_array_idx on a line of its own: `alignas(64)` (adds 112
                   bytes)

       0x5555555b0040  · A b · · · · ·   4,222 samples
       8 bytes a cell, capitals write, small letters only read, · untouched

          threads           does  bytes    of time  field
       A  spawner (tid 71)  RW    +8..16     8.6 %  mem_array_idx: unsigned long
            Spawner::run, /home/dev/src/runtime/spawner.cpp:131 (300)
            Spawner::reset, /home/dev/src/runtime/spawner.cpp:152 (40)
          … 1 more place
       b  reader (tid 72)   R     +16..24     97 %  global_epoch
            std::__atomic_base<unsigned long>::load ← Epoch::current ← Worker::loop,
            …/runtime/epoch.hpp:20

       cost        at most 53 % of the participants' time: 4,222 of their 8,000
                   samples; at most 97 % of reader's time
       confidence  high: 3,101 of 4,222 samples met an opposing access of another
                   thread, within 2 ms before and after: 3,100 on disjoint bytes, 1
                   on the same bytes; 3,377 on another processor
       next        hitm prove -- ./prog --name 'it'\''s me'

    basis  31,290 samples (0 lost, 4 undecoded), 62,007 memory operands (310 with an
           address that is not known, 1 outside every mapping); threads were seen on
           two or more processors at once in 98 % of the time
    "#);
}

#[test]
fn mixed() {
    insta::assert_snapshot!(render(&reports::mixed(), at(80)), @r#"
    ./prog --name 'it'\''s me'  4.01 s, exited with 0
    9 threads, 31,290 samples at 1000 Hz (about 2.6 % of the threads' time), perf

    1. mixed sharing: server, at most 33 % of the participants' time, 50 % of one
       thread's
         server: struct redisServer, 12,345 bytes at 0x555555700000 in .bss of prog
       but         a part of it is on the same bytes, which no layout changes: a
                   repair removes only the rest
       repair      move stat_io_reads_processed to a line of its own, one per thread

       0x5555555b0040   2,000 samples
          +0  AAAAAAAA BBBBBBBB ·#······ ········
         +32  ········ ········ ········ ········
       1 byte a cell, capitals write, # same bytes of several, · untouched

          threads             does    bytes    of time  field
       A  io_thd_1 (tid 901)  RW      +0..8       25 %
          server.stat_io_reads_processed[1]: long long
       B  io_thd_2 (tid 902)  RW      +8..16      25 %
          server.stat_io_reads_processed[2]: long long
       C  io_thd_1 (tid 901)  atomic  +17..18     25 %  server.io_paused
       d  io_thd_3 (tid 903)  R       +17..18     25 %  server.io_paused
            A–d: readQueryFromClient, networking.c:2711

       cost        at most 33 % of the participants' time: 2,000 of their 6,000
                   samples; at most 50 % of one thread's time
       confidence  medium: 800 of 2,000 samples met an opposing access of another
                   thread, within 2 ms before and after: 500 on disjoint bytes, 300
                   on the same bytes; 1,600 on another processor
       next        hitm prove -- ./prog --name 'it'\''s me'

    basis  31,290 samples (0 lost, 4 undecoded), 62,007 memory operands (310 with an
           address that is not known, 1 outside every mapping); threads were seen on
           two or more processors at once in 98 % of the time
    "#);
}

#[test]
fn true_sharing() {
    insta::assert_snapshot!(render(&reports::true_sharing(), at(80)), @r#"
    ./prog --name 'it'\''s me'  4.01 s, exited with 0
    9 threads, 31,290 samples at 1000 Hz (about 2.6 % of the threads' time), perf

    Sharing that no padding helps

    1. true sharing: hits, at most 88 % of the participants' time
         hits: _Atomic unsigned long, 8 bytes at 0x5555555b0100 in .bss of prog
       why not pad the threads use the same bytes: wherever they lie, their line
                   travels between the processors
       advice      give each thread a counter of its own and add them up on reading
          threads       does    bytes  of time  field
       A  worker-* × 4  atomic  +0..8     88 %  hits
            worker, hits.c:20
       cost        at most 88 % of the participants' time: 7,000 of their 8,000
                   samples
       confidence  high: 6,800 of 7,000 samples met an opposing access of another
                   thread, within 2 ms before and after: 0 on disjoint bytes, 6,800
                   on the same bytes; 5,600 on another processor
       next        hitm prove -- ./prog --name 'it'\''s me'

    basis  31,290 samples (0 lost, 4 undecoded), 62,007 memory operands (310 with an
           address that is not known, 1 outside every mapping); threads were seen on
           two or more processors at once in 98 % of the time
    "#);
}

#[test]
fn lock_and_data() {
    insta::assert_snapshot!(render(&reports::lock_and_data(), at(80)), @r#"
    ./prog --name 'it'\''s me'  4.01 s, exited with 0
    9 threads, 31,290 samples at 1000 Hz (about 2.6 % of the threads' time), perf

    Sharing that no padding helps

    1. lock and data: queue, at most 30 % of the participants' time
         queue: struct queue, 64 bytes at 0x5555555b0200 in .bss of prog
       why not pad whoever takes the lock needs the data next: apart, two lines
                   would travel instead of one
       advice      leave them together; hold the lock for less time
          threads       does    bytes    of time  field
       A  worker-* × 2  atomic  +0..4       22 %  queue.lock
            pthread_mutex_lock, pthread_mutex_lock.c:80
       B  worker-* × 2  RW      +40..48    7.5 %  queue.len
            push, queue.c:31
       cost        at most 30 % of the participants' time: 1,200 of their 4,000
                   samples
       confidence  low: 1,080 of 1,200 samples met an opposing access of another
                   thread, within 2 ms before and after: 1,080 on disjoint bytes, 0
                   on the same bytes; 960 on another processor
       next        hitm prove -- ./prog --name 'it'\''s me'

    basis  31,290 samples (0 lost, 4 undecoded), 62,007 memory operands (310 with an
           address that is not known, 1 outside every mapping); threads were seen on
           two or more processors at once in 98 % of the time
    "#);
}

#[test]
fn heap() {
    insta::assert_snapshot!(render(&reports::heap(), at(80)), @r#"
    ./prog --name 'it'\''s me'  4.01 s, exited with 0
    9 threads, 31,290 samples at 1000 Hz (about 2.6 % of the threads' time), perf

    1. false sharing: (heap) Shard, at most 77 % of the participants' time
         (heap) Shard: struct Shard, 96 bytes at 0x7fffe8000b70 on the heap (from
         the type of `shard` in push_back)
       repair      put head and tail of Shard on different lines (adds 64 bytes)

       0x7fffe8000bc0  AA B· ·· ·· ·· ·· ·· ··   1,500 samples
       0x7fffe8000b80  ·· ·· ·· ·· ·· ·· ·· ·c   40 samples
       4 bytes a cell, capitals write, small letters only read, · untouched

          threads                 does  bytes           of time  field
       A  生産者 (tid 31)         W     +0..8              70 %  (heap) Shard.tail
            push_back ← produce, shard.c:55
       B  consumer�[31m (tid 32)  W     +8..12             80 %  (heap) Shard.head
            pop_front, shard.c:66
       c  consumer�[31m (tid 32)  R     +60..64 line 2    4.0 %  (heap) Shard.flags

       cost        at most 77 % of the participants' time: 1,540 of their 2,000
                   samples
       confidence  high: 1,386 of 1,540 samples met an opposing access of another
                   thread, within 2 ms before and after: 1,386 on disjoint bytes, 0
                   on the same bytes; 1,232 on another processor
       caveat      only plain writes meet plain writes here (a store buffer can hide
                   the wait, so this may cost nothing on this processor); measure
                   before repairing: `hitm prove`
       next        hitm prove -- ./prog --name 'it'\''s me'

    basis  31,290 samples (0 lost, 4 undecoded), 62,007 memory operands (310 with an
           address that is not known, 1 outside every mapping); threads were seen on
           two or more processors at once in 98 % of the time
    "#);
}

#[test]
fn stripped() {
    insta::assert_snapshot!(render(&reports::stripped(), at(80)), @r"
    ./prog --name 'it'\''s me'  0.05 s, killed by signal 11
    2 of 3 threads, 100 samples at 5000 Hz (cost not measured for the agent),
    preloaded agent

    1. unproven sharing: line 0x5555555b0040, at most 40 % of the participants' time
       but         the evidence does not decide whether these threads need the same
                   bytes: take it as a hint
       repair      give what lies at these offsets lines of their own

       0x5555555b0040  A B · · · · · ·   40 samples
       8 bytes a cell, capitals write, · untouched

          threads         does    bytes   of time  field
       A  a.out (tid 50)  atomic  +0..8      40 %  a.out .bss +0x40
            prog+0x1193
       B  a.out (tid 58)  atomic  +8..16     40 %  a.out .bss +0x48
            prog+0x119b

       cost        at most 40 % of the participants' time: 40 of their 100 samples
       confidence  low: 36 of 40 samples met an opposing access of another thread,
                   within 2 ms before and after: 36 on disjoint bytes, 0 on the same
                   bytes; 32 on another processor
       next        hitm prove -- ./prog --name 'it'\''s me'

    1 finding below the least share not listed: hitm report --min-share 0 run.hitm
    caveat samples were taken by the preloaded agent: perf_event_open is refused
           (EPERM) (usual in containers; the agent sees only programs that load it
           (not static ones, not setuid)); `hitm doctor` tells what refuses
           perf_event_open and how to allow it
    caveat only 100 samples were taken (the program ran for a short time or mostly
           slept); run it for longer or give it more work; `hitm run --rate 5000`
           samples more often
    caveat a.out has neither symbols nor debug information (it was stripped); keep
           the symbols, or put the separate debug file where its build-id says
    basis  100 samples (7 lost, 12 undecoded), 180 memory operands (9 with an
           address that is not known, 3 outside every mapping); threads were seen on
           two or more processors at once in 0.4 % of the time
    ");
}

#[test]
fn many_participants() {
    insta::assert_snapshot!(render(&reports::many_participants(), at(80)), @r#"
    ./prog --name 'it'\''s me'  4.01 s, exited with 0
    9 threads, 31,290 samples at 1000 Hz (about 2.6 % of the threads' time), perf

    1. false sharing: cnt, at most 83 % of the participants' time
         cnt: uint64_t [64], 512 bytes at 0x5555555b0040 in .bss of prog
       repair      give each element of cnt a line of its own (adds 3,584 bytes)

       0x5555555b0040  A B C D E F G H   800 samples
       0x5555555b0080  + + + + + + + +   799 samples
       0x5555555b00c0  + + + + + + + +   798 samples
       … 5 more lines
       8 bytes a cell, capitals write, + writers not listed

          threads        does    bytes    of time  field
       A  cnt (tid 100)  atomic  +0..8       83 %  cnt[0]
       B  cnt (tid 101)  atomic  +8..16      83 %  cnt[1]
       C  cnt (tid 102)  atomic  +16..24     83 %  cnt[2]
       D  cnt (tid 103)  atomic  +24..32     83 %  cnt[3]
       E  cnt (tid 104)  atomic  +32..40     83 %  cnt[4]
       F  cnt (tid 105)  atomic  +40..48     83 %  cnt[5]
       G  cnt (tid 106)  atomic  +48..56     83 %  cnt[6]
       H  cnt (tid 107)  atomic  +56..64     83 %  cnt[7]
            A–H: count, cnt.c:9
       … 56 more, with 5,600 samples

       cost        at most 83 % of the participants' time: 6,400 of their 7,680
                   samples
       confidence  high: 5,760 of 6,400 samples met an opposing access of another
                   thread, within 2 ms before and after: 5,760 on disjoint bytes, 0
                   on the same bytes; 5,120 on another processor
       next        hitm prove -- ./prog --name 'it'\''s me'

    basis  31,290 samples (0 lost, 4 undecoded), 62,007 memory operands (310 with an
           address that is not known, 1 outside every mapping); threads were seen on
           two or more processors at once in 98 % of the time
    "#);
}

#[test]
fn empty() {
    insta::assert_snapshot!(render(&reports::empty(), at(80)), @r#"
    ./prog --name 'it'\''s me'  4.01 s, exited with 0
    9 threads, 31,290 samples at 1000 Hz (about 2.6 % of the threads' time), perf

    No line was found that threads fight over.
    Looked for: 64-byte lines that two threads touch at nearly the same time, at
    least one of them writing. That none was seen is no proof that there is none:
    only code that ran was sampled, at these moments.
    basis  31,290 samples (0 lost, 4 undecoded), 62,007 memory operands (310 with an
           address that is not known, 1 outside every mapping); threads were seen on
           two or more processors at once in 98 % of the time
    "#);
}

#[test]
fn bare() {
    insta::assert_snapshot!(render(&reports::bare(), at(80)), @r#"
    an unnamed program  0.00 s
    0 threads, 0 samples

    No line was found that threads fight over.
    Looked for: 64-byte lines that two threads touch at nearly the same time, at
    least one of them writing. That none was seen is no proof that there is none:
    only code that ran was sampled, at these moments.
    caveat the recording ends in the middle (the recorder was killed, or the file
           was cut); what was readable was used; record again for all of it
    caveat no sample was taken (the program ended at once, slept, or spent its time
           in the kernel); run it for longer or give it more work;
           `hitm run --rate 5000` samples more often
    basis  0 samples (0 lost, 0 undecoded), 0 memory operands (0 with an address
           that is not known, 0 outside every mapping)
    "#);
}
