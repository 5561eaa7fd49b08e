// A CommonJS program: the package is ESM, and loaded by require() all the same.
const { nevertwice } = require("nevertwice");
const { sqliteStore } = require("nevertwice/sqlite");

async function main() {
  const nt = nevertwice({ store: sqliteStore({ path: "required.db" }), sweep: false });
  let runs = 0;
  const send = () => nt.once("send", [1], () => ++runs);
  const results = [await send(), await send()];
  await nt.close();
  console.log(JSON.stringify({ results, runs }));
}

main();
