"""Client: trains a model of NumPy or PyTorch with the parameter servers of a running job."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import tempfile
import threading
import weakref
from ctypes import byref, c_uint64, c_void_p
from typing import Any, Iterator, Mapping

import numpy as np

from . import _library as c
from ._programs import _event, program
from ._training import toml_of

__all__ = ["Bag", "Batch", "Client"]

_FLOAT, _UINT32, _UINT64 = (np.dtype(kind).str for kind in (np.float32, np.uint32, np.uint64))
_WAIT_MS = 100  # how long a call waits before Python handles signals


class Bag:
    """The keys of a field in a batch, as rows of the variables that have them.

    Attributes:
        offsets: [records + 1]; record i has the keys from offsets[i] to offsets[i + 1].
        rows: [keys of all records]; the row of each key in the values of the variable.
        values: [keys of all records]; 1 unless the data give each key a value.
        keys: [rows]; the unique keys of the batch, as 64-bit numbers.
    """

    def __init__(self, offsets: np.ndarray, rows: np.ndarray, values: np.ndarray, keys: np.ndarray):
        self.offsets, self.rows, self.values, self.keys = offsets, rows, values, keys


class Batch:
    """Records that a client computes. `Client.batches` yields them.

    ``batch["age"]`` is the NumPy array [records] or [records, width] of a field of numbers; targets and weights are
    such fields, too. The arrays cannot be changed, and are valid as long as Python refers to them.

    Attributes:
        records: number of records.
        training: False for records that are only evaluated: push predictions, and no gradients.
        id: (epoch, shard, batch), from 0. A batch that is not acknowledged comes again, possibly to another client.
        where: place of the records, for messages.
    """

    def __init__(self, client: Client, handle: c_void_p):
        self._client, self._handle = client, handle
        self._places: dict[str, tuple[int | None, str, tuple[int, ...]]] = {}  # of the values of variables
        weakref.finalize(self, c.release, "dp_batch_free", handle)
        info = c.BatchInfo(struct_size=ctypes.sizeof(c.BatchInfo))
        c.library().dp_batch_describe(handle, byref(info))
        self.records: int = info.records
        self.training: bool = bool(info.training)
        self.id: tuple[int, int, int] = (info.epoch, info.shard, info.batch)
        self.where: str = info.where.decode(errors="replace")
        self.pushed = False

    def __getitem__(self, field: str) -> np.ndarray:
        index, width = _find(self._client._numbers, field, "field of numbers")
        address = c.library().dp_batch_numbers(self._handle, index)
        return self._array(address, _FLOAT, (self.records,) if width == 1 else (self.records, width))

    def fields(self) -> list[str]:
        """Returns the names of the fields of numbers."""
        return list(self._client._numbers)

    def bag(self, variable: str, field: str | None = None) -> Bag:
        """Returns the keys whose rows the variable has. `field`: needed if the variable has several fields."""
        spec = _find(self._client._variables, variable, "variable")
        if "dim" not in spec:
            raise ValueError(f"variable `{variable}` is dense, so it has no keys")
        fields = self._client._fields_of_table[spec["table"]]
        if field is None and len(fields) > 1:
            raise ValueError(f"variable `{variable}` has several fields: name one of {', '.join(fields)}")
        index = _find(fields, field, f"field of variable `{variable}`") if field else next(iter(fields.values()))
        bag = c.BatchBag(struct_size=ctypes.sizeof(c.BatchBag))
        c.library().dp_batch_keys(self._handle, index, byref(bag))
        one_each = np.arange(self.records + 1, dtype=np.uint32) if not bag.offsets else None
        return Bag(
            self._array(bag.offsets, _UINT32, (self.records + 1,)) if one_each is None else one_each,
            self._array(bag.rows, _UINT32, (bag.count,)),
            self._array(bag.values, _FLOAT, (bag.count,)) if bag.values else np.ones(bag.count, np.float32),
            self._array(bag.keys, _UINT64, (bag.key_count,)),
        )

    def _array(self, address: int | None, kind: str, shape: tuple[int, ...], writable: bool = False) -> np.ndarray:
        """An array over memory of the batch, which it keeps alive."""
        return np.empty(shape, kind) if 0 in shape else np.asarray(_Memory(self, address, kind, shape, writable))


class _Memory:
    """Memory of a batch. NumPy's arrays over it refer to it, and so to the batch."""

    __slots__ = ("batch", "__array_interface__")

    def __init__(self, batch: Batch, address: int, kind: str, shape: tuple[int, ...], writable: bool):
        self.batch = batch
        self.__array_interface__ = {"version": 3, "data": (address, not writable), "typestr": kind, "shape": shape}


