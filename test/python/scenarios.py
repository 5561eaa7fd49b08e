"""What the Python client does, scenario by scenario, against a real service: python3 scenarios.py <name>. --list: their names."""

import asyncio
import contextlib
import ctypes
import datetime
import functools
import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.request
import uuid
import warnings

import nevertwice
from nevertwice import (
    ConfigError, Failed, InFlight, InvalidInput, KeyConflict, LeaseLost, Misuse, Nevertwice, NotRecorded, NotSent,
    OutcomeUnknown, Refused, Rejected, ResultNotStored, ResultUnavailable, ServiceUnavailable, Unauthorized,
)

URL = os.environ["NEVERTWICE_URL"]
PROVIDER = os.environ["PROVIDER_URL"]
nt = Nevertwice()
SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


def fresh():
    return f"id-{uuid.uuid4().hex}"


def send(id):
    """The effect, over HTTP, at a provider that counts."""
    data = json.dumps({"id": id, "kind": "C"}).encode()
    request = urllib.request.Request(PROVIDER, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)["id"]


def effects(id):
    with urllib.request.urlopen(f"{PROVIDER}/?id={id}", timeout=10) as response:
        return json.load(response)["count"]


@contextlib.contextmanager
def raises(kind, *texts):
    try:
        yield
    except kind as error:
        for text in texts:
            assert text in str(error), f"{text!r} is not in {error}"
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def is_soon(condition, what):
    ends = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < ends, f"{what} did not come about"
        time.sleep(0.02)


def status(id, action="send"):
    return nt.status(action, [id])["status"]


# ---- the block -------------------------------------------------------------------------------------------------------


@scenario
def once_runs_and_repeats_get_the_result():
    id = fresh()
    for turn in range(3):
        with nt.once("send", [id]) as attempt:
            assert attempt.run is (turn == 0)
            if attempt.run:
                assert attempt.number == 1 and attempt.provider_key and attempt.key.startswith("nt1_")
                attempt.result = send(id)
        assert attempt.result == f"{id}#1", attempt.result
        assert attempt.status == "done"
    assert effects(id) == 1


