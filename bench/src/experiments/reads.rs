//! The measured loops that only read: gets, misses, scans.
//!
//! Keys are drawn before the clock starts, and dealt to the threads in slices. Each thread makes
//! its own reader, warms it up, and waits; then the meter and the clock start, and all threads go.
//! Inside the loop a thread touches its slice, its reader and its tally, nothing else.

use std::sync::Barrier;
use std::time::Instant;

use ppc_store::{Error, ErrorKind, Result};

use crate::measure::{Meter, Probe};
use crate::peers::{Reader, Store, Wanted};
use crate::results::Costs;

/// What came back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) operations: u64,
    pub(super) found: u64,
    pub(super) value_bytes: u64,
}

/// A run, measured.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) tally: Tally,
    pub(super) seconds: f64,
    pub(super) costs: Costs,
}

/// What one thread asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Questions<'a> {
    /// Before the clock starts.
    pub(super) warm_up: &'a [Wanted<'a>],
    /// While it runs.
    pub(super) timed: &'a [Wanted<'a>],
    /// Keys in one call.
    pub(super) batch: usize,
}

/// Asks for keys, one by one or in batches.
pub(super) fn ask(reader: &mut dyn Reader, wanted: &[Wanted<'_>], batch: usize) -> Result<Tally> {
    let (mut found, mut value_bytes) = (0, 0);
    if batch <= 1 {
        for &one in wanted {
            reader.get(one, &mut |value| {
                found += 1;
                value_bytes += std::hint::black_box(value).len() as u64;
            })?;
        }
    } else {
        for some in wanted.chunks(batch) {
            reader.multi_get(some, &mut |_, value| {
                found += 1;
                value_bytes += std::hint::black_box(value).len() as u64;
            })?;
        }
    }
    Ok(Tally {
        operations: wanted.len() as u64,
        found,
        value_bytes,
    })
}

/// Reads everything in key order.
fn scan(reader: &mut dyn Reader) -> Result<Tally> {
    let mut tally = Tally::default();
    reader.scan(&mut |key, value| {
        std::hint::black_box(key);
        tally.operations += 1;
        tally.value_bytes += std::hint::black_box(value).len() as u64;
    })?;
    tally.found = tally.operations;
    Ok(tally)
}

/// Asks on as many threads as there are questions.
pub(super) fn gets(
    store: &dyn Store,
    meter: &Meter,
    questions: &[Questions<'_>],
) -> Result<Measured> {
    on_threads(
        store,
        meter,
        questions.len(),
        &|reader, thread, is_timed| {
            let Some(questions) = questions.get(thread) else {
                return Ok(Tally::default());
            };
            let wanted = if is_timed {
                questions.timed
            } else {
                questions.warm_up
            };
            ask(reader, wanted, questions.batch)
        },
    )
}

/// Scans so many times in a row, on one thread.
pub(super) fn scans(store: &dyn Store, meter: &Meter, rounds: u32) -> Result<Measured> {
    on_threads(store, meter, 1, &|reader, _, is_timed| {
        let mut sum = Tally::default();
        for _ in 0..if is_timed { rounds } else { 0 } {
            let tally = scan(reader)?;
            sum.operations += tally.operations;
            sum.found += tally.found;
            sum.value_bytes += tally.value_bytes;
        }
        Ok(sum)
    })
}

/// A thread's work: its reader, its number, and whether the clock runs.
type Work<'a> = &'a (dyn Fn(&mut dyn Reader, usize, bool) -> Result<Tally> + Sync);

fn on_threads(
    store: &dyn Store,
    meter: &Meter,
    threads: usize,
    work: Work<'_>,
) -> Result<Measured> {
    let warmed_up = Barrier::new(threads + 1);
    let released = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let thread = |number: usize| {
            let (warmed_up, released) = (&warmed_up, &released);
            move || {
                let mut reader = store.reader();
                let warm = work(reader.as_mut(), number, false);
                warmed_up.wait();
                released.wait();
                let tally = warm.and_then(|_| work(reader.as_mut(), number, true));
                (tally, Instant::now())
            }
        };
        let handles: Vec<_> = (0..threads).map(|it| scope.spawn(thread(it))).collect();
        warmed_up.wait();
        let decoded_before = store.decoded_bytes();
        let probe = Probe::start(meter);
        let start = Instant::now();
        released.wait();
        let (mut sum, mut end) = (Tally::default(), start);
        let mut failure = None;
        for handle in handles {
            let died = |_| {
                let error = Error::new(ErrorKind::Failed, "a reading thread died");
                (Err(error), start)
            };
            let (tally, finished) = handle.join().unwrap_or_else(died);
            end = end.max(finished);
            match tally {
                Ok(tally) => {
                    sum.operations += tally.operations;
                    sum.found += tally.found;
                    sum.value_bytes += tally.value_bytes;
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let mut costs = probe?.stop()?;
        if let Some(error) = failure {
            return Err(error);
        }
        costs.decoded_bytes = store
            .decoded_bytes()
            .zip(decoded_before)
            .map(|(after, before)| after.saturating_sub(before));
        Ok(Measured {
            tally: sum,
            seconds: end.duration_since(start).as_secs_f64(),
            costs,
        })
    })
}
