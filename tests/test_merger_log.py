"""A merged run over twelve decades of time: every merger of two clusters left to themselves comes when the law says."""

import numpy as np

import armillary as am
from armillary.oracles.overlap import two_clusters_time

BETA, TOKENS = 81.0, 64
ALONE = 1e-3  # of the pull between two clusters: what all others together may pull at either of them


def _groups(mergers):
    """The cluster of every token after these mergers, called by its first token."""
    group = np.arange(TOKENS)
    for merger in mergers:
        group[list(merger.tokens)] = min(merger.tokens)
    return group


def _disturbance(state, group, a, b):
    """The pull of all other clusters on a or b over the pull that each has on the other, whichever is larger."""
    names, weights = np.unique(group, return_counts=True)
    weight = dict(zip(names.tolist(), weights.tolist(), strict=True))

    def pull(on, by):
        overlap = state[on] @ state[by]
        return weight[by] * np.exp(BETA * (overlap - 1)) * np.sqrt(max(1 - overlap**2, 0.0))

    others = [name for name in weight if name not in (a, b)]
    return max(sum(pull(p, o) for o in others) / pull(p, q) for p, q in ((a, b), (b, a)))


def _isolated(run):
    """For each merger: the time since its two clusters were left to themselves, and what the two-cluster law says."""
    times, states = np.array(run.at), run.states.numpy()
    found = []
    for place, merger in enumerate(run.mergers):
        before = _groups(run.mergers[:place])
        a, b = sorted(set(before[list(merger.tokens)].tolist()))
        touched = [one.time for one in run.mergers[:place] if set(one.tokens) & set(merger.tokens)]
        between = np.flatnonzero((times > max(touched, default=0.0)) & (times < merger.time))
        logs = [[one for one in run.mergers if one.time <= times[k]] for k in between]
        alone = [_disturbance(states[k], _groups(log), a, b) < ALONE for k, log in zip(between, logs, strict=True)]
        first = len(alone) - next((k for k, one in enumerate(reversed(alone)) if not one), len(alone))
        if first == len(alone):
            continue
        here = between[first]
        overlap = float(states[here][a] @ states[here][b])
        weights = (float((before == a).sum()), float((before == b).sum()))
        law = two_clusters_time(overlap, float(merger.overlap), beta=BETA, weights=weights)
        found.append((merger.time - times[here], law))
    return np.array(found)


def test_the_log_of_mergers_up_to_time_1e12_is_the_quadrature_of_two_clusters_wherever_they_are_alone():
    field = am.on_sphere(am.AttentionDrift(am.Softmax(BETA)))
    start = am.sphere.uniform(tokens=TOKENS, dim=3, seed=0)
    run = am.flow(
        field, start, until=1e12, integrator=am.Tsit5(rtol=1e-8), merging=am.Merging(1e-4),
        keep=[0.0, *np.geomspace(1.0, 1e12, 1201).tolist()],
    )  # fmt: skip
    assert run.evaluations[0] <= 20_000
    waited, law = _isolated(run).T
    print(f"{run.evaluations[0]} evaluations, {len(run.mergers)} mergers, {len(waited)} of them of clusters left alone")
    print("waited   ", "  ".join(f"{one:.5g}" for one in waited))
    print("law      ", "  ".join(f"{one:.5g}" for one in law))
    print(f"largest relative difference {np.abs(waited / law - 1).max():.1e}")
    np.testing.assert_allclose(waited, law, rtol=1e-2)
    assert len(waited) >= 10 and waited.max() > 1e9
