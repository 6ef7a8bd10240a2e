//! What waits while a follower is paused, gives up when its time is up, or goes on when the follower is back.

use std::time::{Duration, Instant};

use super::super::check::{self, Span};
use super::super::load::Verdict;
use super::super::seen::Asked;
use super::super::{PAUSED_NODE, tell};
use super::{LONG, TARGET, Tour, append, broken, connect, is_empty, millis, poll, woke};

const REQUEST_TIMED_OUT: i16 = 7;

impl Tour {
    /// Pauses a follower, lets some requests run into their timeouts and others wait until it is back.
    pub(super) async fn paused(&mut self) -> Verdict {
        self.begin("a follower is paused").await;
        tell(&self.shared, self.control, "pause").await?;
        self.give_up().await?;
        self.go_on().await
    }

    async fn give_up(&mut self) -> Verdict {
        self.begin("three requests, and node 3 is paused").await;
        let (address, next, beat) = (self.shared.address, self.written, self.beat);
        let (appended, polled, deleted) = tokio::try_join!(
            append(address, next, 1, beat),
            poll(address, next, beat, 1),
            self.delete_below(1, beat)
        )?;
        let (answer, span) = appended;
        let right = match check::produced(answer, next, span, beat, &self.shared.pauses) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err("it was acknowledged without node 3".to_owned()),
            Err(wrong) => Err(wrong),
        };
        // It is in the log all the same.
        self.written += 1;
        let what = "node 3 is paused: acks=all ends with error 7";
        self.seen(what, Asked::After(beat), span.sent, span.answered, right);
        let (answer, span) = polled;
        let what = "node 3 is paused: what it has not is not read";
        self.seen(what, Asked::After(beat), span.sent, span.answered, is_empty(&answer));
        let ((error, _), span) = deleted;
        let right = match error {
            REQUEST_TIMED_OUT => Ok(()),
            error => Err(format!("it was answered with error {error}")),
        };
        let what = "node 3 is paused: DeleteRecords ends with error 7";
        self.seen(what, Asked::After(beat), span.sent, span.answered, right);
        Ok(())
    }

    async fn go_on(&mut self) -> Verdict {
        self.begin("three requests that wait for node 3").await;
        let (address, hidden) = (self.shared.address, self.written - 1);
        let resume = async {
            let back = self.later(async { Instant::now() }).await;
            tell(&self.shared, self.control, "resume").await?;
            Ok(back)
        };
        let (appended, polled, deleted, back) = tokio::try_join!(
            append(address, self.written, 1, LONG),
            poll(address, hidden, LONG, 1),
            self.delete_below(2, LONG),
            resume,
        )?;
        let (answer, span) = appended;
        let right = self.is_acknowledged(answer, span);
        self.written += 1;
        self.seen("node 3 is back: acks=all is answered", Asked::AtOnce, back, span.answered, right);
        let (answer, span) = polled;
        let right = woke(&answer, hidden, span, 1);
        self.seen("node 3 is back: the poll gets what was hidden", Asked::AtOnce, back, span.answered, right);
        let (answer, span) = deleted;
        let right = match answer {
            (0, 2..) => Ok(()),
            (error, start) => Err(format!("it was answered with error {error}, low watermark {start}")),
        };
        self.seen("node 3 is back: the records are deleted", Asked::AtOnce, back, span.answered, right);
        Ok(())
    }

    /// Deletes the records before an offset. Returns the error and the low watermark.
    async fn delete_below(&self, offset: i64, timeout: Duration) -> Result<((i16, i64), Span), String> {
        let mut client = connect(self.shared.address).await?;
        let sent = Instant::now();
        let answer = client.delete_records(TARGET, offset, millis(timeout)).await.map_err(broken)?;
        Ok((answer, Span { sent, answered: Instant::now() }))
    }
}

// The texts name it.
const _: () = assert!(PAUSED_NODE == 3);
