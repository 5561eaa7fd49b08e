// What a careful user writes by hand: a key hashed from the input, claim by INSERT … ON CONFLICT, run, UPDATE; one commit
// each, WAL and FULL.
import { createRequire } from "node:module";
import { keyByHand } from "./key-by-hand.mjs";

const require = createRequire(import.meta.url);

function openDatabase(path) {
  for (const name of ["node:sqlite", "@photostructure/sqlite"]) {
    try {
      return new (require(name).DatabaseSync)(path);
    } catch {
      // The next one, then.
    }
  }
  throw new Error("no SQLite driver: npm install @photostructure/sqlite@1");
}

export function handWritten(path) {
  const db = openDatabase(path);
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  db.exec("CREATE TABLE done (key TEXT PRIMARY KEY, state TEXT NOT NULL, result TEXT, created_at INTEGER NOT NULL)");
  const claim = db.prepare(
    "INSERT INTO done (key, state, created_at) VALUES (?, 'claimed', ?) ON CONFLICT (key) DO NOTHING",
  );
  const settle = db.prepare("UPDATE done SET state = 'done', result = ? WHERE key = ?");
  const read = db.prepare("SELECT state, result FROM done WHERE key = ?");
  return {
    async once(input, run) {
      const key = keyByHand(input);
      if (Number(claim.run(key, Date.now()).changes) === 0) return JSON.parse(read.all(key)[0].result);
      const result = await run();
      settle.run(JSON.stringify(result), key);
      return result;
    },
    close: () => db.close(),
  };
}
