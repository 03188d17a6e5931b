//! How long things took: buckets that grow with the time, so that a millisecond and an hour are told equally well.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Every doubling of the time has so many buckets of equal width; a quantile is off by less than one of them.
const STEPS: usize = 8;
/// The width of the smallest buckets, in nanoseconds: the first doubling starts at 0.25 ms.
const UNIT: u64 = 31_250;
/// Doublings above 0.25 ms, up to 4194 s; what took longer goes into the last bucket.
const DOUBLINGS: usize = 24;
const BUCKETS: usize = STEPS * (DOUBLINGS + 1) + 1;

/// Counts durations. Recording is three atomic additions.
#[derive(Debug, Default)]
pub struct Histogram {
    /// Made with the first duration: most servers of many are never called, and most never restart.
    counts: OnceLock<Box<[AtomicU64; BUCKETS]>>,
    nanos: AtomicU64,
    longest: AtomicU64,
}

impl Histogram {
    /// Counts one.
    pub fn record(&self, length: Duration) {
        let nanos = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let counts = self.counts.get_or_init(|| Box::new([const { AtomicU64::new(0) }; BUCKETS]));
        counts[bucket_of(nanos)].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.longest.fetch_max(nanos, Ordering::Relaxed);
    }

    /// What was counted until now.
    pub fn buckets(&self) -> Buckets {
        let counts = self.counts.get().map_or_else(
            || vec![0; BUCKETS],
            |counts| counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
        );
        Buckets {
            counts,
            total: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)),
            longest: Duration::from_nanos(self.longest.load(Ordering::Relaxed)),
        }
    }
}

/// What a histogram had counted at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    counts: Vec<u64>,
    /// All durations together.
    pub total: Duration,
    /// The longest of them.
    pub longest: Duration,
}

/// What most, nearly all, and all but one in a hundred took at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiles {
    /// One half.
    pub p50: Duration,
    /// Nine in ten.
    pub p90: Duration,
    /// 99 in a hundred.
    pub p99: Duration,
    /// All.
    pub max: Duration,
}

impl Buckets {
    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The usual quantiles; none where nothing was counted.
    pub fn quantiles(&self) -> Option<Quantiles> {
        (self.count() > 0).then(|| Quantiles {
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            p99: self.quantile(0.99),
            max: self.longest,
        })
    }

    /// So many, from 0 to 1, took at most this long. Never longer than the longest.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (share * self.count() as f64).ceil().max(1.0) as u64;
        let mut before = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            if count > 0 && before + count >= wanted {
                let (low, high) = (upper_edge(bucket.wrapping_sub(1)), upper_edge(bucket));
                let part = (wanted - before) as f64 / count as f64;
                let nanos = low as f64 + part * (high.saturating_sub(low)) as f64;
                return Duration::from_nanos(nanos as u64).min(self.longest);
            }
            before += count;
        }
        self.longest
    }

    /// For Prometheus: how many took at most 1 ms, 2 ms, 4 ms and so on; the last limit is 4194.304 s.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> {
        let mut sum = 0;
        let doublings = self.counts.chunks(STEPS).take(DOUBLINGS + 1).enumerate();
        let all = doublings.map(move |(doubling, counts)| {
            sum += counts.iter().sum::<u64>();
            (Duration::from_micros(250 << doubling), sum)
        });
        all.skip(2) // A quarter and half of a millisecond are of no interest.
    }
}

/// A bucket holds what is longer than the edge below it and not longer than its own, as Prometheus wants it.
fn bucket_of(nanos: u64) -> usize {
    let units = nanos.saturating_sub(1) / UNIT;
    let Some(doubling) = (units / STEPS as u64).checked_ilog2() else { return units as usize };
    let step = (units >> doubling) as usize - STEPS;
    (STEPS * (doubling as usize + 1) + step).min(BUCKETS - 1)
}

/// In nanoseconds; the last bucket has none, and what lies below the first is zero.
fn upper_edge(bucket: usize) -> u64 {
    let steps = bucket.wrapping_add(1);
    match (steps / STEPS, steps % STEPS) {
        _ if steps >= BUCKETS => u64::MAX,
        (0, step) => step as u64 * UNIT,
        (doubling, step) => ((STEPS + step) as u64 * UNIT) << (doubling - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_not_longer_than_its_edge() {
        assert_eq!(bucket_of(0), 0);
        for bucket in 0..BUCKETS - 1 {
            assert_eq!(bucket_of(upper_edge(bucket)), bucket);
            assert_eq!(bucket_of(upper_edge(bucket) + 1), bucket + 1);
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_near_the_exact_ones() {
        for seed in 0..20 {
            let mut chance = fastrand::Rng::with_seed(seed);
            let histogram = Histogram::default();
            // From a fraction of a millisecond to a thousand seconds, with all sizes alike.
            let mut lengths: Vec<Duration> = (0..chance.usize(1..5000))
                .map(|_| Duration::from_secs_f64(10f64.powf(chance.f64() * 7.0 - 4.0)))
                .collect();
            lengths.iter().for_each(|length| histogram.record(*length));
            lengths.sort();
            let buckets = histogram.buckets();
            for share in [0.5, 0.9, 0.99, 1.0] {
                let exact = lengths[(share * lengths.len() as f64).ceil() as usize - 1].as_secs_f64();
                let told = buckets.quantile(share).as_secs_f64();
                let error = (told - exact).abs();
                assert!(error <= exact / 8.0 + 32e-6, "seed {seed}, {share}: {told} for {exact}");
            }
            assert_eq!(buckets.quantiles().unwrap().max, *lengths.last().unwrap());
            assert_eq!(buckets.count(), lengths.len() as u64);
        }
    }

    #[test]
    fn what_is_cumulated_is_exact_at_each_limit() {
        let histogram = Histogram::default();
        let lengths =
            [0, 1, 999, 1000, 1001, 2000, 2001, 4_194_304_000, 4_194_304_001].map(Duration::from_micros);
        lengths.iter().for_each(|length| histogram.record(*length));
        let buckets = histogram.buckets();
        for (limit, count) in buckets.cumulative() {
            assert_eq!(count, lengths.iter().filter(|length| **length <= limit).count() as u64, "{limit:?}");
        }
        let limits: Vec<f64> = buckets.cumulative().map(|(limit, _)| limit.as_secs_f64()).collect();
        assert_eq!((limits[0], limits[1], limits[22], limits.len()), (0.001, 0.002, 4194.304, 23));
    }

    #[test]
    fn nothing_counted_has_no_quantiles_and_takes_no_memory() {
        let histogram = Histogram::default();
        let buckets = histogram.buckets();
        assert_eq!(buckets.quantiles(), None);
        assert_eq!(buckets.cumulative().count(), 23, "Prometheus gets its zeros");
        assert!(histogram.counts.get().is_none() && size_of::<Histogram>() <= 32);
    }
}
