//! Nothing: what the harness itself costs.

use super::{Peer, Time};
use crate::support::Payload;

pub struct Harness;

impl Peer for Harness {
    const NAME: &'static str = "harness";
    type Id = Payload;

    fn new(_: Time) -> Self {
        Harness
    }

    #[inline]
    fn start(&mut self, delay: u64, payload: Payload) -> Payload {
        std::hint::black_box(delay);
        payload
    }

    #[inline]
    fn stop(&mut self, id: Payload) {
        drop(id);
    }

    #[inline]
    fn restart(&mut self, id: Payload, delay: u64) -> Payload {
        std::hint::black_box(delay);
        id
    }

    fn pass(&mut self, _: u64, _: u64, _: impl FnMut(u64, Payload)) {}
}
