// An MCP server without an SDK, whose numbers are text: account numbers beyond 2^53, as banks and chats have them.
// node bank-server.mjs <file>         on stdio; each call that arrives is a line of the file, as it came
// node bank-server.mjs <file> http    prints its port
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

const [file, how] = process.argv.slice(2);

/** The answer's text; null: none. */
function answerTo(text) {
  const { id, method } = JSON.parse(text);
  if (id === undefined) return null;
  const answer = (result) => `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`;
  const schema = '{"type":"object","properties":{"account":{"type":"integer","maximum":18446744073709551615}}}';
  if (method === "initialize")
    return answer(
      '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"bank","version":"1.0"}}',
    );
  if (method === "tools/list") return answer(`{"tools":[{"name":"pay","inputSchema":${schema}}]}`);
  if (method !== "tools/call") return answer("{}");
  appendFileSync(file, `${text}\n`);
  const [, account] = /"account" ?: ?([-+.0-9eE]+)/.exec(text) ?? [];
  return answer(
    `{"content":[{"type":"text","text":"paid"}],"structuredContent":{"account":${account},"rate":0.10000000000000000001}}`,
  );
}

if (how === "http") {
  const listener = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const answer = request.method === "POST" ? answerTo(text) : null;
    if (answer === null) return response.writeHead(request.method === "POST" ? 202 : 405).end();
    return response.writeHead(200, { "content-type": "application/json" }).end(answer);
  });
  listener.listen(0, "127.0.0.1", () => console.log(listener.address().port));
} else {
  createInterface({ input: process.stdin }).on("line", (line) => {
    const answer = answerTo(line);
    if (answer !== null) console.log(answer);
  });
}
