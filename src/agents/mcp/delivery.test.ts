/** Which answers have arrived: added up over those who asked, and told by what a client on stdio does next. */
import { expect, it } from "vitest";
import type { Receipt } from "../tool/answer.ts";
import { Deliveries, type Delivery } from "./delivery.ts";
import type { RpcMessage } from "./rpc.ts";
import { ClientLife, type Written } from "./stdio/client-life.ts";

/** What the ledger is told of one call's answers. */
function book() {
  const told: string[] = [];
  const deliveries = new Deliveries();
  let durable = false;
  const receipt = (fence: number | null, isRepeat = false): Receipt => ({
    ...{ key: "k", fence, isRepeat },
    arrived: () => void told.push(`${fence} arrived`),
    takeBack: () => !durable && told.push(`${fence} taken back`) > 0,
  });
  return {
    told,
    durable: () => {
      durable = true;
    },
    ran: (fence = 1, client = "a") => deliveries.expect(receipt(fence), client),
    repeat: (client = "a", fence = 1) => deliveries.expect(receipt(fence, true), client),
    putOff: (client = "a") => deliveries.expect(receipt(null, true), client),
  };
}

type Book = ReturnType<typeof book>;

it.each<[string, (b: Book) => void, string[]]>([
  ["one call, arrived", (b) => b.ran().arrived(), ["1 arrived"]],
  ["one call, lost", (b) => b.ran().lost(), []],
  ["lost, and its repeat arrived", (b) => [b.ran().lost(), b.repeat().arrived()], ["1 arrived"]],
  [
    "lost, and its repeat from a new connection arrived",
    (b) => [b.ran().lost(), b.repeat("b").arrived()],
    ["1 arrived"],
  ],
  ["lost, and its repeat was lost too", (b) => [b.ran().lost(), b.repeat().lost()], []],
  ["two at once, one of them is on its way", (b) => [b.repeat(), b.ran().arrived()], []],
  ["two at once, both arrived", (b) => [b.ran(), b.repeat()].map((one) => one.arrived()), ["1 arrived"]],
  ["two at once, one was lost", (b) => [b.ran(1, "a").lost(), b.ran(1, "b").arrived()], []],
  [
    "two at once, the lost one came back",
    (b) => [b.ran(1, "a").lost(), b.ran(1, "b").arrived(), b.repeat("c").arrived()],
    ["1 arrived"],
  ],
  ["a caller that was put off is still owed the answer", (b) => [b.putOff(), b.ran().arrived()], []],
  ["put off thrice, one client", (b) => [b.putOff(), b.putOff(), b.putOff(), b.repeat().arrived()], ["1 arrived"]],
  ["a repeat in a later process", (b) => b.repeat().arrived(), ["1 arrived"]],
  ["a later attempt owes nothing of the one before", (b) => [b.ran(1).lost(), b.ran(2).arrived()], ["2 arrived"]],
  ["said twice", (b) => [b.ran()].map((one) => [one.arrived(), one.arrived()]), ["1 arrived"]],
  [
    "taken back, and its repeat arrived",
    (b) => [b.ran()].map((one) => [one.arrived(), one.lost(), b.repeat().arrived()]),
    ["1 arrived", "1 taken back", "1 arrived"],
  ],
  [
    "too late to take back: the next call is a new one",
    (b) => [b.ran()].map((one) => [one.arrived(), b.durable(), one.lost(), b.ran(2).arrived()]),
    ["1 arrived", "2 arrived"],
  ],
  ["lost, then sent again by the server", (b) => [b.ran()].map((one) => [one.lost(), one.arrived()]), ["1 arrived"]],
])("%s", (_, story, told) => {
  const b = book();
  story(b);
  expect(b.told).toEqual(told);
});

const request = (id: number): RpcMessage => ({ jsonrpc: "2.0", id, method: "tools/call" });
const cancel = (requestId: number): RpcMessage => ({
  ...{ jsonrpc: "2.0", method: "notifications/cancelled" },
  params: { requestId },
});

it.each<[string, (life: ClientLife, written: Written) => unknown, string[]]>([
  ["written, and nothing since", () => {}, []],
  ["the next request", (life) => life.heard(request(2)), ["arrived"]],
  ["a message that cannot be read", (life) => life.heard(null), ["arrived"]],
  ["a cancellation of that call", (life) => life.heard(cancel(1)), ["lost"]],
  ["a cancellation of another call", (life) => life.heard(cancel(2)), ["arrived"]],
  ["a cancellation that crossed it", (life) => [life.heard(request(2)), life.heard(cancel(1))], ["arrived", "lost"]],
  [
    "a cancellation of a later request with the same id",
    (life) => [life.heard(request(1)), life.heard(cancel(1))],
    ["arrived"],
  ],
  ["the end, and the client still reads", (life) => life.ends(async () => true), ["arrived"]],
  ["the end, and nobody reads", (life) => life.ends(async () => false), ["lost"]],
  ["it could not be written", (_, written) => written(new Error("EPIPE")), ["lost"]],
  ["a message, then a crash", (life) => [life.heard(request(2)), life.ends(async () => false)], ["arrived"]],
])("an answer on stdio: %s", async (_, story, told) => {
  const got: string[] = [];
  const delivery: Delivery = { arrived: () => void got.push("arrived"), lost: () => void got.push("lost") };
  const life = new ClientLife();
  const written = life.writing("1", delivery);
  written();
  await story(life, written);
  expect(got).toEqual(told);
});

it("an answer that is still on its way to the pipe is not shown to have arrived by a message", () => {
  const got: string[] = [];
  const delivery: Delivery = { arrived: () => void got.push("arrived"), lost: () => void got.push("lost") };
  const life = new ClientLife();
  const written = life.writing("1", delivery);
  life.heard(request(2));
  expect(got).toEqual([]);
  written();
  life.heard(request(3));
  expect(got).toEqual(["arrived"]);
});

it("what is written after the client's last message is waited for by nobody", async () => {
  const got: string[] = [];
  const delivery: Delivery = { arrived: () => void got.push("arrived"), lost: () => void got.push("lost") };
  const life = new ClientLife();
  await life.ends(async () => true);
  life.writing("1", delivery)();
  expect(got).toEqual(["lost"]);
});
