"""Texts that every Python carries, of two genres without any download: does a number depend on the genre?"""

from __future__ import annotations

import ast
import platform
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

from armillary.errors import ArgumentError
from armillary.models.texts import Skipped, Source, Text, checked

__all__ = ["GENRES", "embedded"]

MODULES = (
    "abc", "argparse", "ast", "asyncio", "base64", "bdb", "bisect", "bz2", "calendar", "cmd", "code", "codecs",
    "collections", "compileall", "concurrent", "configparser", "contextlib", "copy", "csv", "ctypes", "curses",
    "dataclasses", "datetime", "dbm", "decimal", "difflib", "dis", "doctest", "email", "enum", "filecmp", "fileinput",
    "fractions", "ftplib", "functools", "getopt", "gettext", "glob", "gzip", "hashlib", "heapq", "hmac", "html",
    "http", "imaplib", "importlib", "inspect", "io", "ipaddress", "json", "linecache", "locale", "logging", "lzma",
    "mailbox", "mimetypes", "modulefinder", "multiprocessing", "netrc", "ntpath", "nturl2path", "numbers", "operator",
    "optparse", "os", "pathlib", "pdb", "pickle", "pickletools", "pkgutil", "platform", "plistlib", "poplib",
    "posixpath", "pprint", "profile", "pstats", "pyclbr", "pydoc", "queue", "quopri", "random", "re", "reprlib",
    "rlcompleter", "runpy", "sched", "secrets", "selectors", "shelve", "shlex", "shutil", "site", "smtplib", "socket",
    "socketserver", "sqlite3", "ssl", "statistics", "string", "stringprep", "subprocess", "sysconfig", "tarfile",
    "tempfile", "textwrap", "threading", "timeit", "tomllib", "trace", "traceback", "tracemalloc", "turtle", "types",
    "typing", "unittest", "urllib", "uuid", "venv", "warnings", "wave", "weakref", "webbrowser", "wsgiref", "xml",
    "xmlrpc", "zipapp", "zipfile", "zipimport", "zoneinfo",
)  # fmt: skip
"""The modules of the standard library whose docstrings are read; each version of Python has its own wording of them."""


def reference() -> Source:
    """The topics of Python's own reference, sorted by title.

    Raises:
        ArgumentError: This Python carries none.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as trouble:
        raise _absent("`pydoc_data.topics`") from trouble
    return Source(
        (checked(title, topics[title]) for title in sorted(topics)),
        f"pydoc_data.topics of {_python()}",
        f"the {len(topics)} topics of Python's reference, sorted by title",
        f"pydoc_data.topics of {_python()}",
        "reference prose of the Python language: one genre, so intervals speak for that genre only",
        embedded=True,
    )


def docstrings() -> Source:
    """The docstrings of the standard library, those of a module or package joined to one text; sorted by module.

    The source files are read and parsed; no module is imported. Tests of the library are left out.

    Raises:
        ArgumentError: This Python carries no sources of its library.
    """
    library = Path(sysconfig.get_path("stdlib"))
    files = {name: found for name in MODULES if (found := _sources(library, name))}
    if not files:
        raise _absent("sources of its standard library")
    return Source(
        _joined(files),
        f"docstrings of the standard library of {_python()}",
        f"{len(files)} modules and packages of Python's standard library (those of a stated list that are there), "
        "sorted by name, the docstrings of each joined in their order with an empty line between two",
        f"the docstrings of {_python()}",
        "docstrings of Python's standard library, notes on code for programmers: one genre, so intervals speak for "
        "that genre only",
        embedded=True,
    )


GENRES: dict[str, Callable[[], Source]] = {one.__name__: one for one in (reference, docstrings)}
"""The embedded documents by genre; the first one is the default."""


def embedded(genre: str) -> Source:
    """The embedded documents of a genre.

    Args:
        genre: One of `GENRES`.

    Raises:
        ArgumentError: There is no such genre, or this Python does not carry it.
    """
    if genre not in GENRES:
        raise ArgumentError(
            f"Argument `genre` must be one of {', '.join(GENRES)} where no documents are given, but it is {genre!r}. "
            "Choose one of them, or give documents of your own."
        )
    return GENRES[genre]()


def _python() -> str:
    return f"{platform.python_implementation()} {platform.python_version()}"


def _absent(what: str) -> ArgumentError:
    return ArgumentError(
        f"Argument `documents` must name a folder or a file of texts here, but none is given and this Python carries "
        f"no {what} to fall back on. Give a folder of text files."
    )


def _sources(library: Path, name: str) -> tuple[Path, ...]:
    """The source files of a module, or of a package with all below it, sorted; empty where there are none."""
    module, package = library / f"{name}.py", library / name
    if module.is_file():
        return (module,)
    inside = (file for file in package.rglob("*.py") if not _TESTS & set(file.relative_to(package).parts))
    return tuple(sorted(inside, key=lambda file: file.relative_to(package).parts))


_TESTS = {"test", "tests"}


def _joined(files: dict[str, tuple[Path, ...]]) -> Iterator[Text | Skipped]:
    for name in sorted(files):
        said = [words for file in files[name] for words in _docstrings(file)]
        yield checked(name, "\n\n".join(said))


def _docstrings(file: Path) -> Iterator[str]:
    """The docstrings of a file in the order in which they stand, indentation removed."""
    tree = ast.parse(file.read_bytes())
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    for node in sorted(found, key=lambda node: getattr(node, "lineno", 0)):
        words = ast.get_docstring(node)
        if words:
            yield words
