/** What a program does with a ledger, from the first call to close(). Resolves with what happened; it must not hang. */
export async function scenario({ nevertwice, notSent }, store) {
  const nt = nevertwice({ store, onWarning: () => {} });
  const effects = { once: 0, many: 0, retried: 0, queued: 0 };
  for (let call = 0; call < 2; call += 1) await nt.once("once", ["x"], async () => ++effects.once);

  const many = nt.action("many", { key: ["id"], run: async () => ++effects.many });
  await Promise.all(Array.from({ length: 60 }, (_, id) => many({ id })));
  await many({ id: 7 });

  // Fails twice, with pauses between the attempts; a time limit of its own.
  const retried = nt.action("retried", {
    key: ["id"],
    timeout: "20s",
    wait: "20s",
    retry: { attempts: 3, backoff: "20ms" },
    run: async (_, { attempt }) => {
      if (attempt < 3) throw notSent(new Error("503"));
      return ++effects.retried;
    },
  });
  await retried({ id: 1 });

  let sent;
  const allSent = new Promise((done) => {
    sent = done;
  });
  const queued = nt.action("queued", {
    key: ["id"],
    retry: { attempts: 3, backoff: "20ms" },
    run: async (_, { attempt }) => {
      if (attempt < 2) throw notSent(new Error("503"));
      effects.queued += 1;
      if (effects.queued === 3) sent();
    },
  });
  await Promise.all([1, 2, 3].map((id) => queued.enqueue({ id })));
  const worker = nt.worker({ poll: "50ms" });
  await worker.start();
  await allSent;
  await worker.stop();
  await nt.store.stats();
  await nt.close();
  return effects;
}

export const EXPECTED = { once: 1, many: 60, retried: 1, queued: 3 };
