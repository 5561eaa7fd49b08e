// npm run bench [-- section …] [--quick] [--check] [--memory] [--big]: one command, ratios in one run.
import { cpus, totalmem } from "node:os";
import { parseArgs } from "node:util";
import { table } from "./measure.mjs";

/** What can be measured; each module exports `sections(options)`: `[{ title, rows: [{ name, rate, ratio, target, loop? }] }]`. */
const SECTIONS = {
  sqlite: () => import("./sqlite.mjs"),
  redis: () => import("./redis.mjs"),
