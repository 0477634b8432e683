"""What both halves produce: configurations of tokens along time or depth, with independent members kept apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

from armillary.errors import ArgumentError
from armillary.shapes import Configuration

if TYPE_CHECKING:
    from torch import Tensor
else:  # torch takes a second to import; the word for a trajectory must not
    Tensor = Any

__all__ = ["Ensemble", "Event", "Trajectory"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Ensemble:
    """Independent members (documents, or seeds) followed along one axis: the only thing an interval can come from.

    Args:
        states: `members times tokens dim`.
        at: Where along the axis, one number for each time: layers (block l writes layer l; l - 1/2 is after the
            attention of block l), or times.
        axis: "depth" or "time".
        members: What each member is called.

    Raises:
        ArgumentError: The lengths of `at` or `members` do not fit `states`, or `at` does not increase.

    Example:
        >>> import torch
        >>> states = torch.zeros(2, 3, 5, 4)
        >>> ensemble = Ensemble(states=states, at=(0, 1, 2), axis="depth", members=("first", "second"))
        >>> len(ensemble), tuple(ensemble.where(2).shape), ensemble.only([1]).members
        (2, (2, 5, 4), ('second',))
    """

    states: Tensor
    at: tuple[float, ...]
    axis: Literal["depth", "time"]
    members: tuple[str, ...]

    def __post_init__(self) -> None:
        shape = tuple(self.states.shape)
        if len(shape) != 4:
            raise ArgumentError(
                f"Argument `states` must be [members, times, tokens, dim], but has shape {list(shape)}. Add the "
                "missing axes."
            )
        if (len(self.members), len(self.at)) != shape[:2]:
            raise ArgumentError(
                f"Arguments `members` and `at` must name {shape[0]} members and {shape[1]} times, but name "
                f"{len(self.members)} and {len(self.at)}. Give one name a member and one place a time."
            )
        if any(later <= earlier for earlier, later in zip(self.at, self.at[1:], strict=False)):
            raise ArgumentError(f"Argument `at` must increase, but is {list(self.at)}. Sort the states along the axis.")

    def __len__(self) -> int:
        """How many members."""
        return len(self.members)

    def where(self, place: float) -> Configuration:
        """The configurations at one place of the axis.

        Args:
            place: One of `at`.

        Returns:
            `members tokens dim`.

        Raises:
            ArgumentError: No states were kept there.
        """
        if place not in self.at:
            raise ArgumentError(
                f"Argument `place` must be one of {list(self.at)}, but is {place}. Keep states there, or ask elsewhere."
            )
        return self.states[:, self.at.index(place)]

    def only(self, members: Sequence[int]) -> Ensemble:
        """The ensemble of some members.

        Args:
            members: Their indices, counted from 0, in the order wanted.

        Returns:
            An ensemble of them, at the same places.

        Raises:
            ArgumentError: There is no such member.
        """
        chosen = list(members)
        outside = [index for index in chosen if not 0 <= index < len(self)]
        if outside:
            raise ArgumentError(
                f"Argument `members` must be indices from 0 to {len(self) - 1}, but holds {outside[0]}. Count from 0."
            )
        return Ensemble(
            states=self.states[chosen],
            at=self.at,
            axis=self.axis,
            members=tuple(self.members[index] for index in chosen),
        )


class _Groups(Protocol):
    """What an event asks of a grouping."""

    def labels(self, configuration: Any, /) -> Tensor:
        """The group of each token of `tokens dim`, -1 for a token in no group."""
        ...


@dataclass(frozen=True)
class Event:
    """What became of a system at a kept time.

    Attributes:
        system: Its number.
        at: The kept time at which it is first seen; it may have happened any time since the kept one before.
        kind: "groups" where their number is another than before (or is first counted); "consensus" from where on every
            overlap stays above the level; "still" from where on no token is far from where it is at the last kept time.
        groups: Number of groups then.
    """

    system: int
    at: float
    kind: Literal["groups", "consensus", "still"]
    groups: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Trajectory:
    """Configurations along time (or layers of a discrete network), of one system or of a batch of independent ones.

    Args:
        states: `*batch times tokens dim`.
        at: The times, or layers.
        axis: "time" or "depth".
        ending: Gives, for a system by number, how it ended in words: never "converged" for a plateau.
        steps: Accepted steps of each system.
        rejected: Rejected steps of each system.
        evaluations: Evaluations of the velocity, for each system.
        mergers: The log of merged tokens.
        engine: Which engine moved the tokens.
        summation: How sums over all pairs of tokens were evaluated, and how exactly.
        stopped_at: Systems, by number, that stopped before the last time, and where; kept states beyond are those they
            stopped in.
    """

    states: Tensor
    at: tuple[float, ...]
    axis: Literal["depth", "time"]
    ending: Callable[[int], str]
    steps: tuple[int, ...]
    rejected: tuple[int, ...]
    evaluations: tuple[int, ...]
    mergers: tuple[Any, ...] = ()
    engine: str = "general"
    summation: str = "all pairs at once"
    stopped_at: Mapping[int, float] = field(default_factory=dict)

    @cached_property
    def statuses(self) -> tuple[str, ...]:
        """How each system ended, in words; found when it is first asked for."""
        return tuple(self.ending(system) for system in range(len(self.steps)))

    @property
    def status(self) -> str:
        """How the run ended, in words; for a batch the different endings, each with its count."""
        if len(self.statuses) == 1:
            return self.statuses[0]
        counts = {one: self.statuses.count(one) for one in self.statuses}
        return "; ".join(f"{count} of {len(self.statuses)}: {one}" for one, count in counts.items())

    @property
    def last(self) -> Configuration:
        """The last configuration, `*batch tokens dim`."""
        return self.states[..., -1, :, :]

    def where(self, place: float) -> Configuration:
        """The configuration at one of the kept times, `*batch tokens dim`.

        Raises:
            ArgumentError: No state was kept there.
        """
        if place not in self.at:
            raise ArgumentError(
                f"Argument `place` must be one of the {len(self.at)} kept times, but is {place}. Name it in `keep`."
            )
        return self.states[..., self.at.index(place), :, :]

    def measure(self, measurement: Callable[[Tensor], Any]) -> Any:
        """A measurement, such as `participation_rank.after("normalize")`, at every kept time, `*batch times`."""
        return measurement(self.states)

    def events(self, grouping: _Groups, *, consensus: float = 0.999, still: float = 1e-6) -> tuple[Event, ...]:
        """What is seen to happen at the kept times: numbers of groups, consensus, standing still.

        A system that stands still between kept times is not at its end: clusters do for e^(beta gap) and then merge.

        Args:
            grouping: A declared `Grouping`: what counts as a group.
            consensus: Overlap that every pair must stay above.
            still: Distance of unit rows from where they are at the last kept time below which they stand still.

        Returns:
            The events of each system in the order of time.

        Example:
            >>> import armillary as am
            >>> field = am.on_sphere(am.AttentionDrift(am.Softmax(4.0)))
            >>> start = am.sphere.uniform(tokens=8, dim=2, seed=0)
            >>> run = am.flow(field, start, until=400.0, integrator=am.Tsit5(rtol=1e-8), keep=101)
            >>> grouping = am.Grouping(am.AngularDistance(), am.Connected(within=0.1))
            >>> [(event.kind, event.groups) for event in run.events(grouping)]
            [('groups', 6), ('groups', 3), ('groups', 2), ('groups', 1), ('consensus', 1), ('still', 1)]
        """
        found: list[Event] = []
        times, tokens, dim = self.states.shape[-3:]
        for system, states in enumerate(self.states.detach().reshape(-1, times, tokens, dim)):
            unit = states / states.norm(dim=-1, keepdim=True)
            counts = [len({*grouping.labels(one).tolist()} - {-1}) for one in unit]
            changed = [k for k in range(times) if k == 0 or counts[k] != counts[k - 1]]
            met = [bool((one @ one.mT).min() > consensus) for one in unit]
            near = [bool((one - unit[-1]).norm(dim=-1).max() < still) for one in unit]
            seen: list[tuple[int, Literal["groups", "consensus", "still"]]] = [(k, "groups") for k in changed]
            seen += [(first, "consensus") for first in [_since(met)] if first < times]
            seen += [(first, "still") for first in [_since(near)] if first < times - 1]
            found += [Event(system, self.at[k], kind, counts[k]) for k, kind in sorted(seen, key=lambda one: one[0])]
        return tuple(found)


def _since(held: Sequence[bool]) -> int:
    """The first place from which on something holds to the end; past the end where it does not hold there."""
    first = len(held)
    while first > 0 and held[first - 1]:
        first -= 1
    return first
