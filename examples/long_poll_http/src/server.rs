//! Topics over HTTP: what a reader asks for is answered when it is there, or when the reader's time is up.

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use ixion::{Purgatory, WaitError, Waiting, Watch};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Messages by topic, and the requests that wait for more of them.
pub(crate) struct Topics {
    messages: Mutex<HashMap<String, Vec<String>>>,
    pub(crate) polls: Purgatory<String, Waiting>,
}

/// What a reader asks for: messages after the first `after`, at least `min` of them, within `wait_ms`.
#[derive(Deserialize)]
#[serde(default)]
struct Poll {
    after: usize,
    min: usize,
    wait_ms: u64,
}

impl Default for Poll {
    fn default() -> Self {
        Poll { after: 0, min: 1, wait_ms: 0 }
    }
}

/// What it gets. `next` is the `after` of its next request.
#[derive(Serialize)]
struct Batch {
    messages: Vec<String>,
    next: usize,
}

impl Topics {
    pub(crate) fn new() -> Arc<Self> {
        let polls = Purgatory::builder("polls").capacity(10_000).max_timeout(Duration::from_secs(60)).build();
        Arc::new(Topics { messages: Mutex::default(), polls })
    }

    fn read(&self, topic: &str, after: usize) -> Batch {
        let topics = self.messages.lock().unwrap();
        let all = topics.get(topic).map_or(&[][..], Vec::as_slice);
        let messages = all.get(after..).unwrap_or_default().to_vec();
        Batch { next: after + messages.len(), messages }
    }

    async fn poll(
        State(topics): State<Arc<Topics>>,
        Path(topic): Path<String>,
        Query(poll): Query<Poll>,
    ) -> Result<Json<Batch>, StatusCode> {
        let timeout = Duration::from_millis(poll.wait_ms);
        // It is not asked before there are so many. The look runs in this task, so it may borrow.
        let watch = Watch::at(topic.clone(), poll.after.saturating_add(poll.min) as u64);
        let look = || Some(topics.read(&topic, poll.after)).filter(|batch| batch.messages.len() >= poll.min);
        match topics.polls.wait_at(timeout, [watch], look).await {
            Ok(batch) => Ok(Json(batch)),
            // Its time is up: what there is, and be it nothing.
            Err(WaitError::Elapsed) => Ok(Json(topics.read(&topic, poll.after))),
            Err(WaitError::Full) => Err(StatusCode::TOO_MANY_REQUESTS),
            Err(_) => Err(StatusCode::SERVICE_UNAVAILABLE),
        }
        // A client that hangs up has its request dropped, and with it its place in the purgatory.
    }

    async fn post(
        State(topics): State<Arc<Topics>>,
        Path(topic): Path<String>,
        message: String,
    ) -> StatusCode {
        let count = {
            let mut all = topics.messages.lock().unwrap();
            let messages = all.entry(topic.clone()).or_default();
            messages.push(message);
            messages.len()
        };
        topics.polls.check_and_complete_up_to(&topic, count as u64);
        StatusCode::NO_CONTENT
    }

    pub(crate) fn router(self: Arc<Self>) -> Router {
        Router::new().route("/topics/{topic}", get(Self::poll).post(Self::post)).with_state(self)
    }
}
