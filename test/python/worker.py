"""A client that is killed: works through its ids in a random order, in every way the client has, until it is done or dead."""

import asyncio
import json
import os
import random
import sys
import time
import urllib.request

from nevertwice import Nevertwice, NevertwiceError

PROVIDER = os.environ["PROVIDER_URL"]
spec = json.loads(sys.argv[1])
chance = random.Random(spec["seed"])
LEASE = spec["lease"]
WAIT = spec.get("wait", 0)
nt = Nevertwice(patience=30, settle_patience=30, agent="kill-test")


def say(**what):
    print(json.dumps(what), flush=True)


def send(id, key=None):
    headers = {"content-type": "application/json", **({"idempotency-key": key} if key else {})}
    data = json.dumps({"id": id, "kind": "A" if key else "C"}).encode()
    with urllib.request.urlopen(urllib.request.Request(PROVIDER, data, headers), timeout=10) as response:
        return json.load(response)["id"]


def plain(id):
    with nt.once("plain", [id], lease=LEASE, wait=WAIT) as attempt:
        if attempt.run:
            attempt.result = send(id)
    say(done=id)


def manual(id):
    with nt.once("manual", [id], lease=LEASE, wait=WAIT, mark="manual") as attempt:
        if attempt.run:
            time.sleep(chance.random() * 0.01)
            attempt.sent()
            attempt.result = send(id)
    say(done=id)


@nt.action("decorated", key=["id"], lease=LEASE)
def decorated_send(id):
    return send(id)


def decorated(id):
    decorated_send(id)
    say(done=id)


def keyed(id):
    """The provider knows the key: a doubt is sent again."""
    with nt.once("keyed", [id], lease=LEASE, wait=WAIT, doubt={"resendWithin": "1h"}) as attempt:
        if attempt.run:
            attempt.result = send(id, attempt.provider_key)
    say(done=id)


def queue(id):
    nt.enqueue("queue", [id], {"id": id})
    for attempt in nt.take(["queue"], limit=2, wait=0, lease=LEASE):
        taken = attempt.input["id"]
        try:
            with attempt:
                attempt.result = send(taken)
            say(done=taken)
        except Exception as error:
            say(failed=taken, why=type(error).__name__)


async def several(ids):
    async def one(id):
        try:
            async with nt.once("task", [id], lease=LEASE, wait=WAIT) as attempt:
                if attempt.run:
                    attempt.result = await asyncio.to_thread(send, id)
            say(done=id)
        except Exception as error:
            say(failed=id, why=type(error).__name__)

    await asyncio.gather(*(one(id) for id in ids))


WAYS = {"plain": plain, "manual": manual, "decorated": decorated, "keyed": keyed, "queue": queue}

say(event="ready")
ids = list(spec["ids"])
chance.shuffle(ids)
tasks = [id for id in ids if id.startswith("task-")]
for id in ids:
    way = id.split("-")[0]
    if way == "task":
        if tasks:
            asyncio.run(several([tasks.pop() for _ in range(min(4, len(tasks)))]))
        continue
    try:
        WAYS[way](id)
    except NevertwiceError as error:
        say(failed=id, why=type(error).__name__)
    except Exception as error:
        say(failed=id, why=type(error).__name__)
say(event="over")
