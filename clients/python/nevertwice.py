"""nevertwice for Python: side effects that happen once, through a local `nevertwice serve`.

    from nevertwice import Nevertwice

    nt = Nevertwice()                       # NEVERTWICE_URL and NEVERTWICE_SERVE_TOKEN

    with nt.once("send_welcome", [user_id]) as attempt:
        if attempt.run:                     # False: it was done before, and its result is here
            attempt.result = send_mail(user_id)

One file, no dependencies, Python 3.9 or later. Copy it, or import it from the npm package (clients/python).

What an exception in the block means: nevertwice does not guess. NotSent, Refused and Rejected say that the effect did not
happen; every other exception, KeyboardInterrupt and a cancelled task included, leaves a doubt, which nobody runs again by
itself. A process that is killed leaves the same doubt as soon as its lease is over. While the service cannot be reached,
nothing is run. docs/python.md has the details.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import email.utils
import functools
import http.client
import inspect
import json
import logging
import os
import random
import re
import socket
import ssl
import threading
import time
import uuid
import warnings
import weakref
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union
from urllib.parse import urlsplit

__all__ = [
    "Nevertwice", "Attempt", "NotSent", "Refused", "Rejected",
    "NevertwiceError", "InvalidInput", "ConfigError", "Unauthorized", "ServiceUnavailable", "LeaseLost", "InFlight",
    "Queued", "Failed", "OutcomeUnknown", "KeyConflict", "ResultUnavailable", "NotRecorded", "Misuse", "ResultNotStored",
]  # fmt: skip

Duration = Union[str, int, float]
"""A duration as the service takes it: text such as "30s", "5m" or "7d", or a number of milliseconds."""
F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_URL = "http://127.0.0.1:7433"
_log = logging.getLogger("nevertwice")
# Where None is a value of its own.
_NOT_GIVEN: Any = object()
# A lease goes on while the host is suspended. On Linux the monotonic clock stands still meanwhile, and this one does not.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


def _now() -> float:
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


# ---- what a function may raise about its own effect ------------------------------------------------------------------


class NotSent(Exception):
    """Nothing was sent, and another try may succeed. `retry_after`: when, as a duration such as "30s"."""

    def __init__(self, *args: Any, retry_after: Optional[Duration] = None) -> None:
        super().__init__(*args)
        self.retry_after = retry_after


class Refused(Exception):
    """The effect did not happen, and trying the same again at once is pointless. A later, corrected call may run it."""


class Rejected(Exception):
    """The effect did not happen and was refused for good: later calls get this failure."""


# ---- what nevertwice raises ------------------------------------------------------------------------------------------


class NevertwiceError(Exception):
    """Every error of nevertwice: a stable `code`, the `key` where one is known, and what the service answered."""

    def __init__(self, code: str, message: str, key: Optional[str] = None, outcome: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.key = key
        self.outcome = outcome


class InvalidInput(NevertwiceError):
    """A key part, an input or an option is not what it may be. Nothing was run."""


class ConfigError(NevertwiceError):
    """The client or the action is set up wrongly. Nothing was run."""


class Unauthorized(NevertwiceError):
    """The service does not know this token, or does not serve this host name. Nothing was run."""


class ServiceUnavailable(NevertwiceError):
    """The service, or the store behind it, does not answer. Nothing was run."""


class LeaseLost(NevertwiceError):
    """The attempt is no longer this client's. Make no further effect for it."""


class InFlight(NevertwiceError):
    """Another attempt is under way."""


class Queued(NevertwiceError):
    """It waits for a worker."""


class Failed(NevertwiceError):
    """It is known not to have happened."""


class OutcomeUnknown(NevertwiceError):
    """It may have happened. It is not run again until somebody resolves it."""


class KeyConflict(NevertwiceError):
    """The same key with another input. Nothing was run."""


class ResultUnavailable(NevertwiceError):
    """It was done, and its result was not kept."""


class NotRecorded(NevertwiceError):
    """The effect happened, and the service could not be told. `result` is what the effect gave, `token` settles it later."""

    def __init__(self, message: str, key: str, token: str, result: Any) -> None:
        super().__init__("NOT_RECORDED", message, key)
        self.token = token
        self.result = result


class Misuse(NevertwiceError):
    """The calling code is wrong in a way that could have an effect twice."""


class ResultNotStored(UserWarning):
    """The effect is recorded as done, but its result cannot be kept: a repeat raises ResultUnavailable, and has None in a `with` block."""


_ERRORS: Dict[str, Type[NevertwiceError]] = {
    "INVALID_KEY": InvalidInput,
    "INVALID_INPUT": InvalidInput,
    "CONFIG": ConfigError,
    "UNAUTHORIZED": Unauthorized,
    "FORBIDDEN": Unauthorized,
    "LEASE_LOST": LeaseLost,
    "IN_FLIGHT": InFlight,
    "STORE_UNAVAILABLE": ServiceUnavailable,
    "KEY_CONFLICT": KeyConflict,
}


# ---- the client ------------------------------------------------------------------------------------------------------


