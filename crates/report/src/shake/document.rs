//! The types of the JSON document, and how they are made. Their documentation becomes the schema's.

use hitm_experiment as experiment;
use hitm_experiment::shake;
use schemars::JsonSchema;
use serde::Serialize;

use super::{SHAKE_JSON_VERSION, words};

/// A program in many layouts, run in turn.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hitm-shake")]
pub(super) struct Document {
    /// What kind of document this is.
    schema: SchemaName,
    /// The version of the document's format.
    #[schemars(extend("const" = SHAKE_JSON_VERSION))]
    version: u32,
    /// The version of the hitm that made it.
    hitm: &'static str,
    /// The machine.
    machine: String,
    /// What built the program, for a shell.
    build: String,
    /// What was run.
    run: Vec<String>,
    /// The program whose layout was changed, within the tree.
    program: String,
    /// Whether only the link was repeated for each variant, and not the whole build.
    relinked: bool,
    /// The linker.
    linker: String,
    /// What is compared.
    metric: String,
    /// Its unit, empty for a number that the program prints.
    unit: &'static str,
    /// Which values are good: `higher` or `lower`.
    better: &'static str,
    /// Bytes of a line.
    line_size: u32,
    /// The seed of all that was drawn by lot.
    seed: u64,
    /// What is said of the layout.
    verdict: Verdict,
    /// Of an undecided one: about how many rounds more it would take at this noise.
    more_rounds: Option<usize>,
    /// Effects below it do not count, in percent; null if nothing was measured.
    floor_percent: Option<f64>,
    /// By how many percent the layout with the greatest value is above the one with the least.
    spread_percent: Option<f64>,
    /// The lower end of its 95 % interval; null if it has none.
    spread_low_percent: Option<f64>,
    /// The upper end.
    spread_high_percent: Option<f64>,
    /// Why no more was run: `all-run`, `budget`, `disturbed`, `interrupted` or `failed`; null if nothing was measured.
    ended: Option<&'static str>,
    /// How the base failed.
    failure: Option<String>,
    /// Rounds that were begun.
    rounds: usize,
    /// Runs that were disturbed; they do not count, unless that was asked for.
    disturbed_runs: usize,
    /// Whether it was.
    disturbed_count: bool,
    /// Processors that the base used on average, the median over its runs.
    overlap: Option<f64>,
    /// The base against itself.
    base_again: Option<Estimate>,
    /// The variants, in the order in which they were asked for.
    variants: Vec<Variant>,
    /// Layouts that are surely on the better side of the middle between the best and the worst; empty unless it matters.
    fast: Vec<String>,
    /// Layouts that are surely on the worse side.
    slow: Vec<String>,
    /// Which variables tell the two sides apart; null unless it matters.
    explanation: Option<Explanation>,
    /// Every run, in rounds.
    trials: Vec<Trial>,
    /// What limits the result.
    caveats: Vec<String>,
    /// Where the builds are, if they were kept.
    kept: Option<String>,
}

/// The name of this kind of document.
#[derive(Serialize, JsonSchema)]
enum SchemaName {
    #[serde(rename = "hitm-shake")]
    HitmShake,
}

/// What is said of the layout.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    /// At least one layout differs from the base by no less than the floor.
    Matters,
    /// All layouts are within the floor.
    DoesNotMatter,
    /// The rounds do not say.
    Undecided,
    /// No layout differs from the base: nothing was run.
    NotMeasured,
}

/// One variant.
#[derive(Serialize, JsonSchema)]
struct Variant {
    /// Its name.
    name: String,
    /// `shift`, `shuffle` or `env`.
    kind: &'static str,
    /// Bytes that variables were to move, or that the environment was larger.
    bytes: Option<u32>,
    /// What its variables did, in words.
    moved: String,
    /// The same by section; empty where it is not known.
    sections: Vec<Section>,
    /// Whether it was run.
    ran: bool,
    /// Why it was not built, or not run to the end.
    failure: Option<String>,
    /// What its rounds say.
    estimate: Option<Estimate>,
}

/// How the variables of a section moved.
#[derive(Serialize, JsonSchema)]
struct Section {
    /// The section.
    name: String,
    /// Variables that this build and the base have there.
    variables: usize,
    /// Most of them moved by so many bytes within a line (a pair of lines with --pair).
    bytes: u32,
    /// How many these are.
    agree: usize,
    /// How many moved within their line at all.
    moved: usize,
}