class Client:
    """A worker of a running job that computes its own gradients.

    The job declares ``model.variables`` in place of layers (docs/python.md). Downpour reads the records, pulls the
    values of the variables and pushes the gradients, as in any worker: each record counts once, and every process may
    be killed at any time. Use it in a ``with`` statement:

        with dp.Client("tcp://chief:7000", keys="runs/clicks/keys") as ps:
            for batch in ps.batches():
                params = ps.pull(batch)
                ...
                ps.push(batch, grads, predictions=logits)

    Several threads may iterate over `batches`; the job must then have a ``train.in_flight`` of their number or more.

    Args:
        chief: address of the chief, HOST:PORT or an endpoint.
        keys: folder with the keys of the job, or a key file. Needed for tcp unless `insecure`.
        insecure: the job uses no keys (``--insecure``).
        allow_exec: the job may start programs in this process to read data.
        connect_timeout: seconds to wait for the chief.

    Raises:
        DownpourError: the chief does not answer, refuses this client, or has another kind of model.

    Attributes:
        chief: the address, for clients in other processes.
        summary: what ``downpour train --log-format json`` prints at the end, after `Client.local` has ended.
    """

    def __init__(self, chief: str, *, keys: str | os.PathLike | None = None, insecure: bool = False,
                 allow_exec: bool = False, connect_timeout: int = 10):
        self.chief = chief
        self.summary: dict[str, Any] = {}
        self._local: _LocalJob | None = None
        self._changed = threading.Condition()
        self._calls = 0  # of the library, under way
        self._handle: c_void_p | None = None
        handle = c_void_p()
        options = c.ClientOptions(
            struct_size=ctypes.sizeof(c.ClientOptions), chief=chief.encode(),
            keys=os.fsencode(keys) if keys is not None else None, insecure=insecure, allow_exec=allow_exec,
            connect_timeout_s=connect_timeout)
        c.check(c.library().dp_client_open(byref(options), byref(handle)))
        self._handle = handle
        self._release = weakref.finalize(self, c.release, "dp_client_close", handle)
        try:
            self._learn()
        except BaseException:
            self.close()
            raise

    @classmethod
    def local(cls, job: str | os.PathLike, *, ps: int | None = None, fresh: bool = False,
              settings: Mapping[str, Any] | None = None, verbose: bool = False) -> Client:
        """Runs ``downpour train JOB``, which starts the chief and the ps on this machine, and returns a client of it.

        The programs end with the client: when the job has ended, or with a checkpoint if the client is closed before.
        The next call with the same job continues it. A ps that dies is started again.

        Args:
            job: the path of a job file (.toml).
            ps: parameter-server processes; None: those of the job, or 1.
            fresh: removes the run that is in the run folder. Otherwise it is continued.
            settings: keys of the job file and their values. They take precedence.
            verbose: shows what ``downpour train`` shows.
        """
        given = {"cluster.ps": ps} if ps is not None else {}
        flags = [flag for key, value in {**given, **(settings or {})}.items() for flag in ("--set", f"{key}={toml_of(value)}")]
        local = _LocalJob([program("downpour"), "train", os.fspath(job), *flags, "--log-format", "json",
                           *(["--fresh"] if fresh else [])], verbose)
        try:
            address = local.address()
            if address is None:  # there was nothing left to train
                client = cls.__new__(cls)
                client._handle, client.chief = None, ""
                client._changed, client._calls = threading.Condition(), 0
            else:
                client = cls(address["chief"], keys=address["keys"] or None, allow_exec=True)
        except BaseException:
            local.end(finished=False)
            raise
        client._local = local
        client.summary = local.summary
        return client

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self._close(failed=kind is not None)

    def close(self) -> None:
        """Ends the client. Batches that were not pushed go to other workers."""
        self._close(failed=False)

    def _close(self, failed: bool) -> None:
        with self._changed:
            handle, self._handle = self._handle, None
            self._changed.wait_for(lambda: self._calls == 0)
        # After an error, a local job may have no other client: stop it, so that it does not wait for one.
        finished = not failed and (handle is None or bool(c.library().dp_client_finished(handle)))
        if handle is not None:
            self._release()
        local, self._local = self._local, None
        if local is not None:
            local.end(finished)
            self.summary = local.summary

    def batches(self) -> Iterator[Batch]:
        """Yields batches until the job has ended. Each must be pushed before the next one is requested."""
        while (batch := self._next()) is not None:
            yield batch
            if not batch.pushed:
                raise RuntimeError(f"batch {batch.id} was not pushed; call push(batch, grads) for each batch, with {{}} "
                                   "for no gradients, or leave the loop")

    def pull(self, batch: Batch) -> dict[str, np.ndarray]:
        """Returns the values of the variables: for a dense one the array of its shape, otherwise [rows, dim] for the
        unique keys of the batch (`Batch.bag`). You may change these arrays."""
        return {name: batch._array(*self._place(batch, name), writable=True) for name in self._variables}

    def _place(self, batch: Batch, name: str) -> tuple[int | None, str, tuple[int, ...]]:
        """Returns where the values of a variable are: address, type, shape."""
        if name not in batch._places:
            floats, spec = c_uint64(), self._variables[name]
            address = c.library().dp_batch_variable(batch._handle, spec["index"], byref(floats))
            shape = tuple(spec["shape"]) if "shape" in spec else (floats.value // spec["dim"], spec["dim"])
            batch._places[name] = address, _FLOAT, shape
        return batch._places[name]

    def push(self, batch: Batch, grads: Mapping[str, Any] | None = None, *, predictions: Any = None,
             loss: float | None = None) -> None:
        """Hands the gradients of a batch to the ps, which apply the optimizer of the job.

        Args:
            batch: a batch of this client that was not pushed.
            grads: for each variable an array (NumPy, or a PyTorch tensor) of the shape that `pull` returned; a variable
                that is missing, or None, has the gradient 0. With ``train.reduction = "mean"`` it is the gradient of the mean
                loss of the records, otherwise of the sum.
            predictions: [records] or [records, width], or for several outputs a mapping of their names to such arrays:
                logits for logistic and softmax_cross_entropy, otherwise values. The metrics that Downpour shows are
                computed from them; without them training shows none. Evaluations and mode "sync" need them.
            loss: the mean loss of the records, shown in place of the declared loss of the first output.

        Raises:
            ValueError: a gradient has another shape, or is not finite.
        """
        push = c.Push(struct_size=ctypes.sizeof(c.Push), has_loss=loss is not None, loss=0.0 if loss is None else loss)
        held = []  # the memory must exist until the call returns
        if grads is not None and not (not batch.training and not grads):
            push.gradients = self._pointers(self._variables, self._checked(batch, grads), held)
        if predictions is not None:
            push.predictions = self._pointers(self._outputs, self._predictions(batch, predictions), held)
        with _Call(self) as handle:
            c.check(c.library().dp_client_push(handle, batch._handle, byref(push)))
        batch.pushed = True

    def _checked(self, batch: Batch, grads: Mapping[str, Any]) -> dict[str, np.ndarray]:
        arrays = {}
        for name, grad in grads.items():
            _find(self._variables, name, "variable")
            if grad is None:  # as PyTorch has it if the loss does not depend on the variable
                continue
            arrays[name], shape = _floats(grad), self._place(batch, name)[2]
            if arrays[name].shape != shape:
                raise ValueError(f"the gradient of `{name}` has the shape {arrays[name].shape}, but its values have "
                                 f"{shape}")
        return arrays

    def _predictions(self, batch: Batch, predictions: Any) -> dict[str, np.ndarray]:
        if not isinstance(predictions, Mapping):
            if len(self._outputs) > 1:
                raise ValueError(f"the model has several outputs: give a mapping of {', '.join(self._outputs)} to arrays")
            predictions = {next(iter(self._outputs)): predictions}
        arrays = {}
        for name, values in predictions.items():
            width = _find(self._outputs, name, "output")["width"]
            arrays[name] = _floats(values)
            if arrays[name].shape not in {(batch.records, width)} | ({(batch.records,)} if width == 1 else set()):
                raise ValueError(f"the predictions of `{name}` have the shape {arrays[name].shape}, but need "
                                 f"{(batch.records, width)}")
        return arrays

    @staticmethod
    def _pointers(names: Mapping[str, Any], arrays: Mapping[str, np.ndarray], held: list[Any]) -> Any:
        pointers = (c_void_p * len(names))(*(arrays[name].__array_interface__["data"][0] if name in arrays else None for name in names))
        held.append((pointers, arrays))
        return ctypes.cast(pointers, c_void_p)

    def _learn(self) -> None:
        """Waits for the job."""
        text = ctypes.c_char_p()
        while text.value is None:
            with _Call(self) as handle:
                c.check(c.library().dp_client_describe(handle, _WAIT_MS, byref(text)))
                if text.value is None and c.library().dp_client_finished(handle):
                    raise RuntimeError(f"the job at {self.chief} has ended")
        described = json.loads(text.value)
        self._variables = {variable["name"]: {**variable, "index": index} for index, variable
                           in enumerate(described["variables"])}
        self._numbers = {field["field"]: (index, field["width"]) for index, field in enumerate(described["numbers"])}
        self._outputs = {output["name"]: output for output in described["outputs"]}
        self._fields_of_table: dict[int, dict[str, int]] = {}
        for index, key in enumerate(described["keys"]):
            self._fields_of_table.setdefault(key["table"], {})[key["field"]] = index

    def _next(self) -> Batch | None:
        if self._handle is None and self._local is not None:
            return None
        handle = c_void_p()
        while True:
            with _Call(self) as client:
                c.check(c.library().dp_client_next(client, _WAIT_MS, byref(handle)))
                if handle.value is not None:
                    return Batch(self, handle)
                if c.library().dp_client_finished(client):
                    return None


class _Call:
    """Keeps the library's client open during a call."""

    def __init__(self, client: Client):
        self._client = client

    def __enter__(self) -> c_void_p:
        with self._client._changed:
            if self._client._handle is None:
                raise RuntimeError("the client is closed")
            self._client._calls += 1
            return self._client._handle

    def __exit__(self, *_: object) -> None:
        with self._client._changed:
            self._client._calls -= 1
            self._client._changed.notify_all()


class _LocalJob:
    """`downpour train` as a child process, with its events."""

    def __init__(self, command: list[str], verbose: bool):
        self.summary: dict[str, Any] = {}
        self._verbose = verbose
        self._error: dict[str, Any] = {}
        self._address: dict[str, Any] | None = None
        self._refused = False  # it has another kind of model
        self._known = threading.Event()  # the address, or that there is none
        self._out = tempfile.TemporaryFile("w+")
        # Ctrl-C in the terminal must not reach it: the client ends it.
        self._process = subprocess.Popen(command, stdout=self._out, stderr=subprocess.PIPE, text=True,
                                         start_new_session=True)
        weakref.finalize(self, _interrupt, self._process)  # if Python ends without close()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stderr:
            event = _event(line)
            if self._verbose and event.get("event") != "progress":
                print(line, end="", flush=True)
            if event.get("event") == "error":
                self._error = event
            elif line.startswith("error: "):  # of the flags
                self._error = {"what": line.removeprefix("error: ").strip()}
            elif event.get("event") == "start" and not event["clients"]:
                self._error = {"what": "the job has a model of layers, which downpour-worker computes", "where": "model",
                               "hint": "declare model.variables in place of layers or a preset, or use downpour.train"}
                self._refused = True
                self._known.set()
            elif event.get("event") == "clients":
                self._address = event
                self._known.set()
        self._known.set()

    def address(self) -> dict[str, Any] | None:
        """Waits for the address of the chief. None: the job has ended without clients. Raises its error."""
        while not self._known.wait(_WAIT_MS / 1000):
            pass
        if self._refused:
            error = self._error
            self.end(finished=False)
            raise c.DownpourError(78, "", error["what"], error["where"], error["hint"])
        if self._address is None:
            self._wait()
        return self._address

    def end(self, finished: bool) -> None:
        if not finished:
            _interrupt(self._process)
        self._wait(raises=finished)

    def _wait(self, raises: bool = True) -> None:
        code = self._process.wait()
        self._reader.join()
        if self._out.closed:
            return
        with self._out, self._process.stderr:
            self._out.seek(0)
            lines = self._out.read().splitlines()
        if lines:
            self.summary = json.loads(lines[-1])
        if code != 0 and raises:
            raise c.DownpourError(code, *(self._error.get(key, "") for key in ("id", "what", "where", "hint")))


def _interrupt(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)


def _floats(values: Any) -> np.ndarray:
    if hasattr(values, "detach"):  # a tensor of PyTorch
        values = values.detach().cpu().numpy()
    return np.ascontiguousarray(values, dtype=np.float32)


def _find(named: Mapping[str, Any], name: str, kind: str) -> Any:
    if name not in named:
        raise ValueError(f"there is no {kind} `{name}`; there are {', '.join(named) or 'none'}")
    return named[name]
