//! The shape of every request that is served, and of the replies that a follower reads, to walk over a frame before it is
//! decoded.
//!
//! The decoder takes a frame's word for the length of an array and makes room for so many elements at once: nine
//! bytes of junk can ask for more memory than the machine has, and end the process. The walk makes sure that
//! everything a frame announces is really in it, and that the number of elements, tagged fields included, is bounded.

mod replies;
mod requests;

use kafka_protocol::messages::ApiKey;

/// The most array elements and tagged fields in one request: several for each partition that there may be, and some thirty
/// megabytes of memory at worst.
const MAX_ELEMENTS: usize = 1 << 16;
/// The same of a reply, which may list everything that there is.
const MAX_REPLY_ELEMENTS: usize = 1 << 20;

/// A field and the versions that have it.
#[derive(Debug)]
pub(crate) struct Part {
    from: i16,
    to: i16,
    field: Field,
}

#[derive(Debug)]
enum Field {
    /// So many bytes.
    Fixed(usize),
    Text,
    Bytes,
    /// A structure.
    Struct(&'static [Part]),
    /// An array of structures.
    Structs(&'static [Part]),
    /// An array of plain fields.
    Array(&'static Field),
    /// A tagged field that the decoder knows. It reads it as what it is, whatever size it is said to have.
    Tagged(usize, &'static Field),
}

const MAX_VERSION: i16 = i16::MAX;

const fn always(field: Field) -> Part {
    Part { from: 0, to: MAX_VERSION, field }
}

const fn since(from: i16, field: Field) -> Part {
    Part { from, to: MAX_VERSION, field }
}

const fn until(to: i16, field: Field) -> Part {
    Part { from: 0, to, field }
}

const I8: Field = Field::Fixed(1);
const I16: Field = Field::Fixed(2);
const I32: Field = Field::Fixed(4);
const I64: Field = Field::Fixed(8);
const UUID: Field = Field::Fixed(16);

/// The fields of a request and the version from which on lengths are compact and tagged fields follow.
#[derive(Debug)]
pub(crate) struct Shape {
    flexible_from: i16,
    parts: &'static [Part],
}

/// The shape of a request that is served.
pub(crate) fn shape_of(key: ApiKey) -> Option<&'static Shape> {
    let shape = match key {
        ApiKey::Produce => &requests::PRODUCE,
        ApiKey::Fetch => &requests::FETCH,
        ApiKey::ListOffsets => &requests::LIST_OFFSETS,
        ApiKey::Metadata => &requests::METADATA,
        ApiKey::FindCoordinator => &requests::FIND_COORDINATOR,
        ApiKey::ApiVersions => &requests::API_VERSIONS,
        ApiKey::CreateTopics => &requests::CREATE_TOPICS,
        ApiKey::DeleteTopics => &requests::DELETE_TOPICS,
        ApiKey::InitProducerId => &requests::INIT_PRODUCER_ID,
        ApiKey::CreatePartitions => &requests::CREATE_PARTITIONS,
        ApiKey::DeleteRecords => &requests::DELETE_RECORDS,
        ApiKey::DescribeConfigs => &requests::DESCRIBE_CONFIGS,
        ApiKey::JoinGroup => &requests::JOIN_GROUP,
        ApiKey::SyncGroup => &requests::SYNC_GROUP,
        ApiKey::Heartbeat => &requests::HEARTBEAT,
        ApiKey::LeaveGroup => &requests::LEAVE_GROUP,
        ApiKey::OffsetCommit => &requests::OFFSET_COMMIT,
        ApiKey::OffsetFetch => &requests::OFFSET_FETCH,
        _ => return None,
    };
    Some(shape)
}

/// The shape of a reply that a follower reads.
pub(crate) fn reply_shape_of(key: ApiKey) -> Option<&'static Shape> {
    match key {
        ApiKey::Fetch => Some(&replies::FETCH),
        ApiKey::Metadata => Some(&replies::METADATA),
        _ => None,
    }
}

impl Shape {
    /// Walks over a request's body. `None` if it is not of this shape.
    pub(crate) fn walk(&self, body: &[u8], version: i16) -> Option<()> {
        let flexible = version >= self.flexible_from;
        Walk { bytes: body, version, flexible, room: MAX_ELEMENTS }.structure(self.parts)
    }

    /// Walks over a reply, its head included. `None` if it is not of this shape.
    pub(crate) fn walk_reply(&self, frame: &[u8], version: i16) -> Option<()> {
        let flexible = version >= self.flexible_from;
        let mut walk = Walk { bytes: frame, version, flexible, room: MAX_REPLY_ELEMENTS };
        walk.skip(4)?;
        if flexible {
            walk.tagged_fields(&[])?;
        }
        walk.structure(self.parts)
    }
}

/// Walks over the head at the beginning of a frame. `None` if it is not one of this version.
pub(crate) fn walk_head(frame: &[u8], version: i16) -> Option<()> {
    let mut walk = Walk { bytes: frame, version, flexible: version >= 2, room: MAX_ELEMENTS };
    walk.skip(2 + 2 + 4)?;
    // The client's name has a plain length in every version.
    let size = walk.text_length()?;
    walk.skip(size)?;
    if walk.flexible { walk.tagged_fields(&[]) } else { Some(()) }
}

struct Walk<'a> {
    bytes: &'a [u8],
    version: i16,
    flexible: bool,
    /// How many more elements there may be.
    room: usize,
}

impl Walk<'_> {
    fn structure(&mut self, parts: &[Part]) -> Option<()> {
        for part in parts {
            if (part.from..=part.to).contains(&self.version) {
                self.field(&part.field)?;
            }
        }
        if self.flexible { self.tagged_fields(parts) } else { Some(()) }
    }