/// What the rounds say of a layout.
#[derive(Serialize, JsonSchema)]
struct Estimate {
    /// Rounds that count.
    rounds: usize,
    /// By how many percent of the base's value its value is greater: the median of the averages of all pairs of log ratios.
    effect_percent: f64,
    /// The lower end of the interval that holds with 95 % for all variants at once; null if it has none.
    low_percent: Option<f64>,
    /// The upper end.
    high_percent: Option<f64>,
    /// The probability of error of "it differs from the base", after Holm's correction over the variants.
    p: f64,
}

/// Which variables tell the slow layouts from the fast ones.
#[derive(Serialize, JsonSchema)]
struct Explanation {
    /// The best build.
    fast: String,
    /// The worst build.
    slow: String,
    /// Builds that were looked at.
    builds: usize,
    /// Bytes of what "one line" means here: twice those of a line where pairs of lines were asked for and lines explain
    /// nothing.
    bytes: u32,
    /// Pairs that are on one line in every slow build and in no fast one.
    always: Vec<Pair>,
    /// Other pairs that came onto one line from the best build to the worst.
    sometimes: Vec<Pair>,
}

/// Two variables on one line of the worst build.
#[derive(Serialize, JsonSchema)]
struct Pair {
    /// The first by address.
    a: String,
    /// The other.
    b: String,
    /// The line's address in the file.
    line: String,
    /// Where the first begins in its line.
    a_offset: u64,
    /// Where the other does.
    b_offset: u64,
}

/// One run.
#[derive(Serialize, JsonSchema)]
struct Trial {
    /// The number of its round, from 0.
    round: usize,
    /// `base`, `base again`, or the name of a variant.
    layout: String,
    /// The metric.
    value: f64,
    /// From start to end.
    wall_seconds: f64,
    /// Processor time.
    cpu_seconds: f64,
    /// Processors used on average.
    overlap: f64,
    /// Processor time that the hypervisor gave to others meanwhile, where known.
    stolen_seconds: Option<f64>,
    /// Processor time of other programs meanwhile, where known.
    foreign_seconds: Option<f64>,
    /// What disturbed it; empty if nothing did.
    disturbed: Vec<&'static str>,
}

impl From<&shake::Shaken> for Document {
    fn from(shaken: &shake::Shaken) -> Self {
        let judgement = shaken.judgement.as_ref();
        let rounds = shaken.rounds.as_ref();
        let (verdict, more_rounds) = verdict(judgement);
        let interval = judgement.and_then(|judgement| judgement.spread_interval);
        let names = |arms: &[shake::Arm]| -> Vec<String> {
            arms.iter().map(|arm| words::arm(shaken, *arm)).collect()
        };
        Self {
            schema: SchemaName::HitmShake,
            version: SHAKE_JSON_VERSION,
            hitm: env!("CARGO_PKG_VERSION"),
            machine: shaken.machine.clone(),
            build: shaken.build.clone(),
            run: shaken.run.clone(),
            program: shaken.program.path.clone(),
            relinked: shaken.program.relinked,
            linker: shaken.program.linker.clone(),
            metric: shaken.metric.to_string(),
            unit: shaken.metric.unit(),
            better: match shaken.better {
                experiment::Better::Higher => "higher",
                experiment::Better::Lower => "lower",
            },
            line_size: shaken.line_size,
            seed: shaken.seed,
            verdict,
            more_rounds,
            floor_percent: judgement.map(|judgement| judgement.floor.percent()),
            spread_percent: judgement.and_then(|it| it.spread).and_then(finite),
            spread_low_percent: interval.and_then(|interval| finite(interval.low)),
            spread_high_percent: interval.and_then(|interval| finite(interval.high)),
            ended: rounds.map(|rounds| words::ended(&rounds.ended)),
            failure: rounds.and_then(|rounds| match &rounds.ended {
                shake::Ended::Failed(why) => Some(why.clone()),
                _ => None,
            }),
            rounds: rounds.map_or(0, |rounds| rounds.rounds.len()),
            disturbed_runs: rounds.map_or(0, shake::Rounds::disturbed),
            disturbed_count: rounds.is_some_and(|rounds| rounds.plan.count_disturbed),
            overlap: rounds.and_then(shake::Rounds::overlap),
            base_again: judgement
                .and_then(|it| it.base_again.as_ref())
                .map(Estimate::from),
            variants: shaken
                .variants
                .iter()
                .map(|it| variant(shaken, it))
                .collect(),
            fast: judgement.map_or_else(Vec::new, |it| names(&it.sides.fast)),
            slow: judgement.map_or_else(Vec::new, |it| names(&it.sides.slow)),
            explanation: shaken.explanation.as_ref().map(Explanation::from),
            trials: rounds.map_or_else(Vec::new, |rounds| trials(shaken, rounds)),
            caveats: shaken.caveats.clone(),
            kept: shaken.kept.clone(),
        }
    }
}

