// npm run bench [-- --quick] [-- --check] [-- --memory]: one command, one table, ratios in one run.
import { cpus, totalmem } from "node:os";
import { parseArgs } from "node:util";
import { table } from "./measure.mjs";
import { memoryBench } from "./memory.mjs";
import { sqliteBench } from "./sqlite.mjs";

const { values } = parseArgs({
  options: {
    quick: { type: "boolean" },
    check: { type: "boolean" },
    memory: { type: "boolean" },
    help: { type: "boolean" },
  },
});

if (values.help) {
  console.log(
    "npm run bench                the table\nnpm run bench -- --quick     a fifth of the calls\nnpm run bench -- --memory    a million keys through one process, resident set sampled\nnpm run bench -- --check     exit 1 when a target is missed",
  );
  process.exit(0);
}

const machine = `${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}, ${process.platform}`;
console.log(`${machine}\n`);
const missed = values.memory ? await memory() : await embedded();
if (missed.length > 0) console.log(`\nbelow target: ${missed.join("; ")}`);
process.exit(values.check && missed.length > 0 ? 1 : 0);

async function embedded() {
  const rows = await sqliteBench({ total: values.quick ? 2_000 : 10_000 });
  const shown = rows.map(({ name, rate, ratio, target, loop }) => [
    name,
    Math.round(rate).toLocaleString("en"),
    ratio === null ? "1.00" : ratio.toFixed(2),
    target === null ? "" : `≥ ${target}`,
    loop.p50.toFixed(1),
    loop.p99.toFixed(1),
  ]);
  console.log(
    table([["SQLite, WAL, synchronous=FULL", "calls/s", "ratio", "target", "loop p50 ms", "p99 ms"], ...shown]),
  );
  return rows.filter(({ ratio, target }) => target !== null && ratio < target).map(({ name }) => name);
}

async function memory() {
  const { rows, flat, grownBy } = await memoryBench({ keys: values.quick ? 200_000 : 1_000_000 });
  console.log(table([["keys written", "resident MB", "keys/s"], ...rows]));
  console.log(`\nresident set after the first 100 000 keys: ${flat ? "flat" : "growing"} (${grownBy.toFixed(0)} MB)`);
  return flat ? [] : ["memory"];
}
