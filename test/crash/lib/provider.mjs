/**
 * A provider on 127.0.0.1. Its effects are counted here, in the process that no test kills, at the moment they happen
 * and before anything is answered.
 *
 * Three kinds behind one address, chosen by the request: A honours idempotency keys, B can be asked what happened, C is
 * plain. What it does besides having the effect is scripted by the test:
 *
 *   answer   have the effect, answer 200          hold         have the effect, never answer
 *   drop     have the effect, cut the connection  hold-before  receive it, have no effect, never answer
 *   fail     have the effect, answer 500          { delayMs }  have the effect, answer later (A: 409 meanwhile)
 */
import { createServer } from "node:http";

const MAX_BODY_BYTES = 64 * 1024;

/** @param {{ script?: (request: { id: string, kind: string, nth: number }) => unknown }} [options] */
export async function startProvider({ script = () => "answer" } = {}) {
  const provider = new Provider(script);
  await provider.listen();
  return provider;
}

class Provider {
  /** Effects and requests by the id of what was asked for. */
  effects = new Map();
  requests = new Map();
  /**
   * One idempotency key with other bytes than the first time: a resend that was not the same.
   * @type {string[]}
   */
  mismatches = [];
  url = "";
  #script;
  #byKey = new Map();
  #arrivals = [];
  #server;

  constructor(script) {
    this.#script = script;
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch(() => response.destroy());
    });
  }

  async listen() {
    await new Promise((ready) => this.#server.listen(0, "127.0.0.1", ready));
    this.url = `http://127.0.0.1:${this.#server.address().port}`;
  }

  effectsOf(id) {
    return this.effects.get(id) ?? 0;
  }

  requestsFor(id) {
    return this.requests.get(id) ?? 0;
  }

  set script(script) {
    this.#script = script;
  }

  /** Resolves when the n-th request for this id has arrived (and had its effect, unless the script says otherwise). */
  arrived(id, nth = 1) {
    if (this.requestsFor(id) >= nth) return Promise.resolve();
    return new Promise((resolve) => this.#arrivals.push({ id, nth, resolve }));
  }

  async close() {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  async #serve(request, response) {
    const url = new URL(request.url, "http://provider");
    if (request.method === "GET") {
      return reply(response, 200, { count: this.effectsOf(url.searchParams.get("id")) });
    }
    const body = await bodyOf(request);
    const { id, kind } = JSON.parse(body);
    const nth = this.requestsFor(id) + 1;
    this.requests.set(id, nth);
    const act = this.#script({ id, kind, nth });
    try {
      if (act === "hold-before") return;
      const result = kind === "A" ? this.#once(request.headers["idempotency-key"], body, id) : this.#happen(id);
      if (result === null) return reply(response, 409, { error: "in progress" });
      await this.#finish(act, request, response, result);
    } finally {
      this.#announce();
    }
  }

  #happen(id) {
    this.effects.set(id, this.effectsOf(id) + 1);
    return { id: `${id}#${this.effectsOf(id)}` };
  }

  /** The keyed kind: the first request has the effect, later ones get its answer, or null while it is under way. */
  #once(key, body, id) {
    const known = this.#byKey.get(key);
    if (known === undefined) {
      const result = this.#happen(id);
      this.#byKey.set(key, { body, result, busy: false });
      return result;
    }
    if (known.body !== body) this.mismatches.push(id);
    return known.busy ? null : known.result;
  }

  async #finish(act, request, response, result) {
    if (act === "hold") return;
    if (act === "drop") return request.socket.destroy();
    if (act === "fail") return reply(response, 500, { error: "after the effect" });
    if (typeof act === "object") {
      const known = this.#byKey.get(request.headers["idempotency-key"]);
      if (known) known.busy = true;
      this.#announce();
      await new Promise((done) => setTimeout(done, act.delayMs));
      if (known) known.busy = false;
    }
    reply(response, 200, result);
  }

  #announce() {
    this.#arrivals = this.#arrivals.filter(({ id, nth, resolve }) => {
      if (this.requestsFor(id) < nth) return true;
      resolve();
      return false;
    });
  }
}

async function bodyOf(request) {
  let body = "";
  for await (const chunk of request) {
    body += chunk;
    if (body.length > MAX_BODY_BYTES) throw new Error("body too large");
  }
  return body;
}

function reply(response, status, value) {
  if (response.destroyed) return;
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(value));
}
