"""Load a user's model, `trainer.model: module:function`.

Any mistake in the user's code raises an ArgumentError with a one-line message.

The function is called as function(shape, classes). `shape` is (height, width, channels) in every framework. The
function returns a model of the framework, which maps images to one logit per class.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from distrain_trainer.errors import ArgumentError
from distrain_trainer.models.description import Model, Shape, Training

# The trainer knows neither the size of a user's images nor good settings for a user's model. So it assumes these.
MODEL = Model(
    name="module:function",
    title="your own",
    shape=(224, 224, 3),
    classes=1000,
    smallest=1,
    training=Training(batch_size=32, learning_rate=0.01, epochs=10),
)


def is_users(name: str) -> bool:
    """Return whether a model's name has the form module:function."""
    return re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", name) is not None


def find(name: str) -> Callable[[Shape, int], Any]:
    """Import and return the function module:function. Raises ArgumentError if it cannot be imported or called."""
    module_name, _, function_name = name.partition(":")
    if os.getcwd() not in sys.path:  # Add the working directory to the path: only `python3 -m` does that by itself.
        sys.path.insert(0, os.getcwd())
    module = _import(name, module_name)
    function = getattr(module, function_name, None)
    if function is None:
        held = ", ".join(key for key, value in vars(module).items() if _is_its_own(value, module_name)) or "none"
        raise ArgumentError(
            f"trainer.model: {module.__file__} has no {function_name} (its functions: {held}); correct {name}"
        )
    if not callable(function):
        raise ArgumentError(
            f"trainer.model: {name} is of the type {type(function).__name__} and cannot be called; name a function"
        )
    _require_signature(name, function)
    return function  # type: ignore[no-any-return]


def build(name: str, *, shape: Shape, classes: int, kind: type, kind_name: str) -> Any:
    """Call the user's function module:function and return the model.

    Raises ArgumentError unless the model is an instance of `kind`.
    """
    function = find(name)
    with told_in_a_line(name, f"{name}({shape}, {classes})"):
        model = function(shape, classes)
    if not isinstance(model, kind):
        raise ArgumentError(
            f"trainer.model: {name} returned {_described(model)}, and the model must be a {kind_name}; return one"
        )
    return model


def require_logits(name: str, *, shape: Shape, classes: int, forward: Callable[[], Shape]) -> None:
    """Raise ArgumentError unless the model gives one logit per class.

    `forward` runs the model on one image and returns the shape of the model's output, which must be (1, classes).
    """
    with told_in_a_line(name, f"the model of {name}, given an image of {'x'.join(map(str, shape))},"):
        output = tuple(forward())
    if output != (1, classes):
        raise ArgumentError(
            f"trainer.model: the model of {name} returns shape {output} for one image, but the data has {classes} "
            f"classes; return one logit per class, so shape (1, {classes})"
        )


def require_used(name: str, parameters: Iterable[str], used: Container[str]) -> None:
    """Raise ArgumentError if some parameters of the model have no influence on its output."""
    for parameter in parameters:
        if parameter not in used:
            raise ArgumentError(
                f"trainer.model: the forward pass of {name} does not use its parameter {parameter}, but MXNet "
                "requires that all parameters are used; use it, or leave it out of the model"
            )


@contextmanager
def told_in_a_line(name: str, what: str) -> Iterator[None]:
    """Turn every exception in the user's code into an ArgumentError that names the file and line."""
    try:
        yield
    except Exception as error:
        file = getattr(sys.modules.get(name.partition(":")[0]), "__file__", None)
        place = _place(error, file)
        raise ArgumentError(f"trainer.model: {what} failed{place}: {_reason(error)}; correct it") from None


def _import(name: str, module_name: str) -> Any:
    file = _file_of(name, module_name)
    try:
        return importlib.import_module(module_name)
    except Exception as error:
        raise ArgumentError(
            f"trainer.model: {module_name} does not import{_place(error, file)}: {_reason(error)}; correct it"
        ) from None


def _file_of(name: str, module_name: str) -> str | None:
    """Return the file of a module, or None if it is unknown. Raises ArgumentError if the module does not exist."""
    try:
        spec = importlib.util.find_spec(module_name)
    except ModuleNotFoundError as error:
        if not module_name.startswith(f"{error.name}."):
            # Importing the module's package has failed, because another module is missing. The caller imports the
            # module again, and that error gives the reason.
            return None
        spec = None
    except Exception:
        return None
    if spec is None:
        raise ArgumentError(
            f"trainer.model: there is no module {module_name} for {name} in {os.getcwd()} or "
            f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}; add it to the image or a volume, and set PYTHONPATH in env"
        )
    return spec.origin


def _require_signature(name: str, function: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # Functions written in C may have no signature that Python can read.
        return
    try:
        signature.bind((1, 1, 1), 1)
    except TypeError as error:
        raise ArgumentError(
            f"trainer.model: {name}{signature} cannot be called with (shape, classes): {error}; make it take these two"
        ) from None


def _place(error: Exception, file: str | None) -> str:
    """Return where in the user's file the error occurred, as " (file, line n)".

    Return "" if the error occurred elsewhere.
    """
    if isinstance(error, SyntaxError):
        return f" ({error.filename}, line {error.lineno})"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" ({file}, line {lines[-1]})" if lines else ""


def _reason(error: Exception) -> str:
    """Return the type of an exception and the first two lines of its message. Some messages are pages long."""
    said = (error.msg if isinstance(error, SyntaxError) else str(error)).splitlines()
    lines = [line.strip() for line in said if line.strip()]
    return ": ".join([type(error).__name__, " ".join(lines[:2])[:300]] if lines else [type(error).__name__])


def _is_its_own(value: Any, module_name: str) -> bool:
    return inspect.isfunction(value) and value.__module__ == module_name


def _described(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__module__}.{type(value).__qualname__}"
