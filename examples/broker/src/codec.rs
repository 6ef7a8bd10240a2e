//! Frames: what is served at which versions, and how a request becomes a message and a message a reply.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use ixion::kafka::ErrorCode;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiKey, ApiVersionsResponse, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};

use crate::shape::{reply_shape_of, shape_of, walk_head};

/// What is served: the key, the lowest and the highest version that is advertised.
///
/// Highest: what needs no topic ids. Lowest: old clients switch features off if the old versions are missing. Produce
/// is advertised from 0 on, though 0 to 2 are not served: librdkafka before 2.1 sends compressed batches uncompressed
/// to a broker without them.
pub(crate) const SERVED: [(ApiKey, i16, i16); 18] = [
    (ApiKey::Produce, 0, 9),
    (ApiKey::Fetch, 4, 12),
    (ApiKey::ListOffsets, 1, 7),
    (ApiKey::Metadata, 0, 9),
    (ApiKey::OffsetCommit, 2, 8),
    (ApiKey::OffsetFetch, 1, 8),
    (ApiKey::FindCoordinator, 0, 4),
    (ApiKey::JoinGroup, 0, 7),
    (ApiKey::Heartbeat, 0, 4),
    (ApiKey::LeaveGroup, 0, 4),
    (ApiKey::SyncGroup, 0, 5),
    (ApiKey::ApiVersions, 0, 3),
    (ApiKey::CreateTopics, 2, 7),
    (ApiKey::DeleteTopics, 1, 6),
    (ApiKey::DeleteRecords, 0, 2),
    (ApiKey::InitProducerId, 0, 4),
    (ApiKey::DescribeConfigs, 1, 4),
    (ApiKey::CreatePartitions, 0, 3),
];

/// The lowest version of Produce that can be decoded.
const PRODUCE_DECODED_FROM: i16 = 3;

/// A frame that cannot be answered: the connection is closed.
#[derive(Debug)]
pub(crate) enum Unanswerable {
    /// It does not have the shape that it should have.
    Malformed(String),
    /// The request or its version is not served.
    NotServed { key: i16, version: i16 },
    /// The reply cannot be written at that version: a fault of the broker.
    NotEncodable(String),
    /// There is nothing to say, and nobody to say it to: an error without a reply, a peer that has gone.
    Silent(&'static str),
}

impl fmt::Display for Unanswerable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswerable::Malformed(what) => write!(f, "malformed: {what}"),
            Unanswerable::NotServed { key, version } => {
                write!(f, "request {key} version {version} is not served")
            }
            Unanswerable::NotEncodable(what) => write!(f, "cannot encode the reply: {what}"),
            Unanswerable::Silent(why) => f.write_str(why),
        }
    }
}

/// A request's frame after its head was read.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) key: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    /// What the client calls itself; a copy, since the request must not keep its frame while it waits.
    pub(crate) client_id: StrBytes,
    body: Bytes,
}

/// What a frame turned out to be.
#[derive(Debug)]
pub(crate) enum Frame {
    Request(Request),
    /// It asks for the versions in a version that is not known: it is told all the same.
    UnknownApiVersions {
        correlation_id: i32,
    },
}

impl Frame {
    /// Reads the head of a frame and checks the shape of its body.
    pub(crate) fn parse(mut frame: Bytes) -> Result<Frame, Unanswerable> {
        let malformed = |what: &str| Unanswerable::Malformed(what.to_owned());
        if frame.len() < 8 {
            return Err(malformed("shorter than a head"));
        }
        let mut head = &frame[..8];
        let (key, version, correlation_id) = (head.get_i16(), head.get_i16(), head.get_i32());
        let not_served = Unanswerable::NotServed { key, version };
        let Ok(key) = ApiKey::try_from(key) else { return Err(not_served) };
        let Some((_, lowest, highest)) = SERVED.into_iter().find(|(served, _, _)| *served == key) else {
            return Err(not_served);
        };
        if key == ApiKey::ApiVersions && version > highest {
            return Ok(Frame::UnknownApiVersions { correlation_id });
        }
        let lowest = if key == ApiKey::Produce { PRODUCE_DECODED_FROM } else { lowest };
        if !(lowest..=highest).contains(&version) {
            return Err(not_served);
        }
        let head_version = key.request_header_version(version);
        walk_head(&frame, head_version).ok_or_else(|| malformed("a head with less in it than it says"))?;
        let head = RequestHeader::decode(&mut frame, head_version)
            .map_err(|error| Unanswerable::Malformed(error.to_string()))?;
        let shape = shape_of(key).expect("every request that is served has a shape");
        shape.walk(&frame, version).ok_or_else(|| malformed("less in it than it says"))?;
        let client_id = own(&head.client_id.unwrap_or_default());
        Ok(Frame::Request(Request { key, version, correlation_id, client_id, body: frame }))
    }
}

