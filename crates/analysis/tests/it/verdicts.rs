//! Evidence → verdict, one text case per rule.
//!
//! A case describes who touches which bytes of one line when:
//!
//! ```text
//! A W 0..8   every 1ms            the thread A writes bytes 0..8 each ms for the whole second
//! B R 8..16  every 1ms 200-400    B reads from 200 ms to 400 ms only
//! C a 0..4   every 3ms on 1       an atomic read-modify-write, on processor 1
//! ```
//!
//! The verdict follows, and the slots that take part.

use hitm_analysis::{Running, SiteId, Touch, judge, meetings};
use hitm_model::{AccessKind, ByteRange, Nanos, ThreadId, Verdict};

const WINDOW: Nanos = Nanos::from_millis(10);

fn touches(case: &str) -> Vec<Touch> {
    let mut touches = Vec::new();
    for (number, line) in case
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .enumerate()
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        let thread = words[0].bytes().next().unwrap() - b'A';
        let kind = match words[1] {
            "R" => AccessKind::Read,
            "W" => AccessKind::Write,
            "U" => AccessKind::Update,
            "a" => AccessKind::Atomic,
            other => panic!("no kind {other}"),
        };
        let (start, end) = words[2].split_once("..").unwrap();
        let range = ByteRange {
            start: start.parse().unwrap(),
            end: end.parse().unwrap(),
        };
        assert_eq!(words[3], "every");
        let micros = |text: &str| (text.parse::<f64>().unwrap() * 1000.0) as u64;
        let step = micros(words[4].strip_suffix("ms").unwrap());
        let (from, to) = words
            .get(5)
            .and_then(|word| word.split_once('-'))
            .map_or((0, 1_000_000), |(from, to)| (micros(from), micros(to)));
        let cpu = words
            .iter()
            .position(|word| *word == "on")
            .map_or(u32::from(thread), |at| words[at + 1].parse().unwrap());
        // Threads are not in step: each line starts a little later.
        let mut at = from + 13 * number as u64;
        while at < to {
            touches.push(Touch {
                at: Nanos(at * 1000),
                thread: ThreadId(u32::from(thread)),
                cpu,
                range,
                kind,
                site: SiteId(number as u32),
            });
            at += step;
        }
    }
    touches.sort_by_key(|touch| touch.at);
    touches
}

#[track_caller]
fn check(case: &str, expected: &str) {
    let meetings = meetings(&touches(case), &Running::default(), WINDOW);
    let judgement = judge(&meetings);
    let verdict = match judgement.verdict {
        None => "nothing",
        Some(Verdict::TrueSharing) if judgement.one_way => "one-way true-sharing",
        Some(verdict) => verdict.word(),
    };
    let participants: Vec<String> = judgement
        .participants
        .iter()
        .map(|&index| &meetings.slots[index])
        .map(|slot| {
            let thread = char::from(b'A' + slot.thread.0 as u8);
            format!(
                "{thread} {} {}..{}",
                slot.kinds, slot.range.start, slot.range.end
            )
        })
        .collect();
    let text = if participants.is_empty() {
        verdict.to_owned()
    } else {
        format!("{verdict}: {}", participants.join(", "))
    };
    assert_eq!(text, expected, "for\n{case}");
}

#[test]
fn disjoint_bytes_are_false_sharing() {
    check(
        "A W 0..8 every 1ms\nB W 8..16 every 1ms",
        "false-sharing: A W 0..8, B W 8..16",
    );
    check(
        "A a 0..8 every 1ms\nB R 48..56 every 1ms",
        "false-sharing: A atomic 0..8, B R 48..56",
    );
}

#[test]
fn the_same_bytes_are_true_sharing() {
    check(
        "A a 0..8 every 1ms\nB a 0..8 every 1ms",
        "true-sharing: A atomic 0..8, B atomic 0..8",
    );
    check(
        "A W 0..8 every 1ms\nB R 0..8 every 1ms",
        "one-way true-sharing: A W 0..8, B R 0..8",
    );
    // A part of a word is the same word.
    check(
        "A W 0..8 every 1ms\nB R 4..8 every 1ms",
        "one-way true-sharing: A W 0..8, B R 4..8",
    );
}

