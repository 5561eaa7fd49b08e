// A database of its own for a measurement, on the server it is given, and gone afterwards.
import pg from "pg";

export async function inDatabase(url, work) {
  const name = `bench_${Math.random().toString(36).slice(2)}`;
  await ask(url, `CREATE DATABASE ${name}`);
  try {
    return await work(Object.assign(new URL(url), { pathname: `/${name}` }).href);
  } finally {
    await ask(url, `DROP DATABASE ${name} WITH (FORCE)`).catch(() => {});
  }
}

export async function ask(connectionString, text) {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}
