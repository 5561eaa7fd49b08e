import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { steeredClock } from "../../../test/support/each-store.ts";
import { type Fault, type S3ServerOptions, startS3 } from "../../../test/support/s3-server.ts";
import { instantOf } from "../../core/store.ts";
import { nevertwice } from "../../nevertwice.ts";
import { sampleRecord, storeConformance } from "../../testing/index.ts";
import { s3Store } from "./index.ts";
import { credentialsFrom, s3Place } from "./location.ts";
import { signed } from "./signature.ts";

const credentials = {
  accessKeyId: "AKIAIOSFODNN7EXAMPLE",
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
};
const put = (key: string) => ({ record: sampleRecord({ key }), expected: null });

storeConformance({
  name: "s3",
  runner: { describe, it },
  offers: ["reopen", "advance", "corrupt"],
  open: async () => {
    const server = await startS3({ pageSize: 7 });
    const clock = steeredClock();
    const options = { url: server.url, endpoint: server.endpoint, credentials, clock };
    const store = s3Store(options);
    return {
      store,
      reopen: () => s3Store(options),
      advance: clock.advance,
      corrupt: (key) => server.alter(`agents/records/${key}`, (body) => body.replace('"fence":', '"fenCe":')),
      dispose: async () => {
        await store.close();
        await server.close();
      },
    };
  },
});

storeConformance({
  name: "s3, an endpoint without conditional deletes",
  runner: { describe, it },
  offers: ["reopen", "advance"],
  open: async () => {
    const server = await startS3({ ignores: ["delete-if-match"] });
    const clock = steeredClock();
    const options = { url: server.url, endpoint: server.endpoint, credentials, clock };
    const store = s3Store(options);
    return { store, reopen: () => s3Store(options), advance: clock.advance, dispose: () => server.close() };
  },
});

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

describe("F33: conditional writes that do not go as planned", () => {
  const cases: [string, (nth: number) => Fault][] = [
    ["the reply to our own success is lost, and the second try is told 412", (nth) => (nth === 1 ? "lost" : "fine")],
    ["done, and answered with 500", (nth) => (nth === 1 ? "done-but-500" : "fine")],
    ["409: two conditional writes met", (nth) => (nth <= 2 ? 409 : "fine")],
    ["503: slow down, four times", (nth) => (nth <= 4 ? 503 : "fine")],
    ["cut before it was heard", (nth) => (nth === 1 ? "unheard" : "fine")],
    ["409, then done but lost", (nth) => (nth === 1 ? 409 : nth === 2 ? "lost" : "fine")],
  ];

  it.each(cases)("%s: written once, and known as ours", async (_, fate) => {
    const { server, open } = await bucket();
    const store = open();
    await store.read(["nt1_x"]);
    server.script(({ method, nth }) => (method === "PUT" ? fate(nth) : "fine"));
    const [inserted] = await store.write([put("nt1_a")]);
    expect(inserted).toMatchObject({ ok: true });
    server.script(({ method, nth }) => (method === "PUT" ? fate(nth) : "fine"));
    const version = inserted?.ok ? inserted.version : 0;
    const [updated] = await store.write([{ record: sampleRecord({ key: "nt1_a", attempt: 2 }), expected: version }]);
    expect(updated).toMatchObject({ ok: true });
    expect((await open().read(["nt1_a"]))[0]).toMatchObject({
      record: { attempt: 2 },
      version: updated?.ok && updated.version,
    });
  });

  it("a rival's record is never taken for ours, lost replies or not", async () => {
    const { server, open } = await bucket();
    const [a, b] = [open(), open()];
    await Promise.all([a.read([]), b.read([]), a.stats()]);
    server.script(({ method, nth }) => (method === "PUT" && nth === 1 ? "unheard" : "fine"));
    const [ours, theirs] = await Promise.all([
      a.write([{ record: sampleRecord({ key: "nt1_a", holder: "a" }), expected: null }]),
      b.write([{ record: sampleRecord({ key: "nt1_a", holder: "b" }), expected: null }]),
    ]);
    expect([ours[0]?.ok, theirs[0]?.ok].filter(Boolean).length).toBe(1);
    const winner = ours[0]?.ok ? "a" : "b";
    expect((await open().read(["nt1_a"]))[0]?.record.holder).toBe(winner);
  });

  it("a server that stays down: STORE_UNAVAILABLE after a bounded number of tries", async () => {
    const { server, open } = await bucket();
    const store = open();
    await store.read(["nt1_x"]);
    server.script(() => 503);
    server.requests.length = 0;
    await expect(store.write([put("nt1_a")])).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(/did not answer 7 times: .*answered 503.*\. Nothing was run by this call\. Check/),
    });
    expect(server.requests.length).toBe(7);
  }, 20_000);
});

