//! What the requests that are served look like.

use super::{Field, I8, I16, I32, I64, Shape, UUID, always, since, until};

pub(super) static PRODUCE: Shape = Shape {
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

pub(super) static FETCH: Shape = Shape {
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

pub(super) static LIST_OFFSETS: Shape = Shape {
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

pub(super) static METADATA: Shape = Shape {
    flexible_from: 9,
    parts: &[always(Field::Structs(&[always(Field::Text)])), since(4, I8), since(8, I8), since(8, I8)],
};

pub(super) static FIND_COORDINATOR: Shape = Shape {
    flexible_from: 3,
    parts: &[until(3, Field::Text), since(1, I8), since(4, Field::Array(&Field::Text))],
};

pub(super) static API_VERSIONS: Shape =
    Shape { flexible_from: 3, parts: &[since(3, Field::Text), since(3, Field::Text)] };

pub(super) static CREATE_TOPICS: Shape = Shape {
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

pub(super) static DELETE_TOPICS: Shape = Shape {
    flexible_from: 4,
    parts: &[
        until(5, Field::Array(&Field::Text)),
        since(6, Field::Structs(&[always(Field::Text), always(UUID)])),
        always(I32),
    ],
};

pub(super) static INIT_PRODUCER_ID: Shape =
    Shape { flexible_from: 2, parts: &[always(Field::Text), always(I32), since(3, I64), since(3, I16)] };

pub(super) static CREATE_PARTITIONS: Shape = Shape {
    flexible_from: 2,
    parts: &[
        always(Field::Structs(&[
            always(Field::Text),
            always(I32),
            always(Field::Structs(&[always(Field::Array(&I32))])),
        ])),
        always(I32),
        always(I8),
    ],
};

pub(super) static DELETE_RECORDS: Shape = Shape {
    flexible_from: 2,
    parts: &[
        always(Field::Structs(&[always(Field::Text), always(Field::Structs(&[always(I32), always(I64)]))])),
        always(I32),
    ],
};

pub(super) static DESCRIBE_CONFIGS: Shape = Shape {
    flexible_from: 4,
    parts: &[
        always(Field::Structs(&[always(I8), always(Field::Text), always(Field::Array(&Field::Text))])),
        always(I8),
        since(3, I8),
    ],
};

pub(super) static JOIN_GROUP: Shape = Shape {
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

pub(super) static SYNC_GROUP: Shape = Shape {
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

pub(super) static HEARTBEAT: Shape = Shape {
    flexible_from: 4,
    parts: &[always(Field::Text), always(I32), always(Field::Text), since(3, Field::Text)],
};

pub(super) static LEAVE_GROUP: Shape = Shape {
    flexible_from: 4,
    parts: &[
        always(Field::Text),
        until(2, Field::Text),
        since(3, Field::Structs(&[always(Field::Text), always(Field::Text)])),
    ],
};

pub(super) static OFFSET_COMMIT: Shape = Shape {
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

pub(super) static OFFSET_FETCH: Shape = Shape {
    flexible_from: 6,
    parts: &[
        until(7, Field::Text),
        until(7, INDEXES),
        since(8, Field::Structs(&[always(Field::Text), always(INDEXES)])),
        since(7, I8),
    ],
};
