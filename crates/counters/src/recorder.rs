//! A recorder for the `metrics` facade (feature `metrics`): programs that count through `metrics::counter!` get counters
//! that never share a line, without a change of their code.
//!
//! Counters are taken from pages: a page is a per-thread instance of 64 counters, so that a thread's counters stay packed.
//! Histograms hold floating-point values from 2^-32 to 2^32 within 6.25 %. Gauges are one value for all threads, as the
//! facade means them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;

use metrics::{CounterFn, GaugeFn, HistogramFn, Key, KeyName, Metadata, SharedString, Unit};

use crate::cells::Counter;
use crate::exposition::{self, Names, Shape, braced};
use crate::isolated::Isolated;
use crate::per_thread::PerThread;
use crate::sync::{AtomicU64, Lock, Ordering};

const PAGE: usize = 64;

/// Counts what a program tells the `metrics` facade.
///
/// ```
/// use hitm_counters::Recorder;
///
/// let recorder = Recorder::new();
/// metrics::with_local_recorder(&recorder, || {
///     metrics::counter!("requests", "method" => "GET").increment(3);
///     metrics::histogram!("seconds").record(0.25);
/// });
/// assert_eq!(recorder.counter("requests", &[("method", "GET")]), Some(3));
/// let mut text = String::new();
/// recorder.write_prometheus(&mut text)?;
/// assert!(text.contains("requests_total{method=\"GET\"} 3\n"));
/// assert!(text.contains("seconds_count 1\n"));
/// # Ok::<(), std::fmt::Error>(())
/// ```
///
/// Clones are the same recorder: install one with `metrics::set_global_recorder` and keep another to read from.
///
/// # Caveats
/// `absolute` is for counters that are kept elsewhere: the counter is the larger of what was incremented and the largest
/// absolute value.
///
/// A histogram counts every value that is recorded. Negative ones are in the lowest bucket and lessen the sum. A value that
/// is not a number is in no bucket but `+Inf`, and makes the sum `NaN`; infinite values make it infinite, and so do those
/// of 2⁶³ and more, which the sum has no room for. The sum of the others is exact to 2⁻³² a value, and wraps around
/// at 2⁶⁴, as counters do.
#[derive(Clone, Default)]
pub struct Recorder {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    metrics: Lock<Metrics>,
}

#[derive(Default)]
struct Metrics {
    counters: BTreeMap<Key, Arc<OneCounter>>,
    /// Where the next counters are; its page has `PAGE - left` already.
    page: Option<Arc<PerThread<[Counter; PAGE]>>>,
    left: usize,
    gauges: BTreeMap<Key, Arc<OneGauge>>,
    histograms: BTreeMap<Key, Arc<OneHistogram>>,
    help: BTreeMap<String, String>,
    /// Given when a metric is registered, so that its family keeps its name.
    families: Names,
}

struct OneCounter {
    page: Arc<PerThread<[Counter; PAGE]>>,
    place: usize,
    absolute: Isolated<AtomicU64>,
}

impl OneCounter {
    fn value(&self) -> u64 {
        let place = self.place;
        let counted = self.page.get(|page| page.get(place).unwrap_or(&page[0]));
        counted.max(self.absolute.load(Ordering::Relaxed))
    }
}

impl CounterFn for OneCounter {
    fn increment(&self, value: u64) {
        self.page.with(|page| {
            if let Some(counter) = page.get(self.place) {
                counter.add(value);
            }
        });
    }

    fn absolute(&self, value: u64) {
        self.absolute.fetch_max(value, Ordering::Relaxed);
    }
}

/// The bits of a floating-point value.
struct OneGauge(Isolated<AtomicU64>);

impl OneGauge {
    fn change(&self, by: f64) {
        let changed = |bits| Some((f64::from_bits(bits) + by).to_bits());
        // It always finds a value.
        let _ = (self.0).fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }
}

impl GaugeFn for OneGauge {
    fn increment(&self, value: f64) {
        self.change(value);
    }

    fn decrement(&self, value: f64) {
        self.change(-value);
    }

    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
}

/// Four bits of the mantissa, exponents from -32 to 31.
const PRECISION: u32 = 4;
const LOWEST: i32 = -32;
const BUCKETS: usize = 64 << PRECISION;
/// Floating-point sums depend on their order; integers do not, so a sum is kept in two parts.
const FRACTION: f64 = (1_u64 << 32) as f64;
/// From here on a value counts as infinite in the sum: a few of them would make it wrap around.
const LARGEST: f64 = (1_u64 << 63) as f64;