describe("the self-test", () => {
  it.each([
    [["if-none-match"], /it ignores If-None-Match: an object that was there was overwritten/],
    [["if-match"], /it ignores If-Match: an object that had changed was overwritten/],
  ] as const)("an endpoint that ignores %j is refused, and nothing is left in it", async (ignores, message) => {
    const { server, open } = await bucket({ ignores });
    await expect(open().read(["nt1_a"])).rejects.toThrow(message);
    await expect(open().write([put("nt1_a")])).rejects.toMatchObject({ code: "CONFIG" });
    expect([...server.objects.keys()]).toEqual([]);
  });

  it("passes on a server that loses replies while it is asked", async () => {
    const { server, open } = await bucket();
    server.script(({ method, nth }) => (method === "PUT" && nth === 1 ? "lost" : "fine"));
    expect(await open().read(["nt1_a"])).toEqual([null]);
  });
});

describe("D4: leases without a common clock", () => {
  const leased = (until: number, epoch: string) =>
    sampleRecord({ key: "nt1_a", state: "sent", holder: "h", lease: { until, epoch } });

  /** A store of another process: its steady clock starts elsewhere and has another name. */
  const elsewhere = (server: { url: string; endpoint: string }, steady: () => number, wallOffMs: number) =>
    s3Store({
      url: server.url,
      endpoint: server.endpoint,
      credentials,
      clock: { instant: () => ({ now: Date.now() + wallOffMs, steady: steady(), epoch: "another process" }) },
    });

  it("F18: another host sees a live lease as live, whatever its own clocks say", async () => {
    const { server, open } = await bucket();
    const store = open();
    const { steady, epoch } = instantOf(store);
    await store.write([{ record: leased(steady + 30_000, epoch), expected: null }]);
    for (const off of [-600_000, 0, 3_600_000]) {
      const far = elsewhere(server, () => 5_000_000, off);
      expect((await far.list({ limit: 5, lapsed: true })).items).toEqual([]);
      const [seen] = await far.read(["nt1_a"]);
      expect(seen?.record.lease?.epoch).toBe("another process");
      expect((seen?.record.lease?.until ?? 0) - 5_000_000).toBeGreaterThan(25_000);
    }
  });

  it("a lease that is over by the server's own clock is over for a process that was just started", async () => {
    let server_ = Date.now();
    const { server, open } = await bucket({ now: () => server_ });
    const store = open();
    const { steady, epoch } = instantOf(store);
    await store.write([{ record: leased(steady + 30_000, epoch), expected: null }]);
    server_ += 29_000;
    expect((await elsewhere(server, () => 5, 0).list({ limit: 5, lapsed: true })).items).toEqual([]);
    server_ += 4_000;
    expect((await elsewhere(server, () => 5, 0).list({ limit: 5, lapsed: true })).items.length).toBe(1);
  });

  it("an unchanged object's lease runs out on our own monotonic clock", async () => {
    const { server, open } = await bucket();
    const store = open();
    const { steady, epoch } = instantOf(store);
    await store.write([{ record: leased(steady + 30_000, epoch), expected: null }]);
    let mine = 100;
    const far = elsewhere(server, () => mine, 0);
    await far.read(["nt1_a"]);
    mine += 29_000;
    expect((await far.list({ limit: 5, lapsed: true })).items).toEqual([]);
    mine += 3_000;
    expect((await far.list({ limit: 5, lapsed: true })).items.length).toBe(1);
  });

  it("now() follows the server where this host's clock is wrong", async () => {
    const { open } = await bucket({ now: () => Date.now() + 600_000 });
    const store = open();
    await store.read(["nt1_a"]);
    expect(Math.abs(store.now() - Date.now() - 600_000)).toBeLessThan(5_000);
  });
});

