//! Everything is read back and held against what was acknowledged.

use std::collections::HashMap;

use bytes::Bytes;

use super::producer::Acknowledged;
use super::{Absence, PARTITIONS, TOPICS};
use crate::demo::client::{Client, Target};

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadBack {
    pub(super) records: usize,
    /// Acknowledged, and not where it was said to be.
    pub(super) lost: usize,
    /// There more often than once.
    pub(super) twice: usize,
}

impl ReadBack {
    pub(super) fn check(self) -> Result<(), String> {
        if self.lost + self.twice > 0 || self.records == 0 {
            return Err(format!("what was read back is not what was acknowledged: {self:?}"));
        }
        Ok(())
    }
}

/// Nothing that needs all replicas may be acknowledged while one of them is away that cannot have it.
pub(super) fn acknowledged_by_all(
    acknowledged: &[Acknowledged],
    topic: &str,
    absences: &[Absence],
) -> Result<(), String> {
    let is_within = |batch: &Acknowledged, absence: &Absence| {
        batch.span.sent >= absence.from && batch.span.answered <= absence.until
    };
    let of_topic = acknowledged.iter().filter(|batch| batch.target.topic == topic);
    let mut too_soon = of_topic.filter(|batch| absences.iter().any(|absence| is_within(batch, absence)));
    match too_soon.next() {
        None => Ok(()),
        Some(batch) => Err(format!("acknowledged while a follower was away that needs it: {batch:?}")),
    }
}

/// Reads all partitions from their beginning.
pub(super) async fn read_back(
    client: &mut Client,
    acknowledged: &[Acknowledged],
) -> Result<ReadBack, String> {
    let mut found = ReadBack::default();
    for (topic, _) in TOPICS {
        for partition in 0..PARTITIONS {
            let target = Target { topic, partition };
            let log = read_all(client, target).await?;
            let of_it = acknowledged.iter().filter(|batch| batch.target == target);
            let compared = compare(&log, of_it);
            found.records += log.len();
            found.lost += compared.lost;
            found.twice += compared.twice;
        }
    }
    Ok(found)
}

async fn read_all(client: &mut Client, target: Target) -> Result<Vec<Bytes>, String> {
    let mut log = Vec::new();
    loop {
        let offset = log.len() as i64;
        let polled = client.fetch(target, offset, 0, 1).await.map_err(|error| error.to_string())?;
        if polled.error != 0 {
            return Err(format!("reading {target:?} from {offset} is answered with error {}", polled.error));
        }
        if polled.records.is_empty() {
            return Ok(log);
        }
        for (found, value) in polled.records {
            if found != log.len() as i64 {
                return Err(format!("{target:?}: offset {found} where {} was due", log.len()));
            }
            log.push(value);
        }
    }
}

/// A partition's records against the batches that were acknowledged for it. As every batch has its own place, all of them
/// are in order if none is lost.
fn compare<'a>(log: &[Bytes], acknowledged: impl Iterator<Item = &'a Acknowledged>) -> ReadBack {
    let mut lost = 0;
    for batch in acknowledged {
        for (offset, value) in (batch.base_offset..).zip(&batch.values) {
            let there = usize::try_from(offset).ok().and_then(|offset| log.get(offset));
            lost += usize::from(there != Some(value));
        }
    }
    let mut copies: HashMap<&Bytes, usize> = HashMap::new();
    log.iter().for_each(|value| *copies.entry(value).or_default() += 1);
    ReadBack { records: log.len(), lost, twice: log.len() - copies.len() }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::demo::check::Span;

    #[test]
    fn what_is_lost_or_there_twice_is_seen() {
        let values = |text: &'static str| text.split(' ').map(|word| Bytes::from_static(word.as_bytes()));
        let now = Instant::now();
        let batch = |base_offset, text| Acknowledged {
            target: Target { topic: "t", partition: 0 },
            base_offset,
            values: values(text).collect(),
            span: Span { sent: now, answered: now },
        };
        let acknowledged = [batch(0, "a b"), batch(2, "c")];
        for (log, lost, twice) in
            [("a b c", 0, 0), ("a b", 1, 0), ("a b c c", 0, 1), ("b a c", 2, 0), ("a a b c", 2, 1)]
        {
            let log: Vec<Bytes> = values(log).collect();
            let found = compare(&log, acknowledged.iter());
            assert_eq!(found, ReadBack { records: log.len(), lost, twice });
            assert_eq!(found.check().is_ok(), lost + twice == 0);
        }
        assert!(ReadBack::default().check().is_err(), "nothing was read");
    }

    #[test]
    fn what_was_acknowledged_without_a_follower_is_seen() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let absences = [Absence { from: at(2), until: at(6) }];
        for (sent, answered, is_right) in [(0, 1, true), (1, 3, true), (5, 7, true), (3, 4, false)] {
            let batch = Acknowledged {
                target: Target { topic: "t", partition: 0 },
                base_offset: 0,
                values: Vec::new(),
                span: Span { sent: at(sent), answered: at(answered) },
            };
            let batches = [batch];
            assert_eq!(acknowledged_by_all(&batches, "t", &absences).is_ok(), is_right, "{sent} {answered}");
            assert!(acknowledged_by_all(&batches, "another", &absences).is_ok());
        }
    }
}