fn verdict(judgement: Option<&shake::Judgement>) -> (Verdict, Option<usize>) {
    match judgement.map(|judgement| judgement.verdict) {
        None => (Verdict::NotMeasured, None),
        Some(shake::Verdict::Matters) => (Verdict::Matters, None),
        Some(shake::Verdict::DoesNotMatter) => (Verdict::DoesNotMatter, None),
        Some(shake::Verdict::Undecided { more_rounds }) => (Verdict::Undecided, more_rounds),
    }
}

fn finite(ratio: experiment::LogRatio) -> Option<f64> {
    ratio.ln().is_finite().then(|| ratio.percent())
}

fn variant(shaken: &shake::Shaken, variant: &shake::Variant) -> Variant {
    let (kind, bytes) = match variant.change {
        shake::Change::Shift { bytes } => ("shift", Some(bytes)),
        shake::Change::Shuffle { .. } => ("shuffle", None),
        shake::Change::Environment { bytes, .. } => ("env", Some(bytes)),
    };
    let sections = match &variant.built {
        Ok(shake::Moved::Sections(sections)) => sections.iter().map(Section::from).collect(),
        _ => Vec::new(),
    };
    let estimate = shaken.judgement.as_ref().and_then(|judgement| {
        let arm = shake::Arm::Variant(variant.number?);
        judgement
            .variants
            .iter()
            .find(|estimate| estimate.arm == arm)
    });
    Variant {
        name: variant.change.to_string(),
        kind,
        bytes,
        moved: words::moved(variant),
        sections,
        ran: variant.number.is_some(),
        failure: words::failure(shaken, variant),
        estimate: estimate.map(Estimate::from),
    }
}

impl From<&shake::SectionMoved> for Section {
    fn from(section: &shake::SectionMoved) -> Self {
        Self {
            name: section.section.clone(),
            variables: section.variables,
            bytes: section.bytes,
            agree: section.agree,
            moved: section.moved,
        }
    }
}

impl From<&shake::ArmEstimate> for Estimate {
    fn from(estimate: &shake::ArmEstimate) -> Self {
        Self {
            rounds: estimate.rounds,
            effect_percent: estimate.effect.percent(),
            low_percent: finite(estimate.interval.low),
            high_percent: finite(estimate.interval.high),
            p: estimate.p,
        }
    }
}

impl From<&shake::Explanation> for Explanation {
    fn from(explanation: &shake::Explanation) -> Self {
        let pairs = |all: &[shake::Explained]| all.iter().map(Pair::from).collect();
        Self {
            fast: explanation.fast.clone(),
            slow: explanation.slow.clone(),
            builds: explanation.builds,
            bytes: explanation.bytes,
            always: pairs(&explanation.always),
            sometimes: pairs(&explanation.sometimes),
        }
    }
}

impl From<&shake::Explained> for Pair {
    fn from(pair: &shake::Explained) -> Self {
        Self {
            a: pair.a.clone(),
            b: pair.b.clone(),
            line: format!("{:#x}", pair.line),
            a_offset: pair.a_offset,
            b_offset: pair.b_offset,
        }
    }
}

fn trials(shaken: &shake::Shaken, rounds: &shake::Rounds<String>) -> Vec<Trial> {
    let mut all = Vec::new();
    for (number, round) in rounds.rounds.iter().enumerate() {
        for (arm, trials) in shake::Arm::all(rounds.plan.variants).zip(round) {
            let name = words::arm(shaken, arm);
            all.extend(trials.iter().map(|one| trial(number, name.clone(), one)));
        }
    }
    all
}

fn trial(round: usize, layout: String, trial: &experiment::Trial) -> Trial {
    let health = &trial.health;
    let seconds = |time: Option<experiment::Seconds>| time.map(|time| time.0);
    Trial {
        round,
        layout,
        value: trial.value,
        wall_seconds: health.wall.0,
        cpu_seconds: health.cpu.0,
        overlap: health.overlap(),
        stolen_seconds: seconds(health.stolen),
        foreign_seconds: seconds(health.foreign),
        disturbed: health
            .disturbed()
            .into_iter()
            .map(experiment::Disturbed::word)
            .collect(),
    }
}
