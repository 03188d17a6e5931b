//! Does a series grow? Told by the median of all slopes, which neither a peak nor a warm-up can fool.

/// Fewer samples say nothing.
const FEWEST: usize = 12;
/// More are thinned out: the work grows with the square of their number.
const MOST: usize = 400;
/// How sure we are that it grew at least so much: 99.9 %.
const CONFIDENCE: f64 = 3.09;

/// How much a series grew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Growth {
    /// By the median slope, over the part that was looked at.
    pub(crate) total: f64,
    /// At least so much, with confidence, and as much to the end as over the whole.
    pub(crate) at_least: f64,
    /// The median of the first quarter of that part.
    pub(crate) from: f64,
    /// The median of its last quarter.
    pub(crate) to: f64,
}

/// Looks at all but the first third, which is the warm-up. None where there is too little to tell.
///
/// Of so many values in a row as `lanes`, only the least counts: what is held while there is trouble in another lane comes and goes, but
/// what is lost never comes back.
pub(crate) fn growth(values: &[f64], lanes: usize) -> Option<Growth> {
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let values: Vec<f64> = values.chunks_exact(lanes.max(1)).map(least).collect();
    let warm = thinned(&values[values.len() / 3..]);
    if warm.len() < FEWEST {
        return None;
    }
    let (total, at_least) = slope(&warm);
    // What grew and then stopped is no leak: the second half alone must grow at the same pace.
    let half = &warm[warm.len() / 2..];
    let later = if half.len() < FEWEST { at_least } else { 2.0 * slope(half).1 };
    let quarter = warm.len() / 4;
    let (first, last) = (&warm[..quarter], &warm[warm.len() - quarter..]);
    Some(Growth {
        total,
        at_least: at_least.min(later),
        from: median(first.to_vec()),
        to: median(last.to_vec()),
    })
}

/// The median of the slopes between all pairs, and the lower end of its confidence interval (Theil, Sen), times the
/// length of the series.
fn slope(values: &[f64]) -> (f64, f64) {
    let count = values.len();
    let mut slopes = vec![];
    for (at, left) in values.iter().enumerate() {
        for (distance, right) in values[at + 1..].iter().enumerate() {
            slopes.push((right - left) / (distance + 1) as f64);
        }
    }
    slopes.sort_by(f64::total_cmp);
    let size = count as f64;
    let spread = CONFIDENCE * (size * (size - 1.0) * (2.0 * size + 5.0) / 18.0).sqrt();
    let lowest = ((slopes.len() as f64 - spread) / 2.0).max(0.0) as usize;
    (median(slopes.clone()) * size, slopes[lowest] * size)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn thinned(values: &[f64]) -> Vec<f64> {
    let step = values.len().div_ceil(MOST).max(1);
    values.iter().step_by(step).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64, count: usize, wave: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..count).map(|at| wave(at) + random.f64() * 20.0).collect()
    }

    #[test]
    fn a_leak_is_seen_through_noise() {
        let leak = growth(&noise(1, 300, |at| 100.0 + at as f64), 1).unwrap();
        assert!((150.0..250.0).contains(&leak.at_least), "{leak:?}");
    }

    #[test]
    fn noise_and_peaks_are_no_growth() {
        for seed in 0..50 {
            let flat = growth(&noise(seed, 200, |at| if at % 40 == 39 { 900.0 } else { 100.0 }), 1).unwrap();
            assert!(flat.at_least < 3.0, "seed {seed}: {flat:?}");
        }
    }

    #[test]
    fn a_warm_up_that_ends_is_no_growth() {
        let warm_up = growth(&noise(2, 300, |at| 2.0 * at.min(150) as f64), 1).unwrap();
        assert!(warm_up.at_least < 30.0, "{warm_up:?}");
    }

    #[test]
    fn trouble_in_other_lanes_is_no_growth_and_hides_none() {
        let trouble = |at: usize| if at % 7 == 3 { 0.0 } else { at as f64 };
        let busy = noise(3, 400, |at| 100.0 + trouble(at));
        assert!(growth(&busy, 1).unwrap().at_least > 30.0, "one by one it looks like growth");
        let flat = growth(&busy, 7).unwrap();
        assert!(flat.at_least < 3.0, "{flat:?}");
        let leaks: Vec<f64> = busy.iter().enumerate().map(|(at, value)| value + at as f64 / 4.0).collect();
        let leak = growth(&leaks, 7).unwrap();
        assert!(leak.at_least > 20.0, "{leak:?}");
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(growth(&[1.0, 2.0, 3.0], 1), None);
        assert_eq!(growth(&[], 1), None);
    }
}
