//! What `hitm prove` said: the costs of a report, thread by thread, and whether they are what a program must show.

use serde_json::Value;

/// Ratios in here are as good as 1.
const AS_GOOD_AS_1: std::ops::RangeInclusive<f64> = 0.9..=1.1;
/// Windows of one kind that differ by more were disturbed, where the program itself is steady.
const NOISY: f64 = 1.15;
/// From this part of its conflicts on a cost is due to one kind of sharing alone.
const ALONE: f64 = 0.95;

/// Threads that were compared with themselves, apart and together.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// The verdict of the finding that joins them; `None` if no finding does.
    pub verdict: Option<String>,
    /// Each of them.
    pub threads: Vec<ProvenThread>,
    /// The part of the conflicts on disjoint bytes; `None` if no shared line is known.
    pub false_part: Option<f64>,
    /// What else may be the cause, the likeliest first.
    pub causes: Vec<String>,
}

/// One thread.
#[derive(Clone, PartialEq, Debug)]
pub struct ProvenThread {
    /// Its name.
    pub name: String,
    /// The kernel's number of it; `None` for all threads of the group.
    pub tid: Option<u64>,
    /// What was measured.
    pub said: Said,
}

/// What was measured of a thread.
#[derive(Clone, PartialEq, Debug)]
pub enum Said {
    /// A ratio with its interval.
    Ratio {
        /// The ratio.
        ratio: f64,
        /// The lower end.
        low: f64,
        /// The upper end.
        high: f64,
        /// How far windows of one kind differ, as a factor of at least 1.
        floor: f64,
        /// Whether hitm calls it a cost.
        costs: bool,
    },
    /// No ratio, for this reason.
    Nothing {
        /// The reason in a word.
        reason: String,
        /// The reason as a sentence.
        text: String,
    },
}

/// What must be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProofWanted {
    /// Threads that a finding joins cost each other something.
    Cost,
    /// The same, and all of it is on the same bytes.
    TrueSharing,
    /// The threads do not cost each other anything.
    Free,
    /// They wait for each other: no ratio at all.
    Waits,
    /// Nothing tells how far a thread got, or not reliably: no ratio of it.
    NoMeasure,
    /// They share no line and cost each other something; the prefetcher is the likeliest cause.
    Prefetcher,
    /// They share no line and cost each other something; the bandwidth of the memory is the likeliest cause.
    Bandwidth,
    /// The same, and the size of the caches is.
    Capacity,
}

/// All comparisons of a report in JSON.
///
/// # Errors
/// Where the report is not of the form this function knows.
pub fn comparisons(report: &Value) -> Result<Vec<Comparison>, String> {
    let mut comparisons = Vec::new();
    for finding in list(report, "findings")? {
        let verdict = text(finding, "verdict")?;
        for evidence in list(finding, "evidence")? {
            if evidence["origin"] == "co-located" {
                comparisons.push(comparison(evidence, Some(verdict.clone()))?);
            }
        }
    }
    for group in list(report, "compared")? {
        comparisons.push(comparison(group, None)?);
    }
    Ok(comparisons)
}

fn comparison(json: &Value, verdict: Option<String>) -> Result<Comparison, String> {
    Ok(Comparison {
        verdict,
        threads: list(json, "threads")?
            .iter()
            .map(thread)
            .collect::<Result<_, _>>()?,
        false_part: json.pointer("/split/false_sharing").and_then(Value::as_f64),
        causes: list(json, "causes")?
            .iter()
            .map(|cause| text(cause, "kind"))
            .collect::<Result<_, _>>()?,
    })
}

fn thread(json: &Value) -> Result<ProvenThread, String> {
    let (cost, none) = (&json["cost"], &json["no_cost"]);
    let said = if none.is_null() {
        let number = |key: &str| {
            let number = cost[key].as_f64();
            number.ok_or_else(|| format!("no number cost.{key} of a thread"))
        };
        Said::Ratio {
            ratio: number("ratio")?,
            low: number("low")?,
            high: number("high")?,
            floor: number("floor")?,
            costs: text(cost, "judged")? == "costs",
        }
    } else {
        Said::Nothing {
            reason: text(none, "reason")?,
            text: text(none, "text")?,
        }
    };
    Ok(ProvenThread {
        name: text(json, "name")?,
        tid: json["tid"].as_u64(),
        said,
    })
}