class Nevertwice:
    """A client of one `nevertwice serve`. Threads may share it; a forked child may go on using it."""

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        *,
        token_file: Optional[str] = None,
        agent: Optional[str] = None,
        patience: float = 10.0,
        settle_patience: float = 60.0,
    ) -> None:
        """
        `url`: http://127.0.0.1:7433 or unix:/path; $NEVERTWICE_URL unless given. `token`: $NEVERTWICE_SERVE_TOKEN unless
        given, or the content of `token_file`. `patience`: how many seconds a request is repeated while the service does not answer,
        before ServiceUnavailable is raised and nothing is run. `settle_patience`: the same for reporting what happened.
        """
        self._transport = _Transport(_url_of(url), _token_of(token, token_file))
        self._agent = agent
        self._patience = patience
        self._settle_patience = settle_patience
        self._heart = _Heart(self)

    def once(
        self,
        action: str,
        parts: Sequence[Any],
        *,
        input: Any = None,
        free: Optional[Sequence[str]] = None,
        scope: Optional[str] = None,
        version: Optional[int] = None,
        lease: Optional[Duration] = None,
        timeout: Optional[float] = 3600.0,
        keep: Optional[Duration] = None,
        doubt: Union[str, Mapping[str, Any], None] = None,
        retry: Optional[Mapping[str, Any]] = None,
        wait: Optional[Duration] = None,
        mark: Optional[str] = None,
        classify: Optional[Callable[[BaseException], Optional[str]]] = None,
        raises: bool = True,
    ) -> "Attempt":
        """
        For `with` and `async with`: claims the intent when the block begins, and settles it when the block ends.

        `parts` name the intent, as in `nt.once(action, parts)` of the TypeScript library: the same key, the same record. An outcome
        that is neither "run it" nor "done" is raised; with `raises=False` the block runs with `attempt.run` False, and
        `attempt.outcome` says why. `timeout`: after so many seconds the lease is no longer kept, and the attempt becomes
        a doubt. `mark="manual"`: call `attempt.sent()` right before the effect; what is raised before was not sent.
        """
        _check_timeout(timeout)
        body = _without_none(
            action=action,
            parts=_parts(parts),
            input=_plain(input, "input"),
            free=list(free) if free is not None else None,
            scope=scope,
            version=version,
            lease=lease,
            keep=keep,
            doubt=doubt,
            retry=retry,
            wait=wait,
            mark=mark,
            agent=self._agent,
        )
        return Attempt(self, body, timeout=timeout, classify=classify, raises=raises)

    def call(self, action: str, parts: Sequence[Any], effect: Callable[["Attempt"], Any], *, wait: Duration = "10s", **options: Any) -> Any:
        """
        Runs `effect(attempt)` once and returns its result; a repeat returns the first result. Raises for every other outcome.
        What raises NotSent is tried again within `wait`, after the pause that the service names.
        """
        _check_runs_now(effect, f"nt.call({action!r})", "nt.acall")
        _check_arguments(effect, f"nt.call({action!r})", "effect(attempt)", None)
        ends = _now() + _seconds(wait)
        while True:
            attempt = self.once(action, parts, wait=_left_ms(ends), **options)
            try:
                with attempt:
                    if attempt.run:
                        attempt.result = effect(attempt)
                return attempt._value()
            except NotSent:
                pause = attempt._pause(ends)
                if pause is None:
                    raise
            time.sleep(pause)

    async def acall(self, action: str, parts: Sequence[Any], effect: Callable[["Attempt"], Any], *, wait: Duration = "10s", **options: Any) -> Any:
        """The same for asyncio; `effect` may be a coroutine function."""
        _check_no_generator(effect, f"nt.acall({action!r})")
        _check_arguments(effect, f"nt.acall({action!r})", "effect(attempt)", None)
        ends = _now() + _seconds(wait)
        while True:
            attempt = self.once(action, parts, wait=_left_ms(ends), **options)
            try:
                async with attempt:
                    if attempt.run:
                        given = effect(attempt)
                        attempt.result = await given if inspect.isawaitable(given) else given
                return attempt._value()
            except NotSent:
                pause = attempt._pause(ends)
                if pause is None:
                    raise
            await asyncio.sleep(pause)

    def action(
        self,
        name: Optional[str] = None,
        *,
        key: Union[Sequence[str], Callable[..., Sequence[Any]]],
        free: Sequence[str] = (),
        compare: bool = True,
        **options: Any,
    ) -> Callable[[F], F]:
        """
        A decorator, for `def` and `async def`. `key`: the names of the arguments that make two calls the same intent, or a
        function of all arguments that returns the parts. The other arguments have to be the same in a repeat, or the call is a
        KeyConflict; `free` names those that may differ, and `compare=False` compares none. A parameter called `attempt` gets the attempt.
        """

        def decorate(function: F) -> F:
            called_so = name or getattr(function, "__name__", None)
            if called_so is None:
                raise ConfigError("CONFIG", f"{function!r} has no name: give one, as in @nt.action(\"send_welcome\", key=[…]).")
            _check_no_generator(function, f"@nt.action({called_so!r})")
            intent = _Intent(called_so, function, key, free, compare)

            if _is_coroutine_function(function):

                @functools.wraps(function)
                async def acalled(*args: Any, **kwargs: Any) -> Any:
                    parts, given = intent.of(args, kwargs)
                    return await self.acall(
                        intent.name, parts, lambda attempt: intent.run(attempt, args, kwargs), **given, **options
                    )

                return acalled  # type: ignore[return-value]

            @functools.wraps(function)
            def called(*args: Any, **kwargs: Any) -> Any:
                parts, given = intent.of(args, kwargs)
                return self.call(
                    intent.name, parts, lambda attempt: intent.run(attempt, args, kwargs), **given, **options
                )

            return called  # type: ignore[return-value]

        return decorate

    # -- queued work

    def enqueue(self, action: str, parts: Sequence[Any], input: Any = None, **options: Any) -> Dict[str, Any]:
        """Records the intent for a worker. Options: version, scope, runAt or delay, expires, priority, order, keep, retry."""
        body = dict(options, action=action, parts=_parts(parts), input=_plain(input, "input"))
        return self._ask("enqueue", _without_none(agent=self._agent, **body))

    async def aenqueue(self, action: str, parts: Sequence[Any], input: Any = None, **options: Any) -> Dict[str, Any]:
        return await _in_thread(lambda: self.enqueue(action, parts, input, **options))

    def take(
        self,
        actions: Sequence[str],
        *,
        limit: int = 1,
        wait: Duration = "20s",
        lease: Optional[Duration] = None,
        timeout: Optional[float] = 3600.0,
        classify: Optional[Callable[[BaseException], Optional[str]]] = None,
        **options: Any,
    ) -> List["Attempt"]:
        """Queued work that is due, as attempts to be entered with `with`; their `input` is what was enqueued. Waits up to `wait`."""
        _check_timeout(timeout)
        body = _without_none(
            actions=list(actions), limit=limit, wait=wait, lease=lease, agent=self._agent, request=_request_id(), **options
        )
        began = _now()
        answer = self._ask("take", body, longer=_seconds(wait))
        taken = []
        for work in answer["work"]:
            attempt = Attempt(self, {}, timeout=timeout, classify=classify, raises=True)
            attempt._begin(work, began)
            taken.append(attempt)
        return taken

    async def atake(self, actions: Sequence[str], **options: Any) -> List["Attempt"]:
        return await _in_thread(lambda: self.take(actions, **options), abandoned=_give_back)

    def work(
        self,
        handlers: Mapping[str, Callable[..., Any]],
        *,
        stop: Optional[threading.Event] = None,
        wait: Duration = "20s",
        once: bool = False,
        on_error: Optional[Callable[["Attempt", BaseException], None]] = None,
        **options: Any,
    ) -> int:
        """
        Takes queued work and runs `handlers[action](input)`, or `(input, attempt)` where the handler has a parameter `attempt`, until
        `stop` is set. What a handler raises settles its attempt, is reported, and does not end the loop. `once`: until nothing is due.
        Returns how many were begun. While the service does not answer, the loop waits for it.
        """
        for action, handler in handlers.items():
            _check_runs_now(handler, f"nt.work: the handler of {action!r}", "nt.awork")
            _check_handler(action, handler)
        begun = 0
        wait = _waiting(wait, once, stop)
        while stop is None or not stop.is_set():
            taken = self._taken(handlers, wait, options, stop)
            if not taken and once:
                break
            for at, attempt in enumerate(taken):
                if stop is not None and stop.is_set():
                    _give_back(taken[at:])
                    return begun
                begun += 1
                try:
                    with attempt:
                        attempt.result = _handled(handlers[attempt.action], attempt)
                except Exception as error:
                    _report(on_error, attempt, error)
                except BaseException:
                    _give_back(taken[at + 1 :])
                    raise
        return begun

    def _taken(self, handlers: Mapping[str, Any], wait: Duration, options: Dict[str, Any], stop: Optional[threading.Event]) -> List["Attempt"]:
        try:
            return self.take(list(handlers), wait=wait, **options)
        except ServiceUnavailable as error:
            _log.warning("no work can be taken: %s", error)
            pause = random.uniform(0.5, 1.5)
            time.sleep(pause) if stop is None else stop.wait(pause)
            return []

    async def awork(
        self,
        handlers: Mapping[str, Callable[..., Any]],
        *,
        stop: Optional[asyncio.Event] = None,
        concurrency: int = 10,
        wait: Duration = "20s",
        once: bool = False,
        on_error: Optional[Callable[["Attempt", BaseException], None]] = None,
        **options: Any,
    ) -> int:
        """The same for asyncio: up to `concurrency` at once, with handlers that are coroutine functions."""
        for action, handler in handlers.items():
            _check_no_generator(handler, f"nt.awork: the handler of {action!r}")
            _check_handler(action, handler)
        begun = 0
        wait = _waiting(wait, once, stop)
        running: "set[asyncio.Future[None]]" = set()
        try:
            while stop is None or not stop.is_set():
                while len(running) >= concurrency:
                    _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                taken = await self._ataken(handlers, concurrency - len(running), wait, options)
                if not taken and once and not running:
                    break
                if not taken and once:
                    _, running = await asyncio.wait(running)
                if stop is not None and stop.is_set():
                    await _in_thread(lambda: _give_back(taken))
                    break
                for attempt in taken:
                    begun += 1
                    running.add(asyncio.ensure_future(_arun(handlers[attempt.action], attempt, on_error)))
            return begun
        finally:
            if running:
                await asyncio.wait(running)

    async def _ataken(self, handlers: Mapping[str, Any], limit: int, wait: Duration, options: Dict[str, Any]) -> List["Attempt"]:
        try:
            return await self.atake(list(handlers), limit=limit, wait=wait, **options)
        except ServiceUnavailable as error:
            _log.warning("no work can be taken: %s", error)
            await asyncio.sleep(random.uniform(0.5, 1.5))
            return []

    # -- looking and settling

    def status(
        self,
        action: Optional[str] = None,
        parts: Optional[Sequence[Any]] = None,
        *,
        key: Optional[str] = None,
        scope: Optional[str] = None,
        version: Optional[int] = None,
    ) -> Dict[str, Any]:
        """What is true of an intent, by action and parts or by key. Runs nothing."""
        plain = None if parts is None else _parts(parts)
        return self._ask("status", _without_none(action=action, parts=plain, key=key, scope=scope, version=version))

    async def astatus(self, *args: Any, **options: Any) -> Dict[str, Any]:
        return await _in_thread(lambda: self.status(*args, **options))

    def resolve(self, key: str, *, as_: str, by: str, reason: str, result: Any = _NOT_GIVEN) -> Dict[str, Any]:
        """
        Settles a doubt, by a named person or program. `as_`: "done", "not-done" or "failed". `result`: with "done", what a repeat gets;
        None where it returns nothing. Left out, it is not kept: a repeat runs nothing, and raises ResultUnavailable for its value.
        """
        body = _without_none(key=key, by=by, reason=reason)
        if result is not _NOT_GIVEN:
            body["result"] = _plain(result, "result")
        return self._ask("resolve", dict(body, **{"as": as_}))

    async def aresolve(self, key: str, **options: Any) -> Dict[str, Any]:
        return await _in_thread(lambda: self.resolve(key, **options))

    def health(self) -> Dict[str, Any]:
        """Whether the service runs."""
        return self._transport.get("/v1/health")

    def _ask(self, operation: str, body: Mapping[str, Any], *, longer: float = 0.0, patience: Optional[float] = None) -> Dict[str, Any]:
        return self._transport.ask(operation, body, longer, self._patience if patience is None else patience)


