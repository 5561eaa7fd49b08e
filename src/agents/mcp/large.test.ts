/** What docs/mcp.md says about large calls and answers. */
import { expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../../nevertwice.ts";
import { memoryStore } from "../../stores/memory.ts";
import { McpGuard } from "./guard.ts";
import { McpRelay } from "./stdio/relay.ts";

const MiB = 1024 * 1024;

function relayed() {
  const nt = nevertwice({ store: memoryStore(), sweep: false });
  onTestFinished(() => nt.close());
  const [toServer, toClient]: [string[], string[]] = [[], []];
  const config = { tools: { send: { key: ["to"], free: ["body"], wait: 0 } } };
  const guard = new McpGuard({ nt, config, server: "mail", identity: "mail" });
  const relay = new McpRelay({
    guard,
    toServer: (line) => void toServer.push(line),
    toClient: (line) => void toClient.push(line),
  });
  const call = (id: number, args: object) =>
    relay.fromClient(
      JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params: { name: "send", arguments: args } }),
    );
  return { relay, toServer, toClient, call };
}

it("arguments beyond 4 MiB are not run, unless the large field is free", async () => {
  const { relay, toServer, toClient, call } = relayed();
  call(1, { to: "ada", attachment: "x".repeat(4 * MiB) });
  await relay.idle();
  expect(toClient[0]).toMatch(/Not run: .*4194304 bytes.*`free`/);
  call(2, { to: "ada", body: "x".repeat(4 * MiB) });
  await expect.poll(() => toServer.length).toBe(1);
  relay.fromServer(JSON.stringify({ jsonrpc: "2.0", id: 2, result: { content: [] } }));
  await relay.idle();
});

it("an answer beyond 1 MiB reaches its caller; a repeat is not run, and hears that the result was not kept", async () => {
  const { relay, toServer, toClient, call } = relayed();
  call(1, { to: "ada" });
  await expect.poll(() => toServer.length).toBe(1);
  const answer = JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    result: { content: [{ type: "text", text: "x".repeat(MiB) }] },
  });
  relay.fromServer(answer);
  await relay.idle();
  expect(toClient).toEqual([answer]);
  call(2, { to: "ada" });
  await relay.idle();
  expect(toServer).toHaveLength(1);
  expect(toClient[1]).toMatch(/result was not kept/);
});