@scenario
def an_exception_leaves_a_doubt_and_nothing_runs_again():
    for raised in (RuntimeError("who knows"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()):
        id = fresh()
        with raises(type(raised)):
            with nt.once("send", [id]) as attempt:
                if attempt.run:
                    send(id)
                    raise raised
        assert status(id) == "unknown"
        with raises(OutcomeUnknown, "may or may not have happened", "nevertwice resolve"):
            with nt.once("send", [id]) as attempt:
                send(id)
        assert effects(id) == 1
    outcome = nt.resolve(attempt.key or nt.status("send", [id])["key"], as_="not-done", by="ana", reason="asked the provider")
    assert outcome["status"] != "unknown", outcome


@scenario
def not_sent_refused_and_rejected_are_no_doubt():
    id = fresh()
    with raises(NotSent):
        with nt.once("send", [id]) as attempt:
            if attempt.run:
                raise NotSent("no quota", retry_after="1ms")
    assert status(id) == "failed"
    with nt.once("send", [id]) as attempt:
        if attempt.run:
            attempt.result = send(id)
    assert attempt.number == 2 and effects(id) == 1
    id = fresh()
    with raises(Refused):
        with nt.once("send", [id]) as attempt:
            if attempt.run:
                raise Refused("no such address")
    with nt.once("send", [id]) as attempt:
        assert attempt.run
        attempt.result = "corrected"
    id = fresh()
    with raises(Rejected):
        with nt.once("send", [id]) as attempt:
            if attempt.run:
                raise Rejected("unsubscribed")
    with raises(Failed, "refused for good", "unsubscribed"):
        with nt.once("send", [id]) as attempt:
            send(id)
    assert effects(id) == 0


@scenario
def classify_speaks_for_exceptions_of_others():
    words = {ValueError: "rejected", ConnectionRefusedError: "not-sent", TypeError: "nonsense"}
    expected = {ValueError: "failed", ConnectionRefusedError: "failed", TypeError: "unknown", OSError: "unknown"}
    for kind, wanted in expected.items():
        id = fresh()
        with raises(kind):
            with nt.once("send", [id], classify=lambda error: words.get(type(error))) as attempt:
                if attempt.run:
                    raise kind("no")
        assert status(id) == wanted, (kind, status(id))


@scenario
def a_block_that_does_not_look_is_recorded_and_reported():
    id = fresh()
    with raises(Misuse, "if attempt.run"):
        with nt.once("send", [id]) as attempt:
            attempt.result = send(id)
    assert status(id) == "done"
    with raises(Misuse, "entered once"):
        with attempt:
            pass


@scenario
def other_outcomes_without_an_exception_where_asked_for():
    id = fresh()
    with contextlib.suppress(RuntimeError):
        with nt.once("send", [id]) as attempt:
            if attempt.run:
                raise RuntimeError()
    with nt.once("send", [id], raises=False) as attempt:
        assert not attempt.run and attempt.status == "unknown" and attempt.outcome["attempt"] == 1
    assert status(id) == "unknown"


@scenario
def a_manual_mark_divides_before_from_after():
    id = fresh()
    with raises(RuntimeError):
        with nt.once("send", [id], mark="manual") as attempt:
            if attempt.run:
                raise RuntimeError("the draft failed")
    assert status(id) == "failed"
    with raises(RuntimeError):
        with nt.once("send", [id], mark="manual") as attempt:
            if attempt.run:
                attempt.sent()
                raise RuntimeError("no answer")
    assert status(id) == "unknown"
    id = fresh()
    with nt.once("send", [id], mark="manual") as attempt:
        if attempt.run:
            attempt.sent()
            attempt.result = send(id)
    assert status(id) == "done"
    id = fresh()
    with raises(Misuse, "without attempt.sent()"):
        with nt.once("send", [id], mark="manual") as attempt:
            if attempt.run:
                attempt.result = 1
    assert status(id) == "unknown"
    with raises(Misuse):
        attempt.sent()


@scenario
def scopes_versions_and_inputs_are_those_of_the_library():
    id = fresh()
    def run(**options):
        with nt.once("send", [id, 7, True, {"a": [1.5, None]}], **options) as attempt:
            if attempt.run:
                attempt.result = send(id)
        return attempt.result
    assert run() == run() == f"{id}#1"
    assert run(scope="run-1") == f"{id}#2"
    assert run(version=2) == f"{id}#3"
    other = fresh()
    with nt.once("mail", [other], input={"to": "a", "body": "x"}, free=["body"]) as attempt:
        if attempt.run:
            attempt.result = "sent"
    with nt.once("mail", [other], input={"to": "a", "body": "y"}, free=["body"]) as attempt:
        assert not attempt.run and attempt.outcome["differs"] == ["body"]
    with raises(KeyConflict, "differs in to"):
        with nt.once("mail", [other], input={"to": "b", "body": "x"}, free=["body"]):
            raise AssertionError("ran")


@scenario
def a_doubt_that_may_be_resent_is_said_to_be_one():
    id = fresh()
    keys = []
    for turn in range(2):
        with contextlib.suppress(RuntimeError):
            with nt.once("pay", [id], input={"cents": 5}, doubt={"resendWithin": "1h"}) as attempt:
                if attempt.run:
                    keys.append((attempt.provider_key, attempt.resend, attempt.input))
                    if turn == 0:
                        raise RuntimeError("no answer")
                    attempt.result = "paid"
    assert keys == [(keys[0][0], False, {"cents": 5}), (keys[0][0], True, {"cents": 5})], keys
    assert status(id, "pay") == "done"


@scenario
def what_is_no_json_is_refused_by_name():
    for parts, text in [
        ([uuid.uuid4()], "parts[0] is of type UUID"), ([{"a": {1: 2}}], "the key 1"), ([float("nan")], "nan"),
        ("lead", "takes a list"), ([1, [object()]], "parts[1][0]"),
    ]:
        with raises(InvalidInput, text):
            nt.once("send", parts)
    for wrong in (nt.enqueue, nt.status):
        with raises(InvalidInput, "takes a list"):
            wrong("send", "lead")
    for parts in ([], [""], ["  "], [2**60], ["\ud800"]):
        with raises(InvalidInput):
            with nt.once("send", parts):
                raise AssertionError("ran")
    with raises(InvalidInput, "lease"):
        with nt.once("send", [1], lease="soon"):
            raise AssertionError("ran")


@scenario
def a_result_that_cannot_be_kept_is_reported_and_done():
    for result in (object(), {1: 2}, float("inf"), "x" * 3_000_000):
        id = fresh()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with nt.once("send", [id]) as attempt:
                if attempt.run:
                    attempt.result = result
        assert [one.category for one in caught] == [ResultNotStored], caught
        with nt.once("send", [id]) as attempt:
            assert not attempt.run and attempt.result is None


@scenario
def an_action_inside_an_action_hands_its_doubt_on():
    outer, inner = fresh(), fresh()
    for _ in range(2):
        with raises((RuntimeError, OutcomeUnknown) if _ == 0 else OutcomeUnknown):
            with nt.once("order", [outer]) as order:
                if order.run:
                    with nt.once("pay", [inner]) as pay:
                        if pay.run:
                            raise RuntimeError("no answer")
    assert status(outer, "order") == status(inner, "pay") == "unknown"


# ---- functions -------------------------------------------------------------------------------------------------------


@scenario
def call_runs_once_and_tries_again_what_was_not_sent():
    id = fresh()
    tries = []
    def effect(attempt):
        tries.append(attempt.number)
        if len(tries) < 3:
            raise NotSent("busy", retry_after="1ms")
        return send(id)
    options = {"retry": {"attempts": 5, "backoff": "1ms"}}
    assert nt.call("send", [id], effect, wait="20s", **options) == nt.call("send", [id], effect) == f"{id}#1"
    assert tries == [1, 2, 3]
    id = fresh()
    with raises(NotSent):
        nt.call("send", [id], lambda attempt: (_ for _ in ()).throw(NotSent("busy", retry_after="1h")), wait="1s")


@scenario
def decorated_functions_run_once_per_key():
    ran = []

    @nt.action("mail", key=["to", "day"], free=["body"])
    def mail(to, body, day="today", *, attempt=None):
        ran.append((to, attempt.number))
        return {"id": send(to)}

    to = fresh()
    assert mail(to, "Hello") == mail(to, body="Hi") == mail(to=to, body="Hey", day="today") == {"id": f"{to}#1"}
    assert mail(to, "Hello", "tomorrow") == {"id": f"{to}#2"}
    assert ran == [(to, 1), (to, 1)] and mail.__name__ == "mail"

    @nt.action(key=lambda order, **rest: [order["id"]], compare=False)
    def pay(order, session):
        return send(order["id"])

    id = fresh()
    assert pay({"id": id}, object()) == pay({"id": id, "note": 1}, object()) == f"{id}#1"

    class Agent:
        @nt.action("agent_mail", key=["to"])
        def mail(self, to, body):
            return send(to)

    to = fresh()
    assert Agent().mail(to, "a") == Agent().mail(to, "a")
    with raises(KeyConflict, "body"):
        Agent().mail(to, "b")
    for wrong in ({"key": "to"}, {"key": []}, {"key": ["nobody"]}, {"key": ["to"], "free": ["nothing"]}):
        with raises(ConfigError):
            nt.action("x", **wrong)(lambda to: 1)
    with raises(InvalidInput, "input.session"):
        nt.action("x", key=["to"])(lambda to, session: 1)("a", object())
    assert effects(to) == 1


# ---- leases ----------------------------------------------------------------------------------------------------------


@scenario
def heartbeats_keep_a_lease_for_as_long_as_it_takes():
    id = fresh()
    with nt.once("send", [id], lease="2s") as attempt:
        if attempt.run:
            for _ in range(5):
                time.sleep(1)
                with raises(InFlight, "another attempt is under way"):
                    with nt.once("send", [id]):
                        raise AssertionError("ran")
            attempt.ensure()
            attempt.result = send(id)
    assert status(id) == "done" and not attempt.outcome["replayed"]


@scenario
def a_program_that_holds_the_interpreter_loses_its_lease_and_success_is_taken_late():
    id = fresh()
    blocked = ctypes.PyDLL(None)  # PyDLL keeps the GIL: no other thread runs meanwhile.
    with nt.once("send", [id], lease="900ms") as attempt:
        if attempt.run:
            attempt.result = send(id)
            for _ in range(3):
                blocked.usleep(900_000)
            with raises(LeaseLost):
                attempt.ensure()
            assert status(id) == "unknown"
    assert status(id) == "done" and effects(id) == 1


@scenario
def a_late_success_of_an_input_that_was_corrected_since_is_not_the_corrected_ones():
    id = fresh()
    second = nt.once("send", [id], input={"to": "right"})
    with nt.once("send", [id], input={"to": "wrong"}, lease="600ms", timeout=0.3) as first:
        if first.run:
            is_soon(lambda: status(id) == "unknown", "the doubt")
            nt.resolve(first.key, as_="not-done", by="ada", reason="looked too early")
            second.__enter__()
            assert second.run and second.fence == 2
            first.result = "to wrong"
    assert first.outcome["status"] == "in_flight" and "before its correction" in first.outcome["warning"], first.outcome
    second.ensure()
    second.result = "to right"
    second.__exit__(None, None, None)
    assert second.outcome["result"] == "to right" and not second.outcome["replayed"], second.outcome
    with nt.once("send", [id], input={"to": "right"}) as again:
        assert not again.run and again.result == "to right"
    with raises(KeyConflict):
        with nt.once("send", [id], input={"to": "wrong"}):
            raise AssertionError("ran")


@scenario
def a_process_that_stood_still_before_its_effect_has_none():
    id = fresh()
    with raises(LeaseLost):
        with nt.once("send", [id], lease="600ms") as attempt:
            ctypes.PyDLL(None).usleep(900_000)
            ctypes.PyDLL(None).usleep(900_000)
            if attempt.run:
                send(id)
    assert status(id) == "unknown" and effects(id) == 0


@scenario
def a_timeout_ends_the_lease():
    id = fresh()
    with contextlib.suppress(LeaseLost):
        with nt.once("send", [id], lease="600ms", timeout=0.3) as attempt:
            if attempt.run:
                is_soon(lambda: attempt.lost, "the end of the lease")
                attempt.ensure()
                send(id)
    assert status(id) == "unknown" and effects(id) == 0


@scenario
def a_forked_child_settles_nothing_of_its_parent():
    id, own = fresh(), fresh()
    with nt.once("send", [id], lease="2s") as attempt:
        if attempt.run:
            child = os.fork()
            if child == 0:
                # The child leaves the block in its own way; then it uses the client for an intent of its own.
                try:
                    with contextlib.suppress(Misuse):
                        attempt.sent()
                    attempt.__exit__(None, None, None)
                    with nt.once("send", [own], lease="2s") as mine:
                        if mine.run:
                            time.sleep(3)
                            mine.result = send(own)
                    os._exit(0)
                except BaseException:
                    os._exit(1)
            _, code = os.waitpid(child, 0)
            assert code == 0, code
            assert status(id) == "in_flight"
            attempt.result = send(id)
    assert status(id) == status(own) == "done"
    assert effects(id) == effects(own) == 1


@scenario
def threads_share_a_client():
    id = fresh()
    results = []
    def one():
        results.append(nt.call("send", [id], lambda attempt: send(id), wait="30s"))
    threads = [threading.Thread(target=one) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [f"{id}#1"] * 16 and effects(id) == 1


# ---- the service -----------------------------------------------------------------------------------------------------


class Proxy:
    """Between the client and the service: it may swallow answers, or be down."""

    def __init__(self):
        self.swallow = 0
        self.down = False
        self.seen = 0
        self.server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            client, _ = self.server.accept()
            threading.Thread(target=self.one, args=(client,), daemon=True).start()

    def one(self, client):
        self.seen += 1
        with client:
            if self.down:
                return
            host, port = URL.split("//")[1].split(":")
            with socket.create_connection((host, int(port))) as service:
                service.sendall(whole(client))
                answer = whole(service)
                if self.swallow > 0:
                    self.swallow -= 1
                    return
                client.sendall(answer)


def whole(side):
    """One HTTP message with a content-length."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = side.recv(65536)
        if not more:
            return data
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")), 0)
    while len(body) < length:
        body += side.recv(65536)
    return head + b"\r\n\r\n" + body


@scenario
def lost_replies_are_asked_for_again_and_have_one_effect():
    proxy = Proxy()
    far = Nevertwice(proxy.url)
    for lost in range(1, 4):
        id = fresh()
        proxy.swallow = lost
        with far.once("send", [id]) as attempt:
            if attempt.run:
                assert attempt.number == 1 and attempt.outcome.get("again") is True
                proxy.swallow = lost
                attempt.result = send(id)
        assert attempt.outcome["status"] == "done" and not attempt.outcome["replayed"], attempt.outcome
        assert effects(id) == 1
    id = fresh()
    proxy.swallow = 1
    assert far.enqueue("queue", [id], {"id": id})["status"] == "queued"
    proxy.swallow = 1
    [taken] = far.take(["queue"], wait="5s")
    with taken:
        proxy.swallow = 1
        taken.result = send(id)
    assert effects(id) == 1 and status(id, "queue") == "done"


@scenario
def without_the_service_nothing_runs():
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    id = fresh()
    far = Nevertwice(f"http://127.0.0.1:{port}", patience=0.3)
    with raises(ServiceUnavailable, "does not answer", "NEVERTWICE_URL"):
        with far.once("send", [id]):
            send(id)
    with raises(ServiceUnavailable):
        far.call("send", [id], lambda attempt: send(id))
    with raises(ServiceUnavailable, "is not nevertwice serve"):
        with Nevertwice(PROVIDER, patience=0).once("send", [id]):
            send(id)
    with raises(Unauthorized, "token"):
        with Nevertwice(token="wrong-but-long-enough").once("send", [id]):
            send(id)
    for wrong in ("127.0.0.1:7433", "ftp://x", "http://127.0.0.1:1/v1", "unix:relative"):
        with raises(ConfigError):
            Nevertwice(wrong)
    saved = os.environ.pop("NEVERTWICE_SERVE_TOKEN")
    with raises(ConfigError, "NEVERTWICE_SERVE_TOKEN"):
        Nevertwice()
    os.environ["NEVERTWICE_SERVE_TOKEN"] = saved
    assert effects(id) == 0


@scenario
def an_effect_that_cannot_be_reported_is_raised_with_its_token():
    proxy = Proxy()
    far = Nevertwice(proxy.url, settle_patience=0.3)
    id = fresh()
    with raises(NotRecorded, "the effect happened", "settle"):
        with far.once("send", [id], lease="900ms") as attempt:
            if attempt.run:
                attempt.result = send(id)
                proxy.down = True
    is_soon(lambda: status(id) == "unknown", "the doubt")
    with raises(OutcomeUnknown):
        with nt.once("send", [id]):
            send(id)
    try:
        attempt._settle({"token": attempt.token, "as": "done", "result": "x"})
    except NotRecorded as error:
        assert error.result == f"{id}#1" and error.token == attempt.token
    answer = nt._ask("settle", {"token": attempt.token, "as": "done", "result": attempt.result})
    assert answer["status"] == "done" and effects(id) == 1
    id = fresh()
    proxy.down = False
    with raises(RuntimeError):
        with far.once("send", [id], lease="900ms") as attempt:
            if attempt.run:
                proxy.down = True
                raise RuntimeError("mine")
    is_soon(lambda: status(id) == "unknown", "the doubt")


@scenario
def ctrl_c_during_a_claim_leaves_no_doubt():
    proxy = Proxy()
    far = Nevertwice(proxy.url, patience=30)
    id = fresh()
    proxy.swallow = 1000
    def interrupt():
        proxy.swallow = 0
        os.kill(os.getpid(), signal.SIGINT)
    threading.Timer(0.2, interrupt).start()
    with contextlib.suppress(KeyboardInterrupt):
        with far.once("send", [id]) as attempt:
            time.sleep(5)
            raise AssertionError("not interrupted")
    if status(id) != "unknown":  # It may also have come right after the claim: then it is a doubt.
        with nt.once("send", [id]) as attempt:
            assert attempt.run
            attempt.result = send(id)
        assert effects(id) == 1


# ---- queued work -----------------------------------------------------------------------------------------------------


@scenario
def queued_work_is_taken_and_run_once():
    name = f"queue-{fresh()}"
    ids = [fresh() for _ in range(6)]
    for id in ids * 2:
        assert nt.enqueue(name, [id], {"id": id}, order="one")["status"] == "queued"
    failed = []
    def handle(input, attempt):
        if input["id"] == ids[2]:
            raise Refused("not this one")
        return send(input["id"])
    begun = nt.work({name: handle}, once=True, on_error=lambda attempt, error: failed.append(str(error)))
    assert begun == 6 and failed == ["not this one"], (begun, failed)
    assert [effects(id) for id in ids] == [1, 1, 0, 1, 1, 1]
    assert nt.status(name, [ids[0]])["result"] == f"{ids[0]}#1"
    assert nt.work({name: handle}, once=True) == 0


@scenario
def a_worker_stops_between_two_and_gives_back_what_it_did_not_begin():
    name = f"queue-{fresh()}"
    ids = [fresh() for _ in range(3)]
    for id in ids:
        nt.enqueue(name, [id], {"id": id})
    stop = threading.Event()
    def handle(input):
        stop.set()
        return send(input["id"])
    assert nt.work({name: handle}, stop=stop, limit=3) == 1
    assert sorted(status(id, name) for id in ids) == ["done", "queued", "queued"]
    assert nt.work({name: handle}, once=True) == 2
    assert [effects(id) for id in ids] == [1, 1, 1]


@scenario
def taken_work_that_is_dropped_becomes_a_doubt():
    name, id = f"queue-{fresh()}", fresh()
    nt.enqueue(name, [id], {"id": id})
    taken = nt.take([name], lease="600ms", wait="5s")
    assert len(taken) == 1 and taken[0].input == {"id": id}
    del taken
    is_soon(lambda: status(id, name) == "unknown", "the doubt")


# ---- asyncio ---------------------------------------------------------------------------------------------------------


@scenario
def asyncio_blocks_and_functions():
    async def main():
        id = fresh()
        for turn in range(2):
            async with nt.once("send", [id]) as attempt:
                if attempt.run:
                    attempt.result = await asyncio.to_thread(send, id)
            assert attempt.result == f"{id}#1"
        many = fresh()
        async def effect(attempt):
            return await asyncio.to_thread(send, many)
        results = await asyncio.gather(*(nt.acall("send", [many], effect, wait="30s") for _ in range(20)))
        assert results == [f"{many}#1"] * 20

        @nt.action("amail", key=["to"])
        async def mail(to, body, attempt=None):
            assert attempt.key
            return await asyncio.to_thread(send, to)

        to = fresh()
        assert await mail(to, "a") == await mail(to, body="a") == f"{to}#1"
        failing = fresh()
        with raises(RuntimeError):
            async with nt.once("send", [failing]) as attempt:
                if attempt.run:
                    raise RuntimeError()
        assert (await nt.astatus("send", [failing]))["status"] == "unknown"
        tried = []
        async def busy(attempt):
            tried.append(1)
            if len(tried) < 2:
                raise NotSent("busy", retry_after="1ms")
            return 7
        assert await nt.acall("send", [fresh()], busy, retry={"attempts": 3, "backoff": "1ms"}) == 7

    asyncio.run(main())


@scenario
def a_cancelled_task_leaves_a_doubt_and_a_cancelled_claim_none():
    async def main():
        id = fresh()
        inside = asyncio.Event()
        async def body():
            async with nt.once("send", [id]) as attempt:
                if attempt.run:
                    inside.set()
                    await asyncio.sleep(60)
        task = asyncio.ensure_future(body())
        await inside.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert (await nt.astatus("send", [id]))["status"] == "unknown"
        for pause in (0, 0.001, 0.003, 0.01):
            other = fresh()
            begun = []
            async def claim():
                async with nt.once("send", [other]) as attempt:
                    begun.append(attempt.run)
                    await asyncio.sleep(60)
            task = asyncio.ensure_future(claim())
            await asyncio.sleep(pause)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            wanted = ["unknown"] if begun else ["absent", "queued", "failed"]
            for _ in range(200):
                found = (await nt.astatus("send", [other]))["status"]
                if found in wanted:
                    break
                await asyncio.sleep(0.02)
            assert found in wanted, (pause, begun, found)

    asyncio.run(main())


@scenario
def asyncio_workers_run_several_at_once():
    async def main():
        name = f"queue-{fresh()}"
        ids = [fresh() for _ in range(12)]
        for id in ids:
            await nt.aenqueue(name, [id], {"id": id})
        under_way, most = 0, 0
        stop = asyncio.Event()
        done = []
        async def handle(input, attempt):
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.05)
            under_way -= 1
            result = await asyncio.to_thread(send, input["id"])
            done.append(input["id"])
            if len(done) == len(ids):
                stop.set()
            return result
        begun = await asyncio.wait_for(nt.awork({name: handle}, stop=stop, concurrency=4), 60)
        assert begun == 12 and 1 < most <= 4, (begun, most)
        assert [effects(id) for id in ids] == [1] * 12
        assert await nt.awork({name: handle}, once=True) == 0

    asyncio.run(main())


# ---- for the test that stops and kills -------------------------------------------------------------------------------


def suspended(id, lease):
    """Says when it is inside, waits for a word, and has its effect only where the lease is still its own."""
    try:
        with nt.once("send", [id], lease=lease) as attempt:
            if attempt.run:
                print(json.dumps({"event": "inside"}), flush=True)
                sys.stdin.readline()
                attempt.ensure()
                attempt.result = send(id)
        print(json.dumps({"event": "done"}), flush=True)
    except LeaseLost as error:
        print(json.dumps({"event": "lost", "message": str(error)}), flush=True)


# ---- what would be recorded as done without having run ---------------------------------------------------------------


@scenario
def an_async_function_or_a_generator_is_refused_before_the_claim():
    async def asends(*_):
        send(id)

    def yields(*_):
        yield send(id)

    async def ayields(*_):
        yield send(id)

    class Tool:
        async def __call__(self, attempt):
            send(id)

    for effect in (asends, yields, ayields, Tool(), functools.partial(asends), functools.partial(yields)):
        id = fresh()
        with raises(Misuse, "Nothing was claimed"):
            nt.call("send", [id], effect)
        nt.enqueue(f"lazy-{id}", [id], {})
        with raises(Misuse, "Nothing was claimed"):
            nt.work({f"lazy-{id}": effect}, once=True)
        assert status(id) == "absent" and status(id, f"lazy-{id}") == "queued"
    for effect in (yields, ayields):
        with raises(Misuse, "generator"):
            nt.action("send", key=["x"])(effect)
        with raises(Misuse, "generator"):
            asyncio.run(nt.acall("send", [id], effect))
        with raises(Misuse, "generator"):
            asyncio.run(nt.awork({"send": effect}, once=True))
    assert status(id) == "absent" and effects(id) == 0


@scenario
def a_callable_object_with_an_async_call_is_awaited():
    class Tool:
        async def __call__(self, id):
            return send(id)

    id = fresh()
    tool = nt.action("send", key=["id"])(Tool())
    assert [asyncio.run(tool(id)) for _ in range(2)] == [f"{id}#1"] * 2
    assert effects(id) == 1


@scenario
def a_result_that_has_yet_to_run_is_never_done():
    async def later():
        send(id)

    def generator():
        yield send(id)

    async def agenerator():
        yield send(id)

    for make in (later, generator, agenerator, lambda: map(send, [id]), lambda: functools.partial(later)()):
        id = fresh()
        with raises(Misuse, "not recorded as done", "held as unknown"):
            nt.call("send", [id], lambda attempt: make())
        assert status(id) == "unknown" and effects(id) == 0
        id = fresh()
        with raises(Misuse, "held as unknown"):
            with nt.once("send", [id]) as attempt:
                if attempt.run:
                    attempt.result = make()
        assert status(id) == "unknown"
        action, failed = f"lazy-{id}", []
        nt.enqueue(action, [id], {})
        assert nt.work({action: lambda input: make()}, once=True, on_error=lambda attempt, error: failed.append(error)) == 1
        assert isinstance(failed[0], Misuse) and status(id, action) == "unknown"
        called = nt.action("send", key=["x"])(functools.partial(lambda y, x: make(), 1))
        id = fresh()
        with raises(Misuse):
            called(x=id)
        assert status(id) == "unknown" and effects(id) == 0


@scenario
def a_block_that_never_looks_is_reported_every_time():
    id = fresh()
    for turn in range(3):
        with raises(Misuse, "if attempt.run", "done again" if turn else "recorded"):
            with nt.once("send", [id]):
                pass
    with raises(KeyError):
        with nt.once("send", [id]):
            raise KeyError("what the block raises comes first")


@scenario
def wrong_options_and_arguments_are_refused_before_the_claim():
    id = fresh()
    for timeout in ("1s", 0, -1, True, float("nan")):
        with raises(InvalidInput, "timeout"):
            nt.call("send", [id], lambda attempt: send(id), timeout=timeout)
        with raises(InvalidInput, "timeout"):
            nt.take(["send"], wait=0, timeout=timeout)
    with raises(Misuse, "effect(attempt)"):
        nt.call("send", [id], lambda: send(id))
    with raises(Misuse, "cannot be called"):
        nt.call("send", [id], None)
    action = f"arity-{id}"
    nt.enqueue(action, [id], {})
    for handler in (lambda: 1, lambda a, b: 1, lambda attempt: 1, None):
        with raises(Misuse, "Nothing was claimed"):
            nt.work({action: handler}, once=True)
        with raises(Misuse, "Nothing was claimed"):
            asyncio.run(nt.awork({action: handler}, once=True))

    @nt.action("send", key=["id"])
    def called(id, body):
        send(id)

    with raises(TypeError, "body"):
        called(id)
    assert status(id) == "absent" and status(id, action) == "queued" and effects(id) == 0


# ---- a settlement is never lost for what comes with it ---------------------------------------------------------------


class Unprintable(NotSent):
    def __str__(self):
        raise RuntimeError("no text")


@scenario
def an_error_that_cannot_be_stored_is_cleaned_and_settled():
    named = type("E" * 500, (Refused,), {})
    for raised in (Refused("nul \0 inside"), Refused("lone \ud800"), Refused("x" * 100_000), Refused(""), Refused("  "), named("long name"), Unprintable()):
        id = fresh()
        with raises(type(raised)):
            with nt.once("send", [id]) as attempt:
                if attempt.run:
                    raise raised
        assert status(id) == "failed", (raised.args, nt.status("send", [id]))


@scenario
def retry_after_is_taken_in_the_forms_that_occur():
    soon, later = 0, 100_000
    date = "Wed, 21 Oct 2099 07:28:00 GMT"
    given = {"120": later, "  120 ": later, "2m": later, 120_000: later, datetime.timedelta(minutes=2): later, date: later,
             -5: soon, "soon": soon, "": soon, True: soon, float("nan"): soon, float("inf"): soon, ("x",): soon, "-1": soon}  # fmt: skip
    for retry_after, at_least in given.items():
        id = fresh()
        with raises(NotSent):
            with nt.once("send", [id], retry={"attempts": 5, "backoff": "1ms"}) as attempt:
                if attempt.run:
                    raise NotSent("busy", retry_after=retry_after)
        outcome = nt.status("send", [id])
        assert outcome["status"] == "failed", outcome
        pause = outcome["retryAt"] - time.time() * 1000
        assert (pause > at_least) == (at_least > 0), (retry_after, pause)


@scenario
def a_result_that_cannot_be_written_is_done_with_a_warning():
    circular, deep = [], []
    circular.append(circular)
    for _ in range(2_000):
        deep = [deep]
    for result in (circular, deep, float("nan"), 10**5000, object(), {1: 2}, "x" * 1_200_000, "x" * 3_000_000):
        id = fresh()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            nt.call("send", [id], lambda attempt: (send(id), result)[1])
        assert status(id) == "done" and effects(id) == 1
        said = [str(one.message) for one in seen if one.category is ResultNotStored]
        assert len(said) == 1 and "Nothing was" not in said[0], (str(result)[:20] if result is not circular else "", said)
        with raises(ResultUnavailable):
            nt.call("send", [id], lambda attempt: "again")
        assert effects(id) == 1
    id = fresh()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with raises(ResultNotStored):
            nt.call("send", [id], lambda attempt: object())
    assert status(id) == "done"


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        print(json.dumps(list(SCENARIOS)))
    elif sys.argv[1] == "suspended":
        suspended(sys.argv[2], sys.argv[3])
    else:
        SCENARIOS[sys.argv[1]]()