# ---- one attempt -----------------------------------------------------------------------------------------------------


class Attempt:
    """
    One intent inside its `with` block. `run`: whether to have the effect now. `result`: set it to what a repeat should get; after
    a repeat it is what the first attempt gave. `provider_key`: for the provider's idempotency key, the same in every attempt.
    """

    result: Any

    def __init__(
        self,
        client: Nevertwice,
        body: Dict[str, Any],
        *,
        timeout: Optional[float],
        classify: Optional[Callable[[BaseException], Optional[str]]],
        raises: bool,
    ) -> None:
        self._client = client
        self._body = body
        self._timeout = timeout
        self._classify = classify
        self._raises = raises
        self._token: Optional[str] = None
        self._manual = body.get("mark") == "manual"
        self._marked = False
        self._run = False
        self._looked = False
        self._settled = False
        self._entered = False
        self._pid = 0
        self._lost: Optional[LeaseLost] = None
        self._lease = 0.0
        self._alive_until = 0.0
        self._stops_at: Optional[float] = None
        #: What the service answered, as in the TypeScript library: {"status": "done", "result": …} and so on.
        self.outcome: Dict[str, Any] = {}
        self.action: str = body.get("action", "")
        self.key: str = ""
        self.number = 0
        self.fence = 0
        self.provider_key: str = ""
        #: True: an earlier attempt may have happened. Send `input` again, with `provider_key`.
        self.resend = False
        self.input: Any = body.get("input")
        self.result = None

    @property
    def run(self) -> bool:
        """
        True: have the effect now, and set `result`. False: it was done before, and `result` is what it gave. Raises LeaseLost where
        the process stood still past its lease: then nothing may be sent.
        """
        self._looked = True
        if self._run and not self._settled and self.lost:
            self.ensure()
        return self._run

    @property
    def status(self) -> str:
        return str(self.outcome.get("status", ""))

    @property
    def token(self) -> Optional[str]:
        """Names the attempt for `nevertwice settle`."""
        return self._token

    @property
    def lost(self) -> bool:
        """The lease is over or was taken away: the attempt is a doubt, and no further effect may be had for it."""
        return self._lost is not None or _now() >= self._alive_until

    def ensure(self) -> None:
        """Raises LeaseLost where the attempt is no longer held. For long work, right before the effect."""
        if self._lost is not None:
            raise self._lost
        if self.lost:
            self._beat()
            if self.lost:
                raise self._lost or LeaseLost("LEASE_LOST", f"{self.action}: the lease of {self.key} is over, and the service does not answer.", self.key)

    def sent(self) -> None:
        """With `mark="manual"`: call it right before the effect. Raises LeaseLost where nothing may be sent any more."""
        self._require_held("sent()")
        began = _now()
        try:
            self._client._ask("sent", {"token": self._token})
        except ServiceUnavailable:
            # The mark may have been written. Nothing was sent, and the end of the block says so.
            raise
        self._alive_until = began + self._lease
        self._marked = True

    async def asent(self) -> None:
        await _in_thread(self.sent)

    # -- the block

    def __enter__(self) -> "Attempt":
        self._enter()
        if self._token is not None:
            return self
        request = _request_id()
        try:
            self._claim(request)
        except NevertwiceError:
            raise
        except BaseException:
            self._interrupted(request)
            raise
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> bool:
        self._leave(error)
        return False

    async def __aenter__(self) -> "Attempt":
        self._enter()
        if self._token is None:
            await _in_thread(lambda: self._claim(_request_id()), abandoned=lambda _: self._abandon())
        return self

    async def __aexit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> bool:
        # A task that is cancelled now must not leave the settlement half done: it goes on in its thread.
        await _in_thread(lambda: self._leave(error))
        return False

    def _enter(self) -> None:
        if self._entered:
            raise Misuse("MISUSE", "an attempt is entered once. Call nt.once(…) again for the next one.", self.key or None)
        self._entered = True

    def _claim(self, request: str) -> None:
        # The same id in every repeat of this request: a claim whose reply was lost is answered with the same attempt.
        body = dict(self._body, request=request)
        began = _now()
        answer = self._client._ask("claim", body, longer=_seconds(body.get("wait", 0)))
        if answer.get("status") == "claimed":
            self._begin(answer, began)
            # Part of the lease passed while the reply was on its way: whether it is still ours is asked before the effect.
            if _now() - began > self._lease / 3:
                self._still_held()
            return
        self.outcome = answer
        self.key = answer.get("key", "")
        self.result = answer.get("result")
        if self._raises and answer.get("status") != "done":
            raise _error_for(self.action, answer)

    def _still_held(self) -> None:
        self._beat()
        try:
            self.ensure()
        except LeaseLost:
            self._settled = True
            self._client._heart.forget(self)
            raise

    def _interrupted(self, request: str) -> None:
        """Ctrl-C while the claim was on its way: whether it was granted is asked once, and nothing was begun under it."""
        try:
            if self._token is None:
                body = dict(self._body, request=request, wait=0)
                answer = self._client._ask("claim", body, patience=0.0)
                if answer.get("status") == "claimed":
                    self._begin(answer, _now())
            self._abandon()
        except NevertwiceError:
            pass

    def _begin(self, claimed: Mapping[str, Any], began: float) -> None:
        self._pid = os.getpid()
        self._run = True
        self._token = claimed["token"]
        self.outcome = dict(claimed)
        self.action = claimed["action"]
        self.key = claimed["key"]
        self.number = claimed["attempt"]
        self.fence = claimed["fence"]
        self.provider_key = claimed["providerKey"]
        self.resend = claimed.get("resend", False)
        self._manual = claimed["state"] == "claimed"
        if "input" in claimed:
            self.input = claimed["input"]
        self._lease = claimed["leaseMs"] / 1000
        # Counted from before the request: the service may have granted it at any moment since.
        self._alive_until = began + self._lease
        self._stops_at = None if self._timeout is None else began + self._timeout
        self._client._heart.watch(self)

    def _leave(self, error: Optional[BaseException]) -> None:
        if self._token is None and error is None and not self._looked:
            raise Misuse(
                "MISUSE",
                f"{self.action} ({self.key}): the block did not look at attempt.run, which is False: it was not to run now. What the block does was "
                "done again. Write: if attempt.run: attempt.result = …",
                self.key or None,
            )
        if self._token is None or self._settled:
            return
        # A forked child has a copy of the block. The attempt is its parent's, which is still at work.
        if os.getpid() != self._pid:
            return
        self._client._heart.forget(self)
        self._settled = True
        if error is None:
            self._finish()
        else:
            self._fail(error)

    def _finish(self) -> None:
        if self._manual and not self._marked:
            self._tell("unknown", error=_error_json("Misuse", "the block ended without attempt.sent()"))
            raise Misuse(
                "MISUSE",
                f'{self.action}: mark is "manual", and the block ended without attempt.sent(). Call it right before the effect; '
                f"this attempt ({self.key}) is held as unknown until somebody resolves it.",
                self.key,
            )
        lazy = _lazy(self.result)
        if lazy is not None:
            self._never_ran(lazy)
        self.outcome = self._tell_done()
        if not self._looked and self._body:
            raise Misuse(
                "MISUSE",
                f"{self.action}: the block did not look at attempt.run. It ran now, and is recorded; but a repeat would run it again. "
                "Write: if attempt.run: attempt.result = …",
                self.key,
            )

    def _never_ran(self, lazy: str) -> None:
        """The result is work that has not been done yet: whether the effect happened is not known."""
        close = getattr(self.result, "close", None)
        with contextlib.suppress(Exception):
            if close is not None and not inspect.isasyncgen(self.result):
                close()
        why = f"its result is {lazy}, which has not run to its end"
        try:
            self.outcome = self._tell("unknown", error=_error_json("Misuse", why))
        except NevertwiceError as problem:
            _log.warning("%s: %s could not be settled as unknown: %s", self.action, self.key, problem)
        raise Misuse(
            "MISUSE",
            f"{self.action}: {why}. It is not recorded as done; this attempt ({self.key}) is held as unknown until somebody resolves it. "
            "For a coroutine: `async with`, nt.acall or nt.awork, and await it. For a generator: run it to its end in the block, and set attempt.result to a value.",
            self.key,
        )

    def _tell_done(self) -> Dict[str, Any]:
        body: Dict[str, Any] = {"token": self._token, "as": "done"}
        not_kept: Optional[str] = None
        try:
            body["result"] = _plain(self.result, "result")
            json.dumps(body, allow_nan=False)
        except InvalidInput as wrong:
            not_kept = str(wrong)
        except RecursionError:
            not_kept = "result contains itself, or is nested too deeply."
        except Exception as wrong:
            not_kept = f"result cannot be written as JSON: {_text_of(wrong)}"
        if not_kept is not None:
            self._omit_result(body, not_kept)
        try:
            outcome = self._settle(body)
        except (InvalidInput, ConfigError) as wrong:
            if "result" in body:
                not_kept = str(wrong)
                self._omit_result(body, not_kept)
            elif body.pop("resultOmitted", None) is None:
                raise
            outcome = self._settle_without_result(body)
        if not_kept is None and not outcome.get("replayed") and "resultOmitted" in outcome:
            not_kept = f"{outcome['resultOmitted']}."
        if "warning" in outcome:
            _log.warning("%s: %s: %s", self.action, self.key, outcome["warning"])
        # After it was recorded: a program may turn warnings into errors.
        if not_kept is not None:
            self._warn_of_result(not_kept)
        return outcome

    def _omit_result(self, body: Dict[str, Any], why: str) -> None:
        body.pop("result", None)
        body["resultOmitted"] = _storable(why)[:_LONGEST_MESSAGE]

    def _settle_without_result(self, body: Dict[str, Any]) -> Dict[str, Any]:
        """A service of an earlier release does not know resultOmitted: what happened is worth more than why there is no result."""
        try:
            return self._settle(body)
        except (InvalidInput, ConfigError):
            if body.pop("resultOmitted", None) is None:
                raise
            return self._settle(body)

    def _warn_of_result(self, why: str) -> None:
        for end in (" Nothing was run.", " Nothing was changed."):
            why = why.replace(end, "")
        warnings.warn(
            f"{self.action}: it is recorded as done, but its result is not kept, and a repeat has none to return (ResultUnavailable): {why}",
            ResultNotStored,
            stacklevel=5,
        )

    def _settle(self, body: Dict[str, Any]) -> Dict[str, Any]:
        try:
            return self._client._ask("settle", body, patience=self._client._settle_patience)
        except ServiceUnavailable as error:
            raise NotRecorded(
                f"{self.action}: the effect happened, and could not be recorded: {error} The record becomes unknown, and nothing runs it "
                f"again by itself. When the service is back: nevertwice settle <token> --as done (the token is on this error), or resolve {self.key}.",
                self.key,
                str(self._token),
                self.result,
            ) from error

    def _fail(self, error: BaseException) -> None:
        settlement, retry_after = self._verdict(error)
        more: Dict[str, Any] = {"error": _error_json(type(error).__name__, _text_of(error))}
        pause = None if retry_after is None or settlement != "not-sent" else _retry_after(retry_after)
        if pause is not None:
            more["retryAfter"] = pause
        try:
            try:
                self.outcome = self._tell(settlement, **more)
            except (InvalidInput, ConfigError):
                # What happened is worth more than its description.
                self.outcome = self._tell(settlement)
        except NevertwiceError as problem:
            # What the block raised matters more. The lease ends, and the doubt is visible.
            _note(error, f"nevertwice: {self.key} could not be settled as {settlement}: {problem}")

    def _verdict(self, error: BaseException) -> Tuple[str, Optional[Duration]]:
        if isinstance(error, NotSent):
            return "not-sent", getattr(error, "retry_after", None)
        if isinstance(error, Refused):
            return "refused", None
        if isinstance(error, Rejected):
            return "rejected", None
        if self._classify is not None:
            try:
                said = self._classify(error)
            except Exception:
                said = "unknown"
            if said is not None:
                # A word that it may not say is taken for none.
                return (said if said in ("not-sent", "refused", "rejected") else "unknown"), None
        return ("not-sent" if self._manual and not self._marked else "unknown"), None

    def _tell(self, settlement: str, **more: Any) -> Dict[str, Any]:
        patience = min(self._client._settle_patience, 10.0)
        return self._client._ask("settle", dict(more, token=self._token, **{"as": settlement}), patience=patience)

    def _abandon(self) -> None:
        """Claimed for a task that was cancelled meanwhile: nothing was begun."""
        if self._token is None or self._settled or self._pid != os.getpid():
            return
        self._settled = True
        self._client._heart.forget(self)
        try:
            self._tell("not-begun")
        except NevertwiceError as problem:
            _log.warning("%s: %s could not be given back: %s", self.action, self.key, problem)

    # -- the lease

    def _beat(self) -> float:
        """In how many seconds to do it again."""
        again = self._lease / 3
        if self._settled or self._token is None:
            return again
        began = _now()
        if self._stops_at is not None and began >= self._stops_at:
            self._lost = LeaseLost("LEASE_LOST", f"{self.action}: it took longer than its timeout of {self._timeout} s.", self.key)
            return again
        try:
            self._client._transport.ask("heartbeat", {"token": self._token}, 0.0, 0.0, within=max(1.0, again))
            self._alive_until = began + self._lease
        except LeaseLost as lost:
            self._lost = lost
        except NevertwiceError as problem:
            # Asked again in a moment; if the service stays away, the lease ends by the clock.
            _log.warning("%s: the lease of %s could not be renewed: %s", self.action, self.key, problem)
            return min(1.0, again / 3)
        return again

    def _require_held(self, what: str) -> None:
        if self._token is None or not self._entered or self._settled or self._pid != os.getpid():
            raise Misuse("MISUSE", f"attempt.{what} belongs inside the `with` block of an attempt that runs, in the process that claimed it.", self.key or None)

    def _value(self) -> Any:
        if self._token is not None and not self.outcome.get("replayed"):
            return self.result
        if "resultOmitted" in self.outcome:
            raise ResultUnavailable(
                "RESULT_UNAVAILABLE", f"{self.action} was done, but its result was not kept: {self.outcome['resultOmitted']}.", self.key, self.outcome
            )
        return self.outcome.get("result")

    def _pause(self, ends: float) -> Optional[float]:
        """How long to wait before the next try; None: the time is up, or there is none."""
        retry_at = self.outcome.get("retryAt")
        if retry_at is None:
            return None
        pause = max(0.0, retry_at / 1000 - time.time())
        return pause if _now() + pause < ends else None

    def __del__(self) -> None:
        # Taken and never entered: nothing keeps its lease any more, and it becomes a doubt when that is over.
        if getattr(self, "_token", None) is None or self._settled or self._entered or self._pid != os.getpid():
            return
        with contextlib.suppress(Exception):  # The interpreter may be ending.
            _log.warning("%s: %s was taken and never begun. Enter it with `with`, or it is held as unknown.", self.action, self.key)


