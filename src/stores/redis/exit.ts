/**
 * Connections that the store opens by itself must not keep an otherwise finished process alive: a script that ends without
 * close() ends. What is asked of the server does keep it alive until the answer is here, by the timer that bounds each
 * command (stores/redis/link.ts), so the sockets need not.
 *
 * Neither driver has an option for it, so their sockets are looked for where they are; what is not found is left as it is.
 */
type Listener = (...args: never[]) => void;

interface Unref {
  unref?(): unknown;
}

interface IoRedisNode {
  on(event: string, listener: Listener): unknown;
  readonly stream?: Unref | null;
  readonly reconnectTimeout?: Unref | null;
}

interface IoRedisCluster extends IoRedisNode {
  readonly isCluster?: boolean;
  readonly shardedSubscribers?: {
    readonly shardedSubscribers?: ReadonlyMap<string, { readonly instance?: IoRedisNode }>;
  };
}

interface NodeRedisNode {
  readonly client?: Unref;
  readonly pubSub?: { readonly client?: Unref };
}

interface NodeRedisClient extends Unref {
  on(event: string, listener: Listener): unknown;
  readonly masters?: readonly NodeRedisNode[];
  readonly replicas?: readonly NodeRedisNode[];
}

/** To be called before it connects, and again once a cluster's client has subscribed. */
export function letProcessExit(client: object): void {
  if (typeof (client as { call?: unknown }).call === "function") ioRedis(client as IoRedisCluster);
  else nodeRedis(client as NodeRedisClient);
}

function ioRedis(client: IoRedisCluster): void {
  if (client.isCluster !== true) {
    ioRedisNode(client);
    return;
  }
  client.on("+node", (node: IoRedisNode) => ioRedisNode(node));
  client.on("reconnecting", () => void client.reconnectTimeout?.unref?.());
  for (const { instance } of client.shardedSubscribers?.shardedSubscribers?.values() ?? [])
    if (instance) ioRedisNode(instance);
}

function ioRedisNode(node: IoRedisNode): void {
  node.stream?.unref?.();
  node.on("connect", () => void node.stream?.unref?.());
  // A server that is gone is looked for again and again.
  node.on("reconnecting", () => void node.reconnectTimeout?.unref?.());
}

function nodeRedis(client: NodeRedisClient): void {
  // A single client remembers it for every socket it opens.
  client.unref?.();
  const nodes = () => {
    for (const { client: own, pubSub } of [...(client.masters ?? []), ...(client.replicas ?? [])]) {
      own?.unref?.();
      pubSub?.client?.unref?.();
    }
  };
  nodes();
  if (client.unref === undefined) for (const event of ["node-connect", "node-ready"]) client.on(event, nodes);
}
