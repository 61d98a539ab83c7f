//! What the windows say, for each thread: how much faster it runs without its opponents on other cores, by what that was
//! measured, and what to make of it.
//!
//! Two threads and one kind of core pair are the common case, told in sentences; several kinds of core pair are rows.

use std::io;

use hitm_model::{CoLocated, CoreDistance, Cost, Finding, NoCost, ThreadCost, Verdict};

use super::basis::basis;
use super::finding::TEXT;
use super::progress::{by, in_full};
use super::{headline, label, repair_helps};
use crate::measured::{Joined, Judged, companions, groups, judge, measured, with_cost};
use crate::page::{BOLD, DIM, Page, Span, plain, span};
use crate::refusals::{refusal, unfinished};
use crate::words::{count, interval, percent, some_of};

/// How many threads of a group are told of without `all`.
const THREADS: usize = 4;

/// A split is told from this share of the lesser part on: below, an estimate says nothing.
const SPLIT: f64 = 0.05;

/// From this part on the same bytes on, true sharing is all there is: the analysis calls less of it mixed, or another
/// finding has the rest.
const ALL_TRUE: f64 = 0.8;

/// `costs 5.4× [5.1, 5.8]`, in place of what it costs at most; of the finding with the index `at`.
pub(super) fn in_short(findings: &[Finding], at: usize) -> Option<String> {
    let measured = measured(groups(&findings[at]))?;
    let ratio = interval(measured.ratio);
    Some(match measured.judged {
        Judged::Costs => {
            let others = companions(findings, at).into_iter();
            let others: Vec<_> = others.map(|other| (other + 1).to_string()).collect();
            match some_of(others.iter().map(String::as_str), 3) {
                none if none.is_empty() => format!("costs {ratio}"),
                others => match groups(&findings[at]).find_map(|group| group.part) {
                    Some(part) => format!(
                        "about {} of a cost of {ratio} together with {others}",
                        percent(part)
                    ),
                    None => format!("costs {ratio} together with {others}"),
                },
            }
        }
        Judged::Slower => format!("a cost that cannot be told: slower together ({ratio})"),
        Judged::WithinNoise => format!("a cost within the noise ({ratio})"),
        Judged::Nothing => format!("no measurable cost ({ratio})"),
    })
}

/// The paragraphs of the finding with the index `at`.
pub(super) fn of_finding(
    page: &mut Page<'_>,
    findings: &[Finding],
    at: usize,
    all: bool,
) -> io::Result<()> {
    let groups: Vec<_> = groups(&findings[at]).collect();
    if groups.is_empty() {
        return Ok(());
    }
    let mut text = Text::new(page, Joined::ByFinding, all);
    if is_matrix(&groups) {
        text.matrix(&groups)?;
        if all {
            // Each row has had its own.
            return text.meaning(findings, at);
        }
    } else {
        for group in &groups {
            text.group(group)?;
        }
    }
    text.meaning(findings, at)?;
    text.basis(&groups)
}

/// The paragraphs of a group that no listed finding joins.
pub(super) fn of_group(page: &mut Page<'_>, group: &CoLocated, all: bool) -> io::Result<()> {
    let mut text = Text::new(page, Joined::ByNothing, all);
    text.group(group)?;
    text.basis(&[group])
}

/// Whether these are the same threads on several kinds of core pair.
fn is_matrix(groups: &[&CoLocated]) -> bool {
    let names = |group: &CoLocated| -> Vec<_> {
        let mut threads: Vec<_> = group
            .threads
            .iter()
            .map(|thread| (thread.tid, thread.name.clone()))
            .collect();
        threads.sort();
        threads
    };
    match groups {
        [first, others @ ..] if !others.is_empty() => {
            others.iter().all(|group| names(group) == names(first))
        }
        _ => false,
    }
}

/// Paragraphs of which the first has the label.
struct Text<'p, 'out> {
    page: &'p mut Page<'out>,
    joined: Joined,
    all: bool,
    labelled: bool,
}

impl<'p, 'out> Text<'p, 'out> {
    const fn new(page: &'p mut Page<'out>, joined: Joined, all: bool) -> Self {
        Self {
            page,
            joined,
            all,
            labelled: false,
        }
    }

    fn line(&mut self, text: &[Span]) -> io::Result<()> {
        let label = if self.labelled {
            label("")
        } else {
            label("measured")
        };
        self.labelled = true;
        self.page.paragraph(&label, TEXT, text)
    }

    /// A line that is indented in turn.
    fn detail(&mut self, text: &str) -> io::Result<()> {
        let indent = format!("{:1$}", "", TEXT + 2);
        self.page
            .paragraph(&[plain(indent)], TEXT + 4, &[span(DIM, text)])
    }

    /// Each thread with a cost, then those without.
    fn group(&mut self, group: &CoLocated) -> io::Result<()> {
        if self.all {
            self.in_full(group)?;
        } else {
            self.in_short(group)?;
        }
        for refusal in refusals(group, self.joined) {
            self.line(&[plain(refusal)])?;
        }
        Ok(())
    }

