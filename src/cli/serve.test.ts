/** `nevertwice serve`: its flags, its one line, its token, and its end. */
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { CliLedger } from "../../test/support/cli.ts";
import { gate, until } from "../../test/support/gate.ts";

let ledger: CliLedger;
beforeEach(() => {
  ledger = new CliLedger();
  writeFileSync(join(ledger.folder, "package.json"), "{}\n");
  mkdirSync(join(ledger.folder, ".nevertwice"));
});
afterEach(() => ledger.close());

/** Runs it until the test has asked something of it. */
async function serving(argv: readonly string[], env: Record<string, string>, work: (url: string) => Promise<void>) {
  const interrupt = gate<() => void>();
  const written: string[] = [];
  const running = ledger.run(["serve", "--port", "0", ...argv], {
    env,
    interrupts: interrupt.open,
    written: (text) => written.push(text),
  });
  await until(() => written.join("").includes("http://"), "it says where it listens");
  const [url = ""] = /http:\/\/[\d.:]+/.exec(written.join("")) ?? [];
  try {
    await work(url);
  } finally {
    (await interrupt.opened)();
  }
  return running;
}

const ask = (url: string, token: string) =>
  fetch(`${url}/v1/status`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ action: "send", parts: [1] }),
  }).then(({ status }) => status);

it("D7: prints one line with its URL, takes the token of the environment, and ends when asked", async () => {
  const token = "0123456789abcdef";
  const { code, out, err } = await serving([], { NEVERTWICE_SERVE_TOKEN: token }, async (url) => {
    expect(await ask(url, token)).toBe(200);
    expect(await ask(url, "another")).toBe(401);
  });
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(out).toMatch(/^nevertwice serve on http:\/\/127\.0\.0\.1:\d+\n$/);
});

it("D7: makes a token where none was given, for this run or in a file that only its owner reads", async () => {
  const { err } = await serving([], {}, async () => {});
  expect(err).toMatch(/^nevertwice: the token for this run: [\w-]{43}\n$/);
  const file = join(ledger.folder, "serve.token");
  const first = await serving(["--token-file", "serve.token"], {}, async (url) => {
    expect(await ask(url, readFileSync(file, "utf8").trim())).toBe(200);
  });
  expect(first.err).toBe("");
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const token = readFileSync(file, "utf8").trim();
  await serving(["--token-file", "serve.token"], {}, async (url) => {
    expect(await ask(url, token)).toBe(200);
  });
});

it.each<[string[], Record<string, string>, RegExp]>([
  [["--host", "0.0.0.0"], {}, /lets other hosts connect.*add --expose/],
  [["--host", "example.com"], {}, /it takes an IP address of this host/],
  [["--port", "x"], {}, /--port x: it takes a number from 0 to 65535/],
  [["--port", "70000"], {}, /--port 70000/],
  [["--socket", "s", "--port", "1"], {}, /--socket goes without --port/],
  [["--token", "short"], {}, /--token: a token has at least 16 characters/],
  [[], { NEVERTWICE_SERVE_TOKEN: "has blanks in the middle" }, /\$NEVERTWICE_SERVE_TOKEN: a token has at least 16/],
  [[], { NEVERTWICE_SERVE_TOKEN: "" }, /\$NEVERTWICE_SERVE_TOKEN: a token has at least 16/],
  [["--token", "0123456789abcdef", "--token-file", "f"], {}, /two tokens are given: leave out --token-file or --token/],
  [["--token-file", "open.token"], {}, /can be read by others\. Correct it: chmod 600/],
  [["--token-file", "none/there"], {}, /cannot be made/],
  [["--sweep", "soon"], {}, /sweep: "soon" is not a duration/],
  [["--secret-env", "NONE"], {}, /--secret-env NONE: that variable is not set/],
  [["--secret-env", "S"], { S: "abc" }, /secret: must be .* of at least 16 bytes.*this one has 3/],
])("D7: serve %j is refused with what to do", async (argv, env, words) => {
  writeFileSync(join(ledger.folder, "open.token"), "0123456789abcdef\n", { mode: 0o644 });
  const { code, err } = await ledger.run(["serve", ...argv], { env });
  expect(err).toMatch(words);
  expect(code).toBe(2);
});

it("D7: a port that is taken is an error that says so", async () => {
  await serving([], { NEVERTWICE_SERVE_TOKEN: "0123456789abcdef" }, async (url) => {
    const { port } = new URL(url);
    const second = await ledger.run(["serve", "--port", port], {});
    expect(second).toMatchObject({ code: 1, err: expect.stringContaining("Another program listens there") });
  });
});

const post = async (url: string, operation: string, body: object) => {
  const headers = { authorization: "Bearer 0123456789abcdef", "content-type": "application/json" };
  const answer = await fetch(`${url}/v1/${operation}`, { method: "POST", headers, body: JSON.stringify(body) });
  return (await answer.json()) as { token: string; key: string; status: string };
};
const TOKEN = { NEVERTWICE_SERVE_TOKEN: "0123456789abcdef" };

it("D7: a second success with another result is in its log, and in the settle command's notes", async () => {
  const { err } = await serving([], TOKEN, async (url) => {
    const first = await post(url, "claim", { action: "dup", parts: [1] });
    await post(url, "settle", { token: first.token, as: "unknown" });
    const second = await post(url, "claim", { action: "dup", parts: [1], doubt: "retry" });
    await post(url, "settle", { token: second.token, as: "done", result: "m2" });
    await post(url, "settle", { token: first.token, as: "done", result: "m1" });
    const settled = await ledger.run(["settle", first.token, "--as", "done", "--result-text", "m1"]);
    expect(settled.err).toMatch(/duplicate_detected: dup/);
  });
  expect(err.match(/duplicate_detected: dup: success was reported a second time/g)).toHaveLength(1);
});

it("D7: a ledger whose records look made with a secret is not served or claimed on without it, and the reverse", async () => {
  const env = { ...TOKEN, S: "a-secret-of-the-programs-0123456789" };
  for (const id of ["a", "b", "c"])
    await ledger.run(["enqueue", "mail", id, "--input", `{"to":"${id}"}`, "--secret-env", "S"], { env });
  const refusal = /seem to be made with a secret.*--secret-env.*--no-secret/;
  for (const command of [
    ["serve", "--port", "0"],
    ["claim", "mail", "d"],
    ["enqueue", "mail", "d"],
  ]) {
    const { code, err } = await ledger.run(command, { env });
    expect(code).not.toBe(0);
    expect(err).toMatch(refusal);
  }
  expect((await ledger.run(["claim", "mail", "d", "--secret-env", "S"], { env })).code).toBe(0);
  expect((await ledger.run(["claim", "mail", "d", "--no-secret"], { env })).code).toBe(0);
  const other = await ledger.run(["claim", "mail", "d", "--secret-env", "OTHER"], {
    env: { OTHER: "another-secret-0123456789-0123456789" },
  });
  expect(other.err).toMatch(/without this secret/);
});

it("D7: a ledger that cannot be used ends it at once, with the reason", async () => {
  const nobody = "postgres://u@127.0.0.1:1/x";
  const { code, out, err } = await ledger.run(["serve", "--port", "0", "--store", nobody], { env: TOKEN });
  expect(code).not.toBe(0);
  expect(out).toBe("");
  expect(err).toMatch(/Start the server|ECONNREFUSED/);
});

it("D7: settle takes an empty --error", async () => {
  const { out } = await ledger.run(["claim", "mail", "d"]);
  expect(await ledger.run(["settle", out.trim(), "--as", "refused", "--error", ""])).toMatchObject({ code: 0 });
});
