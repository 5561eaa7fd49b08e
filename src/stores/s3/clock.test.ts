import { describe, expect, it, onTestFinished } from "vitest";
import { type S3ServerOptions, startS3 } from "../../../test/support/s3-server.ts";
import { nevertwice } from "../../nevertwice.ts";
import { sampleRecord } from "../../testing/index.ts";
import { S3Clock } from "./clock.ts";
import { s3Store } from "./index.ts";

const HOUR_MS = 3_600_000;
const credentials = { accessKeyId: "a", secretAccessKey: "b" };

async function bucket(options: S3ServerOptions = {}) {
  const server = await startS3(options);
  onTestFinished(() => server.close());
  const open = () => {
    const store = s3Store({ url: server.url, endpoint: server.endpoint, credentials, timeoutMs: 2_000 });
    onTestFinished(() => store.close());
    return store;
  };
  return { server, open };
}

function host() {
  const at = { wall: 1_000_000, monotonic: 500 };
  return {
    at,
    clock: new S3Clock({ wall: () => at.wall, monotonic: () => at.monotonic }),
    pass: (ms: number) => {
      at.wall += ms;
      at.monotonic += ms;
    },
  };
}

describe("the object store's time", () => {
  it("is this host's until the server has answered, and stays so where they agree", () => {
    const { clock } = host();
    expect(clock.now()).toBe(1_000_000);
    clock.observe(1_000_000, 400, 500);
    expect([clock.now(), clock.describeSkew()]).toEqual([1_000_000, null]);
  });

  it("does not follow a wall clock that is set while the program runs", () => {
    const { clock, at, pass } = host();
    clock.observe(1_000_000, 400, 500);
    at.wall -= HOUR_MS;
    pass(5_000);
    expect(clock.now()).toBe(1_005_000);
    expect(clock.describeSkew()).toBe("this host's clock is 1 h behind the object store's");
    at.wall += 2 * HOUR_MS + 90_000;
    expect(clock.describeSkew()).toMatch(/^this host's clock is 1 h 2 min ahead of the object store's$/);
  });

  it("is corrected by the first answer after a suspend, during which the monotonic clock stood still", () => {
    const { clock, at } = host();
    clock.observe(1_000_000, 400, 500);
    clock.observe(1_000_000 + 8 * HOUR_MS, at.monotonic, at.monotonic + 20);
    at.monotonic += 20;
    expect(Math.abs(clock.now() - 1_000_000 - 8 * HOUR_MS)).toBeLessThanOrEqual(1_020);
  });

  it("a slow answer moves it no further than the answer can tell", () => {
    const { clock, at } = host();
    clock.observe(1_000_000, 400, 500);
    // Asked 30 s ago: the server's time was this one at some moment of those.
    clock.observe(1_010_000, at.monotonic, at.monotonic + 30_000);
    at.monotonic += 30_000;
    expect(clock.now()).toBe(1_030_000);
  });
});

describe.each([
  ["an hour behind", HOUR_MS],
  ["an hour ahead", -HOUR_MS],
  ["forty days behind", 40 * 24 * HOUR_MS],
])("a host whose clock is %s", (_, serverAheadMs) => {
  const now = () => Date.now() + serverAheadMs;

  it("is served: one request is refused, repeated with the server's time, and no other is", async () => {
    const { server, open } = await bucket({ now });
    const nt = nevertwice({ store: open(), sweep: false });
    onTestFinished(() => nt.close());
    let effects = 0;
    for (let call = 0; call < 3; call += 1) await nt.once("send", ["x"], async () => ++effects);
    expect(effects).toBe(1);
    expect(server.skewedRequests.length).toBe(1);
    const { items } = await nt.store.list({ limit: 5 });
    expect(Math.abs((items[0]?.record.createdAt ?? 0) - now())).toBeLessThan(60_000);
  });

  it("doctor names the difference, its direction and the remedy", async () => {
    const { open } = await bucket({ now });
    const store = open();
    await store.read(["nt1_a"]);
    const finding = (await store.inspect?.())?.find(({ name }) => name === "clock");
    expect(finding).toMatchObject({ ok: false, advice: expect.stringContaining("NTP") });
    expect(finding?.value).toMatch(serverAheadMs > 0 ? /behind the object store's/ : /1 h ahead of the object store's/);
  });
});

