//! A client of few words: topics, records, produce and fetch, one request at a time, and the control port's lines.

use std::io;
use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    ApiKey, BrokerId, CreateTopicsRequest, CreateTopicsResponse, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, FetchRequest, FetchResponse, ProduceRequest, ProduceResponse,
    RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use kafka_protocol::records::{
    Compression, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const PRODUCE_VERSION: i16 = 9;
const FETCH_VERSION: i16 = 12;
const CREATE_TOPICS_VERSION: i16 = 5;
/// The last that names topics.
const DELETE_TOPICS_VERSION: i16 = 5;
const DELETE_RECORDS_VERSION: i16 = 2;

/// The most bytes that a poll takes.
const MAX_FETCH_BYTES: i32 = 1 << 20;

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    correlation_id: i32,
}

/// A partition of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) topic: &'static str,
    pub(crate) partition: i32,
}

/// The answer to a poll of one partition.
#[derive(Debug)]
pub(crate) struct Polled {
    pub(crate) error: i16,
    /// The size of the record batches.
    pub(crate) bytes: usize,
    /// Offset and value of each record.
    pub(crate) records: Vec<(i64, Bytes)>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Client { stream, correlation_id: 0 })
    }

    /// Creates a topic. An answer with an error is an error.
    pub(crate) async fn create(
        &mut self,
        topic: &'static str,
        partitions: i32,
        replicas: i16,
    ) -> io::Result<()> {
        self.create_with(topic, partitions, replicas, &[]).await
    }

    /// Creates a topic with settings of its own.
    pub(crate) async fn create_with(
        &mut self,
        topic: &'static str,
        partitions: i32,
        replicas: i16,
        settings: &[(&'static str, &'static str)],
    ) -> io::Result<()> {
        let setting = |&(name, value): &(_, _)| {
            CreatableTopicConfig::default()
                .with_name(StrBytes::from_static_str(name))
                .with_value(Some(StrBytes::from_static_str(value)))
        };
        let new = CreatableTopic::default()
            .with_name(name(topic))
            .with_num_partitions(partitions)
            .with_replication_factor(replicas)
            .with_configs(settings.iter().map(setting).collect());
        let request = CreateTopicsRequest::default().with_topics(vec![new]).with_timeout_ms(10_000);
        let reply: CreateTopicsResponse =
            self.ask(ApiKey::CreateTopics, CREATE_TOPICS_VERSION, &request).await?;
        match reply.topics.first().map(|topic| topic.error_code) {
            Some(0) => Ok(()),
            other => Err(wrong(format!("creating {topic} was answered with {other:?}"))),
        }
    }

    /// Deletes a topic; returns the error code.
    pub(crate) async fn delete(&mut self, topic: &'static str, timeout_ms: i32) -> io::Result<i16> {
        let request =
            DeleteTopicsRequest::default().with_topic_names(vec![name(topic)]).with_timeout_ms(timeout_ms);
        let reply: DeleteTopicsResponse =
            self.ask(ApiKey::DeleteTopics, DELETE_TOPICS_VERSION, &request).await?;
        let topic = reply.responses.first().ok_or_else(|| wrong("a reply without its topic".into()))?;
        Ok(topic.error_code)
    }

    /// Deletes the records before an offset; returns the error code and the low watermark.
    pub(crate) async fn delete_records(
        &mut self,
        target: Target,
        offset: i64,
        timeout_ms: i32,
    ) -> io::Result<(i16, i64)> {
        let partition =
            DeleteRecordsPartition::default().with_partition_index(target.partition).with_offset(offset);
        let topic =
            DeleteRecordsTopic::default().with_name(name(target.topic)).with_partitions(vec![partition]);
        let request = DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(timeout_ms);
        let reply: DeleteRecordsResponse =
            self.ask(ApiKey::DeleteRecords, DELETE_RECORDS_VERSION, &request).await?;
        let partition = reply.topics.first().and_then(|topic| topic.partitions.first());
        let partition = partition.ok_or_else(|| wrong("a reply without its partition".into()))?;
        Ok((partition.error_code, partition.low_watermark))
    }

    /// Appends one batch; returns the error code and the base offset.
    pub(crate) async fn produce(
        &mut self,
        target: Target,
        values: &[Bytes],
        acks: i16,
        timeout_ms: i32,
    ) -> io::Result<(i16, i64)> {
        self.append(target, encode(values, NO_PRODUCER)?, acks, timeout_ms).await
    }

    /// Appends one batch that is encoded already; returns the error code and the base offset.
    pub(crate) async fn append(
        &mut self,
        target: Target,
        batch: Bytes,
        acks: i16,
        timeout_ms: i32,
    ) -> io::Result<(i16, i64)> {
        let data = PartitionProduceData::default().with_index(target.partition).with_records(Some(batch));
        let topic = TopicProduceData::default().with_name(name(target.topic)).with_partition_data(vec![data]);
        let request = ProduceRequest::default()
            .with_acks(acks)
            .with_timeout_ms(timeout_ms)
            .with_topic_data(vec![topic]);
        let reply: ProduceResponse = self.ask(ApiKey::Produce, PRODUCE_VERSION, &request).await?;
        let partition = reply.responses.first().and_then(|topic| topic.partition_responses.first());
        let partition = partition.ok_or_else(|| wrong("a produce reply without its partition".into()))?;
        Ok((partition.error_code, partition.base_offset))
    }

    /// Polls one partition.
    pub(crate) async fn fetch(
        &mut self,
        target: Target,
        offset: i64,
        max_wait_ms: i32,
        min_bytes: i32,
    ) -> io::Result<Polled> {
        let request = fetch_request(target, offset, max_wait_ms, min_bytes, MAX_FETCH_BYTES);
        let reply: FetchResponse = self.ask(ApiKey::Fetch, FETCH_VERSION, &request).await?;
        let data = reply.responses.into_iter().next().and_then(|topic| topic.partitions.into_iter().next());
        let data = data.ok_or_else(|| wrong("a fetch reply without its partition".into()))?;
        let mut bytes = data.records.unwrap_or_default();
        let size = bytes.len();
        Ok(Polled { error: data.error_code, bytes: size, records: decode(&mut bytes)? })
    }

    /// Sends a request and waits for the reply.
    pub(crate) async fn ask<Q, A>(&mut self, key: ApiKey, version: i16, request: &Q) -> io::Result<A>
    where
        Q: Encodable + HeaderVersion,
        A: Decodable + HeaderVersion,
    {
        self.correlation_id += 1;
        self.stream.write_all(&frame(key, version, self.correlation_id, request)?).await?;

        let length = usize::try_from(self.stream.read_i32().await?).map_err(other)?;
        let mut frame = vec![0; length];
        self.stream.read_exact(&mut frame).await?;
        let mut frame = Bytes::from(frame);
        let header = ResponseHeader::decode(&mut frame, A::header_version(version)).map_err(other)?;
        if header.correlation_id != self.correlation_id {
            let (got, asked) = (header.correlation_id, self.correlation_id);
            return Err(wrong(format!("request {asked} got the answer to {got}")));
        }
        A::decode(&mut frame, version).map_err(other)
    }
}

