//! The least sum of squares, by the method of Levenberg.
//!
//! 1. A step is taken only if it lowers the sum.
//! 2. A parameter on which nothing depends stays where it is.

/// A function of parameters, evaluated at several points at a time: the residuals at each, or `None`
/// where it has none.
pub(super) type Residuals<'a> = &'a mut dyn FnMut(&[Vec<f64>]) -> Option<Vec<Option<Vec<f64>>>>;

/// Limits of the work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Rounds at most.
    pub rounds: u32,
    /// How far a parameter is moved to see what depends on it.
    pub step: f64,
    /// How far a parameter moves in one round, at most.
    pub most: f64,
    /// The improvement of a round, as a share of the sum, below which it ends.
    pub enough: f64,
}

/// The dampings that are tried at the same time. They are the same for all parameters: one on which
/// hardly anything depends must not follow the noise.
const DAMPINGS: [f64; 8] = [1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.5, 2.0, 10.0];

/// Looks for the parameters with the least sum of squares from `start` on. Ends early if the function
/// does (`None`). Returns the best point that was seen.
pub(super) fn least_squares(start: Vec<f64>, bounds: Bounds, f: Residuals) -> Vec<f64> {
    let mut at = start;
    let Some(Some(mut own)) = f(&[at.clone()]).and_then(|mut all| all.pop()) else { return at };
    let mut step = bounds.step;
    for _ in 0..bounds.rounds {
        let moved = |i: usize| {
            let mut point = at.clone();
            point[i] += step;
            point
        };
        let points: Vec<_> = (0..at.len()).map(moved).collect();
        let Some(columns) = f(&points) else { return at };
        let slopes: Vec<Vec<f64>> = columns
            .into_iter()
            .map(|column| match column {
                Some(column) => column.iter().zip(&own).map(|(a, b)| (a - b) / step).collect(),
                None => vec![0.0; own.len()],
            })
            .collect();
        let candidates: Vec<_> = DAMPINGS
            .iter()
            .map(|damping| {
                let change = change(&slopes, &own, *damping);
                let moved = at.iter().zip(change);
                moved.map(|(x, d)| x + d.clamp(-bounds.most, bounds.most)).collect()
            })
            .collect::<Vec<Vec<f64>>>();
        let Some(found) = f(&candidates) else { return at };
        let before = sum(&own);
        let best = candidates.into_iter().zip(found).filter_map(|(c, r)| Some((c, r?)));
        let best = best.min_by(|a, b| sum(&a.1).total_cmp(&sum(&b.1)));
        match best {
            Some((point, residuals)) if sum(&residuals) < before => {
                let gained = before - sum(&residuals);
                (at, own) = (point, residuals);
                if gained > bounds.enough * before {
                    continue;
                }
            }
            _ => {}
        }
        // Perhaps the slopes are too coarse.
        step /= 3.0;
        if step < bounds.step / 30.0 {
            break;
        }
    }
    at
}

fn sum(residuals: &[f64]) -> f64 {
    residuals.iter().map(|r| r * r).sum()
}

/// The change of the parameters that brings the residuals to their least, if they are linear.
fn change(slopes: &[Vec<f64>], residuals: &[f64], damping: f64) -> Vec<f64> {
    let n = slopes.len();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut matrix: Vec<Vec<f64>> = (0..n)
        .map(|i| {
            let mut row: Vec<f64> = (0..n).map(|j| dot(&slopes[i], &slopes[j])).collect();
            row[i] += damping;
            row.push(-dot(&slopes[i], residuals));
            row
        })
        .collect();
    // Gauss: with a symmetric, positive matrix the diagonal does for pivots.
    for i in 0..n {
        let (done, rest) = matrix.split_at_mut(i + 1);
        let pivot = &done[i];
        for row in rest {
            let factor = row[i] / pivot[i];
            row.iter_mut().zip(pivot).for_each(|(a, b)| *a -= factor * b);
        }
    }
    let mut solution = vec![0.0; n];
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|j| matrix[i][j] * solution[j]).sum();
        solution[i] = (matrix[i][n] - known) / matrix[i][i];
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curved_valley_is_followed_to_its_end() {
        let bounds = Bounds { rounds: 100, step: 0.01, most: 1.0, enough: 1e-9 };
        // (Rosenbrock's function; the third parameter does nothing.)
        let residuals = |p: &Vec<f64>| Some(vec![10.0 * (p[1] - p[0] * p[0]), 1.0 - p[0]]);
        let mut all = |points: &[Vec<f64>]| Some(points.iter().map(residuals).collect());
        let found = least_squares(vec![-1.2, 1.0, 7.0], bounds, &mut all);
        assert!((found[0] - 1.0).abs() < 0.01 && (found[1] - 1.0).abs() < 0.02, "{found:?}");
        assert_eq!(found[2], 7.0);
    }

    #[test]
    fn it_keeps_to_where_there_is_a_function() {
        let bounds = Bounds { rounds: 50, step: 0.01, most: 1.0, enough: 1e-9 };
        let residuals = |p: &Vec<f64>| (p[0] < 2.0).then(|| vec![p[0] - 3.0]);
        let mut all = |points: &[Vec<f64>]| Some(points.iter().map(residuals).collect());
        let found = least_squares(vec![0.0], bounds, &mut all);
        assert!(found[0] > 1.8 && found[0] < 2.0, "{found:?}");
    }
}
