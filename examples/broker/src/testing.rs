//! What the broker does with a client's bytes before it answers, callable without a socket: for fuzzing and for tests.

use std::fmt::Debug;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest,
    DeleteTopicsRequest, DescribeConfigsRequest, FetchRequest, FindCoordinatorRequest, HeartbeatRequest,
    InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest, ListOffsetsRequest, MetadataRequest,
    OffsetCommitRequest, OffsetFetchRequest, ProduceRequest, SyncGroupRequest,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};

use crate::Config;
use crate::batch::BatchHead;
use crate::codec::{Frame, Request, SERVED, Unanswerable, encode_request};
use crate::net::read_frame;

/// Calls a function that is generic in a request's type with the type that belongs to its key.
macro_rules! with_its_type {
    ($function:ident, $request:expr) => {
        match $request.key {
            ApiKey::Produce => $function::<ProduceRequest>($request),
            ApiKey::Fetch => $function::<FetchRequest>($request),
            ApiKey::ListOffsets => $function::<ListOffsetsRequest>($request),
            ApiKey::Metadata => $function::<MetadataRequest>($request),
            ApiKey::FindCoordinator => $function::<FindCoordinatorRequest>($request),
            ApiKey::ApiVersions => $function::<ApiVersionsRequest>($request),
            ApiKey::CreateTopics => $function::<CreateTopicsRequest>($request),
            ApiKey::DeleteTopics => $function::<DeleteTopicsRequest>($request),
            ApiKey::InitProducerId => $function::<InitProducerIdRequest>($request),
            ApiKey::CreatePartitions => $function::<CreatePartitionsRequest>($request),
            ApiKey::DeleteRecords => $function::<DeleteRecordsRequest>($request),
            ApiKey::DescribeConfigs => $function::<DescribeConfigsRequest>($request),
            ApiKey::JoinGroup => $function::<JoinGroupRequest>($request),
            ApiKey::SyncGroup => $function::<SyncGroupRequest>($request),
            ApiKey::Heartbeat => $function::<HeartbeatRequest>($request),
            ApiKey::LeaveGroup => $function::<LeaveGroupRequest>($request),
            ApiKey::OffsetCommit => $function::<OffsetCommitRequest>($request),
            ApiKey::OffsetFetch => $function::<OffsetFetchRequest>($request),
            key => panic!("{key:?} is served and has no type here"),
        }
    };
}

/// The keys of the requests that are served.
#[must_use]
pub fn served_keys() -> Vec<i16> {
    SERVED.iter().map(|(key, _, _)| *key as i16).collect()
}

/// Reads the first frame of what a client sends.
///
/// # Errors
///
/// The reason why the connection would be closed.
pub fn read(stream: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut stream = stream;
    let reads = pin!(read_frame(&mut stream, Config::default().max_request_bytes));
    match reads.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(frame) => frame.map(|frame| frame.map(Vec::from)).map_err(|error| error.to_string()),
        Poll::Pending => panic!("the bytes are all there"),
    }
}

/// Decodes a frame, without its length, and drops the request. Returns its key and version.
///
/// # Errors
///
/// The reason why the connection would be closed.
pub fn decode(frame: &[u8]) -> Result<(i16, i16), String> {
    fn decoded<T: Decodable>(mut request: Request) -> Result<(i16, i16), Unanswerable> {
        request.decode::<T>().map(|_| (request.key as i16, request.version))
    }
    let decoded = match Frame::parse(Bytes::copy_from_slice(frame)) {
        Ok(Frame::Request(request)) => with_its_type!(decoded, request),
        Ok(Frame::UnknownApiVersions { .. }) => Ok((ApiKey::ApiVersions as i16, 0)),
        Err(error) => Err(error),
    };
    decoded.map_err(|error| error.to_string())
}

/// Encodes a frame's request, if there is one in it, and decodes it again; looks at the batches if it has some.
///
/// # Panics
///
/// If the request is not the same again.
pub fn check_round_trip(frame: &[u8]) {
    fn same_again<T>(mut request: Request)
    where
        T: Decodable + Encodable + HeaderVersion + PartialEq + Debug,
    {
        let Ok(message) = request.decode::<T>() else { return };
        let Request { key, version, correlation_id, .. } = request;
        let client = StrBytes::from_static_str("again");
        let encoded = encode_request(key, version, correlation_id, client, &message)
            .unwrap_or_else(|error| panic!("{error}: {message:?}"));
        let frame = read(&encoded).expect("it is whole").expect("it is there");
        let Frame::Request(mut again) = Frame::parse(frame.into()).expect("it was encoded right") else {
            panic!("{key:?} version {version} is served");
        };
        assert_eq!((again.key, again.version, again.correlation_id), (key, version, correlation_id));
        assert_eq!(again.decode::<T>().expect("it was encoded right"), message);
    }
    let parse = || Frame::parse(Bytes::copy_from_slice(frame));
    if let Ok(Frame::Request(request)) = parse() {
        with_its_type!(same_again, request);
    }
    if let Ok(Frame::Request(mut request)) = parse()
        && request.key == ApiKey::Produce
        && let Ok(request) = request.decode::<ProduceRequest>()
    {
        let partitions = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
        partitions
            .filter_map(|partition| partition.records.as_ref())
            .for_each(|records| check_batch(records));
    }
}

/// A batch that is accepted is what it says, with the checksum that it has or with the right one.
fn check_batch(records: &[u8]) {
    let mut records = records.to_vec();
    for _ in 0..2 {
        if let Ok(head) = BatchHead::check_produced(&records, Config::default().max_message_bytes) {
            assert_eq!(head.size, records.len());
            assert_eq!(i64::from(head.count), i64::from(head.last_offset_delta) + 1);
        }
        BatchHead::set_checksum(&mut records);
    }
}
