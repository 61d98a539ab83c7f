//! Many rows, one permitted error: S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal
//! of Statistics 6 (1979).

/// The adjusted probabilities, in the order given: a row is decided if its own is at most the permitted error, and then
/// the probability that *any* decided row is wrong is at most that.
///
/// ```
/// let adjusted = hitm_experiment::holm(&[0.01, 0.04, 0.03]);
/// let expected = [0.03, 0.06, 0.06];
/// assert!(adjusted.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12));
/// ```
#[must_use]
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let mut adjusted = vec![1.0; probabilities.len()];
    let mut greatest = 0.0_f64;
    for (rank, row) in order.into_iter().enumerate() {
        let rows_left = (probabilities.len() - rank) as f64;
        greatest = greatest.max((probabilities[row] * rows_left).min(1.0));
        adjusted[row] = greatest;
    }
    adjusted
}