    fn field(&mut self, field: &Field) -> Option<()> {
        match field {
            Field::Fixed(size) => self.skip(*size),
            Field::Text => {
                let size = if self.flexible { self.compact_length()? } else { self.text_length()? };
                self.skip(size)
            }
            Field::Bytes => {
                let size = self.length()?;
                self.skip(size)
            }
            Field::Struct(parts) => self.structure(parts),
            Field::Structs(parts) => self.array(|walk| walk.structure(parts)),
            Field::Array(element) => self.array(|walk| walk.field(element)),
            Field::Tagged(..) => Some(()), // comes after all others
        }
    }

    fn array(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        let count = self.length()?;
        self.announce(count)?;
        for _ in 0..count {
            element(self)?;
        }
        Some(())
    }

    fn tagged_fields(&mut self, parts: &[Part]) -> Option<()> {
        let count = self.varint()?;
        self.announce(count)?;
        for _ in 0..count {
            let tag = self.varint()?;
            // The decoder keeps tags as signed numbers, and cannot encode a negative one again.
            i32::try_from(tag).ok()?;
            let size = self.varint()?;
            let rest = self.bytes.get(size..)?;
            let known = parts.iter().find_map(|part| match part.field {
                Field::Tagged(known, field) if known == tag => Some(field),
                _ => None,
            });
            if let Some(field) = known {
                self.field(field)?;
                if self.bytes.len() != rest.len() {
                    return None;
                }
            }
            self.bytes = rest;
        }
        Some(())
    }

    /// So many elements are to come. None is smaller than a byte.
    fn announce(&mut self, count: usize) -> Option<()> {
        self.room = self.room.checked_sub(count)?;
        (count <= self.bytes.len()).then_some(())
    }

