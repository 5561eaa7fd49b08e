// One process with several copies of nevertwice or of SQLite: child <scenario> <folder of copies> <folder of the ledger> <store> <calls>
// Prints how the calls of each copy ended, and what happened.
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";

const [scenario, folder, ledger, scheme, many] = process.argv.slice(2);
const calls = Number(many);
const path = join(ledger, scheme === "file" ? "ledger.jsonl" : "ledger.db");
const effects = new Map();

/** `at`: a folder with a node_modules of its own. `again` evaluates the modules anew, as a development server does. */
async function copyAt(at, again = "") {
  const entry = pathToFileURL(join(folder, at, "node_modules/nevertwice/dist/index.js"));
  return (await import(`${entry}${again}`)).nevertwice;
}

function open(nevertwice) {
  const nt = nevertwice({ store: `${scheme}:${path}`, sweep: false });
  const send = nt.action("send", {
    key: ["number"],
    wait: "60s",
    run: async ({ number }) => {
      effects.set(number, (effects.get(number) ?? 0) + 1);
      return number;
    },
  });
  return { nt, send };
}

async function callAll({ send }) {
  const ended = { done: 0, errors: [] };
  const call = async (number) => {
    try {
      await send({ number });
      ended.done += 1;
    } catch (error) {
      const said = `${error.code}: ${error.message}`;
      if (!ended.errors.includes(said)) ended.errors.push(said);
    }
  };
  await Promise.all(Array.from({ length: calls }, (_, at) => call(at + 1)));
  return ended;
}

const connect = (at) => {
  const { DatabaseSync } = createRequire(join(folder, at, "program.js"))("@photostructure/sqlite");
  const db = new DatabaseSync(path);
  db.exec("PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS mine (x); SELECT * FROM mine");
  return db;
};

const both = async (first, second) => {
  const ended = await Promise.all([callAll(first), callAll(second)]);
  await first.nt.close();
  await second.nt.close();
  return ended;
};

/** @photostructure/sqlite closes a file for good once the statements on it are collected. */
async function collectStatements() {
  for (let round = 0; round < 5; round += 1) {
    globalThis.gc();
    await new Promise((done) => setTimeout(done, 10));
  }
}

const SCENARIOS = {
  "two copies": async () => both(open(await copyAt("one")), open(await copyAt("two"))),
  "the same copy twice": async () => both(open(await copyAt("one")), open(await copyAt("one"))),
  "evaluated again": async () => both(open(await copyAt("one")), open(await copyAt("one", "?again"))),
  "closed before the other": async () => {
    const first = open(await copyAt("one"));
    const ended = [await callAll(first)];
    await first.nt.close();
    await collectStatements();
    const second = open(await copyAt("two"));
    ended.push(await callAll(second));
    await second.nt.close();
    return ended;
  },
  "a connection of the program": async () => {
    const db = connect("two");
    const first = open(await copyAt("one"));
    const ended = [await callAll(first)];
    await first.nt.close();
    db.close();
    return ended;
  },
  "another thread": async () => {
    const db = new Worker(
      `const { parentPort, workerData: { program, path } } = require("node:worker_threads");
       const { DatabaseSync } = require("node:module").createRequire(program)("@photostructure/sqlite");
       const db = new DatabaseSync(path);
       db.exec("PRAGMA journal_mode = WAL; CREATE TABLE mine (x); SELECT * FROM mine");
       parentPort.on("message", () => { db.close(); process.exit(); });
       parentPort.postMessage("open");`,
      { eval: true, workerData: { program: join(folder, "two", "program.js"), path } },
    );
    await new Promise((opened) => db.once("message", opened));
    const first = open(await copyAt("one"));
    const ended = [await callAll(first)];
    await first.nt.close();
    db.postMessage("close");
    return ended;
  },
};

const ended = await SCENARIOS[scenario]();
const twice = [...effects.values()].filter((times) => times > 1).length;
console.log(JSON.stringify({ ended, effects: effects.size, twice }));