/// What follows the buckets. All only ever grow, as a reader may come in between.
#[derive(Clone, Copy)]
enum Part {
    /// The sum of the positive values, in whole numbers and in 2^-32.
    Whole,
    Fraction,
    /// The same of the negative ones.
    NegativeWhole,
    NegativeFraction,
    /// How many had no finite sum, or none at all.
    Infinite,
    NegativeInfinite,
    NotANumber,
}

impl Part {
    const COUNT: usize = Self::NotANumber as usize + 1;

    fn place(self) -> usize {
        BUCKETS + self as usize
    }
}

type Cells = [Counter; BUCKETS + Part::COUNT];

struct OneHistogram(PerThread<Cells>);

fn bucket(value: f64) -> usize {
    if value.is_nan() {
        return BUCKETS - 1;
    }
    let first = u64::from(1023_u32.wrapping_add_signed(LOWEST)) << PRECISION;
    // The bits of positive numbers are ordered as the numbers are. One less: Prometheus' `le` includes the bound itself.
    let below = value.max(0.0).to_bits().saturating_sub(1);
    let place = (below >> (52 - PRECISION)).saturating_sub(first);
    usize::try_from(place).map_or(BUCKETS - 1, |place| place.min(BUCKETS - 1))
}

/// What a value adds to the parts of the sum.
fn summands(value: f64) -> [(Part, u64); 2] {
    let (whole, fraction, infinite) = if value < 0.0 {
        use Part::{NegativeFraction, NegativeInfinite, NegativeWhole};
        (NegativeWhole, NegativeFraction, NegativeInfinite)
    } else {
        (Part::Whole, Part::Fraction, Part::Infinite)
    };
    let size = value.abs();
    if value.is_nan() {
        [(Part::NotANumber, 1), (whole, 0)]
    } else if size >= LARGEST {
        [(infinite, 1), (whole, 0)]
    } else {
        let integer = size as u64;
        let rest = ((size - integer as f64) * FRACTION) as u64;
        [(whole, integer), (fraction, rest)]
    }
}

/// The sum of what was recorded, from its parts.
fn sum(words: &[u64]) -> f64 {
    let part = |part: Part| words.get(part.place()).map_or(0.0, |n| *n as f64);
    let is_infinite = part(Part::Infinite) > 0.0;
    let is_negative = part(Part::NegativeInfinite) > 0.0;
    match (is_infinite, is_negative) {
        _ if part(Part::NotANumber) > 0.0 => f64::NAN,
        (true, true) => f64::NAN,
        (true, false) => f64::INFINITY,
        (false, true) => f64::NEG_INFINITY,
        (false, false) => {
            let whole = part(Part::Whole) - part(Part::NegativeWhole);
            whole + (part(Part::Fraction) - part(Part::NegativeFraction)) / FRACTION
        }
    }
}

impl HistogramFn for OneHistogram {
    fn record(&self, value: f64) {
        self.0.with(|cells| {
            let add = |place: usize, n| {
                if let Some(cell) = cells.get(place) {
                    cell.add(n);
                }
            };
            add(bucket(value), 1);
            for (part, n) in summands(value) {
                add(part.place(), n);
            }
        });
    }
}

impl Recorder {
    /// A recorder that knows no names yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a counter, if there is one of that name with those labels.
    pub fn counter(&self, name: &str, labels: &[(&str, &str)]) -> Option<u64> {
        let metrics = self.inner.metrics.lock();
        let found = metrics.counters.iter().find(|(key, _)| {
            let own = key.labels().map(|label| (label.key(), label.value()));
            key.name() == name && own.eq(labels.iter().copied())
        });
        found.map(|(_, counter)| counter.value())
    }

    /// Writes everything in the text format that Prometheus scrapes. A histogram's buckets end at powers of two.
    ///
    /// Names get `_total` behind them where the metric is a counter. Metrics that have one name and different types, or
    /// names that the format cannot tell apart, get the type's name behind theirs: all but the one that was there first.
    ///
    /// # Errors
    /// What `out` returns.
    pub fn write_prometheus(&self, out: &mut impl fmt::Write) -> fmt::Result {
        let metrics = &mut *self.inner.metrics.lock();
        let (help, families) = (&metrics.help, &mut metrics.families);
        let mut last = None;
        let mut family = |out: &mut dyn fmt::Write, key: &Key, shape: Shape| {
            let family = families.of(key.name(), shape);
            if last.as_ref() != Some(&family) {
                if let Some(help) = help.get(key.name()) {
                    writeln!(out, "# HELP {family} {}", exposition::help(help))?;
                }
                writeln!(out, "# TYPE {family} {}", shape.word())?;
                last = Some(family.clone());
            }
            Ok::<_, fmt::Error>(family)
        };
        for (key, counter) in &metrics.counters {
            let family = family(out, key, Shape::Counter)?;
            writeln!(
                out,
                "{family}{} {}",
                labels(Shape::Counter, key, None),
                counter.value()
            )?;
        }
        for (key, gauge) in &metrics.gauges {
            let family = family(out, key, Shape::Gauge)?;
            let value = f64::from_bits(gauge.0.load(Ordering::Relaxed));
            let value = exposition::number(value);
            writeln!(out, "{family}{} {value}", labels(Shape::Gauge, key, None))?;
        }
        for (key, histogram) in &metrics.histograms {
            let family = family(out, key, Shape::Histogram)?;
            let words: Box<[u64]> = Box::new(histogram.0.snapshot().values());
            write_histogram(out, &family, key, &words)?;
        }
        Ok(())
    }