    /// The length of bytes or of an array; null counts as empty.
    fn length(&mut self) -> Option<usize> {
        if self.flexible {
            return self.compact_length();
        }
        let (length, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        or_null(i32::from_be_bytes(*length))
    }

    fn text_length(&mut self) -> Option<usize> {
        let (length, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        or_null(i32::from(i16::from_be_bytes(*length)))
    }

    fn compact_length(&mut self) -> Option<usize> {
        Some(self.varint()?.saturating_sub(1))
    }

    fn varint(&mut self) -> Option<usize> {
        let mut value = 0usize;
        for shift in [0, 7, 14, 21, 28] {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            value |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn skip(&mut self, size: usize) -> Option<()> {
        self.bytes = self.bytes.get(size..)?;
        Some(())
    }
}

fn or_null(length: i32) -> Option<usize> {
    if length == -1 { Some(0) } else { usize::try_from(length).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` tagged fields without bytes.
    fn tagged_fields(count: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..4).map(|part| (count >> (7 * part)) as u8 & 0x7f | 0x80).collect();
        bytes.push((count >> 28) as u8);
        bytes.extend([9, 0].repeat(count));
        bytes
    }

    /// The question for the versions, with two empty texts.
    fn api_versions(tagged: &[u8]) -> Vec<u8> {
        [&[1, 1], tagged].concat()
    }

    /// A head of version 2, without a client's name.
    fn head(tagged: &[u8]) -> Vec<u8> {
        [&[0, 18, 0, 3, 0, 0, 0, 77, 0xff, 0xff], tagged].concat()
    }

    #[test]
    fn tagged_fields_are_bounded_even_if_they_are_there() {
        for (count, expected) in [(0, Some(())), (MAX_ELEMENTS, Some(())), (MAX_ELEMENTS + 1, None)] {
            let tagged = tagged_fields(count);
            assert_eq!(
                requests::API_VERSIONS.walk(&api_versions(&tagged), 3),
                expected,
                "{count} in the body"
            );
            assert_eq!(walk_head(&head(&tagged), 2), expected, "{count} in the head");
        }
    }

    #[test]
    fn a_tag_that_the_decoder_takes_for_negative_is_refused() {
        for (last, expected) in [(0x07, Some(())), (0x08, None), (0x0f, None)] {
            let tagged = [1, 0xff, 0xff, 0xff, 0xff, last, 0];
            assert_eq!(requests::API_VERSIONS.walk(&api_versions(&tagged), 3), expected);
            assert_eq!(walk_head(&head(&tagged), 2), expected);
        }
    }

    #[test]
    fn a_tagged_field_that_the_decoder_knows_is_as_long_as_it_is_said_to_be() {
        // A fetch of nothing; its tagged field 0 is the cluster's name.
        let body = |size| [&[0; 25][..], &[1, 1, 1], &[1, 0, size, 3, b'm', b'e']].concat();
        assert_eq!(requests::FETCH.walk(&body(3), 12), Some(()));
        assert_eq!(requests::FETCH.walk(&body(2), 12), None, "it ends before");
        assert_eq!(requests::FETCH.walk(&[body(4), vec![0]].concat(), 12), None, "it ends after");
    }

    #[test]
    fn a_reply_may_list_more_than_a_request_but_not_any_number() {
        // Metadata in version 9: a head, no brokers, no name, and so many topics of nothing.
        let reply = |count: usize| {
            let mut bytes = vec![0, 0, 0, 77, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1];
            bytes.extend((0..4).map(|part| ((count + 1) >> (7 * part)) as u8 & 0x7f | 0x80));
            bytes.push(0);
            bytes.extend([0, 0, 0, 0, 1, 0, 0, 0, 0, 0].repeat(count));
            bytes.extend([0; 5]);
            bytes
        };
        let metadata = reply_shape_of(ApiKey::Metadata).expect("a follower reads it");
        for (count, expected) in [
            (3, Some(())),
            (MAX_ELEMENTS + 1, Some(())),
            (MAX_REPLY_ELEMENTS, Some(())),
            (MAX_REPLY_ELEMENTS + 1, None),
        ] {
            assert_eq!(metadata.walk_reply(&reply(count), 9), expected, "{count} topics");
        }
        let whole = reply(2);
        for length in 0..whole.len() {
            assert_eq!(metadata.walk_reply(&whole[..length], 9), None, "cut to {length} bytes");
        }
    }

    #[test]
    fn every_cut_of_a_head_is_seen() {
        let whole = [&[0, 18, 0, 3, 0, 0, 0, 77, 0, 2, b'm', b'e'][..], &tagged_fields(2)].concat();
        assert_eq!(walk_head(&whole, 2), Some(()));
        for length in 0..whole.len() {
            assert_eq!(walk_head(&whole[..length], 2), None, "cut to {length} bytes");
        }
    }
}