# ---- heartbeats ------------------------------------------------------------------------------------------------------


class _Heart:
    """
    Keeps the leases of all attempts of one client, in one daemon thread. It holds them weakly: an attempt that the program has
    dropped is not kept alive. A thread does not survive fork(), and the child's copy has no attempts to keep.
    """

    def __init__(self, client: Nevertwice) -> None:
        self._reset()
        mine = weakref.ref(self)
        # By weak reference: what is registered for forks is kept for as long as the process lives.
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: _reset_heart(mine))

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._attempts: "weakref.WeakKeyDictionary[Attempt, float]" = weakref.WeakKeyDictionary()
        self._thread: Optional[threading.Thread] = None

    def watch(self, attempt: Attempt) -> None:
        with self._changed:
            self._attempts[attempt] = _now() + attempt._lease / 3
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=_beats, args=(weakref.ref(self),), name="nevertwice-heartbeats", daemon=True)
                self._thread.start()
            self._changed.notify()

    def forget(self, attempt: Attempt) -> None:
        with self._changed:
            self._attempts.pop(attempt, None)

    def turn(self) -> None:
        """Renews what is due, and waits for the next."""
        with self._changed:
            now = _now()
            due = [attempt for attempt, at in self._attempts.items() if at <= now]
            for attempt in due:
                self._attempts[attempt] = now + attempt._lease / 3
            if not due:
                soonest = min(self._attempts.values(), default=now + 1.0)
                self._changed.wait(min(1.0, max(0.01, soonest - now)))
        for attempt in due:
            at = attempt._beat() + _now()
            with self._changed:
                if attempt._lost is not None:
                    self._attempts.pop(attempt, None)
                elif attempt in self._attempts:
                    self._attempts[attempt] = at


