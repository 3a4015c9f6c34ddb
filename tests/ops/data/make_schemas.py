"""Writes `schemas.tsv`, what Caffe2 1.8.1 says of each operator: ``python make_schemas.py operators.json``.

One line per operator: type; allowed numbers of inputs and of outputs; pairs that may and that must be in place;
documented or read arguments; what becomes of its gradient. Counts are "2", "1-3", "1-" (no upper bound) or a list.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def counts(entry: dict[str, Any], side: str) -> str:
    if not entry.get("has_schema"):
        return "?"
    if (allowed := entry.get(f"allowed_num_{side}_upto10")) is not None:
        return "only " + ",".join(map(str, allowed))
    least, most = entry[f"min_{side}"], entry[f"max_{side}"]
    return f"{least}-" if most is None else str(least) if least == most else f"{least}-{most}"


def pairs(found: Any) -> str:
    return found if isinstance(found, str) else " ".join(f"{i}:{o}" for i, o in found)


def line(entry: dict[str, Any]) -> str:
    arguments = sorted({a["name"] for a in (*entry.get("args", ()), *entry.get("args_from_source", ()))})
    in_place = [pairs(entry.get(f"inplace_{kind}", ())) for kind in ("allowed", "enforced")]
    return "\t".join([entry["name"], counts(entry, "inputs"), counts(entry, "outputs"), *in_place,
                      " ".join(arguments), entry["gradient"]])


if __name__ == "__main__":
    operators = json.loads(Path(sys.argv[1]).read_text())["operators"]
    Path(__file__).with_name("schemas.tsv").write_text("\n".join(sorted(map(line, operators))) + "\n")