    fn describe(&self, key: &KeyName, description: &SharedString) {
        let help = &mut self.inner.metrics.lock().help;
        help.insert(key.as_str().to_string(), description.to_string());
    }
}

fn write_histogram(
    out: &mut impl fmt::Write,
    family: &str,
    key: &Key,
    words: &[u64],
) -> fmt::Result {
    let counts = words.get(..BUCKETS).unwrap_or_default();
    let mut below = 0_u64;
    for (i, octave) in counts.chunks(1 << PRECISION).enumerate() {
        below = octave.iter().fold(below, |sum, n| sum.wrapping_add(*n));
        let exponent = LOWEST + i32::try_from(i).unwrap_or(0) + 1;
        // The last octave also holds everything larger.
        if exponent < 32 {
            let end = f64::from(exponent).exp2().to_string();
            writeln!(
                out,
                "{family}_bucket{} {below}",
                labels(Shape::Histogram, key, Some(&end))
            )?;
        }
    }
    let own = labels(Shape::Histogram, key, None);
    writeln!(
        out,
        "{family}_bucket{} {below}",
        labels(Shape::Histogram, key, Some("+Inf"))
    )?;
    writeln!(out, "{family}_sum{own} {}", exposition::number(sum(words)))?;
    writeln!(out, "{family}_count{own} {below}")
}

fn labels(shape: Shape, key: &Key, le: Option<&str>) -> String {
    let own = key.labels().map(|label| (label.key(), label.value()));
    braced(shape, own, le)
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, key: KeyName, _unit: Option<Unit>, description: SharedString) {
        self.describe(&key, &description);
    }

    fn describe_gauge(&self, key: KeyName, _unit: Option<Unit>, description: SharedString) {
        self.describe(&key, &description);
    }

    fn describe_histogram(&self, key: KeyName, _unit: Option<Unit>, description: SharedString) {
        self.describe(&key, &description);
    }

    fn register_counter(&self, key: &Key, _metadata: &Metadata<'_>) -> metrics::Counter {
        let metrics = &mut *self.inner.metrics.lock();
        if let Some(known) = metrics.counters.get(key) {
            return metrics::Counter::from_arc(Arc::clone(known));
        }
        let page = match &metrics.page {
            Some(page) if metrics.left > 0 => Arc::clone(page),
            _ => {
                let page = Arc::new(PerThread::new());
                metrics.page = Some(Arc::clone(&page));
                metrics.left = PAGE;
                page
            }
        };
        let new = Arc::new(OneCounter {
            page,
            place: PAGE - metrics.left,
            absolute: Isolated::new(AtomicU64::new(0)),
        });
        metrics.left -= 1;
        metrics.families.of(key.name(), Shape::Counter);
        metrics.counters.insert(key.clone(), Arc::clone(&new));
        metrics::Counter::from_arc(new)
    }

    fn register_gauge(&self, key: &Key, _metadata: &Metadata<'_>) -> metrics::Gauge {
        let metrics = &mut *self.inner.metrics.lock();
        metrics.families.of(key.name(), Shape::Gauge);
        let new = || Arc::new(OneGauge(Isolated::new(AtomicU64::new(0))));
        let gauge = metrics.gauges.entry(key.clone()).or_insert_with(new);
        metrics::Gauge::from_arc(Arc::clone(gauge))
    }

    fn register_histogram(&self, key: &Key, _metadata: &Metadata<'_>) -> metrics::Histogram {
        let metrics = &mut *self.inner.metrics.lock();
        metrics.families.of(key.name(), Shape::Histogram);
        let new = || Arc::new(OneHistogram(PerThread::new()));
        let histogram = metrics.histograms.entry(key.clone()).or_insert_with(new);
        metrics::Histogram::from_arc(Arc::clone(histogram))
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}
