//! Faults that were reported of other timers and queues, as scenarios that must go right here. The ids are those of
//! `tests/README.md`, which also says where the scenarios are that stand elsewhere, and which concern parts that this
//! crate does not have.

mod api;
mod can;
mod clk;
mod dbl;
mod leak;
mod met;
mod ord;
mod ovf;
mod pan;
mod pre;
mod real_time;
mod ree;
mod shu;
mod sta;
mod support;
mod threads;
mod wak;