/// A poll of one partition as it goes over the wire, for whoever does not wait for the reply.
pub(crate) fn fetch_frame(
    target: Target,
    offset: i64,
    max_wait_ms: i32,
    max_bytes: i32,
) -> io::Result<BytesMut> {
    frame(ApiKey::Fetch, FETCH_VERSION, 0, &fetch_request(target, offset, max_wait_ms, 1, max_bytes))
}

fn fetch_request(
    target: Target,
    offset: i64,
    max_wait_ms: i32,
    min_bytes: i32,
    max_bytes: i32,
) -> FetchRequest {
    let partition = FetchPartition::default()
        .with_partition(target.partition)
        .with_current_leader_epoch(-1)
        .with_last_fetched_epoch(-1)
        .with_log_start_offset(-1)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(max_bytes);
    let topic = FetchTopic::default().with_topic(name(target.topic)).with_partitions(vec![partition]);
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(max_wait_ms)
        .with_min_bytes(min_bytes)
        .with_max_bytes(max_bytes)
        .with_topics(vec![topic])
}

fn frame<Q>(key: ApiKey, version: i16, correlation_id: i32, request: &Q) -> io::Result<BytesMut>
where
    Q: Encodable + HeaderVersion,
{
    let header = RequestHeader::default()
        .with_request_api_key(key as i16)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_static_str("demo")));
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    header.encode(&mut frame, key.request_header_version(version)).map_err(other)?;
    request.encode(&mut frame, version).map_err(other)?;
    let length = i32::try_from(frame.len() - 4).map_err(other)?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

/// Sends one line to the control port and returns the reply.
pub(crate) async fn control(address: SocketAddr, line: &str) -> io::Result<String> {
    let mut stream = BufReader::new(TcpStream::connect(address).await?);
    stream.get_mut().write_all(format!("{line}\n").as_bytes()).await?;
    let mut reply = String::new();
    stream.read_line(&mut reply).await?;
    Ok(reply.trim_end().to_owned())
}

pub(crate) fn name(topic: &'static str) -> TopicName {
    TopicName(StrBytes::from_static_str(topic))
}

/// Who a batch is of: its id and the sequence number of the first record.
pub(crate) type Producer = (i64, i32);

/// Somebody who is not known to the broker: nothing that is sent twice is noticed.
const NO_PRODUCER: Producer = (-1, 0);

/// Makes a batch.
pub(crate) fn encode(values: &[Bytes], producer: Producer) -> io::Result<Bytes> {
    let records: Vec<Record> =
        (0..).zip(values).map(|(offset, value)| record(offset, value.clone(), producer)).collect();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    let mut buffer = BytesMut::new();
    RecordBatchEncoder::encode(&mut buffer, &records, &options).map_err(other)?;
    Ok(buffer.freeze())
}

fn record(offset: i64, value: Bytes, (producer_id, sequence): Producer) -> Record {
    Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id,
        producer_epoch: if producer_id < 0 { -1 } else { 0 },
        timestamp_type: TimestampType::Creation,
        offset,
        // In step with the offset, or the encoder begins a batch of its own for each record.
        sequence: sequence + offset as i32,
        timestamp: 0,
        key: None,
        value: Some(value),
        headers: Default::default(),
    }
}

fn decode(bytes: &mut Bytes) -> io::Result<Vec<(i64, Bytes)>> {
    let sets = RecordBatchDecoder::decode_all(bytes).map_err(other)?;
    let records = sets.into_iter().flat_map(|set| set.records);
    Ok(records.map(|record| (record.offset, record.value.unwrap_or_default())).collect())
}

pub(crate) fn wrong(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

pub(crate) fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_comes_back_as_it_went() {
        let values = ["a", "", "some more"].map(|value| Bytes::from_static(value.as_bytes()));
        let mut bytes = encode(&values, NO_PRODUCER).expect("it can be encoded");
        let records = decode(&mut bytes).expect("it can be decoded");
        assert_eq!(records, (0..).zip(values).collect::<Vec<_>>());
    }
}
