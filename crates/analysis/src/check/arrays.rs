//! Arrays of which each thread has an element.

use hitm_model::{Confidence, StaticRule, SvmaRange};

use super::facts::{Facts, Use, most};
use super::fields::{self, Field, User};
use super::judge::{NoFinding, Suspicion, UNDER_ONE_LOCK};

const BY_THREAD: &str = "which element is written depends on the thread";
const SHARED_TYPE: &str = "several threads write elements, which are atomics or locks";

const ONE_FOR_ALL: &str = "an array whose elements are smaller than a line; which element is written does not depend on the thread";

/// Judges the arrays.
pub(super) fn judge(facts: &Facts) -> (Vec<Suspicion>, Vec<NoFinding>) {
    let mut suspicions: Vec<Suspicion> = Vec::new();
    let mut explained = Vec::new();
    let line = facts.line.bytes();
    let mut arrays: Vec<&Use> = facts
        .uses
        .iter()
        .filter(|used| used.stride > 0 && used.stride < line && used.writes())
        .collect();
    arrays.sort_by_key(|used| (used.object, used.at, used.root));
    for array in arrays.chunk_by(|a, b| a.object == b.object) {
        let object = &facts.objects[array[0].object];
        let Some(best) = array.iter().max_by_key(|used| confidence(facts, used)) else {
            continue;
        };
        let stride = u64::from(best.stride);
        // Something that is no larger than an element is no array.
        if object.size < 2 * stride || object.size == 0 {
            continue;
        }
        let field = Field {
            object: best.object,
            range: SvmaRange::new(object.start, object.start.wrapping_add(object.size)),
            users: array.iter().map(|used| User::of(used)).collect(),
        };
        let pairs = |user: &User| field.users.iter().all(|other| user.excludes(other));
        match confidence(facts, best) {
            Some(_) if field.users.iter().all(pairs) => explained.push(NoFinding {
                fields: vec![field],
                why: UNDER_ONE_LOCK,
            }),
            Some(confidence) => suspicions.push(Suspicion {
                rule: StaticRule::ElementsShareLine,
                confidence: if object.library {
                    Confidence::Low
                } else {
                    confidence
                },
                line: fields::address_of(facts, fields::lines(facts, field.range).0),
                fields: vec![field],
                why: if best.by_thread {
                    BY_THREAD
                } else {
                    SHARED_TYPE
                },
                stride: Some(best.stride),
            }),
            None if !object.library => explained.push(NoFinding {
                fields: vec![field],
                why: ONE_FOR_ALL,
            }),
            None => {}
        }
    }
    (suspicions, explained)
}

fn confidence(facts: &Facts, used: &Use) -> Option<Confidence> {
    let root = used.root.map(|root| facts.roots[usize::from(root)]);
    let shared = used.element_shared || used.atomic();
    let confidence = match root {
        Some(root) if used.by_thread && used.writes_hot() && root.many => Some(Confidence::High),
        Some(root) if shared && used.writes_hot() && root.many => Some(Confidence::Medium),
        Some(_) if used.by_thread || shared => Some(Confidence::Low),
        None if shared => Some(Confidence::Low),
        _ => None,
    };
    confidence.map(|confidence| confidence.min(most(used.certainty())))
}
