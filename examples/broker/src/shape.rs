//! The shape of every request that is served, to walk over a frame before it is decoded.
//!
//! The decoder takes a frame's word for the length of an array and makes room for so many elements at once: nine
//! bytes of junk can ask for more memory than the machine has, and end the process. The walk makes sure that
//! everything a frame announces is really in it, and that the number of elements, tagged fields included, is bounded.

use kafka_protocol::messages::ApiKey;

/// The most array elements and tagged fields in one request: far more than any client sends, and a bounded amount of memory.
const MAX_ELEMENTS: usize = 1_000_000;

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
        ApiKey::Produce => &PRODUCE,
        ApiKey::Fetch => &FETCH,
        ApiKey::ListOffsets => &LIST_OFFSETS,
        ApiKey::Metadata => &METADATA,
        ApiKey::FindCoordinator => &FIND_COORDINATOR,
        ApiKey::ApiVersions => &API_VERSIONS,
        ApiKey::CreateTopics => &CREATE_TOPICS,
        ApiKey::DeleteTopics => &DELETE_TOPICS,
        ApiKey::InitProducerId => &INIT_PRODUCER_ID,
        ApiKey::JoinGroup => &JOIN_GROUP,
        ApiKey::SyncGroup => &SYNC_GROUP,
        ApiKey::Heartbeat => &HEARTBEAT,
        ApiKey::LeaveGroup => &LEAVE_GROUP,
        ApiKey::OffsetCommit => &OFFSET_COMMIT,
        ApiKey::OffsetFetch => &OFFSET_FETCH,
        _ => return None,
    };
    Some(shape)
}

impl Shape {
    /// Walks over a request's body. `None` if it is not of this shape.
    pub(crate) fn walk(&self, body: &[u8], version: i16) -> Option<()> {
        let flexible = version >= self.flexible_from;
        Walk { bytes: body, version, flexible, elements: 0 }.structure(self.parts)
    }
}