describe("the clocks part while the program runs", () => {
  it.each([
    ["insert", null],
    ["swap", 1],
  ])("a conditional %s that is refused for its time is written once by the repeat", async (_, swaps) => {
    let offMs = 0;
    const { server, open } = await bucket({ now: () => Date.now() + offMs });
    const store = open();
    const [first] = await store.write([{ record: sampleRecord({ key: "nt1_a" }), expected: null }]);
    const version = first?.ok ? first.version : 0;
    server.writes.length = 0;
    server.requests.length = 0;
    offMs = 2 * HOUR_MS;
    const put =
      swaps === null
        ? { record: sampleRecord({ key: "nt1_b" }), expected: null }
        : { record: sampleRecord({ key: "nt1_a", attempt: 2 }), expected: version };
    expect(await store.write([put])).toMatchObject([{ ok: true }]);
    expect(server.skewedRequests.length).toBe(1);
    expect(server.writes).toEqual([`agents/records/${put.record.key}`]);
    expect(server.requests.map(({ method }) => method)).toEqual(["PUT", "PUT"]);
  });

  it("a rival that wrote meanwhile wins: the repeat meets its object, and is not taken for the first try", async () => {
    let offMs = 0;
    const { server, open } = await bucket({ now: () => Date.now() + offMs });
    const [ours, theirs] = [open(), open()];
    await ours.read(["nt1_a"]);
    offMs = HOUR_MS;
    await theirs.write([{ record: sampleRecord({ key: "nt1_a", holder: "b" }), expected: null }]);
    const [result] = await ours.write([{ record: sampleRecord({ key: "nt1_a", holder: "a" }), expected: null }]);
    expect(result).toMatchObject({ ok: false, current: { record: { holder: "b" } } });
    expect(server.skewedRequests.length).toBe(2);
  });

  it("a server's clock that is set forth and back does not end what is kept, nor a lease", async () => {
    let offMs = 0;
    const { open } = await bucket({ now: () => Date.now() + offMs });
    const nt = nevertwice({ store: open(), sweep: false });
    onTestFinished(() => nt.close());
    let effects = 0;
    for (const off of [0, HOUR_MS, -HOUR_MS, 0]) {
      offMs = off;
      await nt.once("send", ["x"], async () => ++effects);
      await nt.store.sweep({ limit: 10 });
    }
    expect(effects).toBe(1);
  });
});

describe("a request that stays refused for its time", () => {
  it("is repeated once, and the error says how far off which clock is, and what to do", async () => {
    let asked = 0;
    // A server whose clock runs away: whatever it is given, it wants another hour.
    const { server, open } = await bucket({ now: () => Date.now() + HOUR_MS * ++asked });
    await expect(open().read(["nt1_a"])).rejects.toMatchObject({
      code: "CONFIG",
      message: expect.stringMatching(
        /refused the time of a request \(403 RequestTimeTooSkewed: .*this host's clock is \d+ h( \d+ min)? behind the object store's\. Nothing was written by it\. A second request.*refused too\. Set the host's clock by NTP/,
      ),
    });
    expect(server.skewedRequests.length).toBe(server.requests.length);
  });

  it("names the difference where a fetch of the user's signs with the host's clock", async () => {
    const { server } = await bucket({ now: () => Date.now() + HOUR_MS });
    const store = s3Store({
      url: server.url,
      endpoint: server.endpoint,
      fetch: (url, init) => {
        const stamp = new Date().toISOString().replace(/[-:]|\.\d{3}/g, "");
        const authorization = `AWS4-HMAC-SHA256 Credential=x/${stamp.slice(0, 8)}/eu/s3/aws4_request, SignedHeaders=host, Signature=${"0".repeat(64)}`;
        return fetch(url, { ...init, headers: { ...init.headers, "x-amz-date": stamp, authorization } });
      },
    });
    await expect(store.read(["nt1_a"])).rejects.toThrow(
      /this host's clock is 1 h behind the object store's.*The fetch that was passed to s3Store signs with the host's clock; with credentials instead/,
    );
    expect(server.requests.length).toBe(1);
  });
});
