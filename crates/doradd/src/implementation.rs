//! How the runtime works, for who changes it. Nothing here is code.
//!
//! # Parts
//!
//! | module | what it is |
//! | --- | --- |
//! | `sync` | the one door to atomics, locks and threads; loom and shuttle stand in for them behind it |
//! | `line` | values alone on their line, and the compile-time check of it |
//! | `bell`, `barrier` | waiting: spin, give way, sleep |
//! | `ring` | ready work: one producer, many consumers |
//! | `counts` | what workers count, and looking at it while they do |
//! | `crew` | the workers, and in which order they take work |
//! | `when` | objects, their queues, and requests from any thread |
//! | `replay` | a log: rows and their tails, the window, the graph, the dispatcher's stages, the serial oracle |
//!
//! # Requests from any thread
//!
//! An object ([`Cown`](crate::Cown)) has one word of state: a lock bit, whether readers hold it, and its *tail*, the last
//! slot of the queue of requests that want it. A request is a record of a slab: a countdown, a slot per object, and the
//! closure. Submitting has two phases:
//!
//! 1. The headers of all objects are locked in the order of their addresses, and a slot is appended to each queue. A
//!    slot whose object is free holds it at once; the countdown is the number of the others.
//! 2. The headers are unlocked. From here on, whoever ends with one of the objects can count down.
//!
//! Because all locks are held at one moment, two requests stand in the same order in every queue they share. Waiting
//! follows those queues from later to earlier, so it has no circles: there is no deadlock to avoid. The lock bit is held
//! for a handful of instructions and never while a body runs or while its holder waits for anything but a later header.
//! A free object that a request wants alone is taken with one compare-exchange, and given back with one.
//!
//! A body that ends releases each object: to the next writer, or to all readers up to the next writer. The last count is
//! a release and an acquire, so a body sees what the earlier holders of *all* its objects did. Of what it freed, the
//! worker runs the first next, while its data is in this core's cache (at most sixteen times in a row); the rest goes to
//! the worker's ring, where others may take it.
//!
//! What a request for one or two objects with a small closure needs is one line: the record. Ids go to the workers' inboxes
//! in batches of eight, but nothing waits for a batch to be full: a worker that runs dry looks where the submitter writes.
//! It does so after a moment, since each look takes that line away, and what comes after the moment comes together:
//! records, then their objects, are fetched while others run.
//!
//! Objects need no count of the requests that use them. When the last handle is dropped while the queue is not empty, a
//! bit in the state says so, and the request that leaves the object free drops it.
//!
//! # Replaying a log
//!
//! A replay has one source of order, so it needs no locks and no compare-exchange on rows. Four stages work on each
//! transaction: taking it from the log, naming its rows, fetching their tails, joining it to the graph. The
//! transaction's record is in a ring, the *window*, at the place that its sequence number gives; stages pass
//! ranges of numbers by cursors, workers get ids by rings.
//!
//! A row's *tail* says which transaction named it last, and is a word in an array that only the joining thread touches:
//! workers never write it, the dispatcher never touches a row. A transaction waits for the last writer of each row it
//! reads, and for the last writer or all readers since then of each row it writes. The joining thread only writes these
//! *predecessors* down, in the new transaction's record, and passes every transaction on in the order of the log. It
//! touches no other record and executes no atomic operation that another core could hold up.
//!
//! Whether a transaction has to wait is found out by the worker that takes it. It looks at the predecessors one after the
//! other; most have ended, and most often here, so the look stays in this core's cache. At the first that has not, the
//! transaction goes into that one's list with one compare-exchange, and the worker takes other work. Who ends closes its
//! list with one swap, which is also what frees its record, and goes on with those in the list from where they stopped. So
//! a transaction is in one list at a time, needs one link, and counts nothing down. Waiting is for earlier ones only, and
//! has no circles.
//!
//! A worker that has itself run all that can be in flight before a transaction need not look (`streak`), nor fetch the line
//! that the predecessors are on: so it is with one worker, always.
//!
//! Of readers that come one after the other, the next writer must wait for all. They are a chain through their records; as
//! many as there is room for are written down one by one, of more the worker follows the chain.
//!
//! Records are used again in the order of the log: transaction `s` may be taken once `s - max_in_flight` has ended. One
//! very long transaction therefore stops the dispatcher `max_in_flight` transactions later, and nothing else. For that,
//! what is in flight is bounded without a free list, and old readers are known to have ended by their number.
//!
//! The dispatcher runs bodies itself while the window is full. For that it keeps back up to sixteen transactions that have
//! no predecessor: nobody's cache has their rows or records, and rows that many transactions meet at stay on the worker's
//! core. Workers without work may take them. It then waits until there is room for 32 more: the record it looks at is one
//! that a worker is about to write, and each look takes the line away from there.
//!
//! 1024 in flight by default keeps all of the window in a core's second-level cache; measured on 1 KiB rows, 4096 took a
//! third longer.
//!
//! A worker fetches a record some places before it fetches the rows of that record, and these some places before it runs
//! it. What it reads for that is atomic, because the record may belong to somebody else by then; prefetching a wrong
//! address does no harm. How many places, the worker finds out: it compares neighbouring distances in short epochs that
//! take turns (`pace`).
//!
//! A transaction that comes alone, because the log has less than the worker can do, needs four lines from the dispatcher's
//! core, each of which says where the next is: the ring's end, its cell, the record, the rest of its rows. A worker that finds
//! work again fetches the record after the last one it ran while it still looks at the ring, since that is nearly always the
//! one; and all rows as soon as it has the record. It does not fall asleep for the time of an interrupt: see `bell`.
//!
//! # Memory orders
//!
//! | where | order | because |
//! | --- | --- | --- |
//! | taking a free header, locking one | acquire | the value and the queue as the last holder left them |
//! | releasing, unlocking | release | the same, from the other side |
//! | a record's countdown | acquire and release | the last to count has what all holders did |
//! | `ring.tail`, where the producer writes, the `tail` seen last | release, acquire | the record behind the id |
//! | `ring.head` | release by consumers, acquire by the producer | a cell is read before it is used again |
//! | a transaction's state | release to fill and to join, acquire and release to end, acquire to look | rows, links, and that the record is free |
//! | `before` of a chain of readers | release, acquire | with another transaction's link comes its number |
//! | a stage's cursor | release, acquire | the part of the record that the stage wrote |
//! | the slab's free chains | release to give, acquire to take | the links, and that the records are done with |
//! | `bell` | the sleeper has the kernel fence all threads, or both fence | one of sleeper and ringer sees the other |
//! | counts of what ended | release, acquire | draining means that the effects are there |
//! | all other counts | relaxed | they are only shown |
//!
//! # Who writes which line
//!
//! | line | written by | how often |
//! | --- | --- | --- |
//! | `ring.tail` and the producer's own cursor | the producer | per batch, per id |
//! | `ring.head` and the `tail` seen last | the worker, thieves | per id |
//! | a lane's lock and free chain | the submitters of that lane | per request |
//! | a worker's counters | that worker | per request |
//! | the slab's free chain | workers, submitters | per 32 requests |
//! | `bell.sleepers`, `when`'s `over` | who falls asleep; at the end | seldom: polled, so they stand alone |
//! | `progress.spawned` | the joining thread | per transaction |
//! | `progress.signals` | who poisons first; at the end | twice: workers read it per transaction, and poll it while they have none, so it stands alone |
//! | `executor.awaited` | the dispatcher while it waits for room | per 32 transactions: what stands beside it workers read |
//! | a stage's cursor | that stage | per batch |
//! | tails, chains of readers | the joining thread | per row named; workers read only chains that are too long |
//! | a transaction's record | the stages, its worker, and who joins or leaves its list | the hand-over itself |
//! | a record | its submitter, then its worker | twice per request: the hand-over itself |
//! | an object's header with the beginning of its value | who submits for it, who holds it | per request: the hand-over itself |
//!
//! The feature `story1-false-sharing` puts `progress.spawned` and `progress.signals` on one line, as two globals of the
//! system this crate follows once were: the lab for tools that look for such lines.
//!
//! Fields that one thread writes often are `Line`s, and `assert_apart!` fails to compile when two come within 128 bytes.
//!
//! Workers' counts do not come from `hitm-counters`. How many requests have ended is part of how draining works, with an
//! order in memory of its own; the other counts stand on the same line, so they cost no further one, and a counter of a
//! thread would.
//!
//! # Back-pressure
//!
//! The slab has `max_in_flight` records for submitters from outside; one that finds none waits on a bell until a worker
//! gives some back. A body that submits must not wait, since it may hold what the others need, so bodies have a second
//! pool, which grows when it is empty. A record is given back after its objects are released, in chains of 32, at once
//! when somebody sleeps for one, and before a worker sleeps. A replay's dispatcher that finds the window full runs bodies
//! that it has kept (if its stages are fused), and sleeps when there are none. It does the same, with what comes next, when
//! the log has nothing at the moment while as many transactions are in flight as there are workers: one more would wait for
//! one of them. It stops that for a while when a body turns out to be long, since nobody feeds the workers meanwhile.
//!
//! # Panics
//!
//! A body's panic is caught, counted, and its message kept; its objects are released as after any end. What it did to
//! them stays ([`OnPanic::Continue`](crate::OnPanic::Continue)), or poisons them
//! ([`OnPanic::Poison`](crate::OnPanic::Poison)). Poison is part of an object's state, written by who holds the object and
//! read by who holds it later, so which requests are refused depends on their order only, never on timing.
//!
//! In a replay the policy is the [`App`](crate::App)'s, since it is part of what the log means.
//!
//! # The end
//!
//! Draining compares what has ended, read first, with what was submitted, read second: equal means that at the moment
//! between nothing was in flight. Workers ring when they run out of work. That it is over they are told only after that.
