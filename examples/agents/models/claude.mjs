// A stand-in for the Messages API: the Claude Agent SDK's own CLI talks to it through ANTHROPIC_BASE_URL.
import { createServer } from "node:http";

/** Each turn is a list of tool calls [name, input]; after the last one the model has finished. */
export async function scriptedClaude(turns) {
  const left = [...turns];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    if (!request.url.startsWith("/v1/messages") || !text.includes('"mcp__')) return response.end('{"input_tokens":1}');
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const event of events(left.shift()))
      response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    response.end();
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

let count = 0;

function events(turn) {
  const usage = { input_tokens: 1, output_tokens: 1 };
  count += 1;
  const message = {
    id: `msg_${count}`,
    type: "message",
    role: "assistant",
    model: "scripted",
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage,
  };
  const block = (index, content_block, delta) => [
    { type: "content_block_start", index, content_block },
    { type: "content_block_delta", index, delta },
    { type: "content_block_stop", index },
  ];
  const blocks = (turn ?? []).flatMap(([name, input], index) =>
    block(
      index,
      { type: "tool_use", id: `toolu_${count}_${index}`, name, input: {} },
      { type: "input_json_delta", partial_json: JSON.stringify(input) },
    ),
  );
  const text = block(0, { type: "text", text: "" }, { type: "text_delta", text: "Finished." });
  return [
    { type: "message_start", message },
    ...(turn === undefined ? text : blocks),
    {
      type: "message_delta",
      delta: { stop_reason: turn === undefined ? "end_turn" : "tool_use", stop_sequence: null },
      usage,
    },
    { type: "message_stop" },
  ];
}
