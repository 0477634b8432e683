"""Where chunks and cells are measured: in this process, in others on this machine, or on a cluster of Dask or Ray."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import numpy as np

from armillary.errors import ArgumentError, WorkersLost
from armillary.models.decoder import Decoder, load_decoder
from armillary.studies.station import Errand, Finished, Station, Task, require_same

__all__ = ["BACKENDS", "Backend", "copied", "one_at_a_time", "same_decoder"]

BACKENDS = ("here", "processes", "dask", "ray")
"""`here` is this process; `processes` and `ray` are joblib's; `dask` is spoken to directly."""

_INSTALL = {"dask": "pip install armillary[dask]", "ray": "pip install ray"}
_ATTEMPTS = 3
_PATIENCE = 20  # seconds for a scheduler to answer
_COMING = 60  # seconds for the first worker to come
_LOST = {"TerminatedWorkerError", "BrokenProcessPool", "KilledWorker", "CancelledError", "FutureCancelledError"}
"""What joblib and Dask call it when workers are gone and with them what they were doing."""

Keep = Callable[[Task, Finished], None]
Call = Callable[..., Any]


@dataclass(frozen=True)
class Backend:
    """Where chunks are measured; numbers do not depend on it, to the last bit.

    Args:
        kind: One of `BACKENDS`.
        workers: How many processes; on a cluster that is there already, all of its workers take part.
        address: Of a cluster that is there already, "HOST:PORT"; None for one of its own on this machine.
        notice: Told that a cluster which is there already has no worker yet; a warning if None.

    Raises:
        ArgumentError: No such backend, one that is not installed, or options that do not belong together.
    """

    kind: str = "here"
    workers: int = 1
    address: str | None = None
    notice: Callable[[str], None] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in BACKENDS:
            raise ArgumentError(
                f"Argument `backend` must be one of {', '.join(BACKENDS)}, but is {self.kind!r}. Name one."
            )
        if self.workers < 1 or (self.kind == "here" and self.workers > 1):
            remedy = 'Use backend "processes" for more.' if self.kind == "here" else "Ask for 1 or more."
            raise ArgumentError(
                f"Argument `workers` must be at least 1, and 1 in this process, but is {self.workers}. {remedy}"
            )
        if self.address is not None and self.kind not in ("dask", "ray"):
            raise ArgumentError(
                f"Argument `address` must be left out for backend {self.kind!r}, but is {self.address!r}. "
                'Use backend "dask" for a cluster.'
            )
        library = {"dask": "distributed", "ray": "ray"}.get(self.kind)
        if library is not None and find_spec(library) is None:
            raise ArgumentError(
                f"Argument `backend` must be one that is installed, but {self.kind!r} needs {library}. "
                f"Run `{_INSTALL[self.kind]}`."
            )

    def do(self, decoder: Decoder, errand: Errand, tasks: Iterable[Task], keep: Keep) -> None:
        """Do tasks in order, in this process.

        Args:
            decoder: The trained decoder.
            errand: What they share.
            tasks: Asked for one at a time, after what the one before found has been kept.
            keep: Called with every task and what it found.
        """
        station = Station(decoder, errand)
        try:
            for task in tasks:
                keep(task, station.do(task))
        finally:
            station.close()

    def spread(self, decoder: Decoder, errand: Errand, tasks: Callable[[], list[Task]], keep: Keep) -> None:
        """Do tasks in other processes, in any order; those of workers that were lost are done again.

        Args:
            decoder: The trained decoder; workers load it from where it came from, or get a copy of a model object.
            errand: What they share.
            tasks: Which are still to do.
            keep: Called in this process with every task and what it found.

        Raises:
            WorkersLost: Workers were lost again and again without finishing a task.
        """
        copy, loading = copied(decoder), decoder.loading
        self._through(_done, lambda: [(errand, loading, copy, task) for task in tasks()], lambda found: keep(*found))

    def each(self, function: Call, calls: Callable[[], Sequence[tuple[Any, ...]]], keep: Callable[[Any], None]) -> None:
        """Call a function of a module with each of many arguments, here in order or in other processes in any order.

        Args:
            function: Of a module, so that it can travel by its name.
            calls: Which arguments are still to be gone through; asked again when workers were lost.
            keep: Called in this process with everything that comes back, one after the other.

        Raises:
            WorkersLost: Workers were lost again and again without finishing a call, or all calls came back and as many
                as before are still to be made.
        """
        if self.kind != "here":
            self._through(function, calls, keep)
            return
        for arguments in calls():
            keep(function(*arguments))

    def _through(
        self, function: Call, calls: Callable[[], Sequence[tuple[Any, ...]]], keep: Callable[[Any], None]
    ) -> None:
        """Calls in other processes; those of workers that were lost are made again."""
        from joblib import delayed

        with self._parallel() as parallel:
            fruitless, left = 0, math.inf
            while todo := calls():
                if len(todo) >= left:
                    raise WorkersLost(
                        f"Calls must bring back what they were made for, but {len(todo)} are still to be made after "
                        "all had come back. Run it here: --backend here."
                    )
                try:
                    for found in parallel(delayed(function)(*arguments) for arguments in todo):
                        keep(found)
                        fruitless = 0
                    left = len(todo)
                except Exception as trouble:
                    fruitless += 1
                    if type(trouble).__name__ not in _LOST:
                        raise
                    if fruitless == _ATTEMPTS:
                        raise WorkersLost(
                            f"Workers must live long enough to finish a task, but {_ATTEMPTS} times in a row they were "
                            f"lost ({type(trouble).__name__}). Give them more memory, or ask for fewer; the same "
                            "command goes on from what is finished."
                        ) from trouble

    @contextmanager
    def _parallel(self) -> Iterator[Callable[[Iterable[Any]], Iterable[Any]]]:
        import joblib

        with ExitStack() as opened:
            opened.enter_context(warnings.catch_warnings())
            # a worker whose memory has grown ends itself, and another one takes over what it was given
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
            if self.kind == "dask":
                yield self._dask(opened)
                return
            options: dict[str, Any] = {"backend": "loky", "n_jobs": self.workers}
            if self.kind == "ray":
                ray, through_joblib = (import_module(name) for name in ("ray", "ray.util.joblib"))
                ray.init(address=self.address, num_cpus=None if self.address else self.workers)
                opened.callback(ray.shutdown)
                through_joblib.register_ray()
                options = {"backend": "ray", "n_jobs": -1 if self.address else self.workers}

            def parallel(calls: Iterable[Any]) -> Iterable[Any]:
                with joblib.parallel_config(**options):
                    yield from joblib.Parallel(return_as="generator_unordered", batch_size=1)(calls)

            yield parallel

    def _dask(self, opened: ExitStack) -> Callable[[Iterable[Any]], Iterable[Any]]:
        """Dask's own futures: what a dead worker had in hand is given to another one.

        joblib's way to Dask was seen to wait for ever for a call that died with its worker.
        """
        from distributed import Client, LocalCluster, as_completed

        if self.address is not None:
            _require_scheduler(self.address)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a port that is taken is no trouble of the user's
                cluster = self.address or opened.enter_context(
                    LocalCluster(
                        n_workers=self.workers,
                        threads_per_worker=1,
                        processes=True,
                        dashboard_address=None,
                        silence_logs=50,
                    )
                )
                client = opened.enter_context(Client(cluster, set_as_default=False, timeout=_PATIENCE))
        except OSError as trouble:
            if self.address is not None:
                raise _no_scheduler(self.address, trouble) from trouble
            raise WorkersLost(
                f"Workers must start on this machine, but Dask could not start {self.workers} of them "
                f'({type(trouble).__name__}: {trouble}). Ask for fewer, or use backend "processes".'
            ) from trouble

        def parallel(calls: Iterable[Any]) -> Iterable[Any]:
            futures = [client.submit(function, *arguments, pure=False) for function, arguments, _ in calls]
            try:  # only now: an adaptive cluster starts workers for what has been submitted
                client.wait_for_workers(1, timeout=_COMING)
            except TimeoutError as trouble:
                if self.address is None:
                    raise WorkersLost(
                        f"Workers must start on this machine, but none did within {_COMING} seconds. Ask for fewer, or "
                        'use backend "processes"; the same command goes on from what is finished.'
                    ) from trouble
                (self.notice or warnings.warn)(
                    f"The scheduler at {self.address} has no worker yet: waiting for the first one, from the queue of "
                    f"its cluster or from `dask worker {self.address}`."
                )
            for future in as_completed(futures, loop=client.loop):
                yield future.result()
                future.release()

        return parallel


