"""Input from databases."""

from __future__ import annotations

from typing import Any


def db_input(model: Any, blobs_out: Any, batch_size: int, db: str, db_type: str) -> Any:
    """Batches of tensors from a database, through a reader ``dbreader_<db>`` that the init net opens."""
    reader = model.param_init_net.CreateDB([], "dbreader_" + db, db=db, db_type=db_type)
    return model.net.TensorProtosDBInput(reader, blobs_out, batch_size=batch_size)