def _beats(heart: "weakref.ref[_Heart]") -> None:
    while True:
        mine = heart()
        if mine is None:
            return
        try:
            mine.turn()
        except Exception:  # One attempt must not end the heartbeats of the others.
            _log.exception("heartbeats")
            time.sleep(0.1)
        del mine


def _reset_heart(heart: "weakref.ref[_Heart]") -> None:
    mine = heart()
    if mine is not None:
        mine._reset()


# ---- HTTP ------------------------------------------------------------------------------------------------------------


# The field that every answer to the operation has; "status" for the others.
_ANSWERS = {"take": "work", "heartbeat": "leaseMs", "sent": "leaseMs"}


class _Transport:
    """One connection for each request: nothing is shared between threads, or with a forked child."""

    REPEATABLE = frozenset(["claim", "heartbeat", "sent", "settle", "enqueue", "take", "status"])
    ANSWER_SECONDS = 15.0

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}

    def ask(self, operation: str, body: Mapping[str, Any], longer: float, patience: float, *, within: float = ANSWER_SECONDS) -> Dict[str, Any]:
        """`longer`: how long the service may wait before it answers. `patience`: how long the request is repeated."""
        data = json.dumps(body, allow_nan=False).encode()
        ends = _now() + patience
        pause = 0.05
        while True:
            try:
                answer = self._answer("POST", f"/v1/{operation}", data, within + longer)
                if _ANSWERS.get(operation, "status") not in answer:
                    raise self._stranger(200)
                return answer
            except ServiceUnavailable as error:
                again = operation in self.REPEATABLE or getattr(error, "unsent", False)
                if not again or _now() + pause >= ends:
                    raise
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, 2.0)

    def get(self, path: str) -> Dict[str, Any]:
        return self._answer("GET", path, None, self.ANSWER_SECONDS)

    def _answer(self, method: str, path: str, data: Optional[bytes], seconds: float) -> Dict[str, Any]:
        connection = self._connection(seconds)
        connected = False
        try:
            connection.connect()
            connected = True
            connection.request(method, path, data, self._headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as problem:
            said = str(problem) or type(problem).__name__
            error = ServiceUnavailable(
                "SERVICE_UNAVAILABLE", f"nevertwice serve does not answer at {self._url}: {said}. Start it, or correct NEVERTWICE_URL."
            )
            error.unsent = not connected  # type: ignore[attr-defined]
            raise error from problem
        finally:
            connection.close()
        return self._read(response.status, text)

    def _read(self, status: int, text: bytes) -> Dict[str, Any]:
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if status == 200 and isinstance(answer, dict):
            return answer
        error = answer.get("error") if isinstance(answer, dict) else None
        if not isinstance(error, dict) or "code" not in error:
            raise self._stranger(status)
        code, message, key = str(error["code"]), str(error.get("message", "")), error.get("key")
        if status >= 500:
            raise ServiceUnavailable(code, message, key)
        kind = _ERRORS.get(code) or (InvalidInput if status in (400, 413, 415) else NevertwiceError)
        raise kind(code, message, key)

    def _stranger(self, status: int) -> ServiceUnavailable:
        return ServiceUnavailable(
            "SERVICE_UNAVAILABLE", f"what answers at {self._url} is not nevertwice serve (HTTP {status}). Correct NEVERTWICE_URL."
        )

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        if self._url.startswith("unix:"):
            return _UnixConnection(self._url[len("unix:") :], seconds)
        parts = urlsplit(self._url)
        if parts.scheme == "https":
            return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=seconds, context=ssl.create_default_context())
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=seconds)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _url_of(url: Optional[str]) -> str:
    found = url or os.environ.get("NEVERTWICE_URL") or DEFAULT_URL
    parts = urlsplit(found)
    plain = parts.path in ("", "/") and not parts.query and not parts.username
    if found.startswith("unix:/") or (parts.scheme in ("http", "https") and parts.hostname and plain):
        return found.rstrip("/")
    raise ConfigError("CONFIG", f"{found!r} is no address of nevertwice serve: give http://127.0.0.1:7433 or unix:/path/to/socket, as it printed.")