#[test]
fn nothing_without_a_write_or_a_second_thread() {
    check("A R 0..8 every 1ms\nB R 8..16 every 1ms", "nothing");
    check("A W 0..8 every 1ms\nA R 8..16 every 1ms", "nothing");
}

#[test]
fn initialised_by_one_and_read_by_all_is_nothing() {
    check(
        "A W 0..64 every 1ms 0-50\nA R 0..8 every 1ms 60-1000\nB R 0..8 every 1ms 60-1000",
        "nothing",
    );
    // Without a pause in between: at the border they are near each other, once.
    check(
        "A W 0..64 every 1ms 0-50\nA R 0..8 every 1ms 50-1000\nB R 0..8 every 1ms 50-1000",
        "nothing",
    );
}

#[test]
fn phases_are_nothing() {
    // Written by one, later by the other, never at once.
    check(
        "A W 0..8 every 1ms 0-480\nB W 8..16 every 1ms 520-1000",
        "nothing",
    );
    check(
        "A W 0..8 every 1ms 0-200\nB W 0..8 every 1ms 200-400\nA W 0..8 every 1ms 400-600\nB W 0..8 every 1ms 600-800",
        "nothing",
    );
}

#[test]
fn memory_given_to_another_thread_is_nothing() {
    // A block is freed by one thread and handed to another by the allocator, again and again, each use lasts.
    check(
        "A W 0..16 every 1ms 0-100\nB W 0..16 every 1ms 101-200\nC W 0..16 every 1ms 201-300",
        "nothing",
    );
}

#[test]
fn a_rare_reader_beside_a_hot_writer_counts() {
    check(
        "A W 0..8 every 1ms\nB R 8..16 every 50ms",
        "false-sharing: A W 0..8, B R 8..16",
    );
}

#[test]
fn two_occasions_are_too_few() {
    check("A W 0..8 every 1ms\nB R 8..16 every 500ms", "nothing");
}

#[test]
fn both_in_weight_is_mixed() {
    check(
        "A a 0..8 every 10ms\nB a 0..8 every 10ms\nA a 8..16 every 1ms\nB a 16..24 every 1ms",
        "mixed: A atomic 0..8, B atomic 0..8, A atomic 8..16, B atomic 16..24",
    );
}

#[test]
fn the_shared_part_counts_though_it_is_rare_if_both_are_always_at_the_line() {
    // A ticket that each takes now and then, beside statistics of their own: few samples of the ticket are near each
    // other, but the threads never leave the line.
    check(
        "A a 0..8 every 17ms\nB a 0..8 every 19ms\nA a 8..16 every 1ms\nB a 16..24 every 1ms",
        "mixed: A atomic 0..8, B atomic 0..8, A atomic 8..16, B atomic 16..24",
    );
}

#[test]
fn a_line_that_is_visited_seldom_by_both_is_judged_by_a_longer_window() {
    check(
        "A a 0..8 every 17ms\nB a 0..8 every 19ms",
        "true-sharing: A atomic 0..8, B atomic 0..8",
    );
    check(
        "A W 0..8 every 17ms\nB W 8..16 every 19ms",
        "false-sharing: A W 0..8, B W 8..16",
    );
}

#[test]
fn an_index_that_is_looked_at_once_in_three_writes_does_not_explain_the_others() {
    check(
        "A W 0..8 every 1ms\nB W 16..24 every 1ms\nA R 16..24 every 3ms",
        "false-sharing: A W 0..8, A R 16..24, B W 16..24",
    );
}

#[test]
fn notes_beside_an_index_that_others_read_are_no_false_sharing() {
    // The repaired ring: the consumer keeps its copy of the tail beside its head, and the producer looks at the head
    // now and then. It would come for the head wherever the copy lay.
    check(
        "A R 0..8 every 70ms\nB W 0..8 every 1ms\nB W 8..16 every 2ms",
        "one-way true-sharing: A R 0..8, B W 0..8, B W 8..16",
    );
}

