//! Costs go to the findings whose threads were measured.

use hitm_model::{Caveat, CoLocated, Evidence, Finding, Sampled, Split, Tid};

/// Adds each group's costs to the findings that join its threads; what joins none is left over.
pub(crate) fn attach(groups: Vec<CoLocated>, findings: &mut [Finding]) -> Vec<CoLocated> {
    let mut left = Vec::new();
    for mut group in groups {
        let threads: Vec<Tid> = group.threads.iter().filter_map(|it| it.tid).collect();
        let joined: Vec<usize> = (0..findings.len())
            .filter(|&at| joins(&findings[at], &threads))
            .collect();
        if joined.is_empty() {
            left.push(group);
            continue;
        }
        // They share a line: that there are other causes was not looked for.
        group.causes.clear();
        let all: u64 = joined.iter().map(|&at| met(&findings[at])).sum();
        for at in joined {
            let finding = &mut findings[at];
            group.split = split(finding);
            group.part = (all > 0).then(|| met(finding) as f64 / all as f64);
            finding.evidence.push(Evidence::CoLocated(group.clone()));
            // What it may cost need not be guessed any more, and what to type for it has been typed.
            let guess = |caveat: &Caveat| *caveat == Caveat::PlainWritesOnly;
            finding.caveats.retain(|caveat| !guess(caveat));
        }
    }
    left
}

/// Whether at least two of the threads take part.
fn joins(finding: &Finding, threads: &[Tid]) -> bool {
    let takes_part = |tid: &&Tid| {
        let mut participants = finding.participants.iter();
        participants.any(|it| it.threads.tids.contains(tid))
    };
    threads.iter().filter(takes_part).count() >= 2
}

/// The samples of a finding that met an opponent.
fn met(finding: &Finding) -> u64 {
    sampled(finding).map(|it| it.met).sum()
}

/// Of the samples that met an opponent, the parts on disjoint and on the same bytes.
fn split(finding: &Finding) -> Option<Split> {
    let (mut disjoint, mut overlapping) = (0, 0);
    for it in sampled(finding) {
        disjoint += it.met_disjoint;
        overlapping += it.met_overlapping;
    }
    let all = disjoint + overlapping;
    (all > 0).then(|| Split {
        false_sharing: disjoint as f64 / all as f64,
        true_sharing: overlapping as f64 / all as f64,
    })
}

fn sampled(finding: &Finding) -> impl Iterator<Item = &Sampled> {
    finding
        .evidence
        .iter()
        .filter_map(|evidence| match evidence {
            Evidence::Sampled(sampled) => Some(sampled),
            Evidence::CoLocated(_) => None,
        })
}
