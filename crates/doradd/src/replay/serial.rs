//! The oracle: a log executed one by one, on this thread.

use crate::bell::Patience;
use crate::replay::access::Access;
use crate::replay::app::{App, Log, Next};
use crate::replay::dispatch::{Pause, name_rows};
use crate::replay::execute::Executor;
use crate::replay::outcome::{ReplayError, Replayed};
use crate::replay::run::checked_max;
use crate::replay::window::Window;

/// How many transactions before its own a transaction's rows are fetched.
const LOOKAHEAD: u64 = 2;

/// Executes a log one by one: what every replay's result must equal. It fetches rows ahead as workers do, so its time is
/// a fair yardstick too.
///
/// # Errors
/// As [`Runtime::replay`](crate::Runtime::replay): all transactions before the wrong one were executed.
///
/// # Panics
/// If the log or [`App::access`] panics. A panic of [`App::execute`] is caught and reported.
#[expect(unsafe_code, reason = "all stages and the worker are this thread")]
pub fn replay_serial<L, A>(mut log: L, app: &A) -> Result<Replayed, ReplayError>
where
    L: Log<Txn = A::Txn>,
    A: App,
{
    let window = Window::new(2 * LOOKAHEAD as usize, checked_max::<A>()?);
    let executor = Executor::new(app, &window, Patience::SHORT);
    let mut access = Access::new(std::ptr::from_ref(&window).addr() as u64, A::MAX_OBJECTS);
    let (mut taken, mut executed) = (0, 0);
    let mut pause = Pause::default();
    let mut fault = None;
    loop {
        let (mut dry, mut ended) = (false, false);
        match log.next() {
            Next::Txn(txn) => {
                // SAFETY: the transaction that had the record was executed below.
                unsafe { window.fill(taken, txn) };
                // SAFETY: it is filled just now.
                if let Err(error) = unsafe { name_rows(app, &executor, &mut access, taken) } {
                    // SAFETY: it is filled, and nobody else will drop it.
                    unsafe { window.drop_txn(window.id(taken)) };
                    fault = Some(error);
                    ended = true;
                } else {
                    executor.prefetch_rows(window.id(taken));
                    taken += 1;
                }
                pause = Pause::default();
            }
            Next::NotYet => dry = true,
            Next::End => ended = true,
        }
        let keep = if dry || ended { 0 } else { LOOKAHEAD };
        while executed + keep < taken {
            // SAFETY: one after the other, each holds its rows.
            unsafe { executor.body(window.id(executed)) };
            executed += 1;
        }
        if ended {
            drop(access);
            return fault.map_or_else(|| Ok(executor.outcome(executed)), Err);
        }
        if dry {
            pause.wait();
        }
    }
}