    /// The most affected threads, those measured by the same in one paragraph.
    fn in_short(&mut self, group: &CoLocated) -> io::Result<()> {
        let threads = with_cost(group);
        let (shown, others) = threads.split_at(threads.len().min(THREADS));
        let mut is_first = true;
        for alike in shown.chunk_by(|a, b| measured_alike(a.1, b.1)) {
            let mut text = Vec::new();
            for (thread, cost) in alike {
                if is_first {
                    text.extend(self.sentence(thread, cost, group));
                } else {
                    text.extend((!text.is_empty()).then(|| plain("; ")));
                    text.extend(clause(thread, cost));
                }
                is_first = false;
            }
            let measures = alike.first().map(|(_, cost)| &*cost.measures);
            text.push(plain(by(measures.unwrap_or_default(), alike.len())));
            self.line(&text)?;
        }
        if let Some((_, least)) = others.last() {
            let n = others.len();
            let text = format!("… {n} more, down to {}", interval(least.ratio));
            self.line(&[span(DIM, text)])?;
        }
        Ok(())
    }

    /// All threads, each with all that is known of its measures.
    fn in_full(&mut self, group: &CoLocated) -> io::Result<()> {
        for (i, (thread, cost)) in with_cost(group).into_iter().enumerate() {
            let text = match i {
                0 => self.sentence(thread, cost, group),
                _ => clause(thread, cost),
            };
            self.line(&text)?;
            self.details(cost)?;
        }
        Ok(())
    }

    /// `reader (tid 7) runs 2.8× [2.6, 3.0] faster when it does not share with writer`.
    fn sentence(&self, thread: &ThreadCost, cost: &Cost, group: &CoLocated) -> Vec<Span> {
        let (s, they_do_not, it_is) = match thread.tid {
            Some(_) => ("s", "it does not", "it is"),
            None => ("", "they do not", "they are"),
        };
        let others = others(thread, group);
        let when = match self.joined {
            Joined::ByFinding => format!("when {they_do_not} share{others}"),
            Joined::ByNothing => format!("when {it_is} on one core{others}"),
        };
        let ratio = span(BOLD, interval(cost.ratio));
        let who = who(thread);
        match judge(cost) {
            Judged::Costs => vec![
                plain(format!("{who} run{s} ")),
                ratio,
                plain(format!(" faster {when}")),
            ],
            Judged::WithinNoise => vec![
                plain(format!("{who} may run ")),
                ratio,
                plain(format!(" faster {when}, which is within the noise")),
            ],
            Judged::Slower => vec![
                plain(format!("{who} run{s} slower {when}: ")),
                ratio,
                plain("; there they compete for one core's caches, which may hide a cost"),
            ],
            Judged::Nothing => vec![plain(format!("{who} run{s} no faster {when}: ")), ratio],
        }
    }

    /// All that is known of each measure.
    fn details(&mut self, cost: &Cost) -> io::Result<()> {
        for measure in &cost.measures {
            let text = format!(
                "{}: {}; {} of {} steps are steady, over {} of its time, dispersion {}",
                in_full(measure),
                interval(measure.ratio),
                count(measure.steady),
                count(measure.steps),
                percent(measure.coverage),
                percent(measure.dispersion),
            );
            self.detail(&text)?;
        }
        self.detail(&format!("apart against apart: within {:.2}×", cost.floor))
    }

    /// A row for each kind of core pair.
    fn matrix(&mut self, groups: &[&CoLocated]) -> io::Result<()> {
        let intro = match self.joined {
            Joined::ByFinding => {
                "how much faster each runs when they do not share, by the cores they run on:"
            }
            Joined::ByNothing => {
                "how much faster each runs on one core, by the cores they run on otherwise:"
            }
        };
        self.line(&[plain(intro)])?;
        let width = groups.iter().map(|group| column(group.distance).len());
        let width = width.max().unwrap_or(0);
        for group in groups {
            let head = format!("{:TEXT$}{:width$}  ", "", column(group.distance));
            self.page
                .paragraph(&[plain(head)], TEXT + width + 2, &row(group, self.joined))?;
            if self.all {
                for (thread, cost) in with_cost(group) {
                    self.detail(&format!("{}:", who(thread)))?;
                    self.details(cost)?;
                }
                if let Some(basis) = basis(&[group], true) {
                    self.detail(&basis)?;
                }
            }
        }
        Ok(())
    }

    fn meaning(&mut self, findings: &[Finding], at: usize) -> io::Result<()> {
        for meaning in meaning(findings, at) {
            self.line(&[plain(meaning)])?;
        }
        Ok(())
    }

    fn basis(&mut self, groups: &[&CoLocated]) -> io::Result<()> {
        match basis(groups, self.all) {
            Some(basis) => self.line(&[span(DIM, basis)]),
            None => Ok(()),
        }
    }
}

