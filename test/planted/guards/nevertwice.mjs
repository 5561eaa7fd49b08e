/** The real thing behind the interface of the planted designs. */
import { nevertwice } from "nevertwice";

export function openGuard(path, { leaseMs }) {
  const nt = nevertwice({ store: `sqlite:${path}`, sweep: false });
  const steps = new Map();
  const action = nt.action("effect", {
    key: ["id"],
    lease: leaseMs,
    wait: 0,
    prepare: ({ id }) => steps.get(id).prepare(),
    run: ({ id }) => steps.get(id).effect(),
  });
  return {
    async open() {
      await nt.store.stats();
    },
    async run(id, own) {
      steps.set(id, own);
      return (await action.attempt({ id })).status;
    },
    close: () => nt.close(),
  };
}
