/**
 * The guarded actions the crash tests run: one per kind of provider. An id's first letter names its kind: A honours
 * idempotency keys, B can be probed, C is neither and holds its doubts.
 */
const REQUEST_TIMEOUT_MS = 30_000;

export const KINDS = ["A", "B", "C"];

export function kindOf(id) {
  return id[0];
}

/**
 * `pause(point, id)` is called at the named points of an attempt, so that a test can stop or kill the process there:
 * prepare (claimed, no send mark), marked (send mark durable, nothing sent), replied (the provider answered, nothing
 * confirmed).
 */
export function makeActions(nt, spec, pause = async () => {}) {
  return Object.fromEntries(KINDS.map((kind) => [kind, makeAction(nt, kind, spec, pause)]));
}

function makeAction(nt, kind, spec, pause) {
  const { leaseMs = 600, timeoutMs = Math.floor(leaseMs * 0.8), waitMs = 0, quietMs = 50 } = spec;
  const doubts = {
    A: { resendWithin: "1h" },
    B: { probe: (input) => probe(spec.provider, input.id), quietFor: quietMs },
    C: "hold",
  };
  return nt.action(`effect_${kind}`, {
    key: ["id"],
    lease: leaseMs,
    timeout: timeoutMs,
    wait: waitMs,
    keep: "forever",
    doubt: doubts[kind],
    retry: { attempts: 50, backoff: 5, max: 50 },
    ...(spec.prepare && {
      prepare: async (input) => {
        await pause("prepare", input.id);
        return { text: `draft of ${input.id}` };
      },
    }),
    run: async (input, context, draft) => {
      await pause("marked", input.id);
      const result = await send(spec.provider, { id: input.id, kind, text: draft?.text ?? "plain" }, context);
      await pause("replied", input.id);
      return result;
    },
  });
}

async function send(provider, body, context) {
  const response = await fetch(`${provider}/effects`, {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": context.key },
    body: JSON.stringify(body),
    signal: AbortSignal.any([context.signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]),
  });
  const answer = await response.json();
  if (!response.ok)
    throw Object.assign(new Error(`the provider answered ${response.status}`), { status: response.status });
  return answer;
}

async function probe(provider, id) {
  const response = await fetch(`${provider}/effects?id=${encodeURIComponent(id)}`);
  const { count } = await response.json();
  return count > 0 ? { as: "done", result: { id: `${id}#${count}` } } : "not-done";
}