/// The threads of a row, the most affected first, then why the others have no cost.
fn row(group: &CoLocated, joined: Joined) -> Vec<Span> {
    let mut text = Vec::new();
    for (thread, cost) in with_cost(group) {
        if !text.is_empty() {
            text.push(plain(", "));
        }
        text.extend(clause(thread, cost));
    }
    for refusal in refusals(group, joined) {
        if !text.is_empty() {
            text.push(plain("; "));
        }
        text.push(plain(refusal));
    }
    text
}

/// What the threads without a cost share in reasons, each reason once.
fn refusals(group: &CoLocated, joined: Joined) -> Vec<String> {
    let mut reasons: Vec<(String, &NoCost, Vec<String>)> = Vec::new();
    for thread in &group.threads {
        let Err(why) = &thread.cost else { continue };
        let text = refusal(why, group, joined);
        match reasons.iter_mut().find(|(known, ..)| *known == text) {
            Some((_, _, whose)) => whose.push(who(thread)),
            None => reasons.push((text, why, vec![who(thread)])),
        }
    }
    if group.threads.is_empty() {
        return unfinished(&group.outcome)
            .into_iter()
            .map(str::to_owned)
            .collect();
    }
    reasons
        .into_iter()
        .map(|(text, why, whose)| {
            let of_all = whose.len() == group.threads.len();
            // Who waits is in the sentence itself.
            if of_all || matches!(why, NoCost::TheyWait(_)) {
                text
            } else {
                format!("{}: {text}", some_of(whose.iter().map(String::as_str), 3))
            }
        })
        .collect()
}

/// Whether two threads were measured by the same, and by one measure that needs no ratio of its own.
fn measured_alike(a: &Cost, b: &Cost) -> bool {
    a.measures.len() == 1 && by(&a.measures, 1) == by(&b.measures, 1)
}

/// `spawner (tid 71) 1.06× [1.02, 1.10]`.
fn clause(thread: &ThreadCost, cost: &Cost) -> Vec<Span> {
    let who = plain(who(thread) + " ");
    let ratio = span(BOLD, interval(cost.ratio));
    match judge(cost) {
        Judged::Costs => vec![who, ratio],
        Judged::WithinNoise => vec![who, ratio, plain(" (within the noise)")],
        Judged::Slower => vec![who, plain("slower: "), ratio],
        Judged::Nothing => vec![who, plain("no faster: "), ratio],
    }
}

fn who(thread: &ThreadCost) -> String {
    match thread.tid {
        Some(tid) => format!("`{}` (tid {tid})", thread.name),
        None => "all of them together".into(),
    }
}

/// ` with writer`: who the thread was compared with.
fn others(thread: &ThreadCost, group: &CoLocated) -> String {
    if thread.tid.is_none() {
        return String::new();
    }
    let others = group.threads.iter();
    let others = others.filter(|other| other.tid.is_some() && other.tid != thread.tid);
    match others.collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        [other] if other.name == thread.name => format!(" with the other `{}`", other.name),
        [other] => format!(" with `{}`", other.name),
        _ => " with the others".into(),
    }
}

/// What a repair of the layout can gain of it.
fn meaning(findings: &[Finding], at: usize) -> Vec<String> {
    let finding = &findings[at];
    match measured(groups(finding)).map(|measured| measured.judged) {
        Some(Judged::Costs) => {
            let others = companions(findings, at);
            let stays = what_stays(finding);
            of_what_else(findings, &others)
                .into_iter()
                .chain(stays)
                .collect()
        }
        Some(Judged::Nothing) if repair_helps(finding.verdict) => {
            vec!["shared and cheap: a repair of the layout gains these threads nothing".into()]
        }
        _ => Vec::new(),
    }
}

/// What these threads share besides.
fn of_what_else(findings: &[Finding], others: &[usize]) -> Option<String> {
    let names: Vec<_> = others
        .iter()
        .map(|&other| format!("{} (finding {})", headline(&findings[other]), other + 1))
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "the same threads share {} as well: the ratio is what all of it costs together",
            some_of(names.iter().map(String::as_str), 3)
        )
    })
}

/// How much of the cost no layout changes.
fn what_stays(finding: &Finding) -> Option<String> {
    let estimate = groups(finding).find_map(|group| group.split);
    let estimate = estimate.map(|split| split.true_sharing);
    let same_bytes = match finding.verdict {
        Verdict::TrueSharing if estimate.is_none_or(|part| part >= ALL_TRUE) => 1.0,
        _ => estimate?,
    };
    if same_bytes > 1.0 - SPLIT {
        Some("all of the cost is on the same bytes and stays whatever the layout".into())
    } else if same_bytes >= SPLIT {
        Some(format!(
            "of the cost about {} is on the same bytes and stays whatever the layout (an estimate by how often they met)",
            percent(same_bytes)
        ))
    } else {
        None
    }
}

/// A kind of core pair in a row.
const fn column(distance: CoreDistance) -> &'static str {
    match distance {
        CoreDistance::SmtSiblings => "SMT siblings",
        CoreDistance::SameCluster => "same cluster",
        CoreDistance::SameCache => "same last cache",
        CoreDistance::SamePackage => "same package",
        CoreDistance::OtherPackage => "other package",
        CoreDistance::Unknown => "not known",
    }
}
