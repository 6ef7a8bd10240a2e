//! The guide: pages for those who begin, and for those who come from something else. There is no code in here.
//!
//! | page | for |
//! |---|---|
//! | [`by_hand`] | a wheel and a purgatory, drawn and printed step by step |
//! | [`recipes`] | long polls, sessions, retries, shutdown, event loops, figures for a dashboard, look-ups by borrowed keys |
//! | [`guarantees`] | what you can rely on, and which test shows each |
//! | [`costs`] | each method: how long it takes, which locks it takes for how long, and who runs your code |
//! | [`from_kafka`] | each class and method of Kafka's purgatory and timers, and its counterpart |
//! | [`from_tokio`] | when a `select!` with a sleep is enough, and when not; `DelayQueue`, `Notify` |
//! | [`glossary`] | the words, and what they mean here |
//!
//! Why it is built as it is stands in [`design`](crate::design).

pub mod by_hand;
pub mod costs;
pub mod from_kafka;
pub mod from_tokio;
pub mod glossary;
pub mod guarantees;
pub mod recipes;
