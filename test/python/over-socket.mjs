/** One request to the service over its Unix socket. */
import { request } from "node:http";

export function askOverSocket(socketPath, token, operation, body) {
  return new Promise((answered, failed) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const asked = request({ socketPath, path: `/v1/${operation}`, method: "POST", headers }, async (response) => {
      let text = "";
      for await (const chunk of response) text += chunk;
      const answer = JSON.parse(text);
      if (response.statusCode === 200) answered(answer);
      else failed(new Error(text));
    });
    asked.on("error", failed);
    asked.end(JSON.stringify(body));
  });
}