impl Comparison {
    /// The thread that pays most, if any pays.
    #[must_use]
    pub fn worst(&self) -> Option<f64> {
        let costs = self.threads.iter().filter_map(|thread| match thread.said {
            Said::Ratio {
                ratio, costs: true, ..
            } => Some(ratio),
            _ => None,
        });
        costs.max_by(f64::total_cmp)
    }

    /// Whether all that is shared is on the same bytes.
    #[must_use]
    pub fn only_true_sharing(&self) -> bool {
        self.false_part.is_some_and(|part| part <= 1.0 - ALONE)
    }

    /// All ratios.
    pub fn ratios(&self) -> impl Iterator<Item = f64> {
        self.threads.iter().filter_map(|thread| match thread.said {
            Said::Ratio { ratio, .. } => Some(ratio),
            Said::Nothing { .. } => None,
        })
    }

    /// Whether some thread has no ratio for this reason.
    #[must_use]
    pub fn refuses(&self, why: &str) -> bool {
        self.threads
            .iter()
            .any(|thread| matches!(&thread.said, Said::Nothing { reason, .. } if reason == why))
    }

    /// Whether the machine was too busy, or the program too short, for an answer.
    #[must_use]
    pub fn disturbed(&self) -> bool {
        let crowded =
            |said: &Said| matches!(said, Said::Nothing { text, .. } if text.contains(CROWDED));
        ["too-few-windows", "ended"]
            .iter()
            .any(|why| self.refuses(why))
            || self.threads.iter().any(|thread| crowded(&thread.said))
    }

    /// Whether windows of one kind differ by more than they do on a quiet machine.
    #[must_use]
    pub fn noisy(&self) -> bool {
        self.threads
            .iter()
            .any(|thread| matches!(thread.said, Said::Ratio { floor, .. } if floor > NOISY))
    }
}

/// What hitm says when it ends early because other programs run on the threads' processors.
const CROWDED: &str = "do not get processors to themselves";

impl ProofWanted {
    /// The words of the directives.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "cost" => Self::Cost,
            "true-sharing" => Self::TrueSharing,
            "free" => Self::Free,
            "waits" => Self::Waits,
            "no-measure" => Self::NoMeasure,
            "prefetcher" => Self::Prefetcher,
            "bandwidth" => Self::Bandwidth,
            "capacity" => Self::Capacity,
            _ => return None,
        })
    }

    /// Whether the comparisons say so.
    #[must_use]
    pub fn met(self, comparisons: &[Comparison]) -> bool {
        let any = |test: &dyn Fn(&Comparison) -> bool| comparisons.iter().any(test);
        let unshared = |cause: &str| {
            any(&|it| {
                let first = it.causes.first();
                it.verdict.is_none() && it.worst().is_some() && first.is_some_and(|it| it == cause)
            })
        };
        let some_ratio = any(&|it| it.ratios().next().is_some());
        match self {
            Self::Cost => any(&|it| it.verdict.is_some() && it.worst().is_some()),
            Self::TrueSharing => {
                let mut paid = comparisons.iter().filter(|it| it.worst().is_some());
                Self::Cost.met(comparisons) && paid.all(Comparison::only_true_sharing)
            }
            Self::Free => {
                let mut ratios = comparisons.iter().flat_map(Comparison::ratios);
                some_ratio && ratios.all(|ratio| AS_GOOD_AS_1.contains(&ratio))
            }
            Self::Waits => !some_ratio && any(&|it| it.refuses("they-wait")),
            Self::NoMeasure => {
                any(&|it| it.refuses("no-measure") || it.refuses("measures-disagree"))
            }
            Self::Prefetcher => unshared("prefetcher"),
            Self::Bandwidth => unshared("bandwidth"),
            Self::Capacity => unshared("capacity"),
        }
    }
}

fn list<'a>(json: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    let list = json.get(key).and_then(Value::as_array);
    list.ok_or_else(|| format!("no list {key} in the report"))
}

fn text(json: &Value, key: &str) -> Result<String, String> {
    let text = json.get(key).and_then(Value::as_str).map(str::to_owned);
    text.ok_or_else(|| format!("no text {key} in the report"))
}
