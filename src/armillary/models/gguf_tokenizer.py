"""The tokenizer of a GGUF file: rebuilt by the rule that the file names and proved token by token, or not used."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from armillary.errors import UnsupportedModelError

__all__ = ["PRE_TOKENIZERS", "FileTokenizer", "PreTokenizer", "file_tokenizer"]

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|NUMBER| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True)
class PreTokenizer:
    """How text is cut before merges apply: steps in order, a Unicode normal form, words taken whole first or not."""

    steps: tuple[str, ...]
    normal_form: str | None = None
    words_first: bool = False


_GPT2 = PreTokenizer(("byte level",))
_QWEN2 = PreTokenizer((_WORDS.replace("NUMBER", r"\p{N}"), "bytes"), normal_form="NFC")
_LLAMA3 = PreTokenizer((_WORDS.replace("NUMBER", r"\p{N}{1,3}"), "bytes"), words_first=True)

PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    "smollm": PreTokenizer(("digits", "byte level")),
    "gpt-2": _GPT2,
    "olmo": _GPT2,
    "qwen2": _QWEN2,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
}
"""Pre-tokenizers known to be rebuilt exactly, by the name the file gives.

A text that was cut by the wrong rule still decodes to itself, so a wrong guess would go unnoticed; a name that is not
in this table is not guessed."""

_CONTROL, _USER_DEFINED, _UNUSED = 3, 4, 5  # token types of the format


@dataclass(frozen=True)
class FileTokenizer:
    """A file's list of tokens, and its tokenizer where that can be proved.

    Attributes:
        tokens: By id.
        spare: Ids that the file marks as unused.
        rule: tokenizer.json, or None where the file's rule is not known.
        settings: tokenizer_config.json, or None.
    """

    tokens: tuple[str, ...]
    spare: tuple[int, ...]
    rule: str | None = None
    settings: dict[str, Any] | None = None


def file_tokenizer(path: Path, value: Any, *, required: bool) -> FileTokenizer:
    """The tokenizer of a GGUF file.

    Args:
        path: The file, for messages.
        value: Its fields by name.
        required: Whether a tokenizer that cannot be proved is refused.

    Returns:
        The file's tokens; with the rebuilt tokenizer if every token stands at its id and is found again by its name,
        control tokens are cut out of text whole, and the text is cut by a known rule.

    Raises:
        UnsupportedModelError: The tokenizer is required and cannot be proved.
    """
    tokens = tuple(value("tokenizer.ggml.tokens"))
    types = [int(sort) for sort in value("tokenizer.ggml.token_type", [1] * len(tokens))]
    spare = tuple(index for index, sort in enumerate(types) if sort == _UNUSED)
    try:
        rebuilt = _byte_pairs(path, value, tokens, types)
        _require_proved(path, rebuilt, tokens, types)
    except UnsupportedModelError:
        if required:
            raise
        return FileTokenizer(tokens, spare)
    settings = _settings(value, tokens, rebuilt)
    return FileTokenizer(tokens, spare, json.dumps(json.loads(rebuilt.to_str()), ensure_ascii=False), settings)


def _settings(value: Any, tokens: tuple[str, ...], tokenizer: Any) -> dict[str, Any]:
    """tokenizer_config.json, and what the file puts before and after a text."""
    from tokenizers import processors

    names = {
        role: tokens[index]
        for role, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
        if (index := value(f"tokenizer.ggml.{key}_token_id", None)) is not None
    }
    before = [names["bos"]] if "bos" in names and value("tokenizer.ggml.add_bos_token", False) else []
    after = [names["eos"]] if "eos" in names and value("tokenizer.ggml.add_eos_token", False) else []
    if before or after:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[*before, "$A", *after], special_tokens=[(token, tokens.index(token)) for token in before + after]
        )
    settings: dict[str, Any] = {f"{role}_token": token for role, token in names.items()}
    settings |= {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    if (template := value("tokenizer.chat_template", None)) is not None:
        settings["chat_template"] = template
    return settings


def _byte_pairs(path: Path, value: Any, tokens: tuple[str, ...], types: list[int]) -> Any:
    """The byte-level tokenizer of the file's tokens and merges, its text cut by the rule the file names."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    kind, name = value("tokenizer.ggml.model", None), value("tokenizer.ggml.pre", None)
    if kind != "gpt2" or name not in PRE_TOKENIZERS:
        known = ", ".join(sorted(PRE_TOKENIZERS))
        raise UnsupportedModelError(
            f"Argument `source` must use a pre-tokenizer that armillary can rebuild exactly ({known}, of kind gpt2), "
            f"but {path.name} uses {name!r} of kind {kind!r}. Name the model's own tokenizer with `tokenizer`."
        )
    rule = PRE_TOKENIZERS[name]
    merges = [tuple(merge.split(" ", 1)) for merge in value("tokenizer.ggml.merges", [])]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    try:
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=rule.words_first))
    except Exception as trouble:  # the library raises plain exceptions
        raise UnsupportedModelError(
            f"Argument `source` must hold merges of its own tokens, but {path.name} does not: {trouble}. "
            "Fetch it again."
        ) from trouble
    steps = {
        "digits": pre_tokenizers.Digits(individual_digits=True),
        "byte level": pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        "bytes": pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    }
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [steps.get(step) or pre_tokenizers.Split(Regex(step), behavior="isolated") for step in rule.steps]
    )
    if rule.normal_form is not None:
        tokenizer.normalizer = getattr(normalizers, rule.normal_form)()
    tokenizer.decoder = decoders.ByteLevel()
    added = [(token, sort) for token, sort in zip(tokens, types, strict=True) if sort in (_CONTROL, _USER_DEFINED)]
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=sort == _CONTROL) for token, sort in added])
    return tokenizer


def _require_proved(path: Path, tokenizer: Any, tokens: tuple[str, ...], types: list[int]) -> None:
    """Every token stands at its id, and each control token is cut out of text whole."""
    if (size := tokenizer.get_vocab_size()) != len(tokens):
        raise UnsupportedModelError(
            f"Argument `source` must list each token once, but {path.name} lists {len(tokens)} and {size} of them "
            "differ. Name the model's own tokenizer with `tokenizer`."
        )
    for index, (token, sort) in enumerate(zip(tokens, types, strict=True)):
        whole = sort not in (_CONTROL, _USER_DEFINED) or not token
        found = [tokenizer.token_to_id(token)] if whole else tokenizer.encode(token, add_special_tokens=False).ids
        if found != [index]:
            raise UnsupportedModelError(
                f"Argument `source` must hold a tokenizer that finds its tokens again, but in {path.name} id {index}, "
                f"{token!r}, comes back as {found}. Name the model's own tokenizer with `tokenizer`."
            )
