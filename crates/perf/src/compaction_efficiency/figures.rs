//! What a run comes to: amplifications, as text and as JSON.
//!
//! Pure: counts in, figures out.

use super::options::Options;
use serde_json::{Value, json};

/// What was counted, after the warm-up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) operations: u64,
    pub(crate) flushes: u64,
    /// Bytes of the SSTables that were flushed.
    pub(crate) flushed_bytes: u64,
    pub(crate) compactions: u64,
    /// Bytes of the SSTables that compactions wrote.
    pub(crate) compacted_bytes: u64,
    /// Bytes on the disk for each live byte, whenever that was looked at.
    pub(crate) space: Vec<f64>,
    /// SSTables that a read of one partition looks at, of each read.
    pub(crate) reads: Vec<f64>,
    /// At the end.
    pub(crate) sstables: u64,
    pub(crate) live_partitions: u64,
    pub(crate) live_bytes: u64,
}

/// Mean and extreme of some samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) maximum: f64,
}

impl Spread {
    /// `None` of nothing.
    fn of(samples: &[f64]) -> Option<Spread> {
        let maximum = samples.iter().copied().reduce(f64::max)?;
        Some(Spread { mean: samples.iter().sum::<f64>() / samples.len() as f64, maximum })
    }

    fn text(spread: Option<Spread>) -> String {
        match spread {
            Some(Spread { mean, maximum }) => format!("{mean:.2} (mean), {maximum:.2} (maximum)"),
            None => "n/a".to_string(),
        }
    }

    fn json(spread: Option<Spread>) -> Value {
        spread.map_or(Value::Null, |it| json!({ "mean": it.mean, "maximum": it.maximum }))
    }
}

impl Counted {
    /// Bytes written for each byte flushed; `None` where nothing was flushed.
    fn write_amplification(&self) -> Option<f64> {
        let written = (self.flushed_bytes + self.compacted_bytes) as f64;
        (0 < self.flushed_bytes).then(|| written / self.flushed_bytes as f64)
    }

    /// Notes how much of the disk was taken for so many live bytes, if there are any.
    pub(crate) fn note_space(&mut self, disk_bytes: u64, live_bytes: u64) {
        if 0 < live_bytes {
            self.space.push(disk_bytes as f64 / live_bytes as f64);
        }
    }

    pub(crate) fn text(&self, options: &Options) -> String {
        let write = self.write_amplification();
        let lines = [
            format!("strategy: {}", options.strategy()),
            format!("workload: {}", options.workload()),
            format!("operations: {}", self.operations),
            format!("flushes: {} of {} bytes", self.flushes, self.flushed_bytes),
            format!("compactions: {} to {} bytes", self.compactions, self.compacted_bytes),
            format!("live: {} partitions of {} bytes", self.live_partitions, self.live_bytes),
            format!("SSTables: {}", self.sstables),
            format!(
                "write amplification: {}",
                write.map_or("n/a".to_string(), |write| format!("{write:.2}"))
            ),
            format!("space amplification: {}", Spread::text(Spread::of(&self.space))),
            format!("read amplification: {}", Spread::text(Spread::of(&self.reads))),
        ];
        lines.join("\n")
    }

    pub(crate) fn json(&self, options: &Options) -> Value {
        json!({
            "parameters": options.parameters(),
            "results": {
                "operations": self.operations,
                "flushes": self.flushes,
                "flushed_bytes": self.flushed_bytes,
                "compactions": self.compactions,
                "compacted_bytes": self.compacted_bytes,
                "live_partitions": self.live_partitions,
                "live_bytes": self.live_bytes,
                "sstables": self.sstables,
                "write_amplification": self.write_amplification(),
                "space_amplification": Spread::json(Spread::of(&self.space)),
                "read_amplification": Spread::json(Spread::of(&self.reads)),
            },
            "versions": crate::versions(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::options;

    fn counted() -> Counted {
        let mut counted = Counted {
            operations: 10,
            flushes: 2,
            flushed_bytes: 1000,
            compactions: 1,
            compacted_bytes: 1500,
            reads: vec![1.0, 4.0],
            ..Counted::default()
        };
        counted.note_space(300, 200);
        counted.note_space(200, 200);
        counted.note_space(7, 0);
        counted
    }

    #[test]
    fn amplifications() {
        let (options, _) = options::<Options>("--distribution uniform --partitions 7");
        let text = counted().text(&options);
        for line in [
            "strategy: IncrementalCompactionStrategy",
            "operations: 10",
            "flushes: 2 of 1000 bytes",
            "compactions: 1 to 1500 bytes",
            "write amplification: 2.50",
            "space amplification: 1.25 (mean), 1.50 (maximum)",
            "read amplification: 2.50 (mean), 4.00 (maximum)",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
        let results = &counted().json(&options)["results"];
        assert_eq!(results["write_amplification"], 2.5);
        assert_eq!(results["space_amplification"], json!({ "mean": 1.25, "maximum": 1.5 }));
        assert_eq!(results["read_amplification"], json!({ "mean": 2.5, "maximum": 4.0 }));
    }

    #[test]
    fn of_nothing_there_is_no_amplification() {
        let (options, _) = options::<Options>("");
        let nothing = Counted::default();
        assert!(nothing.text(&options).contains("write amplification: n/a"));
        assert_eq!(nothing.json(&options)["results"]["space_amplification"], Value::Null);
    }
}
