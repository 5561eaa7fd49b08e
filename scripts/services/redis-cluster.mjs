// A Redis Cluster of three primaries with a replica each, put together by hand: `redis-cli --cluster create` sleeps.
import { onFreePorts } from "./free-port.mjs";
import { IN_MEMORY, Redis } from "./redis.mjs";
import { until } from "./until.mjs";

const PRIMARIES = 3;
const NODES = 6;
const SLOTS = 16_384;
// Nodes tell each other the news within half their timeout: short while the cluster forms. Afterwards Redis's default,
// because a starved machine must not look like a dead node; a test of a failover asks for less.
const FORMING_MS = 2_000;
const NODE_TIMEOUT_MS = 15_000;

/**
 * @param {import("./keep.mjs").Keep} keep
 * @param {{ name?: string, settings?: Record<string, string | number>, nodeTimeoutMs?: number }} [options]
 */
export async function startRedisCluster(keep, options = {}) {
  const { name = "cluster", settings = IN_MEMORY, nodeTimeoutMs = NODE_TIMEOUT_MS } = options;
  const members = await onFreePorts(2 * NODES, (ports) => startMembers(keep, name, settings, ports));
  const nodes = members.map(({ node }) => node);
  await Promise.all(nodes.slice(0, PRIMARIES).map(giveSlots));
  // Everyone meets everyone: waiting for the gossip to spread from one node would take seconds.
  await Promise.all(nodes.flatMap((node, at) => members.slice(at + 1).map((other) => meet(node, other))));
  await Promise.all(nodes.slice(PRIMARIES).map((replica, at) => follow(replica, nodes[at])));
  await Promise.all(nodes.map((node) => until(() => isWhole(node), { what: `the cluster seen from ${node.port}` })));
  await Promise.all(nodes.map((node) => node.call("CONFIG", "SET", "cluster-node-timeout", nodeTimeoutMs)));
  return new RedisCluster(nodes);
}

export class RedisCluster {
  /** @param {Redis[]} nodes the first three started as primaries, each next three as their replicas in this order */
  constructor(nodes) {
    this.nodes = nodes;
    /** @type {string} as NEVERTWICE_TEST_REDIS_CLUSTER has it */
    this.addresses = nodes.map(({ port }) => `127.0.0.1:${port}`).join(",");
  }
}

async function startMembers(keep, name, settings, ports) {
  const members = ports
    .slice(0, NODES)
    .map((port, at) => member(keep, `${name}-${at + 1}`, settings, port, ports[NODES + at]));
  const started = await Promise.allSettled(members.map(({ node }) => node.start()));
  const failed = started.find(({ status }) => status === "rejected");
  if (failed === undefined) return members;
  // The next try takes other ports; those that came up on these would only be in the way.
  const up = members.filter((_, at) => started[at].status === "fulfilled");
  await Promise.all(up.map(({ node }) => node.stop("kill")));
  throw failed.reason;
}

function member(keep, name, settings, port, busPort) {
  const clustered = {
    dir: keep.newFolder(name),
    databases: 1,
    "cluster-enabled": "yes",
    "cluster-port": busPort,
    "cluster-node-timeout": FORMING_MS,
    // A replica is listed once it has received anything, and the first thing is this ping (usually every ten seconds).
    "repl-ping-replica-period": 1,
  };
  return { node: new Redis({ keep, name, port, settings: { ...clustered, ...settings } }), busPort };
}

async function giveSlots(node, at) {
  const first = (index) => Math.ceil((index * SLOTS) / PRIMARIES);
  // Distinct from the start: nodes that all claim epoch 0 spend seconds on sorting that out.
  await node.call("CLUSTER", "SET-CONFIG-EPOCH", at + 1);
  await node.call("CLUSTER", "ADDSLOTSRANGE", first(at), first(at + 1) - 1);
}

async function meet(node, other) {
  await node.call("CLUSTER", "MEET", "127.0.0.1", other.node.port, other.busPort);
}

async function follow(replica, primary) {
  const id = String(await primary.call("CLUSTER", "MYID"));
  // Refused until the two have met.
  await until(() => replica.call("CLUSTER", "REPLICATE", id), { what: `${replica.name} following ${primary.name}` });
}

/** Every slot served, and every replica in step, as this node sees it. */
async function isWhole(node) {
  const info = String(await node.call("CLUSTER", "INFO"));
  const ranges = /** @type {[number, number, ...unknown[]][]} */ (await node.call("CLUSTER", "SLOTS"));
  const linked = (await node.info("replication")).match(/master_link_status:(\w+)/)?.[1] ?? "up";
  const replicated = ranges.length === PRIMARIES && ranges.every(([, , ...holders]) => holders.length === 2);
  return (
    info.includes("cluster_state:ok") && info.includes(`cluster_slots_ok:${SLOTS}`) && linked === "up" && replicated
  );
}
