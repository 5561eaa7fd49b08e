/** Hears what the user answers to the questions of a tool that runs in this process. */
import { AsyncLocalStorage } from "node:async_hooks";
import { asksUser, type Elicitations } from "../elicitation.ts";

/** A request to the client, as `request` and `sendRequest` of the SDKs take it. */
type Ask = (request: { readonly method?: unknown }, ...rest: unknown[]) => unknown;

const asked = new AsyncLocalStorage<Elicitations>();

export function noting<T>(elicitations: Elicitations, run: () => T): T {
  return asked.run(elicitations, run);
}

/** The same function, whose answers are noted for the guarded call that it is used in. */
export function heardBy<F extends Ask>(ask: F): F {
  const heard = (request: { readonly method?: unknown }, ...rest: unknown[]) =>
    hear(ask(request, ...rest), asksUser(request));
  return heard as F;
}

function hear(answer: unknown, isAnswer: boolean): unknown {
  const elicitations = asked.getStore();
  if (!isAnswer || elicitations === undefined || !(answer instanceof Promise)) return answer;
  return answer.then((value: unknown) => {
    elicitations.heard(value);
    return value;
  });
}

/** A call's context, whose own means to ask are noted: `sendRequest` of 1.x, `mcpReq.send` and `elicitInput` of 2.x. */
export function heardContext<X extends object>(extra: X): X {
  const { sendRequest, mcpReq } = extra as { sendRequest?: unknown; mcpReq?: Record<string, unknown> };
  const { send, elicitInput } = mcpReq ?? {};
  return {
    ...extra,
    ...(typeof sendRequest === "function" && { sendRequest: heardBy(sendRequest as Ask) }),
    ...(mcpReq !== undefined && {
      mcpReq: {
        ...mcpReq,
        ...(typeof send === "function" && { send: heardBy(send as Ask) }),
        ...(typeof elicitInput === "function" && {
          elicitInput: (...args: unknown[]) => hear((elicitInput as (...given: unknown[]) => unknown)(...args), true),
        }),
      },
    }),
  };
}

/** The answers that came with the call itself (SDK 2.x). */
export function answersIn(extra: object): unknown {
  return (extra as { mcpReq?: { inputResponses?: unknown } }).mcpReq?.inputResponses;
}
