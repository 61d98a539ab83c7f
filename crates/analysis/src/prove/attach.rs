//! Costs go to the findings whose threads were measured.

use hitm_model::{Caveat, CoLocated, Evidence, Finding, Split, Tid};

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
        group.split = split(joined.iter().map(|&at| &findings[at]));
        // They share a line: that there are other causes was not looked for.
        group.causes.clear();
        for at in joined {
            let evidence = Evidence::CoLocated(group.clone());
            let finding = &mut findings[at];
            finding.evidence.push(evidence);
            if group.threads.iter().any(|thread| thread.cost.is_ok()) {
                // What it may cost need not be guessed any more.
                let guess = |caveat: &Caveat| *caveat == Caveat::PlainWritesOnly;
                finding.caveats.retain(|caveat| !guess(caveat));
            }
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

/// Of the samples that met an opponent, the parts on disjoint and on the same bytes.
fn split<'f>(findings: impl Iterator<Item = &'f Finding>) -> Option<Split> {
    let (mut disjoint, mut overlapping) = (0, 0);
    for evidence in findings.flat_map(|finding| &finding.evidence) {
        if let Evidence::Sampled(sampled) = evidence {
            disjoint += sampled.met_disjoint;
            overlapping += sampled.met_overlapping;
        }
    }
    let all = disjoint + overlapping;
    (all > 0).then(|| Split {
        false_sharing: disjoint as f64 / all as f64,
        true_sharing: overlapping as f64 / all as f64,
    })
}
