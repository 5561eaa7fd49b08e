// npm run bench [-- section …] [--quick] [--check] [--memory] [--million]: one command, ratios in one run.
import { cpus, totalmem } from "node:os";
import { parseArgs } from "node:util";
import { table } from "./measure.mjs";

/**
 * What can be measured; each module exports `sections(options)`: `[{ title, rows: [{ name, rate, ratio, target, loop?, cpuMicros? }] }]`,
 * or `report(options)`, which prints a table of its own and returns the names of missed targets.
 */
const SECTIONS = {
  sqlite: () => import("./sqlite.mjs"),
  postgres: () => import("./postgres.mjs"),
  redis: () => import("./redis.mjs"),
  outbox: () => import("./outbox.mjs"),
  agents: () => import("./agents.mjs"),
  start: () => import("./start.mjs"),
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: "boolean" },
    check: { type: "boolean" },
    memory: { type: "boolean" },
    million: { type: "boolean" },
    big: { type: "boolean" },
    against: { type: "string" },
    help: { type: "boolean" },
  },
});

if (values.help) {
  console.log(
    [
      "npm run bench                    every table",
      `npm run bench -- sqlite          one of: ${Object.keys(SECTIONS).join(", ")}`,
      "npm run bench -- --quick         a fifth of the calls",
      "npm run bench -- --memory        a million keys through one process, resident set sampled",
      "npm run bench -- --million       a million pending intents drained by one worker, resident set sampled",
      "npm run bench -- --big           ten million records in PostgreSQL (10 GB of disk, some minutes)",
      "npm run bench -- start --against <commit>    instead of the previous release",
      "npm run bench -- --check         exit 1 when a target is missed",
    ].join("\n"),
  );
  process.exit(0);
}

const unknown = positionals.find((name) => SECTIONS[name] === undefined);
if (unknown !== undefined) {
  console.error(`There is no benchmark "${unknown}". There are: ${Object.keys(SECTIONS).join(", ")}.`);
  process.exit(2);
}

const machine = `${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}, ${process.platform}`;
console.log(`${machine}\n`);
const missed = await (values.memory ? memory() : values.million ? million() : values.big ? big() : ratios());
if (missed.length > 0) console.log(`below target: ${missed.join("; ")}`);
process.exit(values.check && missed.length > 0 ? 1 : 0);

async function ratios() {
  const missed = [];
  for (const name of positionals.length > 0 ? positionals : Object.keys(SECTIONS)) {
    const { sections, report } = await SECTIONS[name]();
    if (report !== undefined) {
      missed.push(...(await report({ quick: values.quick === true, against: values.against })));
      continue;
    }
    for (const { title, rows } of await sections({ quick: values.quick === true })) {
      console.log(
        `${table([[title, "calls/s", "ratio", "target", "loop p50 ms", "p99 ms", "CPU µs"], ...rows.map(shown)])}\n`,
      );
      missed.push(...rows.filter(({ ratio, target }) => target !== null && ratio < target).map((row) => row.name));
    }
  }
  return missed;
}

function shown({ name, rate, ratio, target, loop, cpuMicros }) {
  return [
    name,
    Math.round(rate).toLocaleString("en"),
    ratio === null ? "1.00" : ratio.toFixed(2),
    target === null ? "" : `≥ ${target}`,
    loop === undefined ? "" : loop.p50.toFixed(1),
    loop === undefined ? "" : loop.p99.toFixed(1),
    cpuMicros === undefined ? "" : cpuMicros.toFixed(0),
  ];
}

async function memory() {
  const { memoryBench } = await import("./memory.mjs");
  const { rows, flat, grownBy } = await memoryBench({ keys: values.quick ? 200_000 : 1_000_000 });
  console.log(table([["keys written", "resident MB", "keys/s"], ...rows]));
  console.log(`\nresident set after the first 100 000 keys: ${flat ? "flat" : "growing"} (${grownBy.toFixed(0)} MB)`);
  return flat ? [] : ["memory"];
}

async function million() {
  const { millionBench } = await import("./million.mjs");
  const { rows, most, kept, done, left, ok } = await millionBench({ intents: values.quick ? 100_000 : 1_000_000 });
  console.log(table([["intents done", "resident MB", "intents/s"], ...rows]));
  console.log(
    `\n${done.toLocaleString("en")} done, ${left} left; resident set at most ${most.toFixed(0)} MB (target: below 200); the rate at the end is ${kept.toFixed(2)} of that at the start (target: ≥ 0.7)`,
  );
  return ok ? [] : ["million"];
}

async function big() {
  const { bigBench } = await import("./postgres-big.mjs");
  const records = values.quick ? 1_000_000 : 10_000_000;
  const { empty, full, looks, size, seconds } = await bigBench({ records, calls: values.quick ? 5_000 : 20_000 });
  const held = records.toLocaleString("en");
  const gigabytes = (bytes) => `${(bytes / 1e9).toFixed(1)} GB`;
  console.log(`${held} records: ${gigabytes(size.heap)} of table, ${gigabytes(size.indexes)} of indexes`);
  console.log(`made in ${Math.round(seconds)} s; this process has ${Math.round(process.memoryUsage().rss / 1e6)} MB\n`);
  const rate = (value) => Math.round(value).toLocaleString("en");
  const ratio = (name) => full[name] / empty[name];
  const row = (name, of, target) => [name, rate(empty[of]), rate(full[of]), ratio(of).toFixed(2), target];
  const rows = [
    row("claim", "claim", "≥ 0.7"),
    row("claim, right after a checkpoint", "firstClaim", ""),
    row("replay", "replay", "≥ 0.7"),
  ];
  console.log(table([["256 callers", "empty, calls/s", `${held}, calls/s`, "ratio", "target"], ...rows]));
  console.log(
    `\n${table([["", "ms", "target"], ...Object.entries(looks).map(([name, ms]) => [name, ms.toFixed(0), "< 1000"])])}\n`,
  );
  return [
    ...["claim", "replay"].filter((name) => ratio(name) < 0.7),
    ...Object.keys(looks).filter((name) => looks[name] >= 1_000),
  ];
}