/// Walks over the head at the beginning of a frame. `None` if it is not one of this version.
pub(crate) fn walk_head(frame: &[u8], version: i16) -> Option<()> {
    let mut walk = Walk { bytes: frame, version, flexible: version >= 2, elements: 0 };
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
    elements: usize,
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
        self.elements = self.elements.checked_add(count)?;
        (self.elements <= MAX_ELEMENTS && count <= self.bytes.len()).then_some(())
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

static PRODUCE: Shape = Shape {
    flexible_from: 9,
    parts: &[
        since(3, Field::Text),
        always(I16),
        always(I32),
        always(Field::Structs(&[
            always(Field::Text),
            always(Field::Structs(&[always(I32), always(Field::Bytes)])),
        ])),
    ],
};

static FETCH: Shape = Shape {
    flexible_from: 12,
    parts: &[
        always(I32),
        always(I32),
        always(I32),
        always(I32),
        always(I8),
        since(7, I32),
        since(7, I32),
        always(Field::Structs(&[
            always(Field::Text),
            always(Field::Structs(&[
                always(I32),
                since(9, I32),
                always(I64),
                since(12, I32),
                since(5, I64),
                always(I32),
            ])),
        ])),
        since(7, Field::Structs(&[always(Field::Text), always(Field::Array(&I32))])),
        since(11, Field::Text),
        always(Field::Tagged(0, &Field::Text)),
    ],
};

static LIST_OFFSETS: Shape = Shape {
    flexible_from: 6,
    parts: &[
        always(I32),
        since(2, I8),
        always(Field::Structs(&[
            always(Field::Text),
            always(Field::Structs(&[always(I32), since(4, I32), always(I64)])),
        ])),
    ],
};

static METADATA: Shape = Shape {
    flexible_from: 9,
    parts: &[always(Field::Structs(&[always(Field::Text)])), since(4, I8), since(8, I8), since(8, I8)],
};

static FIND_COORDINATOR: Shape = Shape {
    flexible_from: 3,
    parts: &[until(3, Field::Text), since(1, I8), since(4, Field::Array(&Field::Text))],
};

static API_VERSIONS: Shape =
    Shape { flexible_from: 3, parts: &[since(3, Field::Text), since(3, Field::Text)] };

static CREATE_TOPICS: Shape = Shape {
    flexible_from: 5,
    parts: &[
        always(Field::Structs(&[
            always(Field::Text),
            always(I32),
            always(I16),
            always(Field::Structs(&[always(I32), always(Field::Array(&I32))])),
            always(Field::Structs(&[always(Field::Text), always(Field::Text)])),
        ])),
        always(I32),
        always(I8),
    ],
};

static DELETE_TOPICS: Shape = Shape {
    flexible_from: 4,
    parts: &[
        until(5, Field::Array(&Field::Text)),
        since(6, Field::Structs(&[always(Field::Text), always(UUID)])),
        always(I32),
    ],
};

static INIT_PRODUCER_ID: Shape =
    Shape { flexible_from: 2, parts: &[always(Field::Text), always(I32), since(3, I64), since(3, I16)] };

static JOIN_GROUP: Shape = Shape {
    flexible_from: 6,
    parts: &[
        always(Field::Text),
        always(I32),
        since(1, I32),
        always(Field::Text),
        since(5, Field::Text),
        always(Field::Text),
        always(Field::Structs(&[always(Field::Text), always(Field::Bytes)])),
    ],
};

static SYNC_GROUP: Shape = Shape {
    flexible_from: 4,
    parts: &[
        always(Field::Text),
        always(I32),
        always(Field::Text),
        since(3, Field::Text),
        since(5, Field::Text),
        since(5, Field::Text),
        always(Field::Structs(&[always(Field::Text), always(Field::Bytes)])),
    ],
};

static HEARTBEAT: Shape = Shape {
    flexible_from: 4,
    parts: &[always(Field::Text), always(I32), always(Field::Text), since(3, Field::Text)],
};

static LEAVE_GROUP: Shape = Shape {
    flexible_from: 4,
    parts: &[
        always(Field::Text),
        until(2, Field::Text),
        since(3, Field::Structs(&[always(Field::Text), always(Field::Text)])),
    ],
};

static OFFSET_COMMIT: Shape = Shape {
    flexible_from: 8,
    parts: &[
        always(Field::Text),
        always(I32),
        always(Field::Text),
        since(7, Field::Text),
        until(4, I64),
        always(Field::Structs(&[
            always(Field::Text),
            always(Field::Structs(&[always(I32), always(I64), since(6, I32), always(Field::Text)])),
        ])),
    ],
};

/// The partitions of a topic.
const INDEXES: Field = Field::Structs(&[always(Field::Text), always(Field::Array(&I32))]);

static OFFSET_FETCH: Shape = Shape {
    flexible_from: 6,
    parts: &[
        until(7, Field::Text),
        until(7, INDEXES),
        since(8, Field::Structs(&[always(Field::Text), always(INDEXES)])),
        since(7, I8),
    ],
};

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
            assert_eq!(API_VERSIONS.walk(&api_versions(&tagged), 3), expected, "{count} in the body");
            assert_eq!(walk_head(&head(&tagged), 2), expected, "{count} in the head");
        }
    }

    #[test]
    fn a_tag_that_the_decoder_takes_for_negative_is_refused() {
        for (last, expected) in [(0x07, Some(())), (0x08, None), (0x0f, None)] {
            let tagged = [1, 0xff, 0xff, 0xff, 0xff, last, 0];
            assert_eq!(API_VERSIONS.walk(&api_versions(&tagged), 3), expected);
            assert_eq!(walk_head(&head(&tagged), 2), expected);
        }
    }

    #[test]
    fn a_tagged_field_that_the_decoder_knows_is_as_long_as_it_is_said_to_be() {
        // A fetch of nothing; its tagged field 0 is the cluster's name.
        let body = |size| [&[0; 25][..], &[1, 1, 1], &[1, 0, size, 3, b'm', b'e']].concat();
        assert_eq!(FETCH.walk(&body(3), 12), Some(()));
        assert_eq!(FETCH.walk(&body(2), 12), None, "it ends before");
        assert_eq!(FETCH.walk(&[body(4), vec![0]].concat(), 12), None, "it ends after");
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
