"""Which decoder a command means: the options that name it, where it lies, and what its files may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from armillary.models.decoder import Decoder

__all__ = ["AllowPickle", "Device", "Dtype", "Model", "Revision", "Source", "Tokenizer", "TrustRemoteCode"]

Model = Annotated[
    str | None, typer.Option(help="Folder, GGUF file or hub id. Default: the embedded SmolLM2-135M-Instruct (4-bit).")
]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub id; the commit is recorded.")]
Tokenizer = Annotated[str | None, typer.Option(help="Folder or hub id of a tokenizer in place of the model's own.")]
Device = Annotated[
    str, typer.Option(help="auto, cpu, cuda, mps, or map: layers spread over all accelerators of this machine.")
]
Dtype = Annotated[str, typer.Option(help="Type of weights and states: float32, bfloat16, float16 or float64.")]
AllowPickle = Annotated[
    bool,
    typer.Option(
        "--allow-pickle",
        help="Read pickled weights where there are no safetensors. The format can carry code; nothing but tensors is "
        "taken from it. Recorded.",
    ),
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option(
        "--trust-remote-code",
        help="Run the code that a model brings. It may do anything on this machine: read it first. Recorded.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Source:
    """The decoder that the options name, not loaded yet."""

    model: str | None
    revision: str | None
    tokenizer: str | None
    device: str
    dtype: str
    allow_pickle: bool
    trust_remote_code: bool

    def load(self, *, prove: bool = True) -> Decoder:
        """The decoder; `prove` as `load_decoder` has it."""
        from armillary.models.decoder import load_decoder

        return load_decoder(
            self.model,
            revision=self.revision,
            tokenizer=self.tokenizer,
            device=self.device,
            dtype=self.dtype,
            allow_pickle=self.allow_pickle,
            trust_remote_code=self.trust_remote_code,
            prove=prove,
        )