#[test]
fn a_payload_beside_a_count_that_all_change_is_false_sharing_if_it_is_read_more_often() {
    check(
        "A a 0..8 every 1ms\nB a 0..8 every 1ms\nB R 16..24 every 1ms",
        "true-sharing: A atomic 0..8, B atomic 0..8, B R 16..24",
    );
    check(
        "A a 0..8 every 1ms\nB a 0..8 every 9ms\nB R 16..24 every 1ms",
        "mixed: A atomic 0..8, B atomic 0..8, B R 16..24",
    );
}

#[test]
fn threads_that_take_turns_do_not_meet_on_a_line_that_they_visit_seldom() {
    // 15 ms each, asleep in the other's time; each visits the line twice in its turn.
    let turns = |who: char, range: &str, first: u64| -> String {
        let visits = (0..20).map(|turn| {
            let from = first + 30 * turn;
            format!("{who} a {range} every 7ms {from}-{}\n", from + 14)
        });
        visits.collect()
    };
    let case = turns('A', "0..8", 0) + &turns('B', "8..16", 15);
    let touches = touches(&case);
    let mut running = Running::default();
    for at in 0..600 {
        let thread = ThreadId(u32::from(at % 30 >= 15));
        running.note(thread, Nanos::from_millis(at));
    }
    let verdict = |running: &Running| judge(&meetings(&touches, running, WINDOW)).verdict;
    assert_eq!(verdict(&running), None);
    // The same visits by threads that run all the time are another matter.
    assert_eq!(verdict(&Running::default()), Some(Verdict::FalseSharing));
}

#[test]
fn a_cached_index_that_is_refreshed_now_and_then_stays_false_sharing() {
    // A ring: the producer writes the tail and seldom looks at the head, the consumer the other way round.
    check(
        "A W 0..8 every 1ms\nB W 16..24 every 1ms\nA R 16..24 every 70ms\nB R 0..8 every 70ms",
        "false-sharing: A W 0..8, B R 0..8, A R 16..24, B W 16..24",
    );
}

#[test]
fn data_that_both_use_everywhere_is_true_sharing_wherever_they_were_seen() {
    // A buffer of words that one fills and the other empties.
    check(
        "A W 0..4 every 1ms\nA W 4..8 every 1ms\nB R 0..4 every 1ms\nB R 4..8 every 1ms",
        "one-way true-sharing: A W 0..4, B R 0..4, A W 4..8, B R 4..8",
    );
}

#[test]
fn a_lock_and_what_only_its_holders_touch() {
    check(
        "A a 0..4 every 1ms\nB a 0..4 every 1ms\nA W 8..16 every 1ms\nB W 8..16 every 1ms",
        "lock-and-data: A atomic 0..4, B atomic 0..4, A W 8..16, B W 8..16",
    );
}

#[test]
fn short_critical_sections_show_the_lock_and_little_else() {
    // Three samples of one thread do not make the data its own.
    check(
        "A a 0..4 every 10ms\nB a 0..4 every 10ms\nA W 8..16 every 300ms",
        "lock-and-data: A atomic 0..4, B atomic 0..4, A W 8..16",
    );
}

#[test]
fn a_lock_beside_what_others_read_without_it_is_false_sharing() {
    check(
        "A a 0..4 every 1ms\nB R 16..24 every 1ms",
        "false-sharing: A atomic 0..4, B R 16..24",
    );
    // Holders and their data, and a third that never takes the lock.
    check(
        "A a 0..4 every 1ms\nB a 0..4 every 1ms\nC R 16..24 every 1ms",
        "mixed: A atomic 0..4, B atomic 0..4, C R 16..24",
    );
}

#[test]
fn the_rate_does_not_change_the_verdict() {
    for step in ["0.2ms", "0.5ms", "1ms", "3ms"] {
        check(
            &format!("A W 0..8 every {step}\nB W 8..16 every {step}"),
            "false-sharing: A W 0..8, B W 8..16",
        );
    }
}