def _require_scheduler(address: str) -> None:
    """Refuse an address where no scheduler answers, without a client: one that was never open cannot be closed."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    from distributed.comm import connect
    from distributed.security import Security

    async def answered() -> None:
        arguments = Security().get_connection_args("client")
        comm = await asyncio.wait_for(connect(address, timeout=_PATIENCE, **arguments), _PATIENCE)
        comm.abort()

    try:
        with ThreadPoolExecutor(1) as beside:  # a notebook has a loop of its own in this thread
            beside.submit(lambda: asyncio.run(answered())).result()
    except (OSError, ValueError, TypeError, OverflowError) as trouble:  # the latter three say that it is no address
        raise _no_scheduler(address, trouble) from trouble


def _no_scheduler(address: str, trouble: Exception) -> ArgumentError:
    return ArgumentError(
        f"Argument `address` must be that of a Dask scheduler, such as 10.0.0.7:8786, but none answers at {address!r} "
        f"({type(trouble).__name__}). Start one with `dask scheduler`, or leave it out for workers on this machine."
    )


# in a worker ----------------------------------------------------------------------------------------------------------

one_at_a_time = threading.Lock()
"""Held while a worker measures: its threads share one decoder."""

_at_work: dict[str, Station] = {}


def _done(errand: Errand, loading: dict[str, Any] | None, copy: np.ndarray | None, task: Task) -> tuple[Task, Finished]:
    """Do one task in a worker, which keeps its decoder and its condition for the next of the same run."""
    with one_at_a_time:
        if errand.key not in _at_work:
            for other in list(_at_work):
                _at_work.pop(other).close()
            decoder = same_decoder(loading, copy, weight_hash=errand.weight_hash, processor=errand.processor)
            _at_work[errand.key] = Station(decoder, errand)
        return replace(task, ids=None, calibration=None), _at_work[errand.key].do(task)


def same_decoder(
    loading: dict[str, Any] | None, copy: np.ndarray | None, *, weight_hash: str, processor: str
) -> Decoder:
    """The decoder of a run, loaded or unpacked in a worker.

    Args:
        loading: What it was loaded with; None for a copy.
        copy: What `copied` made of it.
        weight_hash: Of the decoder that the run was begun with.
        processor: What the last bits depend on beside the versions.

    Raises:
        CheckMissed: It is another one, or this processor would give other bits.
    """
    import cloudpickle

    decoder = load_decoder(**(loading or {}), prove=False) if copy is None else cloudpickle.loads(copy.tobytes())
    require_same(decoder, weight_hash=weight_hash, processor=processor)
    return cast("Decoder", decoder)


def copied(decoder: Decoder) -> np.ndarray | None:
    """A model that came as an object, as bytes in an array: joblib hands an array to each process once."""
    import cloudpickle

    if decoder.loading is not None:
        return None
    return np.frombuffer(cloudpickle.dumps(replace(decoder, tokenizer=None)), dtype=np.uint8)
