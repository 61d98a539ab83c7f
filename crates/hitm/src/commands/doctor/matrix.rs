//! The latency matrix as a table; on machines with too many processors for one, its extremes.

use std::io::{self, Write};

use hitm_collect::machine::{Cpu, LatencyMatrix, PairLatency, Spread};

/// More columns than this are not read as a table.
const MOST_COLUMNS: usize = 16;
const EXTREMES: usize = 3;

/// Writes the matrix, indented by six.
pub(super) fn matrix(matrix: &LatencyMatrix, out: &mut dyn Write) -> io::Result<()> {
    let measured: Vec<(&PairLatency, &Spread)> = matrix
        .pairs
        .iter()
        .filter_map(|pair| Some((pair, pair.one_way.as_ref().ok()?)))
        .collect();
    if measured.is_empty() {
        writeln!(
            out,
            "      no pair of processors ran side by side: cannot tell"
        )?;
    } else if matrix.cpus.len() <= MOST_COLUMNS {
        table(matrix, out)?;
    } else {
        extremes(&measured, out)?;
    }
    let batches: usize = measured.iter().map(|(_, spread)| spread.count).sum();
    let least = measured
        .iter()
        .map(|(_, spread)| spread.least)
        .min_by(f64::total_cmp);
    let most = measured
        .iter()
        .map(|(_, spread)| spread.most)
        .max_by(f64::total_cmp);
    if let Some((least, most)) = least.zip(most) {
        writeln!(
            out,
            "      single batches: {least:.0}..{most:.0} ns over {batches} batches"
        )?;
    }
    let failed = matrix.pairs.len() - measured.len();
    if failed > 0 && !measured.is_empty() {
        writeln!(out, "      ?: did not run side by side ({failed} pairs)")?;
    }
    if matrix.pairs.len() < matrix.all_pairs {
        let (tried, all) = (matrix.pairs.len(), matrix.all_pairs);
        writeln!(out, "      a sample: {tried} of {all} pairs, spread evenly")?;
    }
    Ok(())
}

fn table(matrix: &LatencyMatrix, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "      {:>5}", "cpu")?;
    for cpu in &matrix.cpus {
        write!(out, " {cpu:>5}")?;
    }
    writeln!(out)?;
    for &row in &matrix.cpus {
        write!(out, "      {row:>5}")?;
        for &column in &matrix.cpus {
            write!(out, " {:>5}", cell(matrix, row, column))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn cell(matrix: &LatencyMatrix, row: Cpu, column: Cpu) -> String {
    if row == column {
        return "·".to_owned();
    }
    match matrix.between(row, column).map(|pair| &pair.one_way) {
        Some(Ok(spread)) => format!("{:.0}", spread.median),
        Some(Err(_)) => "?".to_owned(),
        None => String::new(),
    }
}

fn extremes(measured: &[(&PairLatency, &Spread)], out: &mut dyn Write) -> io::Result<()> {
    let mut sorted = measured.to_vec();
    sorted.sort_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
    if let Some(all) = Spread::of(sorted.iter().map(|(_, spread)| spread.median).collect()) {
        writeln!(
            out,
            "      {:.0} ns, from {:.0} to {:.0}, over {} pairs of processors",
            all.median, all.least, all.most, all.count
        )?;
    }
    let mut list = |what: &str, pairs: &[(&PairLatency, &Spread)]| {
        write!(out, "      {what}:")?;
        for (pair, spread) in pairs {
            let [a, b] = pair.cpus;
            write!(out, "  {a}–{b} {:.0}", spread.median)?;
        }
        writeln!(out)
    };
    let some = sorted.len().min(EXTREMES);
    list("nearest", &sorted[..some])?;
    list("farthest", &sorted[sorted.len() - some..])
}
