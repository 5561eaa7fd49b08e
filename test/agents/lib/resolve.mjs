// node --import ./test/agents/lib/resolve.mjs <program>: packages that are not found beside the program are taken from
// test/agents, where the frameworks lie.
import { register } from "node:module";

const from = new URL("../package.json", import.meta.url).href;
const hooks = `
export async function resolve(specifier, context, next) {
  try {
    return await next(specifier, context);
  } catch (error) {
    if (/^[./]|^[a-z]+:/.test(specifier)) throw error;
    return next(specifier, { ...context, parentURL: ${JSON.stringify(from)} });
  }
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
