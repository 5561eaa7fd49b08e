// The program that is bundled: program <store> <file of effects> <first number> <last number> <callers> <wait>
// Calls one action for each number, and prints how the calls ended.
import { appendFileSync } from "node:fs";
import { nevertwice, rejected } from "nevertwice";
import { toolMemory } from "nevertwice/agents";
import { fileStore } from "nevertwice/file";
import { postgresStore } from "nevertwice/postgres";
import { redisStore } from "nevertwice/redis";
import { s3Store } from "nevertwice/s3";

// Entries that a program uses together: all of them must be in one bundle.
const entries = [toolMemory, fileStore, postgresStore, redisStore, s3Store];
const [store, effects, first, last, callers, wait] = process.argv.slice(2);
const tenant = process.env.NEVERTWICE_TEST_TENANT;
const warnings = [];
process.on("warning", ({ code, message }) => {
  if (code?.startsWith("NEVERTWICE")) warnings.push(`${code}: ${message}`);
});

async function main() {
  const nt = nevertwice({ store, sweep: false, ...(tenant !== undefined && { tenant }) });
  const send = nt.action("send", {
    key: ["number"],
    wait,
    run: async ({ number }) => {
      if (number === 0) throw rejected(new TypeError("zero"));
      appendFileSync(effects, `${number}\n`);
      return { number };
    },
  });
  const ended = { done: 0, replayed: 0, wrong: 0, others: {} };
  let next = Number(first);
  const caller = async () => {
    while (next <= Number(last)) {
      const number = next++;
      const outcome = await send.attempt({ number });
      if (outcome.status === "done") {
        ended.done += 1;
        if (outcome.replayed) ended.replayed += 1;
        if (outcome.result.number !== number) ended.wrong += 1;
      } else {
        ended.others[number] = outcome.status;
      }
    }
  };
  await Promise.all(Array.from({ length: Number(callers) }, caller));
  const { status, final, error } = await send.attempt({ number: 0 });
  await nt.close();
  console.log(
    JSON.stringify({ ...ended, refusal: { status, final, name: error?.name }, entries: entries.length, warnings }),
  );
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