describe("S3 requests", () => {
  it("are signed as Amazon's own example is", () => {
    const headers = signed(
      {
        method: "GET",
        url: new URL("https://examplebucket.s3.amazonaws.com/test.txt"),
        headers: { Range: "bytes=0-9" },
        body: "",
      },
      credentials,
      "us-east-1",
      new Date("2013-05-24T00:00:00Z"),
    );
    expect(headers.authorization).toMatch(
      /Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41$/,
    );
    const listed = signed(
      {
        method: "GET",
        url: new URL("https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J"),
        headers: {},
        body: "",
      },
      credentials,
      "us-east-1",
      new Date("2013-05-24T00:00:00Z"),
    );
    expect(listed.authorization).toMatch(/Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7$/);
  });

  it("only changed objects are fetched by a list", async () => {
    const { server, open } = await bucket({ pageSize: 10 });
    const store = open();
    await store.write(Array.from({ length: 25 }, (_, i) => put(`nt1_${i}`)));
    const other = open();
    await other.stats();
    server.requests.length = 0;
    await store.write([put("nt1_new")]);
    expect((await other.stats()).total).toBe(26);
    const fetched = server.requests.filter(({ method, name }) => method === "GET" && name !== "");
    expect(fetched.map(({ name }) => name)).toEqual(["agents/records/nt1_new"]);
  });

  it("guard an action end to end, by name", async () => {
    const { server } = await bucket();
    const env = { ...process.env };
    onTestFinished(() => {
      process.env = env;
    });
    Object.assign(process.env, {
      AWS_ACCESS_KEY_ID: "a",
      AWS_SECRET_ACCESS_KEY: "b",
      AWS_ENDPOINT_URL_S3: server.endpoint,
    });
    let effects = 0;
    for (let program = 0; program < 2; program += 1) {
      const nt = nevertwice({ store: "s3://ledger/agents", sweep: false });
      expect(await nt.once("send", ["x"], async () => ++effects)).toBe(1);
      await nt.close();
    }
    expect(effects).toBe(1);
  });

  it("a fetch that signs by itself is used as it is", async () => {
    const { server } = await bucket();
    const urls: string[] = [];
    const store = s3Store({
      url: server.url,
      endpoint: server.endpoint,
      fetch: (url, init) => {
        urls.push(url);
        const headers = {
          ...init.headers,
          authorization: `AWS4-HMAC-SHA256 Credential=x/s3/aws4_request, SignedHeaders=host, Signature=${"0".repeat(64)}`,
        };
        return fetch(url, { ...init, headers });
      },
    });
    await store.write([put("nt1_a")]);
    expect(urls.at(-1)).toBe(`${server.endpoint}/ledger/agents/records/nt1_a`);
  });

  it("a variable that is set to nothing is not set", () => {
    const env = { AWS_REGION: "", AWS_DEFAULT_REGION: "eu-central-1", AWS_ENDPOINT_URL: "", AWS_ACCESS_KEY_ID: "" };
    expect(s3Place({ url: "s3://b/p" }, env)).toMatchObject({
      region: "eu-central-1",
      base: "https://b.s3.eu-central-1.amazonaws.com",
    });
    expect(() => credentialsFrom(env)).toThrow(/there are no credentials\. Set AWS_ACCESS_KEY_ID/);
  });

  it("what is wrong is said", async () => {
    const { server } = await bucket();
    expect(() => s3Store({ url: "s3://", credentials })).toThrow(/names no bucket. Write s3:\/\/bucket\/prefix/);
    expect(() => s3Store({ url: "s3://b?acl=x", credentials })).toThrow(/acl is not a parameter of an S3 address/);
    expect(() => s3Store({ url: "s3://b", endpoint: "minio", credentials })).toThrow(/endpoint is "minio"; give a URL/);
    expect(() => s3Store(undefined as never)).toThrow(/give it options: s3Store\(\{ url/);
    expect(() => s3Store({ url: "s3://b", regoin: "x", credentials } as never)).toThrow(
      /there is no option "regoin"\. The options are: url, region, endpoint/,
    );
    expect(() => s3Store({ url: "s3://b:nine/p", credentials })).toThrow(/names no bucket/);
    expect(() => s3Store({ url: "s3://b/%zz", credentials })).toThrow(/the prefix "\/%zz" is not well encoded/);
    expect(() => s3Store({ url: "s3://b:9000/p", credentials })).toThrow(/a port belongs to the endpoint/);
    const secret = () => s3Store({ url: "s3://id:geheim@b/p", credentials });
    expect(secret).toThrow(/without credentials or a port/);
    expect(secret).not.toThrow(/geheim/);
    expect(() => s3Store({ url: "s3://b", credentials: { accessKeyId: "a" } as never })).toThrow(
      /the credentials have no secretAccessKey/,
    );
    const half = s3Store({ url: server.url, endpoint: server.endpoint, credentials: async () => ({}) as never });
    await expect(half.read(["k"])).rejects.toThrow(/the credentials have no accessKeyId/);
    const noBucket = s3Store({ url: "s3://other", endpoint: server.endpoint, credentials });
    await expect(noBucket.read(["k"])).rejects.toThrow(/has no such bucket|404/);
    server.script(() => 403);
    await expect(s3Store({ url: server.url, endpoint: server.endpoint, credentials }).read(["k"])).rejects.toThrow(
      /refused access.*the ledger needs GetObject, PutObject, DeleteObject and ListBucket/,
    );
  });
});

describe("where records go", () => {
  it.each([301, 302, 303, 307, 308])("a redirect (%i) is not followed, with records or without", async (status) => {
    const elsewhere = await startS3();
    onTestFinished(() => elsewhere.close());
    const redirecting = createServer((_, response) => {
      response.writeHead(status, { location: `${elsewhere.endpoint}/ledger/x` }).end();
    });
    await new Promise<void>((ready) => redirecting.listen(0, "127.0.0.1", ready));
    onTestFinished(() => void redirecting.close());
    const endpoint = `http://127.0.0.1:${(redirecting.address() as AddressInfo).port}`;
    const store = s3Store({ url: "s3://ledger/agents", endpoint, credentials });
    const calls = [() => store.read(["nt1_a"]), () => store.write([put("nt1_a")]), () => store.list({ limit: 1 })];
    for (const call of calls) {
      await expect(call()).rejects.toThrow(new RegExp(`answered ${status} and points to .*Redirects are not followed`));
    }
    expect(elsewhere.requests).toEqual([]);
  });

  it.each(["a/../b", "..", "../other", "a//b", "./a", "a/.", "%2e%2e/other", "a/%2E%2E", "a%00b", "a%0ab", "a\\b"])(
    "the prefix %s is refused",
    (prefix) => {
      expect(() => s3Store({ url: `s3://b/${prefix}`, credentials })).toThrow(/the prefix .* has a part that is/);
    },
  );

  it.each(["agents", "agents/", "/agents", "a.b/..c/d...", "with%20blank"])("the prefix %s is fine", (prefix) => {
    expect(s3Store({ url: `s3://b/${prefix}`, credentials }).name).toMatch(/^s3:\/\/b\//);
  });

  it.each([".", "..", "../../other", "a/../b"])("the key %s stays below its prefix", async (key) => {
    const { server, open } = await bucket();
    const store = open();
    await store.write([put(key)]);
    const [stored] = await store.read([key]);
    expect(stored?.record.key).toBe(key);
    expect(server.requests.filter(({ name }) => name !== "" && !name.startsWith("agents/"))).toEqual([]);
  });

  it("an endpoint with a user or a password is refused, and they are not shown", () => {
    for (const endpoint of ["https://ana:geheim@minio.example:9000", "https://geheim@minio.example"]) {
      const open = () => s3Store({ url: "s3://b", endpoint, credentials });
      expect(open).toThrow(/the endpoint holds a user or a password/);
      expect(open).not.toThrow(/geheim/);
    }
    expect(() => s3Store({ url: "s3://b", endpoint: "https://h?token=geheim", credentials })).not.toThrow(/geheim/);
  });
});
