"""The table families x promises: `python tests/family_table.py` writes docs/families.md, and a test compares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "families.md"

HEAD = """# Families

A family is one row of plain data: where each part of a decoder lies, and how its blocks are wired. Nothing in a row is
believed. When a decoder is loaded it has to keep every promise below on a short pass of its own, or it is refused with
the name of the first promise that it missed (exit code 3).

A model that no row names is not refused for that. Its row is inferred from one traced pass (who reads what, and whose
output is added to the stream) and put to the same proof. What passes is measured, and its facts say *inferred*; what does
not pass stops with the reason.

This page is written by `python tests/family_table.py` from tiny random instances of every row; a test keeps it true.

What it means for numbers:

- **Norms.** "pre": a sublayer reads a normalized copy, and the stream itself is never normalized. Where norms stand behind a
  sublayer too, what a sublayer adds has passed one.
- **Side by side.** In a parallel block attention and MLP read the same stream, so there is nothing between them: the `mid` tap
  is refused for such a decoder.
- **Layer 0** differs, and a curve that starts at layer 0 starts at another thing. From layer 1 on the word means the same.
- **Attention rows** that give a share to a sink rightly sum to less than one; what is missing is reported as sink mass.

## What the families are

| family | class | norm | where it stands | attention and MLP | positions | layer 0 | its norm over the embedding's | taps | rows of a map |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""

GROUPS = """
Heads, windows and weights, as the tiny instances have them, and on which side padding changes no state of a document:

| family | heads to a key-value head | window | what writes the MLP's output | embedding and head | positions are removed by | padding |
| --- | --- | --- | --- | --- | --- | --- |
"""

PROMISES = """
## What is promised, and who kept it

Each promise can fail; a test makes each fail on purpose. A check mark says that the tiny instance of the family kept it.

"""

MEANING = {
    "distinct blocks": "there is at least one block, as many as configured, each a module of its own with norms of its own",
    "tied weights": "embedding and head are one tensor exactly where the configuration says so",
    "maps at hand": "the library's eager attention, which alone forms attention maps, is in use or can be switched to",
    "finite": "no state is NaN or infinite",
    "shapes": "every tap and every update is documents x tokens x width",
    "norms": "every norm that reads the stream is the formula that the row states, gain included",
    "start of the stream": "layer 0 is what the row says of the embedding: scaled, projected, normalized, with positions or not",
    "attention rows": "rows sum to one; with learned sinks, rows and sink sum to one",
    "causal": "no attention ahead, to the last bit, and no logit that depends on a later token",
    "window": "attention ends where the configuration says, and not before",
    "sublayers": "stream in + attention + MLP = stream out, one after the other or side by side as the row says",
    "attention matters": "halving what attention adds moves the logits",
    "grouped heads": "other values of one key-value head move its query heads and no other",
    "head": "logits are the head of the final norm's output, under the family's cap or scale",
    "one function": "eager and usual attention give the same logits",
    "capture": "logits with and without hooks are identical",
    "repetition": "a second pass is identical",
    "batching": "states do not depend on the batch or on padding",
    "library's list": "the library's hidden states are the taps, and its last entry is the final norm",
    "evaluation mode": "no module is in training mode",
    "hooks": "hooks are those of before",
}


def page() -> str:
    """The whole page, from a proof of every family's tiny instance."""
    from armillary.models.contract import prove
    from tiny import families, tiny_decoder

    decoders = {name: tiny_decoder(name) for name in families()}
    kept = {name: {promise.name: promise for promise in prove(decoder)} for name, decoder in decoders.items()}
    lines = [_what(name, decoder, kept[name]) for name, decoder in decoders.items()]
    more = [_parts(name, decoder, kept[name]) for name, decoder in decoders.items()]
    names = list(next(iter(kept.values())))
    table = ["| promise | what it says | " + " | ".join(f"`{name}`" for name in kept) + " |"]
    table.append("| --- | --- |" + " :-: |" * len(kept))
    for promise in names:
        marks = " | ".join("✓" if found[promise].passed else "**missed**" for found in kept.values())
        table.append(f"| {promise} | {MEANING[promise]} | {marks} |")
    return HEAD + "\n".join(lines) + "\n" + GROUPS + "\n".join(more) + "\n" + PROMISES + "\n".join(table) + "\n"


def _what(name: str, decoder: Any, kept: dict[str, Any]) -> str:
    facts, row = decoder.facts, decoder.family
    gain = {"weight": "", "1 + weight": ", gain 1 + w", "none": ", no gain"}[row.gain]
    wiring = "one after the other" if facts.residual == "sequential" else "side by side"
    taps = "block, mid" if facts.residual == "sequential" else "block"
    ratio = kept["start of the stream"].got.partition("its norm is ")[2].partition(" times")[0]
    cells = (
        f"`{name}`",
        ", ".join(row.architectures),
        facts.norm + gain,
        facts.norm_place,
        wiring,
        facts.positions,
        facts.start_of_stream,
        f"{float(ratio):.3g}",
        taps,
        facts.attention_rows,
    )
    return "| " + " | ".join(cells) + " |"


def _parts(name: str, decoder: Any, kept: dict[str, Any]) -> str:
    facts, row = decoder.facts, decoder.family
    windows = [decoder.window(layer) for layer in range(1, facts.layers + 1)]
    sizes = sorted({window for window in windows if window})
    window = "none"
    if sizes:
        window = f"{sizes[0]} tokens in " + (
            "every block" if all(windows) else "blocks " + ", ".join(str(n) for n, w in enumerate(windows, 1) if w)
        )
    positions = "zeros in rotary frequencies"
    if row.position_embedding is not None:
        positions = "zeros in position vectors"
    elif row.position_argument is not None:
        positions = f"attention called with `{row.position_argument}` zero"
    cells = (
        f"`{name}`",
        str(facts.heads // facts.key_value_heads),
        window,
        ", ".join(f"`{path}`" for path in row.mlp_output),
        "one tensor" if facts.tied else "two tensors",
        positions,
        _padding(kept["batching"].got),
    )
    return "| " + " | ".join(cells) + " |"


def _padding(found: str) -> str:
    if "right only" in found:
        return "right"
    return "right, and left with positions given" if "given positions" in found else "right and left"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
