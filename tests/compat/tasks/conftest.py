"""The server helper of tests/api, for the tests in this directory and for the programs beside them."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
for path in (HERE, HERE.parents[1] / "api"):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))