/// A copy of a text, so that what stays behind of a request does not keep its frame.
pub(crate) fn own(text: &StrBytes) -> StrBytes {
    StrBytes::from_string(text.as_str().to_owned())
}

impl Request {
    /// Decodes the body.
    pub(crate) fn decode<T: Decodable>(&mut self) -> Result<T, Unanswerable> {
        let decoded = T::decode(&mut self.body, self.version);
        // What was decoded may hold parts of the frame; the request itself must not.
        self.body = Bytes::new();
        decoded.map_err(|error| Unanswerable::Malformed(error.to_string()))
    }

    /// Encodes a reply to this request.
    pub(crate) fn encode<T: Encodable + HeaderVersion>(&self, reply: &T) -> Result<BytesMut, Unanswerable> {
        encode(self.correlation_id, self.version, reply)
    }
}

/// Encodes a reply with its length before it.
pub(crate) fn encode<T: Encodable + HeaderVersion>(
    correlation_id: i32,
    version: i16,
    reply: &T,
) -> Result<BytesMut, Unanswerable> {
    let header = ResponseHeader::default().with_correlation_id(correlation_id);
    framed(&header, T::header_version(version), reply, version)
}

/// Encodes a request with its length before it.
pub(crate) fn encode_request<T: Encodable + HeaderVersion>(
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    client_id: StrBytes,
    request: &T,
) -> Result<BytesMut, Unanswerable> {
    let header = RequestHeader::default()
        .with_request_api_key(key as i16)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(client_id));
    framed(&header, T::header_version(version), request, version)
}

/// Decodes a reply of another node. It is walked over first, as requests are: what it announces is not believed.
pub(crate) fn decode_checked_reply<T: Decodable + HeaderVersion>(
    key: ApiKey,
    frame: Bytes,
    version: i16,
    correlation_id: i32,
) -> Result<T, Unanswerable> {
    let shape = reply_shape_of(key).expect("every reply that a follower reads has a shape");
    let walked = shape.walk_reply(&frame, version);
    walked.ok_or_else(|| Unanswerable::Malformed("less in a reply than it says".to_owned()))?;
    decode_reply(frame, version, correlation_id)
}

/// Decodes a reply's frame to a request of this version; the correlation id must be right.
pub(crate) fn decode_reply<T: Decodable + HeaderVersion>(
    mut frame: Bytes,
    version: i16,
    correlation_id: i32,
) -> Result<T, Unanswerable> {
    let malformed = |error: &dyn fmt::Display| Unanswerable::Malformed(error.to_string());
    let header =
        ResponseHeader::decode(&mut frame, T::header_version(version)).map_err(|error| malformed(&error))?;
    if header.correlation_id != correlation_id {
        return Err(malformed(&"a reply to another request"));
    }
    T::decode(&mut frame, version).map_err(|error| malformed(&error))
}

/// The answer to the question for the versions.
pub(crate) fn api_versions(error: ErrorCode) -> ApiVersionsResponse {
    let served = SERVED.into_iter().map(|(key, min, max)| {
        ApiVersion::default().with_api_key(key as i16).with_min_version(min).with_max_version(max)
    });
    // No tagged fields, ever: librdkafka before 2.2 reads them wrongly.
    ApiVersionsResponse::default().with_error_code(error.as_i16()).with_api_keys(served.collect())
}

fn framed<H: Encodable, T: Encodable>(
    header: &H,
    header_version: i16,
    message: &T,
    version: i16,
) -> Result<BytesMut, Unanswerable> {
    let encode = || -> Result<BytesMut, Box<dyn std::error::Error>> {
        let size = header.compute_size(header_version)? + message.compute_size(version)?;
        let mut frame = BytesMut::with_capacity(4 + size);
        frame.put_i32(i32::try_from(size)?);
        header.encode(&mut frame, header_version)?;
        message.encode(&mut frame, version)?;
        debug_assert_eq!(frame.len(), 4 + size, "the size was computed");
        Ok(frame)
    };
    encode().map_err(|error| Unanswerable::NotEncodable(error.to_string()))
}