#[test]
fn meetings_count_each_sample_once_and_know_the_processor() {
    let count = |case: &str| {
        let meetings = meetings(&touches(case), &Running::default(), WINDOW);
        meetings.met(&(0..meetings.slots.len()).collect::<Vec<_>>())
    };
    let apart = count("A W 0..8 every 1ms on 0\nB W 8..16 every 1ms on 1");
    assert!((1996..=2000).contains(&apart.samples), "{apart:?}");
    assert_eq!((apart.disjoint, apart.overlapping), (apart.samples, 0));
    assert_eq!(apart.on_other_cpu, apart.samples);
    let together = count("A W 0..8 every 1ms on 0\nB W 8..16 every 1ms on 0");
    assert_eq!(
        (together.samples, together.on_other_cpu),
        (apart.samples, 0)
    );
    // What reads and writes the same bytes in one sample is one sample.
    let touched = touches("A W 0..8 every 1ms\nB W 8..16 every 1ms");
    let twice: Vec<Touch> = touched
        .iter()
        .flat_map(|touch| {
            [
                Touch {
                    kind: AccessKind::Read,
                    ..*touch
                },
                *touch,
            ]
        })
        .collect();
    let found = meetings(&twice, &Running::default(), WINDOW);
    assert_eq!(found.slots.len(), 4);
    assert_eq!(found.met(&[0, 1, 2, 3]).samples, apart.samples);
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn any_touch() -> impl Strategy<Value = Touch> {
        (0u64..200_000, 0u32..4, 0u32..4, 0u32..8, 1u32..4, 0u8..4).prop_map(
            |(micros, thread, cpu, start, len, kind)| Touch {
                at: Nanos(micros * 1000),
                thread: ThreadId(thread),
                cpu,
                range: ByteRange {
                    start: start * 4,
                    end: start * 4 + len * 4,
                },
                kind: [
                    AccessKind::Read,
                    AccessKind::Write,
                    AccessKind::Update,
                    AccessKind::Atomic,
                ][usize::from(kind)],
                site: SiteId(0),
            },
        )
    }

    /// The definition, without any cleverness: a sample met a slot that opposes it if that slot has a sample within
    /// the window, and its thread was at the line within the window on both sides.
    fn met_by_definition(touches: &[Touch], own: &Touch, window: Nanos) -> bool {
        let before = |at: u64| at < own.at.0 && own.at.0 - at <= window.0;
        let after = |at: u64| at >= own.at.0 && at - own.at.0 <= window.0;
        touches
            .iter()
            .filter(|other| {
                other.thread != own.thread && (other.kind.writes() || own.kind.writes())
            })
            .filter(|other| before(other.at.0) || after(other.at.0))
            .any(|other| {
                let of_thread = || touches.iter().filter(|it| it.thread == other.thread);
                of_thread().any(|it| before(it.at.0)) && of_thread().any(|it| after(it.at.0))
            })
    }

    proptest! {
        #[test]
        fn meeting_is_what_the_definition_says(mut touches in prop::collection::vec(any_touch(), 0..60)) {
            touches.sort_by_key(|touch| touch.at);
            let found = meetings(&touches, &Running::default(), WINDOW);
            prop_assert!(found.window >= WINDOW && found.window.0 <= 5 * WINDOW.0);
            for slot in &found.slots {
                let mut times: Vec<u64> = Vec::new();
                let mut met = 0;
                for touch in &touches {
                    let same = (touch.thread, touch.range, touch.kind.writes())
                        == (slot.thread, slot.range, slot.writes());
                    if same && !times.contains(&touch.at.0) {
                        times.push(touch.at.0);
                        met += u64::from(met_by_definition(&touches, touch, found.window));
                    }
                }
                prop_assert_eq!(slot.samples, times.len() as u64);
                prop_assert_eq!(slot.met, met);
            }
        }

        #[test]
        fn a_verdict_needs_a_write_two_threads_and_meetings(mut touches in prop::collection::vec(any_touch(), 0..80)) {
            touches.sort_by_key(|touch| touch.at);
            let found = meetings(&touches, &Running::default(), WINDOW);
            let judgement = judge(&found);
            prop_assert_eq!(judgement.verdict.is_some(), !judgement.participants.is_empty());
            if judgement.verdict.is_some() {
                let parts: Vec<_> = judgement.participants.iter().map(|&i| &found.slots[i]).collect();
                prop_assert!(parts.iter().any(|slot| slot.writes()));
                prop_assert!(parts.iter().any(|slot| slot.thread != parts[0].thread));
                prop_assert!(parts.iter().any(|slot| slot.met > 0));
            }
        }
    }
}
