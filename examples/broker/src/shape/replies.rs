//! What the replies look like that a follower reads, at the versions that it asks with.

use super::{Field, I8, I16, I32, I64, Shape, always, since};

const EPOCH_END: Field = Field::Struct(&[always(I32), always(I64)]);
const LEADER: Field = Field::Struct(&[always(I32), always(I32)]);
const SNAPSHOT: Field = Field::Struct(&[always(I64), always(I32)]);

pub(super) static FETCH: Shape = Shape {
    flexible_from: 12,
    parts: &[
        always(I32),
        since(7, I16),
        since(7, I32),
        always(Field::Structs(&[
            always(Field::Text),
            always(Field::Structs(&[
                always(I32),
                always(I16),
                always(I64),
                always(I64),
                since(5, I64),
                always(Field::Structs(&[always(I64), always(I64)])),
                since(11, I32),
                always(Field::Bytes),
                since(12, Field::Tagged(0, &EPOCH_END)),
                since(12, Field::Tagged(1, &LEADER)),
                since(12, Field::Tagged(2, &SNAPSHOT)),
            ])),
        ])),
    ],
};

pub(super) static METADATA: Shape = Shape {
    flexible_from: 9,
    parts: &[
        since(3, I32),
        always(Field::Structs(&[always(I32), always(Field::Text), always(I32), since(1, Field::Text)])),
        since(2, Field::Text),
        since(1, I32),
        always(Field::Structs(&[
            always(I16),
            always(Field::Text),
            since(1, I8),
            always(Field::Structs(&[
                always(I16),
                always(I32),
                always(I32),
                since(7, I32),
                always(Field::Array(&I32)),
                always(Field::Array(&I32)),
                since(5, Field::Array(&I32)),
            ])),
            since(8, I32),
        ])),
        since(8, I32),
    ],
};