def _token_of(token: Optional[str], token_file: Optional[str]) -> str:
    if token is None and token_file is not None:
        with open(token_file, encoding="ascii") as file:
            token = file.read().strip()
    found = token or os.environ.get("NEVERTWICE_SERVE_TOKEN")
    if found:
        return found
    raise ConfigError("CONFIG", "the token of nevertwice serve is missing: set NEVERTWICE_SERVE_TOKEN, or pass token or token_file.")


# ---- asyncio ---------------------------------------------------------------------------------------------------------

T = TypeVar("T")


async def _in_thread(work: Callable[[], T], abandoned: Optional[Callable[[T], Any]] = None) -> T:
    """
    A daemon thread for each wait, so that no pool of a size of its own delays a settlement and none holds up the exit. Work that has
    begun is always finished: a cancelled caller leaves its value to `abandoned`.
    """
    loop = asyncio.get_running_loop()
    done: "asyncio.Future[None]" = loop.create_future()
    lock = threading.Lock()
    values: List[T] = []
    errors: List[BaseException] = []
    left = over = False

    def run() -> None:
        nonlocal over
        try:
            values.append(work())
        except BaseException as caught:
            errors.append(caught)
        with lock:
            over = True
            leave_behind = left
        try:
            loop.call_soon_threadsafe(lambda: done.done() or done.set_result(None))
        except RuntimeError:  # The loop was closed meanwhile.
            leave_behind = True
        if leave_behind:
            forsake()

    def forsake() -> None:
        if abandoned is not None and values:
            abandoned(values.pop())

    threading.Thread(target=run, name="nevertwice", daemon=True).start()
    try:
        await done
    except asyncio.CancelledError:
        with lock:
            left = True
            late = over
        if abandoned is None:
            # A settlement: it is waited for, so that the loop does not end before the service knows.
            await _until(lambda: over)
        elif late:
            threading.Thread(target=forsake, name="nevertwice", daemon=True).start()
        raise
    if errors:
        raise errors[0]
    return values[0]


async def _until(is_over: Callable[[], bool]) -> None:
    while not is_over():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            continue


async def _arun(handler: Callable[..., Any], attempt: Attempt, on_error: Optional[Callable[[Attempt, BaseException], None]]) -> None:
    try:
        async with attempt:
            given = _handled(handler, attempt)
            attempt.result = await given if inspect.isawaitable(given) else given
    except Exception as error:
        _report(on_error, attempt, error)


# ---- the decorator's view of a function ------------------------------------------------------------------------------


class _Intent:
    def __init__(self, name: str, function: Callable[..., Any], key: Any, free: Sequence[str], compare: bool) -> None:
        self.name = name
        self._function = function
        self._signature = inspect.signature(function)
        self._key = key
        self._free = list(free)
        self._compare = compare
        self._wants_attempt = "attempt" in self._signature.parameters
        if isinstance(key, str) or not (callable(key) or key):
            raise ConfigError("CONFIG", f"{name}: key takes a list of argument names, such as key=[\"lead_id\"], or a function that returns the parts.")
        named = [] if callable(key) else list(key)
        takes_any = any(one.kind is one.VAR_KEYWORD for one in self._signature.parameters.values())
        missing = [one for one in [*named, *self._free] if one not in self._signature.parameters]
        if missing and not takes_any:
            raise ConfigError("CONFIG", f"{name}: {', '.join(missing)} in key or free is no argument of the function.")

    def of(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[List[Any], Dict[str, Any]]:
        """The parts of the key, and the input that a repeat is compared with."""
        given = self._arguments(args, kwargs)
        if callable(self._key):
            parts = list(self._key(**given))
        else:
            absent = [one for one in self._key if one not in given]
            if absent:
                raise InvalidInput("INVALID_KEY", f"{self.name}: {', '.join(absent)} of the key was not given.")
            parts = [given[one] for one in self._key]
        if not self._compare:
            return parts, {}
        fields = {name: value for name, value in given.items() if name not in self._free or _is_plain(value)}
        return parts, {"input": fields, "free": [name for name in self._free if name in fields]}

    def _arguments(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Dict[str, Any]:
        # A call that the function does not take is refused here, before the claim. The attempt is put in when it runs.
        bound = self._signature.bind(*args, **(dict(kwargs, attempt=None) if self._wants_attempt else kwargs))
        bound.apply_defaults()
        given: Dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = self._signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                given.update(value)
            elif name not in ("self", "cls", "attempt"):
                given[name] = list(value) if kind is inspect.Parameter.VAR_POSITIONAL else value
        return given

    def run(self, attempt: Attempt, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        return self._function(*args, **(dict(kwargs, attempt=attempt) if self._wants_attempt else kwargs))


# ---- small things ----------------------------------------------------------------------------------------------------


def _plain(value: Any, path: str) -> Any:
    """JSON with one meaning: what Python would change on the way (keys that are no text, NaN) or cannot write is refused by name."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise InvalidInput("INVALID_INPUT", f"{path} is {value}, which JSON does not have. Nothing was run.")
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(one, f"{path}[{at}]") for at, one in enumerate(value)]
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise InvalidInput("INVALID_INPUT", f"{path} has the key {name!r}, which is no text. Nothing was run.")
        return {name: _plain(one, f"{path}.{name}") for name, one in value.items()}
    raise InvalidInput(
        "INVALID_INPUT",
        f"{path} is of type {type(value).__name__}, which is no JSON. Pass text, numbers, lists or dicts, such as str(value) or value.isoformat().",
    )


def _is_plain(value: Any) -> bool:
    try:
        _plain(value, "")
        return True
    except (InvalidInput, RecursionError):
        return False


def _parts(parts: Any) -> Any:
    if isinstance(parts, (list, tuple)):
        return _plain(parts, "parts")
    raise InvalidInput("INVALID_KEY", f"parts is {parts!r}; it takes a list, such as [lead_id]. Nothing was run.")


def _without_none(**fields: Any) -> Dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _request_id() -> str:
    return uuid.uuid4().hex


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def _seconds(duration: Duration) -> float:
    """Only to know how long an answer may take: the service judges durations."""
    if isinstance(duration, (int, float)):
        return max(0.0, duration / 1000)
    text = duration.strip()
    for unit in _UNITS:
        number = text[: -len(unit)]
        if text.endswith(unit) and number.replace(".", "", 1).isdigit():
            return float(number) * _UNITS[unit]
    return 0.0


def _waiting(wait: Duration, once: bool, stop: Any) -> Duration:
    """Who may be stopped asks often: a request that is broken off could leave work that nobody begins."""
    if once:
        return 0
    return wait if stop is None else int(min(_seconds(wait), 1.0) * 1000)


def _left_ms(ends: float) -> int:
    return max(0, min(300_000, int((ends - _now()) * 1000)))


_LONGEST_NAME = 200
_LONGEST_MESSAGE = 4000


def _error_json(name: str, message: str) -> Dict[str, str]:
    kind = _storable(name)[:_LONGEST_NAME].strip() or "Error"
    return {"name": kind, "message": _storable(message)[:_LONGEST_MESSAGE].strip() or kind}


def _storable(text: str) -> str:
    """Lone surrogates cannot be written as UTF-8, and not every store keeps NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return f"{type(error).__name__}, which cannot be shown as text"


_DURATION = re.compile(r"\d+(\.\d+)?\s*(ms|s|m|h|d|w)", re.ASCII)


def _retry_after(given: Any) -> Union[str, int, None]:
    """As the service takes it. Also the forms of HTTP's Retry-After: whole seconds as text, or a date. None: it says nothing."""
    with contextlib.suppress(Exception):
        if isinstance(given, datetime.timedelta):
            given = given.total_seconds() * 1000
        if isinstance(given, str):
            text = given.strip()
            if _DURATION.fullmatch(text):
                return text
            if text.isascii() and text.isdigit():
                return int(text) * 1000
            until = email.utils.parsedate_to_datetime(text).timestamp()
            return max(0, int((until - time.time()) * 1000))
        if isinstance(given, (int, float)) and not isinstance(given, bool) and 0 <= given < float("inf"):
            return int(given)
    _log.warning('retry_after is left out: it takes "30s", milliseconds or a timedelta')
    return None


# ---- what can be seen to be wrong before anything is claimed ---------------------------------------------------------


def _check_timeout(timeout: Any) -> None:
    if timeout is None or (isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and timeout > 0):
        return
    raise InvalidInput("INVALID_INPUT", f"timeout is {timeout!r}; it takes a number of seconds above 0, or None. Nothing was run.")


def _code_of(function: Any) -> Any:
    """What runs when it is called: behind partials, and the __call__ of an object."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return getattr(function, "__call__", function)


def _is_coroutine_function(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(_code_of(function))


def _check_no_generator(function: Any, where: str) -> None:
    code = _code_of(function)
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise Misuse(
            "MISUSE", f"{where} is a generator function: calling it runs nothing yet. Nothing was claimed. Give a function that has the effect and returns a value."
        )


def _check_runs_now(function: Any, where: str, instead: str) -> None:
    _check_no_generator(function, where)
    if _is_coroutine_function(function):
        raise Misuse("MISUSE", f"{where} is an `async def`, which nobody would await here. Nothing was claimed. Use {instead}.")


def _check_arguments(function: Any, where: str, called: str, *args: Any, **kwargs: Any) -> None:
    if not callable(function):
        raise Misuse("MISUSE", f"{where}: {function!r} cannot be called. Nothing was claimed.")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # A function without a signature, such as some of C.
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as wrong:
        raise Misuse("MISUSE", f"{where} is called as {called}, which it does not take: {wrong}. Nothing was claimed.") from None


def _check_handler(action: str, handler: Any) -> None:
    where = f"the handler of {action!r}"
    if callable(handler) and _takes_attempt(handler):
        _check_arguments(handler, where, "handler(input, attempt=attempt)", None, attempt=None)
    else:
        _check_arguments(handler, where, "handler(input)", None)


def _takes_attempt(handler: Callable[..., Any]) -> bool:
    try:
        return "attempt" in inspect.signature(handler).parameters
    except (TypeError, ValueError):
        return False


def _lazy(value: Any) -> Optional[str]:
    """A value that stands for work not yet done; None: it is none."""
    if inspect.isawaitable(value):
        return f"an awaitable ({type(value).__name__})"
    if inspect.isgenerator(value) or inspect.isasyncgen(value) or isinstance(value, (map, filter)):
        return f"a generator ({type(value).__name__})"
    return None


def _note(error: BaseException, text: str) -> None:
    _log.warning("%s", text)
    if hasattr(error, "add_note"):
        error.add_note(text)


def _handled(handler: Callable[..., Any], attempt: Attempt) -> Any:
    attempt._looked = True
    return handler(attempt.input, attempt=attempt) if _takes_attempt(handler) else handler(attempt.input)


def _report(on_error: Optional[Callable[[Attempt, BaseException], None]], attempt: Attempt, error: BaseException) -> None:
    if on_error is not None:
        on_error(attempt, error)
        return
    _log.warning("%s (%s): %s", attempt.action, attempt.key, error, exc_info=error)


def _give_back(taken: Iterable[Attempt]) -> None:
    for attempt in taken or ():
        attempt._abandon()


def _error_for(action: str, outcome: Dict[str, Any]) -> NevertwiceError:
    status, key = outcome.get("status"), outcome.get("key", "")
    where = f"{action} ({key})"
    if status == "in_flight":
        return InFlight("IN_FLIGHT", f"{where}: another attempt is under way. Nothing was run. Ask again later, or give wait.", key, outcome)
    if status == "queued":
        return Queued("QUEUED", f"{where}: it waits for a worker. Nothing was run.", key, outcome)
    if status == "unknown":
        why = outcome.get("why", "")
        differs = ", ".join(outcome.get("differs", []))
        other = f" This call's input differs in: {differs}; it was not run." if differs else ""
        return OutcomeUnknown(
            "OUTCOME_UNKNOWN",
            f"{where}: attempt {outcome.get('attempt')} may or may not have happened ({why}). Nothing was run.{other} Find out, and settle it: "
            f'nevertwice resolve {key} --done --reason "…" (or --not-done)',
            key,
            outcome,
        )
    if status == "conflict":
        differs = ", ".join(outcome.get("differs", [])) or "the input"
        return KeyConflict(
            "KEY_CONFLICT",
            f"{where}: the same key was used with another input; it differs in {differs}. Nothing was run. Put what differs into the key, or name it in free.",
            key,
            outcome,
        )
    error = outcome.get("error") or {}
    said = f"{error.get('name', 'Error')}: {error.get('message', '')}"
    how = "refused for good" if outcome.get("final") else "not done"
    return Failed("FAILED", f"{where}: {how}: {said}. Nothing was run.", key, outcome)
